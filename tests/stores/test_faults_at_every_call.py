"""A fault at every call in turn that a window makes of each store: what raises has not happened."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import count
from typing import Any, TypeVar

import pytest
from chance import fresh

from mta import AmortizedMTA, LogMTA, monoids, policies
from mta.durability.operations import collect_window, verify
from mta.errors import WindowNotFound
from mta.window import MonoidTreeAggregator
from stores import Store, StoreUnavailable, open_store, pages_of
from stores.testing import FaultyStore, WriteOnceStore

T = TypeVar("T")

SPAN = 30
POLICY = policies.CountWindow(SPAN)
STEPS = ("extend", "slide", "checkpoint", "push", "restore", "slide", "evict", "checkpoint")


class Run:
    """A window over a store that fails twice in a row, beside the text that it should hold."""

    def __init__(self, kind: type[MonoidTreeAggregator], inner: Store, number: int, after: bool) -> None:
        self.kind, self.inner, self.name = kind, inner, fresh("faults")
        self.faulty = FaultyStore(inner, lambda _, call: call in (number, number + 1), after=after)
        self.store = WriteOnceStore(self.faulty)
        self.text = ""
        #: what a restored window may hold: more than one while the answer to a commit is lost
        self.committed: set[str] = set()
        self.rng = random.Random(5)

    def run(self) -> bool:
        """Whether there was a call of that number."""
        self.window = self.again(lambda: self._open(self.kind))
        for step in STEPS:
            items = [self.rng.choice("abcdefgh") for _ in range(self.rng.randrange(10, 25))]
            getattr(self, f"_{step}")(items)
            assert self.again(self.window.query) == self.text
            assert len(self.window) == len(self.text)
        self.tried(self.window.close)
        self._check()
        return self.faulty.faults > 0

    def tried(self, call: Callable[[], T]) -> T | None:
        try:
            return call()
        except StoreUnavailable:
            return None

    def again(self, call: Callable[[], T]) -> T:
        """For what changes nothing, or has to be: it fails twice at most."""
        for _ in range(2):
            try:
                return call()
            except StoreUnavailable:
                pass
        return call()

    def _open(self, make: Any) -> MonoidTreeAggregator:
        window: MonoidTreeAggregator = make(
            monoids.Concat(), POLICY, store=self.store, name=self.name, page_size=4
        )
        return window

    def _extend(self, items: list[str]) -> None:
        after = (self.text + "".join(items))[-SPAN:]
        if self.tried(lambda: self.window.extend(items) or True):
            self.text = after

    def _slide(self, items: list[str]) -> None:
        after = self.text
        expected = [after := (after + item)[-SPAN:] for item in items]
        results = self.tried(lambda: self.window.slide(items))
        if results is not None:
            assert list(results) == expected
            self.text = after

    def _push(self, items: list[str]) -> None:
        for item in items:
            result = self.tried(lambda item=item: self.window.push(item))  # type: ignore[misc]
            if result is not None:
                self.text = (self.text + item)[-SPAN:]
                assert result == self.text

    def _evict(self, items: list[str]) -> None:
        if self.tried(lambda: self.window.evict(len(items) // 2) or True):
            self.text = self.text[len(items) // 2 :]

    def _checkpoint(self, items: list[str]) -> None:
        done = self.tried(lambda: self.window.checkpoint(len(items)) is not None)
        self.committed = {self.text} if done else self.committed | {self.text}

    def _restore(self, _: list[str]) -> None:
        self.tried(self.window.close)
        try:
            self.window = self.again(
                lambda: self.kind.restore(self.store, self.name, monoids.Concat(), POLICY)
            )
        except WindowNotFound:
            assert self.faulty.faults
            self.committed, self.text = set(), ""
            self.window = self.again(lambda: self._open(self.kind))
            return
        self.text = self.again(lambda: self.window.range_query(-1, 10**9))
        assert self.text in self.committed
        self.committed = {self.text}

    def _check(self) -> None:
        self.faulty.fails = 0.0
        assert self.store.refused == []
        collect_window(self.inner, self.name)
        found = self.inner.read_root(self.name)
        if found is not None:
            assert verify(self.inner, self.name).problems == []
        if self.committed:
            with self.kind.restore(self.inner, self.name, monoids.Concat(), POLICY) as window:
                assert window.range_query(-1, 10**9) in self.committed
        else:
            assert not list(self.inner.list_keys(pages_of(self.name)))


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_fault_at_every_call(store_url: str, after: bool) -> None:
    """Over the mock of Couchbase, which is slow, at every fifth."""
    step = 5 if store_url.startswith("couchbase") else 1
    with open_store(store_url) as inner:
        for number in count(1, step):
            if not Run((AmortizedMTA, LogMTA)[number // step % 2], inner, number, after).run():
                break
    assert number > 15
