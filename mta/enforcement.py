"""What a window's policy lets go: the first leaf that stays.

Limits on count and time are compared with the few oldest times first, and then by a search of the forest. A
predicate is asked of the oldest few elements one by one, and then of whole subtrees.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any

from mta.cuts import Side, before
from mta.forest import Piece, count_rejected
from mta.monoids.base import Array
from mta.states import NOTHING, Run

if TYPE_CHECKING:
    from mta.batch import Batch
    from mta.window import MonoidTreeAggregator

#: How many of the oldest times are looked at one by one before the tree is searched.
NEAR = 16


def first_kept(window: MonoidTreeAggregator, youngest: Any, tail: int) -> int:
    """The first leaf that the limits on count and time keep in a window that ends so."""
    limits, head = window._limits, window._head
    if limits.count is not None and tail - limits.count > head:
        head = min(tail - limits.count, window._tail)
    for cut, side in limits.cuts(youngest):
        head = max(head, _first_after(window, cut, side))
    return head


def _first_after(window: MonoidTreeAggregator, cut: Any, side: Side) -> int:
    """The first leaf with a time > cut (right) or >= cut (left)."""
    oldest, head = window._oldest, window._head
    if oldest > cut or (side == "left" and oldest == cut):
        return head
    for time in reversed(window._ahead[-NEAR:]):
        head += 1
        if time > cut or (side == "left" and time == cut):
            return head
    return window._forest.first_leaf(window._head, cut, side)


def first_kept_by_predicate(window: MonoidTreeAggregator, state: Any, time: Any) -> tuple[int, bool]:
    """The first leaf that the policy keeps once an element is in, and whether the element may stay."""
    limits = window._limits
    if window._tail == window._head:
        return window._head, not limits.rejects(state, state)
    total = window._combine(window._total(), state)
    head = max(first_kept(window, time, window._tail + 1), first_not_rejected(window, total))
    return head, head < window._tail or not limits.rejects(total, total)


def first_not_rejected(window: MonoidTreeAggregator, total: Any) -> int:
    """The first leaf that no predicate rejects: one by one for a few, then by search from the roots."""
    rejects = window._limits.rejects
    singles = max(4, len(window).bit_length())
    old, head = None, window._head
    for leaf in range(head, min(head + singles, window._tail)):
        state = _leaf_state(window, leaf)
        old = state if leaf == head else window._combine(old, state)
        if not rejects(total, old):
            return leaf
    if head + singles >= window._tail:
        return window._tail
    return window._forest.longest_prefix(head, lambda prefix: rejects(total, prefix))


def _leaf_state(window: MonoidTreeAggregator, leaf: int) -> Any:
    part = window._forest.read([Piece(0, leaf, leaf + 1)])[0]
    return window._layout.at(part.states(window._layout), 0)


def first_kept_after(window: MonoidTreeAggregator, batch: Batch, states: Run, total: Any) -> int:
    """The first leaf that the policy keeps once a batch is in."""
    last = batch.last
    tail = window._tail + len(batch)
    head = first_kept(window, last, tail) if len(window) else window._tail
    if head == window._tail:
        head += _first_kept_among(window, batch.times, last)
    if window._limits.predicates:
        head = max(head, _first_not_rejected_behind(window, states, total))
    return head


def _first_kept_among(window: MonoidTreeAggregator, times: Array, youngest: Any) -> int:
    """How many of a batch's first rows the limits on count and time reject."""
    limits, count = window._limits, len(times)
    first = 0 if limits.count is None else max(0, count - limits.count)
    return max([first, *(before(times, cut, side) for cut, side in limits.cuts(youngest))])


def _first_not_rejected_behind(window: MonoidTreeAggregator, states: Run, total: Any) -> int:
    """The first leaf that no predicate rejects, where a batch comes behind the window."""
    older: Any = NOTHING
    if len(window):
        older = window._total()
        total = window._combine(older, total)
        head = first_not_rejected(window, total)
        if head < window._tail:
            return head
    layout, rejects = window._layout, window._limits.rejects
    if layout.monoid.grows:
        return window._tail + bisect_left(
            range(layout.length(states)),
            True,
            key=lambda at: not rejects(total, layout.join(older, layout.fold(layout.cut(states, 0, at + 1)))),
        )
    prefixes = layout.preceded_by(older, layout.prefixes(states))
    return window._tail + count_rejected(layout, prefixes, lambda prefix: rejects(total, prefix))
