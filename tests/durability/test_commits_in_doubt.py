"""Commits that fail, or whose answer is lost: no version that may be in the store is harmed."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from mta import AmortizedMTA, Fenced, PagesLost, monoids, policies
from mta.durability import owners
from mta.durability.coding import decode_root
from mta.durability.manifest import EPOCHS, Extents, next_epoch
from mta.durability.operations import collect, verify
from mta.window import MonoidTreeAggregator
from stores import Conflict, Store, StoreUnavailable, WrapperStore, open_store, pages_of
from stores.memory import MemoryStore
from stores.testing import FaultyStore, LateStore

POLICY = policies.CountWindow(500)
#: Element i of the stream, which no encoding makes smaller; its time is i.
VALUES = [i * 0x9E3779B97F4A7C15 % 2**40 for i in range(50_000)]


class Line:
    """A store behind a line that can be cut, before a call or after it."""

    def __init__(self) -> None:
        self.direct = MemoryStore(f"memory:{uuid.uuid4().hex}")
        self.cut: str | None = None
        self.store = FaultyStore(self.direct, lambda call, _: call == self.cut)

    def window(self, page_size: int) -> MonoidTreeAggregator:
        return AmortizedMTA(monoids.Sum(), POLICY, store=self.store, name="w", page_size=page_size)

    def restored(self, store: Store | None = None) -> MonoidTreeAggregator:
        return AmortizedMTA.restore(store or self.direct, "w", monoids.Sum(), POLICY)

    def fail(self, window: MonoidTreeAggregator, call: str, *, after: bool) -> None:
        self.cut, self.store.after = call, after
        with pytest.raises(StoreUnavailable):
            window.checkpoint()
        self.cut = None


@pytest.fixture
def line() -> Line:
    return Line()


def elements(window: MonoidTreeAggregator) -> list[int]:
    """Every element, each read from its page."""
    return [window.range_query(time, time) for time in range(window.oldest, window.youngest + 1)]


@pytest.mark.parametrize("after", [False, True], ids=["not done", "answer lost"])
@pytest.mark.parametrize("call", ["put_many", "swap_root"])
@pytest.mark.parametrize("page_size", [4, 1024])
def test_a_checkpoint_can_be_tried_again(line: Line, page_size: int, call: str, after: bool) -> None:
    window = line.window(page_size)
    window.extend(VALUES[:50])
    window.checkpoint()
    line.cut, line.store.after = call, after  # before the background writes the pages
    window.extend(VALUES[50:130])
    line.fail(window, call, after=after)
    window.extend(VALUES[130:190])
    window.checkpoint(offset=190)
    window.checkpoint(offset=190)
    assert verify(line.direct, "w").problems == []
    with line.restored() as restored:
        assert restored.offset == 190
        assert elements(restored) == VALUES[:190]


@pytest.mark.parametrize("page_size", [4, 1024])
def test_closing_after_a_lost_answer_spares_what_was_committed(line: Line, page_size: int) -> None:
    window = line.window(page_size)
    window.extend(VALUES[:50])
    window.checkpoint()
    window.extend(VALUES[50:1300])
    line.fail(window, "swap_root", after=True)
    window.close()
    assert verify(line.direct, "w").problems == []
    with line.restored() as restored:
        assert elements(restored) == VALUES[800:1300]


def test_going_on_after_a_lost_answer_spares_what_may_be_committed(line: Line) -> None:
    window = line.window(4)
    window.extend(VALUES[:1000])
    window.checkpoint()
    window.extend(VALUES[1000:2000])
    line.fail(window, "swap_root", after=True)
    for start in range(2000, 6000, 500):  # what the commit in doubt names is evicted and behind all else
        window.extend(VALUES[start : start + 500])
    window._log.pages._writer.finish()  # type: ignore[attr-defined]
    assert verify(line.direct, "w").problems == []
    with line.restored() as restored:
        assert elements(restored) == VALUES[1500:2000]


def test_a_store_that_went_back_is_not_committed_over(line: Line) -> None:
    window = line.window(4)
    window.extend(VALUES[:100])
    window.checkpoint()
    contents = line.direct._contents
    pages, roots = dict(contents.pages), dict(contents.roots)
    window.extend(VALUES[100:200])
    window.checkpoint()
    contents.pages, contents.roots = pages, roots
    window.extend(VALUES[200:210])
    with pytest.raises(Fenced, match="went back to an earlier state"):
        window.checkpoint()
    with line.restored() as restored:
        assert elements(restored) == VALUES[:100]


def test_an_emptied_store_has_lost_pages(line: Line) -> None:
    line.window(4).close()
    window = line.window(4)
    window.extend(VALUES[:1000])
    window.checkpoint()
    restored = line.restored()
    line.direct._contents.pages.clear()
    line.direct._contents.roots.clear()
    with pytest.raises(PagesLost, match=r"page \d+ of tier \d of window 'w'"):
        restored.range_query(600, 600)
    with pytest.raises(Fenced, match="was removed"):
        restored.checkpoint()


def test_pages_between_checkpoints_do_not_pile_up(line: Line) -> None:
    window = line.window(4)
    window.extend(VALUES[:1000])
    window.checkpoint()
    for start in range(1000, 50_000, 1000):
        window.extend(VALUES[start : start + 1000])
    window._log.pages._writer.finish()  # type: ignore[attr-defined]
    held = len(list(line.direct.list_keys(pages_of("w"))))
    assert held < 2 * 500 / 3 + 3 * 1000 / 3  # the version's window, this one, and a batch on its way out


def test_restarts_do_not_make_the_manifest_grow(line: Line) -> None:
    with line.window(4) as window:
        window.extend(VALUES[:600])
        window.checkpoint()
    sizes = []
    for _ in range(50):
        with line.restored() as window:
            window.push(1)
            window.evict(len(window) - 400)
            window.checkpoint()
        root = line.direct.read_root("w")
        assert root is not None
        sizes.append(len(root[0]))
    assert max(sizes) < 2000
    for _ in range(50):
        with line.restored() as window:
            window.checkpoint()
    root = line.direct.read_root("w")
    assert root is not None
    assert len(root[0]) < 2000


def test_extents_forget_epochs_without_pages() -> None:
    extents = Extents(((1, None),), 2)
    for epoch, tail in ((2, 9), (3, 10), (4, 11), (5, 12), (6, 12)):
        extents = extents.taken_over(tail, epoch)
    assert extents.ends == ((1, 9), (4, 12), (6, None))
    assert [extents.epoch_of(0, number) for number in range(4)] == [1, 1, 4, 6]


# -- who is dead ---------------------------------------------------------------------------------------------


def test_a_process_id_says_nothing_in_another_container(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = owners._host(), 2**22 + 1, 5
    assert owners.surely_dead(gone)
    assert not owners.surely_dead(owners.this_process())
    same_name = gone[0].split("/")[0]
    assert not owners.surely_dead((f"{same_name}/another/boot", *gone[1:]))
    assert not owners.surely_dead((same_name, *gone[1:]))
    assert not owners.surely_dead(("", 0, 0))
    monkeypatch.setattr(owners, "started", lambda _: 7)
    assert owners.surely_dead(gone)  # its id was given to another process


def test_epochs_are_never_used_again() -> None:
    epochs = []
    for _ in range(20):
        with open_store("memory:") as store:
            window = AmortizedMTA(monoids.Sum(), store=store, name="w")
            window.checkpoint()
            root = store.read_root("w")
            assert root is not None
            epochs.append(decode_root("w", root[0]).epoch)
    assert len(set(epochs)) == 20
    assert epochs == sorted(epochs)
    assert abs(epochs[0] - time.time() * 1e6) < 60e6
    assert next_epoch(2**60, time.time()) == 2**60 + EPOCHS


def test_a_forked_copy_of_a_writer_is_fenced(line: Line) -> None:
    window = line.window(4)
    window.extend(VALUES[:100])
    window.checkpoint()
    copy = line.window(4)
    # what a copy of the process would have: the same epoch, owner and token
    vars(copy._stored.hold).update(vars(window._stored.hold))
    copy.extend(VALUES[:100])
    window.push(1)
    window.checkpoint()
    copy.push(2)
    with pytest.raises(Fenced):
        copy.checkpoint()


def test_closing_a_forked_copy_spares_what_the_writer_committed_since(line: Line) -> None:
    window = line.window(4)
    window.extend(VALUES[:100])
    window.checkpoint()
    copy = line.window(4)
    vars(copy._stored.hold).update(vars(window._stored.hold))
    window.extend(VALUES[100:200])
    window._log.pages.flush(window._log.tail)  # type: ignore[attr-defined]
    copy._log.pages._reaper._stored = dict(window._log.pages._reaper._stored)  # type: ignore[attr-defined]
    window.checkpoint()
    copy.close()
    assert verify(line.direct, "w").problems == []


class _Between(WrapperStore):
    """Does something just before each swap of a root."""

    def __init__(self, inner: Store, before: Callable[[], object]) -> None:
        super().__init__(inner)
        self.before = before

    def _around(self, call: str, action: Any) -> Any:
        if call == "swap_root":
            self.before()
        return action()


def test_gc_before_the_commit_of_a_window_that_went_back() -> None:
    """Its parts have numbers that no retained version has passed, newer ones than its own among them."""
    policy, numbers = policies.CountWindow(10**6), [i * 0.1 for i in range(300)]
    with open_store("memory:") as inner:
        window = AmortizedMTA(monoids.Sum(), policy, store=inner, name="w", retain=5)
        for number in range(6):
            window.extend(numbers)
            window.checkpoint(offset=number)
        window.close()
        store = _Between(inner, lambda: collect(inner))
        with AmortizedMTA.restore(store, "w", monoids.Sum(), policy, version=2, retain=5) as again:
            again.extend(numbers)
            again.checkpoint(offset="after")
        assert verify(inner, "w").problems == []
        with AmortizedMTA.restore(inner, "w", monoids.Sum(), policy) as last:
            assert last.offset == "after"
            assert len(last) == 900


def test_a_claim_of_ones_own_that_comes_late_fences_nobody() -> None:
    late = True
    with open_store("memory:") as inner:
        slow = LateStore(inner, lambda call, _: late and call == "swap_root")
        store = _Between(slow, lambda: None if late else slow.deliver())
        window = AmortizedMTA(monoids.Sum(), store=store, name="w", page_size=4)
        window.extend([1, 2, 3])
        with pytest.raises(StoreUnavailable):
            window.checkpoint()
        late = False
        assert window.checkpoint() == 1
        assert window.checkpoint() == 2
        window.close()
        assert verify(inner, "w").problems == []


def test_a_renewal_whose_answer_was_lost_changes_no_lineage() -> None:
    lost = False
    with open_store("memory:") as inner:
        store = FaultyStore(inner, lambda call, _: lost and call == "swap_root", after=True)
        with AmortizedMTA(monoids.Concat(), store=store, name="w", page_size=4) as window:
            window.extend(list("good "))
            window.checkpoint()
            window.extend(list("bad "))
            window.checkpoint()
        again = AmortizedMTA.restore(store, "w", monoids.Concat(), version=1, lease=0.3)
        lost = True
        deadline = time.monotonic() + 300
        while not store.faults and time.monotonic() < deadline:
            time.sleep(0.01)
        lost = False
        again.extend(list("new "))
        again.checkpoint()
        again.close()
        root = decode_root("w", inner.read_root("w")[0])  # type: ignore[index]
        assert [version.number for version in root.versions] == [1, 3]
        with AmortizedMTA.restore(inner, "w", monoids.Concat()) as last:
            assert last.query() == "good new "


def test_closing_after_a_claim_without_an_answer_leaves_nothing() -> None:
    lost = True
    with open_store("memory:") as inner:
        store = FaultyStore(inner, lambda call, _: lost and call == "swap_root", after=True)
        window = AmortizedMTA(monoids.Sum(), store=store, name="w", page_size=4)
        window.extend(range(3))
        with pytest.raises(StoreUnavailable):
            window.checkpoint()
        assert list(inner.list_roots()) == ["w"]
        lost = False
        window.close()
        assert list(inner.list_roots()) == []


def test_a_store_that_fails_is_not_waited_for_twice_by_one_call() -> None:
    down = False
    with open_store("memory:") as inner:
        store = FaultyStore(inner, lambda call, _: down and call == "put_many")
        window = AmortizedMTA(monoids.Sum(), store=store, name="w", page_size=4)
        window.extend(range(100))
        window.checkpoint()
        down = True
        window.extend(range(400))
        window._log.pages._writer.finish()  # type: ignore[attr-defined]
        before = store.faults
        with pytest.raises(StoreUnavailable):
            window.extend(range(400))
        assert store.faults == before + 1
        down = False
        window.extend(range(400))
        assert window.query() == sum(range(100)) + 2 * sum(range(400))
        window.close()


class _Late(WrapperStore):
    """A line on which one commit gets no answer, and is done just before a later call."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.holds, self.due, self.done = False, ("", 0), False
        self.held: Callable[[], object] | None = None

    def _around(self, call: str, action: Any) -> Any:
        if call == "swap_root" and self.holds:
            self.holds, self.held = False, action
            raise StoreUnavailable("late")
        if self.held and call == self.due[0]:
            self.due = call, self.due[1] - 1
            if not self.due[1]:
                held, self.held = self.held, None
                with suppress(Conflict):
                    held()
                    self.done = True
        return action()


@pytest.mark.parametrize("due", [("swap_root", 1), ("read_root", 1), ("read_root", 2)])
@pytest.mark.parametrize("then", ["checkpoint", "renewal"])
@pytest.mark.parametrize("page_size", [2, 4, 1024])
def test_a_commit_that_is_done_late_is_not_taken_back(
    page_size: int, then: str, due: tuple[str, int]
) -> None:
    """It arrives while the writer goes on: at the swap, or at one of the reads of the root before it."""
    with open_store("memory:") as inner:
        line = _Late(inner)
        window = AmortizedMTA(
            monoids.Concat(), POLICY, store=line, name="w", page_size=page_size, retain=5, lease=1000
        )
        window._stored.checkpoints._inline = 0
        expected = ["abc", "abcdef"]
        window.extend(list("abc"))
        window.checkpoint()
        window.extend(list("def"))
        line.holds = True
        with pytest.raises(StoreUnavailable):
            window.checkpoint(offset="late")
        line.due = due
        window.extend(list("ghi"))
        if then == "renewal":
            hold = window._stored.hold
            hold._renewed = -1e9
            hold.renew()
        number = window.checkpoint(offset="next")
        versions = decode_root("w", inner.read_root("w")[0]).versions  # type: ignore[index]
        if line.done:
            expected.append("abcdefghi")
        else:  # the root was swapped before it came
            expected[1] = "abcdefghi"
        assert [version.number for version in versions] == list(range(1, len(expected) + 1))
        assert number == window._stored.version == len(expected)
        window.extend(["j"])
        assert window.checkpoint() == len(expected) + 1
        assert verify(inner, "w").problems == []
        for version, answer in enumerate(expected, 1):
            again = AmortizedMTA.restore(inner, "w", monoids.Concat(), POLICY, version=version)
            assert again.query() == answer
