"""A writer's two threads, its lost answers and its locks: no page is lost, and none is left over."""

from __future__ import annotations

import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from mta import AmortizedMTA, Fenced, LogMTA, WindowExists, WindowNotFound, monoids, policies
from mta.durability.attempts import AttemptHold
from mta.durability.coding import decode_root, encode_root
from mta.durability.operations import verify
from mta.durability.ownership import Ownership
from mta.window import MonoidTreeAggregator
from stores import (
    CountingStore,
    Store,
    StoreUnavailable,
    WrapperStore,
    open_store,
    pages_of,
    parse_page_key,
)
from stores.testing import FaultyStore

T = TypeVar("T")
SPAN = 400
POLICY = policies.CountWindow(SPAN)
#: which no encoding makes smaller
VALUES = [i * 0x9E3779B97F4A7C15 % 2**40 for i in range(20_000)]


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store(f"memory:{uuid.uuid4().hex}") as opened:
        yield opened


def new(store: Store, page_size: int = 4) -> MonoidTreeAggregator:
    return AmortizedMTA(monoids.Sum(), POLICY, store=store, name="w", page_size=page_size)


def held(store: Store) -> list[str]:
    return list(store.list_keys(pages_of("w")))


def eventually(holds: Callable[[], bool]) -> bool:
    """What is done in the background will be done, however slow the machine."""
    deadline = time.monotonic() + 300
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


@pytest.fixture
def often() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


class Gate(WrapperStore):
    """A call of some name waits until it is let through; before that it says that it has come."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.closed: set[str] = set()
        self.came, self.let_through, self.done = threading.Event(), threading.Event(), threading.Event()

    def _around(self, call: str, action: Callable[[], T]) -> T:
        if call not in self.closed:
            return action()
        self.closed.discard(call)
        self.came.set()
        assert self.let_through.wait(300)
        found = action()
        self.done.set()
        return found


# -- pages -------------------------------------------------------------------------------------------------


def test_a_checkpoint_has_all_full_pages_in_the_store(store: Store) -> None:
    window = new(store)
    for start in range(0, 2000, 50):
        window.extend(VALUES[start : start + 50])
        window.checkpoint()
        assert verify(store, "w").problems == []
    with AmortizedMTA.restore(store, "w", monoids.Sum(), POLICY) as restored:
        assert [restored.range_query(time, time) for time in range(1600, 2000)] == VALUES[1600:2000]


@pytest.mark.parametrize("kind", [AmortizedMTA, LogMTA])
@pytest.mark.parametrize("policy", [POLICY, policies.TimeWindow(SPAN)], ids=["count", "time"])
def test_a_push_that_cannot_read_after_a_restore_adds_nothing(store: Store, kind: Any, policy: Any) -> None:
    with kind(monoids.Sum(), policy, store=store, name="w", page_size=4) as window:
        window.extend(VALUES[:SPAN], range(SPAN))
        window.checkpoint()
    down = False
    line = FaultyStore(store, lambda call, _: down and call == "get_many")
    with kind.restore(line, "w", monoids.Sum(), policy) as window:
        down = True
        for _ in range(3):
            with pytest.raises(StoreUnavailable):
                window.push(VALUES[SPAN], SPAN)
            assert (len(window), window.oldest, window.youngest) == (SPAN, 0, SPAN - 1)
        down = False
        assert window.push(VALUES[SPAN], SPAN) == sum(VALUES[1 : SPAN + 1])
        assert len(window) == SPAN


def test_parts_that_no_version_names_go_while_the_writer_lives(store: Store) -> None:
    """A page of 1,024 never fills here: every checkpoint writes a part of the tail."""
    window = AmortizedMTA(monoids.Sum(), POLICY, store=store, name="w", page_size=1024, retain=1)
    for start in range(0, 20_000, 100):
        window.extend(VALUES[start : start + 100])
        window.checkpoint()

    def named() -> set[str]:
        data, _ = store.read_root("w") or (b"", b"")
        return {key for version in decode_root("w", data).versions for key in version.keys("w")}

    parts = [key for key in named() if parse_page_key(key).tier >= 0x80]
    assert parts
    assert eventually(lambda: len(held(store)) <= len(named()) + 16)
    window.close()


@pytest.mark.parametrize("rows", [60, 5000])
def test_pages_whose_writing_had_no_answer_are_not_left(store: Store, rows: int) -> None:
    cut = True
    line = FaultyStore(store, lambda call, _: cut and call == "put_many", after=True)
    window = new(line)

    def fill() -> None:
        for start in range(0, rows, 20):
            window.extend(VALUES[start : start + 20])
        window.checkpoint()

    with pytest.raises(StoreUnavailable):
        fill()
    assert held(store)
    cut = False
    window.close()
    assert held(store) == []


@pytest.mark.parametrize("kind", [AmortizedMTA, LogMTA])
def test_a_page_that_takes_the_place_of_one_under_way_is_written(store: Store, kind: Any) -> None:
    """A batch fails while its pages are being written, and other rows come in their numbers."""
    down = False
    gate = Gate(FaultyStore(store, lambda call, _: down and call == "get_many" and gate.came.wait(300)))
    window = kind(monoids.Sum(), policies.CountWindow(5120), store=gate, name="w", page_size=256)
    rows, failing, others = VALUES[:5120], VALUES[6000:7024], VALUES[8000:9024]
    with window:
        window.slide(rows)
        window.checkpoint()
        window._log.pages._cache.clear()
        gate.closed.add("put_many")
        down = True
        with pytest.raises(StoreUnavailable):
            window.slide(failing)
        down = False
        threading.Timer(0.1, gate.let_through.set).start()
        window.extend(others)
        window.checkpoint()
        assert verify(store, "w").problems == []
        found = [window.range_query(time, time) for time in range(5120, 6144)]
        assert found == others
    with kind.restore(store, "w", monoids.Sum(), policies.CountWindow(5120)) as window:
        assert [window.range_query(time, time) for time in range(5120, 6144)] == others


@pytest.mark.parametrize("end", ["checkpoint", "close"])
def test_a_write_that_is_under_way_is_waited_for(store: Store, end: str) -> None:
    """A checkpoint sends no page twice, and nothing arrives after a window without one was closed."""
    counting = CountingStore(store)
    gate = Gate(counting)
    gate.closed.add("put_many")
    window = new(gate)
    window.extend(VALUES[:20])
    assert gate.came.wait(300)
    threading.Timer(0.2, gate.let_through.set).start()
    getattr(window, end)()
    assert gate.done.wait(300)
    if end == "checkpoint":
        assert counting.keys_written == len(held(store))
        window.close()
    else:
        assert held(store) == []


class Garbled(WrapperStore):
    """What other threads than the first read makes no sense, and a client says so in words of its own."""

    def _around(self, call: str, action: Callable[[], T]) -> T:
        if call == "get_many" and threading.current_thread() is not threading.main_thread():
            raise ValueError("b'$5' is no number")
        return action()


@pytest.mark.parametrize("kind", [AmortizedMTA, LogMTA])
def test_whatever_a_reading_ahead_raises_nobody_waits_for_it(store: Store, kind: Any) -> None:
    with kind(monoids.Sum(), POLICY, store=store, name="w", page_size=4) as window:
        window.extend(VALUES[:SPAN])
        window.checkpoint()
    with kind.restore(Garbled(store), "w", monoids.Sum(), POLICY) as window:
        for row in range(SPAN, 2 * SPAN):
            assert window.push(VALUES[row]) == sum(VALUES[row + 1 - SPAN : row + 1])


@pytest.mark.usefixtures("often")
def test_two_threads_of_a_window_share_its_pages_without_loss(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """It writes and deletes in the background while it evicts, reads and makes checkpoints."""
    window = new(store)
    for start in range(0, 20_000, 40):
        window.extend(VALUES[start : start + 40])
        if start % 1000 == 0:
            window.checkpoint()
            oldest = window.oldest
            assert window.range_query(oldest, oldest) == VALUES[oldest]
    window.checkpoint()
    assert verify(store, "w").problems == []
    window.close()
    data, _ = store.read_root("w") or (b"", b"")
    assert set(held(store)) == {
        key for version in decode_root("w", data).versions for key in version.keys("w")
    }
    assert not caplog.records


# -- holds -------------------------------------------------------------------------------------------------


class Meeting(WrapperStore):
    """Who reads a root waits a while for somebody else who does."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self._readers = threading.Barrier(2)

    def _around(self, call: str, action: Callable[[], T]) -> T:
        found = action()
        if call == "read_root":
            try:
                self._readers.wait(0.3)
            except threading.BrokenBarrierError:
                self._readers.reset()
        return found


@pytest.mark.parametrize("kind", ["alone", "attempt"])
def test_two_threads_of_a_writer_claim_one_epoch(store: Store, kind: str) -> None:
    """The thread that writes in the background claims, and so does the one that makes a checkpoint."""
    counting = CountingStore(Meeting(store))
    hold: Ownership | AttemptHold
    if kind == "alone":
        hold = Ownership(counting, "w", 4)
    else:
        hold = AttemptHold(counting, "w", 4, None, batch=0, run="run", lease=3600)
    failures: list[BaseException] = []
    epochs = []

    def claim() -> None:
        try:
            hold.claim()
            epochs.append(hold.root.epoch)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=claim) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert counting.calls["swap_root"] == 1
    assert len(set(epochs)) == 1


def test_an_owner_of_the_same_epoch_is_another_writer(store: Store) -> None:
    """As after a copy of the store was taken up elsewhere in the same microsecond: the owner tells."""
    window = new(store)
    window.extend(VALUES[:100])
    window.checkpoint()
    data, token = store.read_root("w") or (b"", b"")
    root = decode_root("w", data)
    theirs = replace(root, owner=("elsewhere", root.owner[1], root.owner[2]))
    store.swap_root("w", encode_root("w", theirs), token)
    window.extend(VALUES[100:200])
    with pytest.raises(Fenced, match="another writer took over"):
        window.checkpoint()
    window.close()
    assert decode_root("w", (store.read_root("w") or (b"", b""))[0]) == theirs


class Removed(WrapperStore):
    """A collector deletes the root of a window, or another writer takes it, just before the next swap."""

    def __init__(self, inner: Store, instead: bytes | None = None) -> None:
        super().__init__(inner)
        self.due = False
        self._instead = instead

    def _around(self, call: str, action: Callable[[], T]) -> T:
        if call == "swap_root" and self.due:
            self.due = False
            _, token = self.inner.read_root("w") or (b"", b"")
            if self._instead is None:
                self.inner.delete_root("w", token)
            else:
                self.inner.swap_root("w", self._instead, token)
        return action()


def claimed_only(store: Store) -> None:
    """Leaves the root of a writer that was killed after its claim."""
    Ownership(store, "w", 8).claim()


def test_a_claim_begins_again_where_the_root_that_it_replaces_is_collected(store: Store) -> None:
    claimed_only(store)
    removed = Removed(store)
    removed.due = True
    with new(removed) as window:
        window.extend(VALUES[:100])
        assert window.checkpoint() == 1
        assert not removed.due
    assert verify(store, "w").problems == []


def test_a_claim_begins_again_where_another_claim_was_first(store: Store) -> None:
    claimed_only(store)
    found, _ = store.read_root("w") or (b"", b"")
    theirs = replace(decode_root("w", found), epoch=decode_root("w", found).epoch + 5000)
    removed = Removed(store, encode_root("w", theirs))
    removed.due = True
    with new(removed) as window:
        window.extend(VALUES[:100])
        assert window.checkpoint() == 1
    data, _ = store.read_root("w") or (b"", b"")
    assert decode_root("w", data).epoch >= theirs.epoch + 1024


def test_a_claim_does_not_replace_checkpoints_that_came_meanwhile(store: Store) -> None:
    with AmortizedMTA(monoids.Sum(), POLICY, store=store, name="w", page_size=4) as other:
        other.extend(VALUES[:100])
        other.checkpoint()
    theirs, token = store.read_root("w") or (b"", b"")
    store.delete_root("w", token)
    claimed_only(store)
    removed = Removed(store, theirs)
    removed.due = True
    window = new(removed)
    window.extend(VALUES[:3])
    with pytest.raises(WindowExists, match="has checkpoints"):
        window.checkpoint()
    window.close()
    assert (store.read_root("w") or (b"", b""))[0] == theirs


def test_a_claim_in_doubt_that_was_removed_stays_fenced(store: Store) -> None:
    """Its first answer is lost; at the second try the root is there, and is removed before the swap."""
    removed = Removed(store)
    lost = FaultyStore(removed, lambda call, number: call == "swap_root" and number == 2, after=True)
    hold = Ownership(lost, "w", 4)
    with pytest.raises(StoreUnavailable):
        hold.claim()
    assert store.read_root("w") is not None
    removed.due = True
    with pytest.raises(Fenced, match="was removed"):
        hold.claim()
    assert store.read_root("w") is None


def test_a_window_that_is_removed_while_it_is_restored_is_not_found(store: Store) -> None:
    with new(store) as window:
        window.extend(VALUES[:100])
        window.checkpoint()
    removed = Removed(store)
    removed.due = True
    with pytest.raises(WindowNotFound, match="no checkpoint of a window 'w'"):
        AmortizedMTA.restore(removed, "w", monoids.Sum(), POLICY)
    assert not removed.due
    assert store.read_root("w") is None
