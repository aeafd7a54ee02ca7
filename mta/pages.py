"""A page: one complete subtree, as the run of its entries with the time that each one ends at."""

from __future__ import annotations

from typing import Any

from mta.monoids.base import Array
from mta.states import Layout, Run


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

    def states(self, layout: Layout) -> Run:
        return layout.lift(self.run) if self.tier == 0 else self.run

    def pyramid(self, layout: Layout) -> Pyramid:
        """The levels of the subtree inside the page, made when they are first asked for."""
        if self._pyramid is None:
            self._pyramid = Pyramid()
            self._pyramid.add(layout, self.states(layout))
        return self._pyramid


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
        """Adds states behind those that are there."""
        level = 0
        run: Run | None = states
        while run is not None and layout.length(run):
            if level == len(self.levels):
                self.levels.append([])
            nodes = self.levels[level]
            nodes.extend(layout.state_list(run))
            parents = len(self.levels[level + 1]) if level + 1 < len(self.levels) else 0
            if parents * 2 == len(nodes) - layout.length(run):
                run = layout.halve(run)
            else:
                run = layout.halve(layout.gather(nodes[parents * 2 :]))
            level += 1

    def push(self, layout: Layout, state: Any) -> None:
        """Adds one state."""
        levels = self.levels
        levels[0].append(state)
        index, level = len(levels[0]), 0
        while not index & 1:
            level += 1
            index >>= 1
            if level == len(levels):
                levels.append([])
            below = levels[level - 1]
            levels[level].append(layout.monoid.combine(below[2 * index - 2], below[2 * index - 1]))

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
