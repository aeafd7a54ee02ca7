"""Enforces a policy: finds the first position whose element stays.

Limits on count and time are compared with the times of the few oldest elements first, and then the log is
searched. A predicate is asked about the few oldest elements one by one, as far as the view has their states
ready, then about the whole window, and then about whole subtrees.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any, TypeAlias

from mta.core.log import count_first
from mta.core.states import NOTHING, Run
from mta.core.view import NEAR, Batch, View
from mta.frames.limits import Limits, Predicate
from mta.kinds import UNKNOWN, State, Time
from mta.monoids.base import Array
from mta.times.cuts import Side, before, cut

#: How many of the oldest elements leave, which include the coming one if it may not stay; the argument of
#: `View.whole` and `View.rest` (`View.coming`); and the state of the window with the coming element, before
#: any leave. Both are UNKNOWN unless they were needed.
Gone: TypeAlias = tuple[int, Any, Any]

#: Says how many elements leave when an element with a state and a time comes.
Rule: TypeAlias = Callable[[View, Any, Any], Gone]

#: A question that a policy asks about an aggregate.
Question: TypeAlias = Callable[[Any], Any]

NONE_GOES: Gone = (0, UNKNOWN, UNKNOWN)
ONE_GOES: Gone = (1, UNKNOWN, UNKNOWN)


def rule_of(limits: Limits) -> Rule:
    """The cheapest rule for the limits of a policy."""
    span, count = limits.open_span, limits.count
    if limits.predicates:
        return _rule_of_predicates(limits)
    if limits == Limits():
        return lambda *_: NONE_GOES
    if type(span) is int and limits == Limits(open_span=span):
        return _rule_of_span(span)
    if count is not None and limits == Limits(count=count):
        return _rule_of_count(count)
    return lambda view, _, time: (first_kept(view, limits, time, view.end + 1) - view.head, UNKNOWN, UNKNOWN)


def _rule_of_count(count: int) -> Rule:
    def gone(view: View, _state: Any, _time: Any) -> Gone:
        surplus = view.end - view.head - count
        if surplus < 0:
            return NONE_GOES
        return (surplus + 1, UNKNOWN, UNKNOWN) if surplus else ONE_GOES

    return gone


def _rule_of_span(span: int) -> Rule:
    def gone(view: View, _state: Any, time: Time) -> Gone:
        if view.head == view.end:
            return NONE_GOES
        start = time - span if type(time) is int else cut(time, span, "right")
        if view.oldest > start:
            return NONE_GOES
        ahead = view.steps
        if ahead and ahead[-1][0] > start:
            return ONE_GOES
        return _first_after(view, start, "right") - view.head, UNKNOWN, UNKNOWN

    return gone


def _rule_of_predicates(limits: Limits) -> Rule:
    rejects, rests = limits.of_total, [each.enough for each in limits.of_rest]
    most, timed = limits.count, bool(limits.spans())

    def gone(view: View, state: State, time: Time) -> Gone:
        head, tail = view.head, view.end
        if head == tail:
            return (1 if rejects and rejects(state, state) else 0), UNKNOWN, state
        younger = view.coming(state)
        first, total = head, UNKNOWN
        if rejects:
            total, old = view.whole(younger), view.first
            if old is UNKNOWN or rejects(total, old):
                first = _first_not_rejected_after(view, rejects, total)
        for enough in rests:
            first = max(first, _first_needed(view, enough, younger, state))
        if timed:
            first = max(first, first_kept(view, limits, time, tail + 1))
        elif most is not None and tail - first >= most:
            first = tail + 1 - most
        if first >= tail:
            first = tail + (1 if rejects and rejects(total, total) else 0)
        return first - head, younger, total

    return gone


def first_kept_now(view: View, limits: Limits) -> int:
    """The first position that the policy keeps in the window as it is."""
    if not len(view):
        return view.head
    head = first_kept(view, limits, view.log.youngest, view.end)
    if limits.of_total:
        head = max(head, _first_not_rejected(view, limits.of_total, view.whole(view.coming(NOTHING))))
    for each in limits.of_rest:
        head = max(head, _first_needed(view, each.enough, view.coming(NOTHING), NOTHING))
    return head


def first_kept(view: View, limits: Limits, youngest: Any, tail: int) -> int:
    """The first position that limits on count and time keep in a window with this youngest time and tail."""
    head = view.head
    if head == view.end:
        return head
    if limits.count is not None and tail - limits.count > head:
        head = min(tail - limits.count, view.end)
    for start, side in limits.cuts(youngest):
        head = max(head, _first_after(view, start, side))
    return head


def _first_after(view: View, start: Any, side: Side) -> int:
    """The first position with a time > start (right) or >= start (left)."""
    oldest, head = view.oldest, view.head
    if oldest > start or (side == "left" and oldest == start):
        return head
    for time, _, _ in reversed(view.steps[-NEAR:]):
        head += 1
        if time > start or (side == "left" and time == start):
            return head
    return view.log.first_position(view.head, start, side)


def _first_not_rejected(view: View, rejects: Predicate, total: State) -> int:
    """The first position that a predicate lets stay, given the state `total`; the window is not empty."""
    old = view.first
    if old is UNKNOWN or rejects(total, old):
        return _first_not_rejected_after(view, rejects, total)
    return view.head


def _first_not_rejected_after(view: View, rejects: Predicate, total: State) -> int:
    """The same, where the oldest element is rejected if its state is ready."""
    head, ahead, old = view.head, view.steps, view.first
    if old is not UNKNOWN and view.singles:
        for at in range(1, min(len(ahead), len(view).bit_length()) + 1):
            old = view.combine(old, ahead[-at][2])
            if not rejects(total, old):
                return head + at
    # the sum is made anew as in `total`: the one that was kept may be rounded otherwise
    if rejects(total, view.whole(view.coming(NOTHING))):
        return view.end
    first, _ = view.log.longest_prefix(head, lambda prefix: rejects(total, prefix))
    if first == head:
        view.oldest_state()  # ready from now on, so that nothing is searched as long as this element stays
    return first


def _first_needed(view: View, enough: Question, younger: State, state: State) -> int:
    """The first position that stays because the elements behind it are not enough; the window is not empty.

    `state` is the coming state, or NOTHING, and `younger` is `View.coming` of it.
    """

    def may_go(k: int) -> bool:
        rest = view.rest(k, younger, state)
        return rest is not NOTHING and bool(enough(rest))

    if not may_go(1):
        return view.head
    near, ready = len(view).bit_length(), view.rests_ready()
    known = min(near, ready)
    for k in range(2, known + 1):
        if not may_go(k):
            return view.head + k - 1
    if known < ready:
        known = bisect_left(range(ready + 1), True, lo=known + 1, key=lambda k: not may_go(k)) - 1
        if known < ready:
            return view.head + known
    return view.log.shortest_suffix(view.head + max(known, 1), state, enough)


def first_kept_after(view: View, limits: Limits, batch: Batch, states: Run) -> int:
    """The first position that the policy keeps once a batch is appended."""
    last = batch.last
    head = first_kept(view, limits, last, view.end + len(batch)) if len(view) else view.end
    if head == view.end:
        head += _first_kept_among(limits, batch.times, last)
    if limits.of_total:
        head = max(head, _first_not_rejected_behind(view, limits.of_total, states))
    for each in limits.of_rest:
        head = max(head, _first_needed_behind(view, each.enough, states))
    return head


def _first_kept_among(limits: Limits, times: Array, youngest: Any) -> int:
    """How many of a batch's first rows the limits on count and time reject."""
    count = len(times)
    first = 0 if limits.count is None else max(0, count - limits.count)
    return max([first, *(before(times, start, side) for start, side in limits.cuts(youngest))])


def _first_not_rejected_behind(view: View, rejects: Predicate, states: Run) -> int:
    """The first position that a predicate lets stay once a batch is appended."""
    older: State = NOTHING
    total = view.layout.fold(states)
    if len(view):
        older = view.whole(view.coming(NOTHING))
        total = view.combine(older, total)
        head = _first_not_rejected(view, rejects, total)
        if head < view.end:
            return head
    layout, last = view.layout, view.layout.length(states) - 1
    if layout.monoid.grows:
        gone = bisect_left(
            range(last),
            True,
            key=lambda at: not rejects(total, layout.join(older, layout.fold(layout.cut(states, 0, at + 1)))),
        )
    else:
        prefixes = layout.preceded_by(older, layout.prefixes(layout.cut(states, 0, last)))
        gone = count_first(layout, prefixes, lambda prefix: rejects(total, prefix))
    # about the whole window the predicate is asked with the total itself: a sum may be rounded otherwise
    return view.end + gone + int(gone == last and bool(rejects(total, total)))


def _first_needed_behind(view: View, enough: Question, states: Run) -> int:
    """The first position that stays since the elements behind it are not enough, once a batch is appended."""
    layout = view.layout
    if layout.monoid.grows:
        count, total = layout.length(states), layout.fold(states)
        needed = bisect_left(
            range(count), True, key=lambda at: not enough(layout.fold(layout.cut(states, at, count)))
        )
    else:
        suffixes = layout.suffixes(states)
        total, needed = layout.at(suffixes, 0), count_first(layout, suffixes, enough)
    if needed:
        return view.end + needed - 1
    return view.log.shortest_suffix(view.head, total, enough) if len(view) else view.end
