"""FlatFAT, a flat fixed-size aggregator: section 4 of Tangwongsan, Hirzel, Schneider and Wu (PVLDB 2015)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from mta.kinds import State
from mta.monoids.base import Monoid

#: ⊥, the content of an empty slot: neutral, without a combine
EMPTY: Final = type("Empty", (), {"__repr__": lambda _: "⊥", "__slots__": ()})()


def _parents(level: list[int]) -> list[int]:
    """The parents of the entries of one level, each once; none for the root."""
    parents = []
    last = 0
    for v in level:
        parent = v >> 1
        if parent != last:
            parents.append(parent)
            last = parent
    return parents


class FlatFAT:
    """A complete binary tree of partial aggregates over a fixed number of slots, in one array.

    The root is entry 1 of the array, the children of entry v are 2v and 2v + 1, and slot i is entry n + i.
    Slots are counted from 0, in the paper from 1. The capacity n is a power of two. Slots without a value are
    empty; EMPTY as a value empties a slot. Results are states, not lowered.

    `values` are states, or a number of empty slots. Raises TypeError for a bool and ValueError for no slots.

    >>> from mta import monoids
    >>> from mta.baselines import FlatFAT
    >>> tree = FlatFAT(monoids.Concat(), list("trees"))
    >>> tree.update([(0, "f"), (1, "l")])
    >>> tree.aggregate(), tree.prefix(2), tree.suffix(3)
    ('flees', 'fle', 'es')
    """

    __slots__ = ("_combine", "_identity", "capacity", "tree")

    def __init__(self, monoid: Monoid, values: Sequence[State] | int) -> None:
        """The paper's `new`: n - 1 combines if no slot is empty."""
        if isinstance(values, bool):
            raise TypeError(f"FlatFAT takes states or a number of slots, got {values!r}")
        slots = values if isinstance(values, int) else len(values)
        if slots < 1:
            raise ValueError(f"FlatFAT needs at least 1 slot, got {slots}")
        self._combine = monoid.combine
        self._identity = monoid.identity
        self.capacity = n = 1 << (slots - 1).bit_length()
        self.tree: list[State] = [EMPTY] * (2 * n)
        if not isinstance(values, int):
            self.update(enumerate(values))

    def update(self, writes: Iterable[tuple[int, State]]) -> None:
        """Writes m slots, then updates the aggregates above them, level by level.

        At most m(1 + ⌈log2(n/m)⌉) combines. If a slot is written twice, the last write counts. If the
        operator raises, the slots are written, and the same update can be made again. Raises IndexError, and
        writes nothing, if there is no such slot.
        """
        n, tree, combine = self.capacity, self.tree, self._combine
        slots = dict(writes)
        for slot in slots:
            self._check(slot)
        for slot, state in slots.items():
            tree[n + slot] = state
        # Sorted, so that two children of one parent are adjacent. The root's parent is 0.
        level = _parents(sorted(n + slot for slot in slots))
        while level:
            for v in level:
                left, right = tree[2 * v], tree[2 * v + 1]
                tree[v] = left if right is EMPTY else right if left is EMPTY else combine(left, right)
            level = _parents(level)

    def aggregate(self) -> State:
        """The aggregate of all slots: no combine."""
        return self._result(self.tree[1])

    def prefix(self, i: int) -> State:
        """The aggregate of slots 0 to i: at most log2(n) combines. IndexError for no slot i."""
        self._check(i)
        tree = self.tree
        v = self.capacity + i
        agg = tree[v]
        while v > 1:
            if v & 1:
                left = tree[v - 1]
                agg = left if agg is EMPTY else agg if left is EMPTY else self._combine(left, agg)
            v >>= 1
        return self._result(agg)

    def suffix(self, j: int) -> State:
        """The aggregate of slots j to the last: at most log2(n) combines. IndexError for no slot j."""
        self._check(j)
        tree = self.tree
        v = self.capacity + j
        agg = tree[v]
        while v > 1:
            if not v & 1:
                right = tree[v + 1]
                agg = right if agg is EMPTY else agg if right is EMPTY else self._combine(agg, right)
            v >>= 1
        return self._result(agg)

    def between(self, i: int, j: int) -> State:
        """The aggregate of slots i to j: at most 2·log2(n) combines. IndexError if a slot does not exist."""
        self._check(i)
        self._check(j)
        tree = self.tree
        older: list[State] = []
        younger: list[State] = []
        start, stop = self.capacity + i, self.capacity + j + 1
        while start < stop:
            if start & 1:
                older.append(tree[start])
                start += 1
            if stop & 1:
                stop -= 1
                younger.append(tree[stop])
            start >>= 1
            stop >>= 1
        agg: State = EMPTY
        for state in (*older, *reversed(younger)):
            if state is not EMPTY:
                agg = state if agg is EMPTY else self._combine(agg, state)
        return self._result(agg)

    def __getitem__(self, slot: int) -> State:
        """The state in a slot, or EMPTY. IndexError if there is no such slot."""
        self._check(slot)
        return self.tree[self.capacity + slot]

    def __len__(self) -> int:
        return self.capacity

    def _check(self, slot: int) -> None:
        if not 0 <= slot < self.capacity:
            raise IndexError(f"there is no slot {slot} in a FlatFAT of {self.capacity}")

    def _result(self, agg: State) -> State:
        return self._identity if agg is EMPTY else agg
