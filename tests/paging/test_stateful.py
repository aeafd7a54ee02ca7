"""Pages in a store against a model: faults, late writes, batches that do not come in, a head that moves."""

from __future__ import annotations

import random
from typing import Any

from chance import examples
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from paging.parts import LAYOUT, SHIFT, SIZE, OneWriter, page, same

from mta.core.page import Page
from mta.paging.buffer import BUFFERED
from mta.paging.stored import StoredPages
from stores import StoreError, open_store, pages_of, parse_page_key
from stores.testing import FaultyStore, LateStore, WriteOnceStore

MOST = 12
WRITES = ("put_many",)


class Source(RuleBasedStateMachine):
    """One window of full pages of leaves, and the full pages of the tier above them.

    What is drawn depends on nothing that happened: a fault may come to this thread or to another one.
    """

    @initialize(seed=st.integers(0, 10**6), late=st.booleans())
    def start(self, seed: int, late: bool) -> None:
        self.chance = random.Random(seed)
        self.rate = 0.0
        self.inner = WriteOnceStore(open_store("memory:"))
        fails = lambda call, _: self.chance.random() < self.rate  # noqa: ARG005, E731
        self.late = LateStore(self.inner, lambda call, n: call in WRITES and fails(call, n)) if late else None
        self.store = self.late or FaultyStore(self.inner, fails, after=seed % 2 == 0)
        self.keys = OneWriter(epochs=seed % 40)
        self.pages = StoredPages(self.store, "w", LAYOUT, self.keys, SHIFT)
        self.follower = self.pages.follow()
        #: pages that are in, by name; full pages of leaves, and where the head is among them
        self.live: dict[Any, Page] = {}
        self.full = self.head = 0
        self.tries = 0

    @property
    def tail(self) -> int:
        return self.full * SIZE

    def attempt(self, call: Any, *args: Any) -> Any:
        """A call that may fail where the store does; None then."""
        try:
            return call(*args)
        except StoreError:
            assert self.rate or self.late is not None
            return None

    def has_room(self) -> bool:
        """Whether the buffer took a batch in, as a window asks before each."""
        return bool(self.attempt(lambda: self.pages.admit(self.tail) is None))

    def new(self, count: int) -> dict[Any, Page]:
        """Pages that so many more pages of leaves make, with marks that no other try has."""
        self.tries += 1
        full = self.full + count
        names = [(0, number) for number in range(self.full, full)]
        names += [(1, number) for number in range(self.full >> SHIFT, full >> SHIFT)]
        return {name: page(*name, mark=self.tries) for name in names}

    @rule(
        count=st.integers(1, MOST), early=st.booleans(), comes_in=st.sampled_from([True, True, True, False])
    )
    def grow(self, count: int, early: bool, comes_in: bool) -> None:
        if not self.has_room():
            return
        new = self.new(count)
        if early:
            self.pages.put_early([(name[1], each) for name, each in new.items() if name[0] == 0])
        for name, each in new.items():
            self.pages.put(*name, each)
        if comes_in:
            self.live.update(new)
            self.full += count
            self.pages.settle(self.tail)
        else:
            self.pages.take_back(self.tail)

    @rule(count=st.integers(1, MOST), comes_in=st.booleans(), settled=st.booleans())
    def interrupted(self, count: int, comes_in: bool, settled: bool) -> None:
        """It is not said what came of a batch."""
        if not self.has_room():
            return
        new = self.new(count)
        self.pages.put_early([(name[1], each) for name, each in new.items() if name[0] == 0])
        for name, each in new.items():
            self.pages.put(*name, each)
        if comes_in:
            self.live.update(new)
            self.full += count
        if settled:
            self.pages.settle(self.tail) if comes_in else self.pages.take_back(self.tail)
        self.attempt(self.pages.admit if self.chance.random() < 0.5 else self.pages.flush, self.tail)

    @rule(step=st.integers(1, 6))
    def walk(self, step: int) -> None:
        for _ in range(step):
            if self.head < self.full:
                self.move(self.head + 1)
                if self.head < self.full:
                    self.fetch([(0, self.head)])

    @rule(to=st.floats(0, 1))
    def leap(self, to: float) -> None:
        self.move(self.head + int(to * (self.full - self.head)))

    def move(self, head: int) -> None:
        self.head = head
        self.follower.head_at(head)
        for tier, number in ((0, head), (1, head >> SHIFT)):
            self.pages.drop_below(tier, number)
        self.live = {
            (tier, number): each
            for (tier, number), each in self.live.items()
            if (number + 1) << SHIFT * tier > head
        }

    def fetch(self, names: list[Any]) -> None:
        found = self.attempt(self.pages.fetch, names)
        if found is not None:
            assert [same(each, self.live[name]) for each, name in zip(found, names, strict=True)] == [
                True
            ] * len(names)

    @rule(at=st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=8))
    def read(self, at: list[float]) -> None:
        names = sorted(self.live)
        if names:
            self.fetch([names[int(each * len(names))] for each in at])

    @rule()
    def forget_what_was_read(self) -> None:
        self.pages._cache.clear()

    @rule(rate=st.sampled_from([0.0, 0.0, 0.3, 1.0]))
    def weather(self, rate: float) -> None:
        self.rate = rate

    @rule()
    def late_writes_arrive(self) -> None:
        if self.late is not None:
            self.late.deliver()

    @rule()
    def commit(self) -> None:
        try:
            self.pages.check_deletions()
            self.pages.flush(self.tail)
        except StoreError:
            assert self.rate or self.late is not None
            return
        self.keys.named = {0: range(self.head, self.full), 1: range(self.head >> SHIFT, self.full >> SHIFT)}
        if self.late is None or not self.late.waiting:
            stored = {parse_page_key(key)[2:] for key in self.inner.list_keys(pages_of("w"))}
            assert self.live.keys() <= stored
        self.pages.committed([])

    @invariant()
    def is_bounded(self) -> None:
        if hasattr(self, "pages"):
            assert len(self.pages._cache) <= 64 + 8
            assert len(self.pages._buffer) <= BUFFERED + 2 * MOST
            assert self.inner.refused == []

    def teardown(self) -> None:
        if not hasattr(self, "pages"):
            return
        self.rate = 0.0
        if self.late is not None:
            self.late.late = lambda *_: False
            self.late.deliver()
        self.fetch(sorted(self.live))
        self.pages.flush(self.tail)
        self.pages._cache.clear()
        self.fetch(sorted(self.live))
        self.pages.close()
        self.pages.forget()
        left = {parse_page_key(key)[2:] for key in self.inner.list_keys(pages_of("w"))}
        named = {(tier, number) for tier, pages in self.keys.named.items() for number in pages}
        assert left >= named
        if self.late is None:
            assert left == named
        self.store.close()


TestSource = Source.TestCase
TestSource.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
