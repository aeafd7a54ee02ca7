"""A call happened or it did not, wherever anything raises."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from test_reference import make
from window_kinds import MONOIDS

from mta import ConcurrentUse, monoids
from mta.slicing import Delta, Session, Slicer, Sliding, Tumbling
from stores.memory import MemoryStore

QUERIES = {"ten": Tumbling(10), "slide": Sliding(25, 7), "visit": Session(4)}
ROWS = {**QUERIES, "count": Tumbling(3, measure="count"), "delta": Delta(None, 5)}
OPTIONS: list[dict[str, Any]] = [
    {},
    {"every_tuples": 3},
    {"changes_only": True},
    {"by": lambda value: value % 2},
]


class Boom(Exception):
    pass


class Failing:
    """`steps`, of which call number `at` raises."""

    def __init__(self) -> None:
        kind, _ = MONOIDS["steps"]
        self.calls, self.at = 0, -1
        self.monoid = monoids.from_function(
            self._counted(kind.combine), (1, 0), lift=self._counted(kind.lift), name="steps"
        )

    def _counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            self.calls += 1
            if self.calls == self.at:
                raise Boom
            return function(*arguments)

        return call


def calls_of() -> list[Callable[[Slicer], Any]]:
    """Some of everything: in order, late, between sessions, batches, watermarks, queries that come and go."""
    tuples = [(1, 3), (5, 4), (2, 9), (7, 21), (3, 15), (9, 12), (4, 40), (6, 8), (8, 22), (1, 55), (2, 18)]
    calls: list[Callable[[Slicer], Any]] = [lambda s, v=v, t=t: s.insert(v, time=t) for v, t in tuples]
    calls.insert(4, lambda s: s.watermark(12))
    calls.insert(8, lambda s: s.extend([3, 1, 4, 1, 5], [30, 11, 41, 59, 26]))
    calls.insert(9, lambda s: s.watermark(30))
    calls.insert(10, lambda s: s.add("more", Tumbling(6)))
    calls.append(lambda s: s.extend([9, 2, 6, 5, 3], [31, 29, 62, 45, 58]))
    calls.append(lambda s: s.watermark(50))
    calls.append(lambda s: s.remove("ten"))
    calls.append(lambda s: s.watermark(90))
    return calls


@pytest.mark.parametrize("options", OPTIONS, ids=lambda each: next(iter(each), "plain"))
@pytest.mark.parametrize("store", ["lazy", "eager"])
def test_an_operator_that_raises(store: str, options: dict[str, Any]) -> None:
    """Each call is made to fail at each of its combines and lifts, and made again."""
    failing = Failing()
    slicer = Slicer(failing.monoid, ROWS, lateness=40, store=store, **options)
    twin = Slicer(MONOIDS["steps"][0], ROWS, lateness=40, store=store, **options)
    by = {"by": options["by"]} if "by" in options else {}
    failures = 0
    for call in calls_of():
        expected = call(twin)
        before = slicer.dump()
        ahead = 1
        while True:
            failing.at = failing.calls + ahead
            try:
                got = call(slicer)
                break
            except Boom:
                failures += 1
                ahead += 1
                failing.at = -1
                assert slicer.dump() == before
        failing.at = -1
        assert got == expected
    assert failures > 50
    again = Slicer.load(slicer.dump(), failing.monoid, store=store, **by)
    assert again.watermark(200) == twin.watermark(200)


class Broken(MemoryStore):
    """A store whose call number `at` raises, in the foreground or in the background."""

    calls, at, raised = 0, -1, 0

    def _count(self) -> None:
        self.calls += 1
        if self.calls == self.at:
            self.raised += 1
            raise Boom


def _failing(name: str) -> Callable[..., Any]:
    inner = getattr(MemoryStore, name)

    def call(self: Broken, *arguments: Any, **more: Any) -> Any:
        self._count()
        return inner(self, *arguments, **more)

    return call


for _name in ("_put_many", "_get_many", "_swap_root", "_delete_many", "_read_root"):
    setattr(Broken, _name, _failing(_name))


def test_a_store_that_raises() -> None:
    """Calls of the store are made to fail, and the calls of the slicer made again."""
    kind, _ = MONOIDS["steps"]
    for ahead in range(1, 30):
        store = Broken()
        slicer = Slicer(kind, QUERIES, lateness=10, store=store, page_size=2, local=0, name="s")
        twin = Slicer(kind, QUERIES, lateness=10)
        for start in range(0, 300, 20):
            times = [start + each * 7 % 20 for each in range(18)]
            values = [each % 9 for each in range(18)]
            calls: list[Callable[[Slicer], Any]] = [
                lambda s, v=values, t=times: s.extend(v, t),  # type: ignore[misc]
                lambda s, at=start + 12: s.watermark(at),  # type: ignore[misc]
            ]
            for call in calls:
                expected = call(twin)
                assert _tried(call, slicer, store, ahead) == expected
            _tried(Slicer.checkpoint, slicer, store, ahead)
        store.at = -1
        slicer.close()
        assert store.raised


def _tried(call: Callable[[Slicer], Any], slicer: Slicer, store: Broken, ahead: int) -> Any:
    """The result of a call, which is made again if it fails the first time."""
    if store.at <= store.calls:  # the last fault has been
        store.at = store.calls + ahead
    try:
        return call(slicer)
    except Exception as error:
        told = error if isinstance(error, Boom) else error.__cause__
        if not isinstance(told, Boom):
            raise
        store.at = -1
        return call(slicer)


class Injected(BaseException):
    """Like KeyboardInterrupt, so that nothing takes it for an error of its own."""


def fails(call: Callable[[], object], number: int) -> bool:
    """Makes a call whose inner call `number` fails; returns False if it makes fewer inner calls."""
    since = 0

    def profile(frame: FrameType, event: str, called: Any) -> None:
        nonlocal since
        if event not in ("call", "c_call") or frame.f_code.co_filename == __file__:
            return
        if event == "c_call" and called.__name__ == "__exit__":
            return  # CPython takes no signal between the end of a `with` and the release of its lock
        since += 1
        if since == number:
            raise Injected

    sys.setprofile(profile)
    try:
        call()
    except Injected:
        pass
    finally:
        sys.setprofile(None)
    return since >= number


INTERRUPTED: dict[str, Callable[[Slicer], Any]] = {
    "in order": lambda s: s.insert(100, time=62),
    "in order, a new slice": lambda s: s.insert(100, time=75),
    "late, inside": lambda s: s.insert(100, time=51),
    "late, fused": lambda s: s.insert(100, time=56),
    "late, of its own": lambda s: s.insert(100, time=44),
    "behind the watermark": lambda s: s.insert(100, time=31),
    "late for sessions only": lambda s: s.insert(100, time=2),
    "a batch": lambda s: s.extend([100, 200, 300, 400], [70, 44, 56, 90]),
    "a watermark": lambda s: s.watermark(58),
    "a query more": lambda s: s.add("more", Tumbling(6)),
    "a query less": lambda s: s.remove("ten"),
    "a checkpoint": lambda s: s.checkpoint(7) if s.leaves else None,
}


def prepared(store: str, options: dict[str, Any]) -> Slicer:
    slicer = make(store, monoids.Sum(), QUERIES, lateness=20, **options)
    for value, time in enumerate([3, 4, 9, 12, 13, 20, 22, 30, 33, 34, 41, 50, 52, 53, 59, 60]):
        slicer.insert(value, time=time)
        if time in (20, 41):
            slicer.watermark(time - 2)
    return slicer


def rest(slicer: Slicer) -> list[Any]:
    """All that is still to come of a slicer, of which one tuple more is known."""
    slicer.insert(1000, time=61)
    results = slicer.watermark(400)
    slicer.close()
    return results


@pytest.mark.parametrize(
    ("store", "options"), [("lazy", {}), ("eager", {"every_tuples": 3}), ("paged", {})], ids=str
)
@pytest.mark.parametrize("what", INTERRUPTED)
# a fault that falls into the end of a generator is lost
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_at_every_call(what: str, store: str, options: dict[str, Any]) -> None:
    call = INTERRUPTED[what]
    without, done = rest(prepared(store, options)), prepared(store, options)
    call(done)
    happened = rest(done)
    interrupts, number = 0, 1
    while True:
        slicer = prepared(store, options)
        interrupted = fails(lambda s=slicer: call(s), number)  # type: ignore[misc]
        interrupts += interrupted
        assert rest(slicer) in ((without, happened) if interrupted else (happened,))
        if not interrupted:
            break
        number += 1 + number // 12
    assert interrupts > 3 or what == "a checkpoint"


KEYED: dict[str, Callable[[Slicer], Any]] = {
    "a batch": lambda s: s.extend([*range(100, 108)], [70, 44, 56, 90, 30, 61, 62, 63]),
    "a watermark that forgets": lambda s: s.watermark(200),
    "a query less": lambda s: s.remove("ten"),
}


@pytest.mark.parametrize("what", KEYED)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_at_every_call_of_many_keys(what: str) -> None:
    def made() -> Slicer:
        return prepared("lazy", {"by": lambda value: value % 7})

    def rest_of(slicer: Slicer) -> Any:
        keys, time = slicer.keys, slicer.time
        slicer.extend([*range(1000, 1014)], [*range(max(61, time - 3), max(61, time - 3) + 14)])
        return keys, time, slicer.keys, slicer.late_dropped, rest(slicer)

    call = KEYED[what]
    without, done = rest_of(made()), made()
    call(done)
    happened, number, interrupted = rest_of(done), 1, True
    while interrupted:
        slicer = made()
        interrupted = fails(lambda s=slicer: call(s), number)  # type: ignore[misc]
        assert rest_of(slicer) in ((without, happened) if interrupted else (happened,))
        number += 1 + number // 12
    assert number > 20


def test_two_threads_and_an_operator_that_calls_its_slicer() -> None:
    def inside(older: int, younger: int) -> int:
        with pytest.raises(ConcurrentUse):
            slicer.watermark(3)
        with pytest.raises(ConcurrentUse):
            slicer.insert(1, time=3)
        return older + younger

    slicer = Slicer(monoids.from_function(inside, 0, name="inside"), QUERIES)
    slicer.extend([1, 2], [1, 2])
    assert {(r.query, r.value) for r in slicer.watermark(50)} == {("ten", 3), ("slide", 3), ("visit", 3)}

    entered, leave = threading.Event(), threading.Event()

    def slow(older: int, younger: int) -> int:
        entered.set()
        leave.wait(300)
        return older + younger

    slicer = Slicer(monoids.from_function(slow, 0, name="slow"), QUERIES)
    slicer.insert(1, time=1)
    thread = threading.Thread(target=slicer.insert, args=(1, 2))
    thread.start()
    assert entered.wait(300)
    with pytest.raises(ConcurrentUse):
        slicer.insert(1, time=3)
    leave.set()
    thread.join()
    assert slicer.watermark(50)[0].value == 2
