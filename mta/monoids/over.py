"""A monoid over a frame of its own: a field of `Fields` with another window than the other fields have."""

from __future__ import annotations

from typing import Any, NoReturn

from mta.frames.policies import CountWindow, Policy, TimeWindow


class Over:
    """A monoid and its frame. `Monoid.over` makes it, and `Fields` takes it."""

    def __init__(self, monoid: Any, frame: Policy) -> None:
        if frame.limits().predicates:
            raise ValueError(
                f"over() takes a frame of time or count, got {frame!r}: where a predicate evicts depends on "
                "the aggregate of one window; give it as the policy of a window of its own"
            )
        self.monoid, self.frame = monoid, frame

    def over(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(f"{self!r} has its frame already: call over() once, with a union of both frames")

    def __repr__(self) -> str:
        return f"{self.monoid!r}.over({self.frame!r})"


def frame_of(frame: Any, rows: Any, min_count: Any) -> Policy:
    """The policy that the arguments of `over` stand for."""
    least = {} if min_count is None else {"min_count": min_count}
    if isinstance(frame, Policy):
        if least or rows is not None:
            raise TypeError(
                f"over({frame!r}, ...) takes no rows and no min_count: say them in the frame, as in "
                "TimeWindow(60, min_count=3) | CountWindow(100)"
            )
        return frame
    if frame is None and rows is None:
        raise TypeError("over() takes a frame: a duration, a TimeWindow, a CountWindow, or rows=")
    if rows is None:
        return TimeWindow(frame, **least)
    counted = CountWindow(rows, **least)
    return counted if frame is None else TimeWindow(frame) | counted
