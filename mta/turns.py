"""Whether a window takes a call: one at a time, while it is open, in the process that made it."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Self, TypeVar, cast
from weakref import WeakSet

from mta.errors import ConcurrentUse, WindowClosed, WindowError

P = ParamSpec("P")
R = TypeVar("R")

CLOSED = "is closed; make a new one, or restore it"
FORKED = (
    "belongs to the process that this one was forked from; restore it here under a name of its own, or open "
    "windows after the fork"
)


class TakesTurns:
    """What can be in one call at a time, and be closed.

    Between the look at the two marks and the setting of `_busy` CPython calls nothing, so that no other
    thread comes between them.
    """

    #: whether a call is under way
    _busy = False
    #: why no call is taken any more, if none is
    _closed = ""
    #: whether all that closing takes is done
    _ended = False

    #: what it is called in errors, and what is said of it after a close and after a fork
    _kind, _when_closed, _when_forked = "window", CLOSED, FORKED

    _name: str

    def close(self) -> None:
        """Ends the background work. Elements that came after the last checkpoint are lost.

        A second call does nothing, nor does a call in a process that was forked from this object's own.
        """
        if self._ended or self._closed == self._when_forked:
            return
        if self._busy:
            raise self._refusal()
        self._closed = self._when_closed
        self._end()
        self._ended = True

    def _end(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _refusal(self) -> WindowError:
        """Why a call is not taken now."""
        # the other call may have ended since it was met
        if self._busy or not self._closed:
            return ConcurrentUse(
                f"the {self._kind} {self._name!r} is in another call, of another thread or of an operator of "
                "its own; this one has not happened: put a lock around it, or give each thread its own"
            )
        return WindowClosed(f"the {self._kind} {self._name!r} {self._closed}")

    def _stays_in_this_process(self) -> None:
        """A copy that a forked process inherits is closed there: it must not touch the store."""
        _of_this_process.add(self)


T = TypeVar("T", bound=TakesTurns)


def in_turn(call: Callable[Concatenate[T, P], R]) -> Callable[Concatenate[T, P], R]:
    """Refuses a call of a window that is in another call, or closed."""

    @wraps(call)
    def guarded(window: T, *args: P.args, **kwargs: P.kwargs) -> R:
        if window._busy or window._closed:
            raise window._refusal()
        window._busy = True
        try:
            return call(window, *args, **kwargs)
        finally:
            window._busy = False

    return cast("Callable[Concatenate[T, P], R]", guarded)


_of_this_process: WeakSet[TakesTurns] = WeakSet()


def _after_fork() -> None:
    for window in list(_of_this_process):
        window._closed = window._when_forked
    _of_this_process.clear()


os.register_at_fork(after_in_child=_after_fork)
