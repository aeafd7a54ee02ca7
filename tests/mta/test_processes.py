"""A window among threads and processes."""

from __future__ import annotations

import _thread
import copy
import os
import pickle
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from chance import fresh

from mta import AmortizedMTA, ConcurrentUse, LogMTA, WindowClosed, monoids, policies
from mta.durability.operations import verify
from stores import Store, open_store

KINDS = [AmortizedMTA, LogMTA]


def threads_of_this_process() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


# -- several threads ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "call"),
    [(AmortizedMTA, "insert"), *((kind, call) for kind in KINDS for call in ("push", "extend", "slide"))],
)
def test_a_second_thread_is_noticed(kind: Any, call: str) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def slow(older: str, younger: str) -> str:
        if "slow" in (older, younger) and not inside.is_set():
            inside.set()
            assert go_on.wait(300)
        return older + younger

    window = kind(monoids.from_function(slow, ""), policies.CountWindow(5))
    window.extend(list("abcdef"))
    outcome: list[object] = []

    def first() -> None:
        try:
            argument = "slow" if call in ("insert", "push") else ["slow", "er"]
            outcome.append(getattr(window, call)(argument))
            outcome.append(window.query())
        except ConcurrentUse as error:
            outcome.append(error)

    thread = threading.Thread(target=first)
    thread.start()
    assert inside.wait(300)
    calls: list[Callable[[], object]] = [
        lambda: window.push("x"),
        lambda: window.insert("x"),
        lambda: window.slide(["x"] * 9),
        lambda: window.extend(["x"] * 9),
        window.evict,
        lambda: window.evict(2),
        lambda: window.evict_until(3),
        window.enforce,
        window.query,
        lambda: window.range_query(0, 9),
        window.close,
    ]
    for second in calls:
        with pytest.raises(ConcurrentUse, match="lock"):
            second()
    go_on.set()
    thread.join()
    assert not isinstance(outcome[0], ConcurrentUse)
    added = "slow" if call in ("insert", "push") else "slower"
    window.enforce()
    assert window.query() == {"slow": "cdefslow", "slower": "defslower"}[added]
    assert window.push("y")[-1] == "y"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stored", [False, True])
def test_an_operator_that_calls_its_window(kind: Any, stored: bool) -> None:
    """As another thread would at that moment: what it adds must not take the place of anything."""
    for number in range(1, 60):
        made = [0]

        windows: list[Any] = []

        def add(older: int, younger: int, made: Any = made, number: int = number, of: Any = windows) -> int:
            made[0] += 1
            if made[0] == number and of:
                with pytest.raises(ConcurrentUse):
                    of[0].extend([1] * 16)
            return older + younger

        with open_store("memory:") as store:
            window = kind(
                monoids.from_function(add, 0, name="add"), store=store if stored else None, page_size=4
            )
            windows.append(window)
            window.slide([0] * 8)
            window.extend([1000] * 16)
            assert window.query() == sum(window.range_query(t, t) for t in range(len(window))) == 16_000
            window.close()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("page_size", [2, 256, None])
def test_many_threads_count_right_or_are_told(kind: Any, page_size: int | None) -> None:
    window = kind(monoids.Sum(), policies.CountWindow(10**9), page_size=page_size)
    added = [0] * 8

    def work(number: int) -> None:
        for turn in range(1000):
            with suppress(ConcurrentUse):
                if turn % 10:
                    window.insert(1, 0)
                    added[number] += 1
                else:
                    window.slide([1] * 30, [0] * 30)
                    added[number] += 30

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert window.query() == len(window) == sum(added)
    assert window.range_query(0, 0) == sum(added)


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_that_ends_while_it_refuses_another_is_no_closed_window(kind: Any) -> None:
    class Ending(kind):  # type: ignore[misc]
        """Met while it is in a call, which then ends."""

        @property
        def _busy(self) -> bool:
            self.met = not getattr(self, "met", False)
            return self.met

        @_busy.setter
        def _busy(self, _: bool) -> None: ...

    window = Ending(monoids.Sum())
    with pytest.raises(ConcurrentUse):
        window.insert(1)


# -- threads of ours ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lease", [None, 60.0])
def test_a_thread_that_cannot_start_changes_nothing(
    kind: Any, lease: float | None, any_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_thread(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_thread, "start_new_thread", no_thread)
    monkeypatch.setattr(threading, "_start_new_thread", no_thread)
    policy, name = policies.CountWindow(100), fresh("no-threads")
    window = kind(monoids.Concat(), policy, store=any_store, name=name, page_size=4, lease=lease)
    text = ""
    for number in range(300):
        text = (text + "abcdefg"[number % 7])[-100:]
        assert window.push("abcdefg"[number % 7]) == text
    assert window.range_query(0, 10**6) == text
    window.checkpoint()
    window.extend(list("xyz") * 70)
    window.checkpoint()
    window.close()
    assert verify(any_store, name).problems == []
    with kind.restore(any_store, name, monoids.Concat(), policy) as again:
        assert again.query() == ("xyz" * 70)[-100:]


def test_the_buffer_is_looked_at_and_changed_under_its_lock(caplog: pytest.LogCaptureFixture) -> None:
    """Pages come while the background looks for what to write, and lets go of what it has written."""

    class Watched(OrderedDict[Any, Any]):
        def __iter__(self) -> Iterator[Any]:
            assert buffer._lock.locked()
            return super().__iter__()

        def __setitem__(self, name: Any, page: Any) -> None:
            assert buffer._lock.locked()
            super().__setitem__(name, page)

        def __delitem__(self, name: Any) -> None:
            assert buffer._lock.locked()
            super().__delitem__(name)

    with open_store("memory:") as store:
        window = AmortizedMTA(monoids.Sum(), policies.CountWindow(50), store=store, name="w", page_size=2)
        buffer: Any = window._log.pages._buffer  # type: ignore[attr-defined]
        buffer._pages = Watched()
        for number in range(200):
            window.push(number)
        window.checkpoint()
        window.close()
    assert not caplog.records


def test_many_windows_share_few_threads() -> None:
    with open_store("memory:") as store:
        before = threads_of_this_process()
        windows = [
            AmortizedMTA(monoids.Sum(), policies.CountWindow(50), store=store, name=f"w{n}", page_size=4)
            for n in range(400)
        ]
        for window in windows:
            window.extend(range(100))
            window.checkpoint()
            assert threads_of_this_process() <= before + 2
        for window in windows:
            assert window.query() == sum(range(50, 100))
            window.close()


def test_a_small_window_starts_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[object] = []
    start = _thread.start_new_thread
    monkeypatch.setattr(_thread, "start_new_thread", lambda *a: (started.append(a), start(*a))[1])
    with open_store("memory:") as store:
        window = AmortizedMTA(monoids.Sum(), policies.CountWindow(3), store=store, name="w")
        for number in range(10):
            window.push(number)
        window.checkpoint()
        window.checkpoint()
        window.close()
        with AmortizedMTA.restore(store, "w", monoids.Sum(), policies.CountWindow(3)) as again:
            again.push(1)
            again.slide([1, 2, 3, 4])
    assert started == []


# -- forks --------------------------------------------------------------------------------------------------


def in_child(work: Any) -> str:
    """What a forked child returns, or the error that it met."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            try:
                said = f"{work()}"
            except BaseException as error:
                said = f"{type(error).__name__}: {error}"
            os.write(writing, said.encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("committed", [False, True])
def test_a_window_belongs_to_the_process_that_opened_it(kind: Any, committed: bool, tmp_path: Path) -> None:
    # a store that a child can use, so that it could do harm
    with open_store(f"rocksdb:{tmp_path}/db") as store:
        policy = policies.CountWindow(30_000)
        with kind(monoids.Sum(), policy, store=store, name="w", page_size=256) as window:
            window.extend(range(40_000))
            if committed:
                window.checkpoint()

            def leave() -> str:
                with window:
                    pass
                return "left"

            assert in_child(leave) == "left"
            calls = {
                "push": lambda: window.push(1),
                "insert": lambda: window.insert(1),
                "slide": lambda: window.slide([1]),
                "extend": lambda: window.extend([1]),
                "evict": window.evict,
                "query": window.query,
                "range_query": lambda: window.range_query(0, 1),
                "evict_until": lambda: window.evict_until(5),
                "enforce": window.enforce,
                "checkpoint": window.checkpoint,
            }
            for call in calls.values():
                said = in_child(call)
                assert said.startswith("WindowClosed")
                assert "forked" in said
            window.slide(range(40_000, 50_000))
            assert window.query() == sum(range(20_000, 50_000))
            window.checkpoint()
        assert verify(store, "w").problems == []


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_window_in_memory_is_a_copy_in_a_child() -> None:
    window = AmortizedMTA(monoids.Sum(), policies.CountWindow(3))
    window.extend([1, 2, 3])
    assert in_child(lambda: window.push(4)) == "9"
    assert window.push(5) == 10


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_opens_windows_of_its_own_in_a_store_it_inherited() -> None:
    with open_store("memory:") as store:
        window = AmortizedMTA(monoids.Sum(), policies.CountWindow(100), store=store, name="w", page_size=4)
        window.extend(range(1000))
        window.checkpoint()

        def work() -> int:
            with AmortizedMTA(
                monoids.Sum(), policies.CountWindow(100), store=store, name="mine", page_size=4
            ) as mine:
                for number in range(1000):
                    mine.push(number)
                mine.checkpoint()
                return int(mine.query())

        assert in_child(work) == str(sum(range(900, 1000)))
        window.close()


# -- copies -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_window_cannot_be_copied(kind: Any, copied: Any) -> None:
    window = kind(monoids.Sum())
    with pytest.raises(TypeError, match=r"neither copied nor pickled: make a checkpoint and restore"):
        copied(window)


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_window_is_made_of_cannot_be_replaced(kind: Any) -> None:
    window = kind(monoids.Sum(), policies.CountWindow(3))
    for name in ("policy", "monoid", "store", "name", "page_size", "offset", "version"):
        with pytest.raises(AttributeError):
            setattr(window, name, None)


def test_closing_again_goes_on_where_it_was_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store("memory:") as store:
        window = AmortizedMTA(monoids.Sum(), store=store, name="w", page_size=4)
        window.extend(range(100))
        pages = window._log.pages
        forget = pages.forget  # type: ignore[attr-defined]

        def interrupted(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(pages, "forget", interrupted)
        with pytest.raises(KeyboardInterrupt):
            window.close()
        monkeypatch.setattr(pages, "forget", forget)
        with pytest.raises(WindowClosed):
            window.push(1)
        window.close()
        deadline = time.monotonic() + 300
        while list(store.list_keys("")) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert list(store.list_keys("")) == []
        assert list(store.list_roots()) == []
