"""Retries: a call to a server has one budget of time for all its tries and the pauses between them."""

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
#: A generator of our own, because the state of the module `random` belongs to the program.
RANDOM = secrets.SystemRandom()

#: The options of a store that set its patience.
OPTIONS: Mapping[str, Callable[[Any], Any]] = {
    "patience": within(parse_number, 0.001, 86400 * 365),
    "max_tries": within(parse_whole, 1, 10**9),
    "backoff": within(parse_number, 0, 3600),
}


class Budget:
    """The seconds and tries that a call has left. Pauses between tries double, from `backoff` to a second."""

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
        """How many seconds one try may wait: at most `longest`, and at least 0.1 even if no time is left."""
        return max(SHORTEST_TRY, min(longest, self.left))

    def within(self, seconds: float) -> Budget:
        """A budget of one try, for a step that should take only a part of the time left."""
        return Budget(self.timeout(seconds), max_tries=1)

    def again(self) -> bool:
        """Pauses and returns True if there is a next try, else returns False at once."""
        if self._tries == self._max_tries or not self.left:
            return False
        time.sleep(min(self._pause * RANDOM.uniform(0.5, 1), self.left))
        self._pause = min(self._pause * 2, LONGEST_PAUSE)
        self._tries += 1
        return True

    def spent(self) -> str:
        """The tries and the time so far, for an error message: `3 tries in 1.2 s`."""
        tries = "1 try" if self._tries == 1 else f"{self._tries} tries"
        return f"{tries} in {time.monotonic() - self._start:.1f} s"


class _Limit(threading.local):
    """The monotonic time at which calls of this thread must end."""

    deadline = math.inf


_limit = _Limit()


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Limits the calls that this thread makes inside the block, whatever the patience of their stores is."""
    outer = _limit.deadline
    _limit.deadline = min(outer, time.monotonic() + seconds)
    try:
        yield
    finally:
        _limit.deadline = outer


@dataclass(frozen=True)
class Patience:
    """The options of a store that limit each step of a call: seconds, first pause, tries."""

    seconds: float
    backoff: float = 0.05
    max_tries: int | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any], default: float = 10.0) -> Patience:
        return cls(options.get("patience", default), options.get("backoff", 0.05), options.get("max_tries"))

    def budget(self) -> Budget:
        seconds = self.seconds
        if _limit.deadline < math.inf:
            seconds = max(0.0, min(seconds, _limit.deadline - time.monotonic()))
        return Budget(seconds, backoff=self.backoff, max_tries=self.max_tries)


class Failures(Protocol):
    """Turns the errors of a client library into those of a store."""

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """The classes of errors that a try may raise. Others are bugs and pass through."""

    def final(self, call: str, error: Any) -> StoreError | None:
        """The error to raise at once, or None if the next try may succeed."""

    def gave_up(self, call: str, error: Any, budget: Budget) -> StoreError:
        """The error to raise when no time or no try is left."""


class Patient:
    """Retries the calls of a store until they succeed, fail for good, or have used up their budget."""

    def __init__(self, patience: Patience, failures: Failures, check_open: Callable[[str], None]) -> None:
        self._patience, self._failures, self._check_open = patience, failures, check_open

    def budget(self) -> Budget:
        return self._patience.budget()

    def call(self, call: str, attempt: Callable[[Budget], T], budget: Budget | None = None) -> T:
        """Returns what `attempt` returns. `attempt` must be idempotent: after a lost reply it runs again."""
        budget = budget or self.budget()
        while True:
            try:
                return attempt(budget)
            except self._failures.errors as error:
                self.wait(call, error, budget)

    def wait(self, call: str, error: Exception, budget: Budget) -> None:
        """Waits before the next try, or raises the store's error for `error` if there is no next try."""
        self._check_open(call)
        failure = self._failures.final(call, error)
        if failure is None and not budget.again():
            failure = self._failures.gave_up(call, error, budget)
        if failure is not None:
            raise failure from error
        self._check_open(call)
