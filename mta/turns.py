"""One call of a window at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar, cast

from mta.errors import ConcurrentUse

P = ParamSpec("P")
R = TypeVar("R")


class Taken(Protocol):
    _busy: bool

    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=Taken)


def in_turn(call: Callable[Concatenate[T, P], R]) -> Callable[Concatenate[T, P], R]:
    """Refuses a call of a window that is in another call.

    Between the look and the mark CPython calls nothing, so no other thread comes between them.
    """

    @wraps(call)
    def guarded(window: T, *args: P.args, **kwargs: P.kwargs) -> R:
        if window._busy:
            raise in_use(window)
        window._busy = True
        try:
            return call(window, *args, **kwargs)
        finally:
            window._busy = False

    return cast("Callable[Concatenate[T, P], R]", guarded)


def in_use(window: Taken) -> ConcurrentUse:
    return ConcurrentUse(
        f"the window {window.name!r} is in another call, of another thread or of an operator of its own; "
        "this one has not happened: put a lock around the window, or give each thread its own"
    )
