"""Leases: what is open stays, whatever the clocks say, and what nobody has any more goes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from chance import fresh

from mta import AmortizedMTA, Fenced, monoids, policies
from mta.durability import leases
from mta.durability.attempts import AttemptHold
from mta.durability.coding import decode_root
from mta.durability.operations import collect, verify
from mta.window import MonoidTreeAggregator
from stores import Store, StoreUnavailable, WrapperStore, open_store, pages_of
from stores.patience import Patience, at_most
from stores.testing import FaultyStore

LEASE = 0.6
POLICY = policies.CountWindow(1000)


@pytest.fixture
def name() -> str:
    return fresh("lease")


def leased(store: Store, name: str, lease: float = LEASE) -> MonoidTreeAggregator:
    return AmortizedMTA(monoids.Sum(), POLICY, store=store, name=name, page_size=256, lease=lease)


def lease_of(store: Store, name: str) -> float:
    found = store.read_root(name)
    assert found is not None
    lease = decode_root(name, found[0]).lease
    assert lease is not None
    return lease


def until(condition: Callable[[], object], seconds: float = 300.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("idle", [False, True])
def test_a_window_in_use_outlives_its_lease_many_times(any_store: Store, name: str, idle: bool) -> None:
    """It fills no page and makes no checkpoint meanwhile."""
    with leased(any_store, name) as window:
        window.extend(range(600))
        window.checkpoint(offset="here")
        first, added = lease_of(any_store, name), 0
        while lease_of(any_store, name) < first + 4 * LEASE:
            if not idle and added < 100:
                window.push(1)
                added += 1
            time.sleep(0.02)
            collect(any_store, grace=5)
        window.checkpoint(offset="there")
        assert verify(any_store, name).problems == []
    with AmortizedMTA.restore(any_store, name, monoids.Sum(), POLICY) as again:
        assert again.offset == "there"
        assert again.query() == sum(range(600)) + added


def test_a_window_that_is_closed_or_dropped_is_renewed_no_more(any_store: Store, name: str) -> None:
    closed = leased(any_store, name)
    closed.extend(range(600))
    closed.checkpoint()
    closed.close()
    other = f"{name}-dropped"
    dropped: Any = leased(any_store, other)
    dropped.extend(range(600))
    dropped.checkpoint()
    del dropped
    until(lambda: {each.name for each in collect(any_store, grace=0) if each.root} or _gone(any_store, name))
    until(lambda: collect(any_store, grace=0) is not None and _gone(any_store, name, other))
    for each in (name, other):
        assert list(any_store.list_keys(pages_of(each))) == []


def _gone(store: Store, *names: str) -> bool:
    return all(store.read_root(each) is None for each in names)


def test_a_writer_that_was_fenced_renews_nothing(name: str) -> None:
    with open_store("memory:") as store:
        old = leased(store, name, lease=0.05)
        old.extend(range(600))
        old.checkpoint()
        with AmortizedMTA.restore(store, name, monoids.Sum(), POLICY) as new:
            token = store.read_root(name)[1]  # type: ignore[index]
            until(lambda: not len(leases._renewals._leases))
            assert store.read_root(name)[1] == token  # type: ignore[index]
            with pytest.raises(Fenced):
                old.checkpoint()
            new.checkpoint()
        old.close()


def test_a_store_that_fails_for_a_while_ends_no_lease(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "RETRY", 0.01)
    down = False
    with open_store("memory:") as inner:
        store = FaultyStore(inner, lambda *_: down)
        with leased(store, name, lease=0.2) as window:
            window.extend(range(600))
            window.checkpoint()
            down = True
            until(lambda: store.faults > 3)
            down = False
            before = lease_of(inner, name)
            until(lambda: lease_of(inner, name) > before)
            window.checkpoint()


def test_a_renewal_does_not_take_a_commit_back_whose_answer_was_lost(name: str) -> None:
    with open_store("memory:") as inner:
        lost = False
        store = FaultyStore(inner, lambda call, _: lost and call in ("swap_root", "read_root"), after=True)
        with leased(store, name, lease=0.3) as window:
            window.extend(range(600))
            assert window.checkpoint() == 1
            lost = True
            with pytest.raises(Exception, match="injected fault"):
                window.checkpoint(offset="committed")
            before = lease_of(inner, name)
            lost = False
            until(lambda: lease_of(inner, name) > before)
            root = decode_root(name, inner.read_root(name)[0])  # type: ignore[index]
            assert [version.number for version in root.versions] == [1, 2]
            window.extend(range(300))
            assert window.checkpoint() == 3
            assert verify(inner, name).problems == []


def test_an_attempt_at_work_is_renewed(name: str) -> None:
    with open_store("memory:") as store:
        hold = AttemptHold(store, name, 4, None, batch=0, run="run", lease=0.2)
        hold.claim()

        def until_when() -> float:
            found = store.read_root(name)
            assert found is not None
            return decode_root(name, found[0]).attempts[0].lease

        first = until_when()
        until(lambda: until_when() > first + 0.4)
        hold.let_go()
        assert store.read_root(name) is None


@pytest.mark.redis
def test_a_host_whose_clock_is_ahead_removes_nothing(
    redis_url: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(redis_url) as store, leased(store, name, lease=30) as window:
        window.extend(range(600))
        window.checkpoint()
        now = time.time
        monkeypatch.setattr(time, "time", lambda: now() + 700)
        with open_store(redis_url) as elsewhere:
            assert abs(elsewhere.now() - now()) < 60
            assert not [each for each in collect(elsewhere) if each.name == name]
        assert verify(store, name).problems == []


class HangingStore(WrapperStore):
    """Its calls of some windows' roots wait for an event; its clock is the test's."""

    def __init__(self, inner: Store, clock: Clock, hangs: Callable[[str], bool] = lambda _: True) -> None:
        super().__init__(inner)
        self.clock, self.hangs = clock, hangs
        self.answers = threading.Event()
        self.answers.set()
        self.waiting = 0

    def now(self) -> float:
        return self.clock.time

    def _swap_root(self, name: str, data: bytes, expected_token: Any) -> Any:
        if not self.answers.is_set() and self.hangs(name):
            self.waiting += 1
            self.answers.wait(60)
            raise StoreUnavailable("the store hung")
        return self.inner.swap_root(name, data, expected_token)


class Clock:
    """Of leases and stores; it goes on when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.time = 1000.0
        monkeypatch.setattr(leases, "now", lambda: self.time)

    def go_on(self, seconds: float) -> None:
        self.time += seconds
        leases._renewals._changed.put(None)


def test_a_store_that_hangs_keeps_no_other_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    with open_store("memory:") as one, open_store("memory:") as other:
        hanging, well = HangingStore(one, clock), HangingStore(other, clock)
        holds = [leased(hanging, f"hanging-{number}", lease=30) for number in range(3 * leases.MOST)]
        window = leased(well, "well", lease=30)
        for each in (*holds, window):
            each.extend(range(600))
            each.checkpoint()
        hanging.answers.clear()
        for _ in range(6):
            before = lease_of(other, "well")
            clock.go_on(11)
            until(lambda before=before: lease_of(other, "well") > before)
            collect(well, grace=0)
        assert hanging.waiting
        assert verify(other, "well").problems == []
        window.checkpoint()
        hanging.answers.set()
        for each in (*holds, window):
            each.close()


def test_windows_that_hang_keep_no_others_of_their_store_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where one server of many is gone: those of it that failed once have half of the threads."""
    clock = Clock(monkeypatch)
    with open_store("memory:") as inner:
        store = HangingStore(inner, clock, lambda name: name.startswith("gone"))
        gone = [leased(store, f"gone-{number}", lease=30) for number in range(leases.MOST - 1)]
        well = [leased(store, f"well-{number}", lease=30) for number in range(3 * leases.MOST)]
        for each in (*gone, *well):
            each.extend(range(600))
            each.checkpoint()
        store.answers.clear()
        for round in range(4):
            before = {each.name: lease_of(inner, each.name) for each in well}
            clock.go_on(11)
            until(lambda before=before: all(lease_of(inner, name) > then for name, then in before.items()))
            collect(store, grace=0)
            if round == 1:  # they fail, are tried again, and have half of the threads from then on
                store.answers.set()
                until(lambda: any(turn.failed for turn in leases._renewals._leases.values()))
                store.answers.clear()
        for each in well:
            assert verify(inner, each.name).problems == []
        store.answers.set()
        for each in (*gone, *well):
            each.close()


def test_a_window_whose_writer_is_at_its_root_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    with open_store("memory:") as inner:
        store = HangingStore(inner, clock)
        windows = [leased(store, f"window-{number}", lease=30) for number in range(leases.MOST + 2)]
        for window in windows:
            window.extend(range(600))
            window.checkpoint()
        *busy, free = windows
        holds: dict[str, Any] = {hold._name: hold for hold in list(leases._renewals._leases)}  # type: ignore[attr-defined]
        locks = [holds[window.name]._lock for window in busy]
        for lock in locks:
            lock.acquire()
        before = lease_of(inner, free.name)
        clock.go_on(11)
        until(lambda: lease_of(inner, free.name) > before)
        for lock in locks:
            lock.release()
        clock.go_on(2)
        until(lambda: all(lease_of(inner, window.name) > before for window in busy))
        for window in windows:
            window.close()


def test_where_no_thread_can_start_leases_are_renewed_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    with open_store("memory:") as inner:
        store = HangingStore(inner, clock)
        windows = [leased(store, f"window-{number}", lease=30) for number in range(5)]
        for window in windows:
            window.extend(range(600))
            window.checkpoint()

        def none_left(*_: object) -> None:
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(leases._thread, "start_new_thread", none_left)
        before = lease_of(inner, windows[0].name)
        clock.go_on(11)
        until(lambda: all(lease_of(inner, window.name) > before for window in windows))
        monkeypatch.undo()
        for window in windows:
            window.close()


def test_an_error_that_nobody_expects_ends_no_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    with open_store("memory:") as inner:
        store = HangingStore(inner, clock)
        with leased(store, "window", lease=30) as window:
            window.extend(range(600))
            window.checkpoint()
            before, tried = lease_of(inner, "window"), threading.Event()

            def wrong(*_: object) -> Any:
                tried.set()
                raise LookupError

            store._swap_root = wrong  # type: ignore[method-assign]
            clock.go_on(11)
            assert tried.wait(60)
            del store._swap_root
            until(lambda: clock.go_on(2) is None and lease_of(inner, "window") > before)


def test_a_renewal_is_no_more_patient_than_the_lease() -> None:
    patience = Patience(3600.0)
    with at_most(5.0):
        assert patience.budget().left <= 5.0
        with at_most(60.0):
            assert patience.budget().left <= 5.0
        assert Patience(0.01).budget().left <= 0.01
    with at_most(-1.0):
        assert patience.budget().left == 0.0
    assert patience.budget().left > 3000


@pytest.fixture(autouse=True)
def no_lease_is_left() -> Iterator[None]:
    yield
    leases._renewals.end_all()


@pytest.mark.parametrize("lease", [0.03, 0.6, 3.0, 60.0])
@pytest.mark.parametrize("fails", [False, True])
def test_a_short_lease_is_due_again_before_it_is_over(
    lease: float, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pause after a renewal is no longer than the part of a lease after which it is renewed."""
    moment = 1000.0
    monkeypatch.setattr(leases, "now", lambda: moment)

    class Hold:
        store = None

        def renew_if_free(self) -> None:
            if fails:
                raise StoreUnavailable("down")

    hold: Any = Hold()
    hold.lease = lease
    turn = leases._Turn()
    leases._Renewals()._renew(hold, turn, 0.1)
    assert turn.failed == fails
    assert turn.not_before <= moment + lease / 3
