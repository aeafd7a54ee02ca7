"""A page: one complete subtree, as the run of its entries with their times; the interface of page sources."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, Protocol

import numpy as np

from mta.core.states import Layout, Run
from mta.kinds import State
from mta.monoids.base import Array
from mta.monoids.columns import apart

#: The most entries of a page. A stored page that claims more is damaged.
LARGEST_PAGE = 1 << 20

#: Up to this many nodes are combined one by one, and are kept as states.
FEW = 32

#: This many states are read out of a run at once, where single states are read one after the other.
AHEAD = 32


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
        """Some of the entries; a view where that is possible."""
        if start == 0 and stop == len(self.times):
            return self
        return Page(self.tier, self.times[start:stop], layout.cut(self.run, start, stop))

    def apart(self, layout: Layout) -> Page:
        """The page in memory of its own: a view would keep the batch that it is a part of."""
        return Page(self.tier, apart(self.times), layout.apart(self.run))

    def states(self, layout: Layout) -> Run:
        if self.tier == 0:
            return layout.lift(self.run)
        return layout.picked(self.run) if layout.is_part else self.run

    def pyramid(self, layout: Layout) -> Pyramid:
        """The levels of the subtree inside the page, made when they are first asked for."""
        if self._pyramid is None:
            pyramid = Pyramid(layout)
            pyramid.add(self.states(layout))
            self._pyramid = pyramid
        return self._pyramid


class Follower(Protocol):
    """Follows the head of one view, and has the pages read that the head comes to next."""

    def head_at(self, page: int) -> None:
        """The head of the view, or of a batch that slides over it, is in a page of elements."""


class PageSource(Protocol):
    """Where full pages are kept: in the process, or in a store."""

    def check(self, states: Run) -> None:
        """Refuses the aggregates of full pages that cannot be kept here, before anything has changed."""

    def put(self, tier: int, number: int, page: Page) -> None:
        """Takes a full page whose elements are about to be appended."""

    def settle(self, tail: int) -> None:
        """The elements before `tail` have been appended: pages of these count."""

    def take_back(self, tail: int) -> None:
        """The elements from `tail` on were not appended: pages of them that were put do not count."""

    def fetch(self, wanted: Sequence[tuple[int, int]]) -> list[Page]:
        """Pages by tier and number, in one round trip at most."""

    def follow(self) -> Follower:
        """A follower of one view's head."""

    def reserve(self, pages: int) -> None:
        """So many pages may be needed at once."""

    def drop_below(self, tier: int, number: int) -> None:
        """Pages of a tier before a number will not be read again."""

    def admit(self, tail: int) -> None:
        """Waits until there is room for more pages; `tail` elements have been appended."""

    def close(self) -> None: ...


class Nodes(dict[int, Any]):
    """Nodes of one level, of which some came many at once and are kept as runs: `nodes[i]` reads node i.

    The dictionary caches the nodes that were read last.
    """

    __slots__ = ("_layout", "_parts")

    def __init__(self, layout: Layout, nodes: list[Any]) -> None:
        super().__init__()
        self._layout = layout
        #: runs, and lists of states where few came at once, each with the number of its first node
        self._parts: list[tuple[int, Run]] = [(0, nodes)]

    def put(self, count: int, nodes: Run) -> None:
        """Puts nodes behind the first `count`, in place of nodes that an interrupt may have left there."""
        parts = self._parts
        while parts and parts[-1][0] >= count:
            del parts[-1]
        if parts and isinstance(nodes, list) and isinstance(parts[-1][1], list):
            start, last = parts[-1]
            last[count - start :] = nodes
        else:
            parts.append((count, nodes))

    def __missing__(self, index: int) -> Any:
        start, nodes = self._parts[bisect_right(self._parts, index, key=itemgetter(0)) - 1]
        walked = index - 2 in self
        if len(self) > 2 * AHEAD:
            self.clear()
        if isinstance(nodes, list):
            self[index] = nodes[index - start]
        elif not walked:
            self[index] = self._layout.at(nodes, index - start)
        else:  # a head that walks reads every second node
            wanted = range(index, min(index + 2 * AHEAD, start + self._layout.length(nodes)), 2)
            states = self._layout.take(nodes, np.array(wanted) - start)
            self.update(zip(wanted, self._layout.state_list(states), strict=True))
        return self[index]


class Pyramid:
    """The complete nodes of the binary tree over a growing run of states: levels[j][i] covers 2^j states.

    The tree grows like a binary counter, so a state costs one combine, amortised.
    """

    __slots__ = ("_count", "_layout", "levels")

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self.levels: list[list[Any] | Nodes] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, states: Run) -> None:
        """Appends states; none of them if the monoid fails."""
        layout, combine = self._layout, self._layout.monoid.combine
        added: list[Run] = []
        run, count = states, self._count
        while layout.length(run) > FEW:
            added.append(run)
            if count & 1:  # the last node of this level is the left one of a pair
                run = layout.concat([layout.gather([self.levels[len(added) - 1][count - 1]]), run])
            run = layout.halve(run)
            count >>= 1
        nodes = layout.state_list(run)
        while nodes:
            added.append(nodes)
            if count & 1:
                nodes = [self.levels[len(added) - 1][count - 1], *nodes]
            nodes = [combine(nodes[i - 1], nodes[i]) for i in range(1, len(nodes), 2)]
            count >>= 1
        self._append(layout.length(states), added)

    def push(self, state: State) -> None:
        """Appends one state, or none if the monoid fails."""
        added = [[state]]
        index = self._count
        while index & 1:
            state = self._layout.monoid.combine(self.levels[len(added) - 1][index - 1], state)
            added.append([state])
            index >>= 1
        self._append(1, added)

    def _append(self, count: int, added: list[Run]) -> None:
        start, levels = self._count, self.levels
        while len(levels) < len(added):
            levels.append([])
        for level, nodes in enumerate(added):
            there = levels[level]
            if isinstance(nodes, list) and isinstance(there, list):
                there[start >> level :] = nodes
                continue
            if isinstance(there, list):
                there = levels[level] = Nodes(self._layout, there)
            there.put(start >> level, nodes)
        self._count = start + count  # last: nodes beyond the count, which an interrupt leaves, do not count

    def cover(self, start: int, stop: int) -> list[Any]:
        """The nodes that together cover the entries from start to stop, oldest first."""
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

    def last_with(self, start: int, stop: int, after: State, enough: Callable[[Any], Any]) -> tuple[int, Any]:
        """The last entry from which on the aggregate is enough, and the aggregate behind that entry.

        `after` is an aggregate behind the entries, or NOTHING. The entry is `start - 1` if there is none.
        """
        found, level = start - 1, 0
        while start < stop:
            while not (stop >> level) & 1 and stop - (2 << level) >= start:
                level += 1
            while stop - (1 << level) < start:
                level -= 1
            total = self._layout.join(self.levels[level][(stop >> level) - 1], after)
            if not enough(total):
                after = total
                stop -= 1 << level
            else:  # the first entry of the node, if no other is found: however sums are rounded
                found = stop - (1 << level)
                start = found + 1
        return found, after
