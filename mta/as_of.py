"""The window of a policy as of a moment, in a log that may have gone on since."""

from __future__ import annotations

from mta.core.log import Log
from mta.core.view import View
from mta.frames.limits import Limits
from mta.kinds import Time


class Gone(Exception):
    """The window as of a moment may need elements that its log has no more."""


class Undecided(Exception):
    """A predicate decides when elements come, and is not asked about other moments."""


def as_of(view: View, limits: Limits, moment: Time, first: int) -> tuple[int, int]:
    """The positions [head, end) of the elements up to a moment that limits keep as of it.

    The view goes up to the last element of its log. `first` is the first position that the log still has, 0
    if no element ever left. Raises Gone and Undecided. Reads at most a page a tier for each boundary.
    """
    log = view.log
    if moment >= log.youngest:  # no element comes, and time passes
        head = first_kept(log, limits, moment, view.head, view.end)
        if not limits.predicates:
            return head, view.end
        if limits.spans() and head > view.head:
            raise Undecided
        return view.head, view.end
    if limits.predicates:
        raise Undecided
    end = log.first_position(first, moment, "right")
    head = first_kept(log, limits, moment, first, end)
    counted = limits.count is not None and end - limits.count >= first
    if first and head == first and not counted:
        raise Gone  # elements that left before this one may belong to the window
    return head, end


def first_kept(log: Log, limits: Limits, moment: Time, first: int, end: int) -> int:
    """The first position from `first` on that limits on count and time keep in a window up to `end`."""
    head = first if limits.count is None else max(first, end - limits.count)
    for cut, side in limits.cuts(moment):
        if head < end:
            head = min(end, log.first_position(head, cut, side))
    return head
