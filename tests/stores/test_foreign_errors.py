"""What a handler of a signal raises in the middle of a call comes out of it, and passes for no damage."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from inspect import CO_GENERATOR
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import mta
import stores
from mta import AmortizedMTA, monoids
from mta.durability import owners
from mta.durability.operations import verify
from mta.errors import PageCorrupt, WindowError
from mta.policies import CountWindow
from stores import StoreError, open_store

#: Where our code is.
OURS = tuple(str(Path(room.__file__ or "").parent) for room in (mta, stores))


class Alarm(Exception):
    """Of a program of somebody else's."""


ALARMS = [
    TimeoutError("took too long"),
    Alarm("took too long"),
    Exception("took too long"),
    MemoryError("took too much"),
    ValueError("took too long"),
    TypeError("took too long"),
    OSError("took too long"),
    KeyError("took too long"),
    RuntimeError("took too long"),
]


class Raised:
    """Does a call with an alarm in place of its call of some number, as a handler of a signal raises it."""

    def __init__(self, call: Callable[[], object], number: int, alarm: BaseException) -> None:
        self._call, self._left, self._alarm = call, number, alarm
        #: whether the alarm was raised, and what came out
        self.raised = False
        self.error: BaseException | None = None
        try:
            sys.setprofile(self._profile)
            call()
        except BaseException as error:
            self.error = error
        finally:
            sys.setprofile(None)

    def _profile(self, frame: FrameType, event: str, called: Any) -> None:
        if event not in ("call", "c_call") or frame.f_code.co_filename == __file__ or self.raised:
            return
        if event == "c_call" and called.__name__ == "__exit__":
            return  # CPython takes no signal between the end of a `with` and the release of its lock
        if not frame.f_code.co_filename.startswith(OURS):
            return  # the libraries of others may keep some errors for themselves
        if frame.f_code.co_flags & CO_GENERATOR:
            return  # which may be closed here, and then nothing comes out of it
        self._left -= 1
        if self._left < 0:
            self.raised = True
            raise self._alarm


def alarmed(call: Callable[[], object], alarm: BaseException, step: int = 1) -> Iterator[tuple[int, Raised]]:
    """The call with an alarm at each place in it, and once without."""
    number = 0
    while True:
        done = Raised(call, number, alarm)
        yield number, done
        if not done.raised:
            return
        number += step


def came_out(done: Raised, alarm: BaseException) -> bool:
    if done.error is None or isinstance(done.error, (StoreError, WindowError)):
        return not done.raised
    return done.error is alarm or isinstance(done.error, type(alarm))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    with open_store(f"rocksdb://{tmp_path}/data") as store:
        window = AmortizedMTA(monoids.Concat(), CountWindow(20), store=store, name="w", page_size=4)
        window.extend(list("abcdefghijklmnopqrstuvwxyz"))
        window.checkpoint()
        window.close()
    return tmp_path / "data"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("alarm", ALARMS[:5], ids=lambda alarm: type(alarm).__name__)
def test_an_alarm_while_a_directory_is_opened(directory: Path, alarm: Exception) -> None:
    store: Any = None

    def opened() -> None:
        nonlocal store
        store = open_store(f"rocksdb://{directory}")
        assert store.read_root("w")
        store.put_many({"key": b"x"})
        store.delete_many(["key"])

    wrong = []
    for number, done in alarmed(opened, alarm):
        if not came_out(done, alarm):
            wrong.append((number, done.error))
        if store is not None:
            store.close()
    assert wrong == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("alarm", ALARMS[:3], ids=lambda alarm: type(alarm).__name__)
def test_an_alarm_while_a_directory_is_closed(directory: Path, alarm: Exception) -> None:
    number, raised = 0, True
    while raised:
        store = open_store(f"rocksdb://{directory}")
        store.put_many({"key": b"x"})
        store.delete_many(["key"])
        done = Raised(store.close, number, alarm)
        assert came_out(done, alarm), (number, done.error)
        number, raised = number + 1, done.raised
        store.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("make", "alarm"),
    [
        *((monoids.Concat, alarm) for alarm in ALARMS),
        (monoids.Collect, ALARMS[0]),
        (monoids.CountDistinct, ALARMS[1]),
        (monoids.Sum, ALARMS[4]),
    ],
    ids=lambda each: getattr(each, "__name__", type(each).__name__),
)
def test_an_alarm_while_a_window_is_restored(make: Any, alarm: Exception) -> None:
    with open_store("memory:") as store:
        with AmortizedMTA(make(), CountWindow(20), store=store, name="w", page_size=4) as window:
            window.extend(list(range(26)) if make is monoids.Sum else list("abcdefghijklmnopqrstuvwxyz"))
            window.checkpoint()
        with AmortizedMTA.restore(store, "w", make(), CountWindow(20)) as window:
            wanted = window.range_query(-1, 100)
        found: Any = None

        def restored() -> None:
            nonlocal found
            with AmortizedMTA.restore(store, "w", make(), CountWindow(20)) as window:
                found = window.range_query(-1, 100)

        for number, done in alarmed(restored, alarm, step=3):
            assert came_out(done, alarm), (number, done.error)
        assert found == wanted
        assert verify(store, "w", make()).problems == []
        for number, done in alarmed(lambda: verify(store, "w", make()), alarm, step=5):
            assert came_out(done, alarm), (number, done.error)


class Guarded(monoids.Monoid):
    """Its own errors are of no known kind."""

    class Refused(Exception):
        pass

    identity = ""

    def lift(self, value: Any) -> Any:
        return value

    def combine(self, older: Any, younger: Any) -> Any:
        return older + younger

    def unpack(self, packed: Any) -> Any:
        if "x" in packed:
            raise self.Refused(packed)
        return packed

    check_row = unpack


def test_what_a_monoid_refuses_is_damage_whatever_it_raises() -> None:
    with open_store("memory:") as store:
        with AmortizedMTA(Guarded(), CountWindow(20), store=store, name="w", page_size=4) as window:
            window.extend(["abcx"])
            window.checkpoint()
        problems = verify(store, "w", Guarded()).problems
        assert problems
        assert all("none of Guarded(): abcx" in each for each in problems)
        with pytest.raises(PageCorrupt, match=r"none of Guarded\(\): abcx"):
            AmortizedMTA.restore(store, "w", Guarded(), CountWindow(20))


class Full(Guarded):
    """Has no room to unpack."""

    def unpack(self, packed: Any) -> Any:  # noqa: ARG002
        raise MemoryError

    check_row = unpack


def test_memory_that_runs_out_is_no_damage() -> None:
    with open_store("memory:") as store:
        with AmortizedMTA(Guarded(), CountWindow(20), store=store, name="w", page_size=4) as window:
            window.extend(list("abcd"))
            window.checkpoint()
        full = Full()
        full.fingerprint = Guarded().fingerprint  # type: ignore[method-assign]
        with pytest.raises(MemoryError):
            AmortizedMTA.restore(store, "w", full, CountWindow(20)).query()
        with pytest.raises(MemoryError):
            verify(store, "w", full)


@pytest.mark.parametrize("alarm", ALARMS, ids=lambda alarm: type(alarm).__name__)
def test_an_alarm_makes_no_owner_dead(alarm: Exception) -> None:
    mine = owners.this_process()
    found: Any = None

    def asked() -> None:
        nonlocal found
        owners._host.cache_clear()
        found = owners.this_process(), owners.surely_dead(mine)

    for number, done in alarmed(asked, alarm):
        assert came_out(done, alarm), (number, done.error)
    assert found == (mine, False)


def test_an_owner_that_is_not_listed_may_live(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some systems list a user no processes of others."""
    host, _, start = owners.this_process()
    listed = owners._listed
    monkeypatch.setattr(owners, "_listed", lambda pid: listed(pid) if pid == os.getpid() else None)
    assert not owners.surely_dead((host, os.getppid(), start))
    assert not owners.surely_dead((host, 1, start))
    assert owners.surely_dead((host, 2**22 + 1, start))
    assert owners.surely_dead((host, 2**62, start))


def test_who_cannot_look_knows_of_no_death(monkeypatch: pytest.MonkeyPatch) -> None:
    host, pid, start = owners.this_process()

    def out_of_descriptors(pid: int) -> list[str]:  # noqa: ARG001
        raise OSError(errno.EMFILE, "Too many open files")

    assert owners.surely_dead((host, pid, start + 1))
    monkeypatch.setattr(owners, "_listed", out_of_descriptors)
    assert not owners.surely_dead((host, pid, start + 1))
    with pytest.raises(OSError, match="Too many"):
        owners.this_process()
