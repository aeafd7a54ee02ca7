"""What a policy lets go: the first leaf that stays.

Limits on count and time are compared with the few oldest times first, and then by a search of the forest. A
predicate is asked of the few oldest elements one by one, as far as the tree has their states ready, then of
the whole window, and then of whole subtrees.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any, TypeAlias

from mta.core.forest import count_rejected
from mta.core.limits import Limits, Predicate
from mta.core.outcome import Batch
from mta.core.states import NOTHING, Run
from mta.core.tree import NEAR, UNKNOWN, Tree
from mta.monoids.base import Array
from mta.times.cuts import Side, before, cut

#: How many of the oldest elements leave when one with some state and time comes, itself among them if it may
#: not stay; and the state of the window with it, before any leave, or UNKNOWN where nobody needed it.
Rule: TypeAlias = Callable[[Tree, Any, Any], tuple[int, Any]]

NONE_GOES, ONE_GOES = (0, UNKNOWN), (1, UNKNOWN)


def rule_of(limits: Limits) -> Rule:
    """The cheapest rule there is for the limits of a policy."""
    span, count = limits.open_span, limits.count
    if limits.predicates:
        return _rule_of_predicates(limits)
    if limits == Limits():
        return lambda *_: NONE_GOES
    if type(span) is int and limits == Limits(open_span=span):
        return _rule_of_span(span)
    if count is not None and limits == Limits(count=count):
        return _rule_of_count(count)
    return lambda tree, _, time: (first_kept(tree, limits, time, tree.tail + 1) - tree.head, UNKNOWN)


def _rule_of_count(count: int) -> Rule:
    def gone(tree: Tree, _state: Any, _time: Any) -> tuple[int, Any]:
        surplus = tree.tail - tree.head - count
        if surplus < 0:
            return NONE_GOES
        return (surplus + 1, UNKNOWN) if surplus else ONE_GOES

    return gone


def _rule_of_span(span: int) -> Rule:
    def gone(tree: Tree, _state: Any, time: Any) -> tuple[int, Any]:
        if tree.head == tree.tail:
            return NONE_GOES
        start = time - span if type(time) is int else cut(time, span, "right")
        if tree.oldest > start:
            return NONE_GOES
        ahead = tree.ahead
        if ahead and ahead[-1][0] > start:
            return ONE_GOES
        return _first_after(tree, start, "right") - tree.head, UNKNOWN

    return gone


def _rule_of_predicates(limits: Limits) -> Rule:
    rejects, most, timed = limits.predicate, limits.count, bool(limits.spans())

    def gone(tree: Tree, state: Any, time: Any) -> tuple[int, Any]:
        head, tail = tree.head, tree.tail
        if head == tail:
            return int(rejects(state, state)), state
        whole = tree.kept
        if whole is UNKNOWN:
            whole = tree.total()
        total = tree.combine(whole, state)
        first, old = head, tree.first  # which the total may have made ready
        if old is UNKNOWN or rejects(total, old):
            first = _first_not_rejected_after(tree, rejects, total, whole)
        if timed:
            first = max(first, first_kept(tree, limits, time, tail + 1))
        elif most is not None and tail - first >= most:
            first = tail + 1 - most
        if first >= tail:
            first = tail + int(rejects(total, total))
        return first - head, total

    return gone


def first_kept_now(tree: Tree, limits: Limits) -> int:
    """The first leaf that the policy keeps in a window as it is."""
    if not len(tree):
        return tree.head
    head = first_kept(tree, limits, tree.youngest, tree.tail)
    if limits.predicates:
        total = tree.total()
        head = max(head, first_not_rejected(tree, limits.predicate, total, total))
    return head


def first_kept(tree: Tree, limits: Limits, youngest: Any, tail: int) -> int:
    """The first leaf that the limits on count and time keep in a window that ends so."""
    head = tree.head
    if head == tree.tail:
        return head
    if limits.count is not None and tail - limits.count > head:
        head = min(tail - limits.count, tree.tail)
    for start, side in limits.cuts(youngest):
        head = max(head, _first_after(tree, start, side))
    return head


def _first_after(tree: Tree, start: Any, side: Side) -> int:
    """The first leaf with a time > start (right) or >= start (left)."""
    oldest, head = tree.oldest, tree.head
    if oldest > start or (side == "left" and oldest == start):
        return head
    for time, _, _ in reversed(tree.ahead[-NEAR:]):
        head += 1
        if time > start or (side == "left" and time == start):
            return head
    return tree.forest.first_leaf(tree.head, start, side)


def first_not_rejected(tree: Tree, rejects: Predicate, total: Any, whole: Any) -> int:
    """The first leaf of a window, which is not empty, that a predicate lets stay.

    The predicate is given `total`; `whole` is the aggregate of the window as it is.
    """
    old = tree.first
    if old is UNKNOWN or rejects(total, old):
        return _first_not_rejected_after(tree, rejects, total, whole)
    return tree.head


def _first_not_rejected_after(tree: Tree, rejects: Predicate, total: Any, whole: Any) -> int:
    """The same, where the oldest element is rejected if its state is ready."""
    head, ahead, old = tree.head, tree.ahead, tree.first
    if old is not UNKNOWN and tree.singles:
        for at in range(1, min(len(ahead), len(tree).bit_length()) + 1):
            old = tree.combine(old, ahead[-at][2])
            if not rejects(total, old):
                return head + at
    if rejects(total, whole):
        return tree.tail
    first, _ = tree.forest.longest_prefix(head, lambda prefix: rejects(total, prefix))
    if first == head:
        tree.oldest_state()  # from now on it is ready: as long as it stays, nothing is searched
    return first


def first_kept_after(tree: Tree, limits: Limits, batch: Batch, states: Run, total: Any) -> int:
    """The first leaf that the policy keeps once a batch is in."""
    last = batch.last
    head = first_kept(tree, limits, last, tree.tail + len(batch)) if len(tree) else tree.tail
    if head == tree.tail:
        head += _first_kept_among(limits, batch.times, last)
    if limits.predicates:
        head = max(head, _first_not_rejected_behind(tree, limits.predicate, states, total))
    return head


def _first_kept_among(limits: Limits, times: Array, youngest: Any) -> int:
    """How many of a batch's first rows the limits on count and time reject."""
    count = len(times)
    first = 0 if limits.count is None else max(0, count - limits.count)
    return max([first, *(before(times, start, side) for start, side in limits.cuts(youngest))])


def _first_not_rejected_behind(tree: Tree, rejects: Predicate, states: Run, total: Any) -> int:
    """The first leaf that a predicate lets stay, where a batch comes behind the window."""
    older: Any = NOTHING
    if len(tree):
        older = tree.total()
        total = tree.combine(older, total)
        head = first_not_rejected(tree, rejects, total, older)
        if head < tree.tail:
            return head
    layout = tree.layout
    if layout.monoid.grows:
        return tree.tail + bisect_left(
            range(layout.length(states)),
            True,
            key=lambda at: not rejects(total, layout.join(older, layout.fold(layout.cut(states, 0, at + 1)))),
        )
    prefixes = layout.preceded_by(older, layout.prefixes(states))
    return tree.tail + count_rejected(layout, prefixes, lambda prefix: rejects(total, prefix))
