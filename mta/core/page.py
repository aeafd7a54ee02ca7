"""A page: one complete subtree, as the run of its entries with the time each ends at; a source of pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from mta.core.states import Layout, Run
from mta.monoids.base import Array
from mta.monoids.columns import apart

#: Entries that a page may have. What a store says of a page is not believed beyond this.
LARGEST_PAGE = 1 << 20


class Page:
    """Entries of one tier: elements in tier 0, aggregates of whole pages of the tier below otherwise.

    `times` are the elements' times, or the last time below each entry. Neither is ever changed.
    """

    __slots__ = ("_pyramid", "run", "tier", "times")

    def __init__(self, tier: int, times: Array, run: Run) -> None:
        self.tier = tier
        self.times = times
        self.run = run
        self._pyramid: Pyramid | None = None

    def cut(self, layout: Layout, start: int, stop: int) -> Page:
        """Some of the entries, without a copy where that is possible."""
        if start == 0 and stop == len(self.times):
            return self
        return Page(self.tier, self.times[start:stop], layout.cut(self.run, start, stop))

    def apart(self, layout: Layout) -> Page:
        """The page in memory of its own, and not in that of a batch which it is a part of."""
        return Page(self.tier, apart(self.times), layout.apart(self.run))

    def states(self, layout: Layout) -> Run:
        return layout.lift(self.run) if self.tier == 0 else self.run

    def pyramid(self, layout: Layout) -> Pyramid:
        """The levels of the subtree inside the page, made when they are first asked for."""
        if self._pyramid is None:
            pyramid = Pyramid()
            pyramid.add(layout, self.states(layout))
            self._pyramid = pyramid
        return self._pyramid


class PageSource(Protocol):
    """Where full pages are kept: in the process, or in a store."""

    def check(self, states: Run) -> None:
        """Refuses the aggregates of full pages that cannot be kept here, before anything has changed."""

    def put(self, tier: int, number: int, page: Page) -> None:
        """Takes a full page whose elements are about to come into the window."""

    def settle(self, tail: int) -> None:
        """All elements before `tail` are in the window, or were."""

    def take_back(self, tail: int) -> None:
        """The elements from `tail` on, of which pages were put, did not come in."""

    def fetch(self, wanted: Sequence[tuple[int, int]]) -> list[Page]:
        """Pages by tier and number, in one round trip at most."""

    def head_at(self, page: int) -> None:
        """The head is in a page of leaves, of the window or of a batch that slides over it.

        A source reads ahead for a head that goes from page to page.
        """

    def reserve(self, pages: int) -> None:
        """So many pages may be needed at once."""

    def drop_below(self, tier: int, number: int) -> None:
        """Pages of a tier before a number will not be read again."""

    def admit(self, tail: int) -> None:
        """Waits until there is room for more pages; `tail` elements are in the window or were."""

    def close(self) -> None: ...


class Pyramid:
    """The complete nodes of the binary tree over a growing run of states: levels[j][i] covers 2^j of them.

    Grows like a binary counter, so that a state costs one combine, amortised.
    """

    __slots__ = ("levels",)

    def __init__(self) -> None:
        self.levels: list[list[Any]] = [[]]

    def __len__(self) -> int:
        return len(self.levels[0])

    def add(self, layout: Layout, states: Run) -> None:
        """Adds states behind those that are there; none of them if the monoid fails."""
        added: list[list[Any]] = []
        run, count = states, len(self)
        while layout.length(run):
            added.append(layout.state_list(run))
            if count & 1:  # the last node there is the left one of a pair
                run = layout.concat([layout.gather([self.levels[len(added) - 1][count - 1]]), run])
            run = layout.halve(run)
            count >>= 1
        self._append(added)

    def push(self, layout: Layout, state: Any) -> None:
        """Adds one state, or nothing if the monoid fails."""
        added = [[state]]
        index = len(self.levels[0])
        while index & 1:
            state = layout.monoid.combine(self.levels[len(added) - 1][index - 1], state)
            added.append([state])
            index >>= 1
        self._append(added)

    def _append(self, added: list[list[Any]]) -> None:
        # the lowest level comes last and says how many there are: what an interrupt left above it is no node
        count = len(self.levels[0])
        while len(self.levels) < len(added):
            self.levels.append([])
        for level in reversed(range(len(added))):
            nodes = self.levels[level]
            nodes[count >> level :] = added[level]

    def cover(self, start: int, stop: int) -> list[Any]:
        """The nodes whose aggregates, in this order, make up the entries from start to stop."""
        left, right, level = [], [], 0
        while start < stop:
            nodes = self.levels[level]
            if start & 1:
                left.append(nodes[start])
                start += 1
            if stop & 1:
                stop -= 1
                right.append(nodes[stop])
            start >>= 1
            stop >>= 1
            level += 1
        return left + right[::-1]
