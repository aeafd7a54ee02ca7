"""How long a call to a server goes on: one budget of time for all its tries, and the pauses between them."""

from __future__ import annotations

import math
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from stores.errors import StoreError
from stores.urls import parse_number, parse_whole, within

T = TypeVar("T")

LONGEST_PAUSE = 1.0
SHORTEST_TRY = 0.1
#: Of our own: the state of the module `random` is the program's, and our calls come from any thread.
CHANCE = secrets.SystemRandom()

#: The options by which users say it.
OPTIONS: Mapping[str, Callable[[Any], Any]] = {
    "patience": within(parse_number, 0.001, 86400 * 365),
    "max_tries": within(parse_whole, 1, 10**9),
    "backoff": within(parse_number, 0, 3600),
}


class Budget:
    """What is left of the seconds that a call may take. Pauses between its tries grow, from `backoff` on."""

    def __init__(self, seconds: float, *, backoff: float = 0.05, max_tries: int | None = None) -> None:
        self._start = time.monotonic()
        self._seconds = seconds
        self._pause = backoff
        self._max_tries = max_tries
        self._tries = 1

    @property
    def left(self) -> float:
        return max(0.0, self._start + self._seconds - time.monotonic())

    def timeout(self, longest: float) -> float:
        """How long one try may wait for one thing: a try that begins gets a moment in any case."""
        return max(SHORTEST_TRY, min(longest, self.left))

    def within(self, seconds: float) -> Budget:
        """A part of what is left, for something that should not take it all."""
        return Budget(self.timeout(seconds), max_tries=1)

    def again(self) -> bool:
        """Pauses before the next try, or tells that there is none."""
        if self._tries == self._max_tries or not self.left:
            return False
        time.sleep(min(self._pause * CHANCE.uniform(0.5, 1), self.left))
        self._pause = min(self._pause * 2, LONGEST_PAUSE)
        self._tries += 1
        return True

    def spent(self) -> str:
        """For the error in the end, such as `3 tries in 1.2 s`."""
        tries = "1 try" if self._tries == 1 else f"{self._tries} tries"
        return f"{tries} in {time.monotonic() - self._start:.1f} s"


class _Limit(threading.local):
    """When the calls of this thread have to be over, by the monotonic clock."""

    until = math.inf


_limit = _Limit()


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """In here, calls of this thread take no longer, whatever the patience of their stores."""
    before = _limit.until
    _limit.until = min(before, time.monotonic() + seconds)
    try:
        yield
    finally:
        _limit.until = before


@dataclass(frozen=True)
class Patience:
    """What a store was told to have, for each step of a call."""

    seconds: float
    backoff: float = 0.05
    max_tries: int | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any], default: float = 10.0) -> Patience:
        return cls(options.get("patience", default), options.get("backoff", 0.05), options.get("max_tries"))

    def budget(self) -> Budget:
        seconds = self.seconds
        if _limit.until < math.inf:
            seconds = max(0.0, min(seconds, _limit.until - time.monotonic()))
        return Budget(seconds, backoff=self.backoff, max_tries=self.max_tries)


class Failures(Protocol):
    """What the errors of a client mean to those who call a store."""

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """Those that a try may raise; all others are mistakes of ours."""

    def final(self, call: str, error: Any) -> StoreError | None:
        """What to raise at once, or None where the next try may succeed."""

    def gave_up(self, call: str, error: Any, budget: Budget) -> StoreError:
        """What to raise when there is no time, or no try, left."""


class Patient:
    """Tries the calls of a store until they succeed, or have failed for good."""

    def __init__(self, patience: Patience, failures: Failures, check_open: Callable[[str], None]) -> None:
        self._patience, self._failures, self._check_open = patience, failures, check_open

    def budget(self) -> Budget:
        return self._patience.budget()

    def call(self, call: str, attempt: Callable[[Budget], T], budget: Budget | None = None) -> T:
        """What an attempt returns. It may be made twice: a lost reply does not tell whether it was done."""
        budget = budget or self.budget()
        while True:
            try:
                return attempt(budget)
            except self._failures.errors as error:
                self.wait(call, error, budget)

    def wait(self, call: str, error: Exception, budget: Budget) -> None:
        """Waits before the next try, or raises what is to be told of the error."""
        self._check_open(call)
        told = self._failures.final(call, error)
        if told is None and not budget.again():
            told = self._failures.gave_up(call, error, budget)
        if told is not None:
            raise told from error
        self._check_open(call)
