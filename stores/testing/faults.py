"""Stores that fail, that write late, or that refuse to write a key twice."""

from __future__ import annotations

import hashlib
import random
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from stores.base import Store
from stores.errors import Conflict, StoreUnavailable
from stores.wrapper import WrapperStore

T = TypeVar("T")

WRITES = frozenset({"put_many", "delete_many", "delete_range", "swap_root", "delete_root", "delete_roots"})


class FaultyStore(WrapperStore):
    """Raises StoreUnavailable instead of a call, or with `after`, after it, as if its reply was lost.

    `fails` is a probability, drawn with `seed`, or a function of the call's name and its number from 1 on.

    >>> from stores import open_store
    >>> store = FaultyStore(open_store("memory:"), lambda call, number: number == 2, after=True)
    >>> store.put_many({"a": b"1"})
    >>> store.put_many({"b": b"2"})
    Traceback (most recent call last):
    stores.errors.StoreUnavailable: put_many: memory: did not answer after 1 try: injected fault in call 2
    >>> store.get_many(["a", "b"])
    [b'1', b'2']
    """

    def __init__(
        self, inner: Store, fails: float | Callable[[str, int], bool], *, after: bool = False, seed: int = 0
    ) -> None:
        super().__init__(inner)
        self.fails = fails
        self.after = after
        self.faults = 0
        self._random = random.Random(seed)
        self._number = 0
        self._lock = threading.Lock()

    def _around(self, call: str, action: Callable[[], T]) -> T:
        with self._lock:
            self._number += 1
            number = self._number
            fault = self.fails(call, number) if callable(self.fails) else self._random.random() < self.fails
            self.faults += fault
        if not fault:
            return action()
        if self.after:
            action()
        raise StoreUnavailable(
            f"{call}: {self.url} did not answer after 1 try: injected fault in call {number}"
        )


class WriteOnceStore(WrapperStore):
    """Refuses another value under a key that was ever put, even if deleted: a late write could restore it.

    The refused keys are in `refused`, because nobody may see the error of a call in the background.

    >>> from stores import open_store
    >>> store = WriteOnceStore(open_store("memory:"))
    >>> store.put_many({"key": b"1"})
    >>> store.delete_many(["key"])
    >>> store.put_many({"key": b"2"})
    Traceback (most recent call last):
    AssertionError: 'key' was put before, with another value
    """

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.refused: list[str] = []
        self._digests: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def _put_many(self, items: list[tuple[str, bytes]]) -> None:
        with self._lock:
            for key, value in items:
                digest = hashlib.blake2b(value, digest_size=16).digest()
                if self._digests.setdefault(key, digest) != digest:
                    self.refused.append(key)
                    raise AssertionError(f"{key!r} was put before, with another value")
        super()._put_many(items)


class LateStore(WrapperStore):
    """Raises StoreUnavailable instead of a call that writes, and makes the call at some later time.

    That happens if a connection breaks while its bytes are on their way. `late` is a probability, drawn
    with `seed`, or a function of the call's name and its number from 1 on. `deliver` makes the waiting calls.

    >>> from stores import open_store
    >>> store = LateStore(open_store("memory:"), lambda call, number: number == 1)
    >>> store.put_many({"key": b"first"})
    Traceback (most recent call last):
    stores.errors.StoreUnavailable: put_many: memory: did not answer after 1 try: it may be done later
    >>> store.put_many({"key": b"second"})
    >>> store.deliver()
    >>> store.get_many(["key"])
    [b'first']
    """

    def __init__(self, inner: Store, late: float | Callable[[str, int], bool], *, seed: int = 0) -> None:
        super().__init__(inner)
        self.late = late
        self.waiting: list[Callable[[], object]] = []
        self.delivered = 0
        self._random = random.Random(seed)
        self._number = 0
        self._lock = threading.Lock()

    def _around(self, call: str, action: Callable[[], T]) -> T:
        with self._lock:
            self._number += 1
            late = self.late(call, self._number) if callable(self.late) else self._random.random() < self.late
            late = late and call in WRITES
            if late:
                self.waiting.append(action)
                raise StoreUnavailable(f"{call}: {self.url} did not answer after 1 try: it may be done later")
        if not callable(self.late) and self._random.random() < self.late:
            self.deliver(1)
        return action()

    def deliver(self, most: int | None = None) -> None:
        """Makes at most `most` of the waiting calls, in any order, or all of them."""
        with self._lock:
            self._random.shuffle(self.waiting)
            count = len(self.waiting) if most is None else most
            due, self.waiting = self.waiting[:count], self.waiting[count:]
            for action in due:
                with suppress(Conflict):
                    action()
                self.delivered += 1
