"""A signal at any bytecode: the call has happened or it has not, by all that a slicer holds and returns."""

from __future__ import annotations

import math
import random
import signal
from typing import Any

import pytest
from chance import generator
from window_kinds import MONOIDS

from mta.slicing import Delta, Session, Slicer, Sliding, Tumbling

STEPS = MONOIDS["steps"][0]
KNOWN = {"ten": Tumbling(10), "slide": Sliding(25, 7), "visit": Session(4)}
ROWS = {**KNOWN, "count": Tumbling(3, measure="count"), "delta": Delta(None, 5)}


class Injected(BaseException):
    """Like KeyboardInterrupt, so that nothing takes it for an error of its own."""


def third(value: int) -> int:
    return value % 3


def some_call(rng: random.Random, now: int) -> Any:
    kind, at = rng.random(), now + rng.randint(-25, 6)
    if kind < 0.5:
        value = rng.randint(0, 30)
        return lambda s: s.insert(value, at)
    if kind < 0.75:
        batch = [(rng.randint(0, 30), now + rng.randint(-25, 6)) for _ in range(rng.randint(1, 40))]
        return lambda s: s.extend([value for value, _ in batch], [time for _, time in batch])
    if kind < 0.9:
        return lambda s: s.watermark(max(at, now - 3) if s.time is None else max(at, s.time))
    return lambda s: s.remove("more") if "more" in s.queries else s.add("more", Tumbling(6), history=True)


def held(slicer: Slicer, keyed: bool) -> Any:
    """All that a slicer holds: its dump, or with keys all its results from now on.

    After a call that was interrupted, a watermark may look at a key of which nothing is due. It then forgets
    earlier what nobody needs any more, and the dump is another one.
    """
    if not keyed:
        return slicer.dump()
    twin, rng = Slicer.load(slicer.dump(), STEPS, by=third), random.Random(0)
    now = -30 if twin.time is None else int(twin.time)
    given = [twin.time, twin.late_dropped, sorted(twin.queries), *twin.watermark(now)]
    for _ in range(8):
        given += twin.extend([*range(9)], [now + rng.randint(-30, 9) for _ in range(9)])
        now += rng.randint(0, 9)
        given += [*twin.watermark(now), twin.late_dropped]
    return [*given, *twin.watermark(math.inf)]


# an interrupt inside a callback of the collector is lost: the call goes on, and is compared
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("store", ["lazy", "eager"])
@pytest.mark.parametrize(
    "options",
    [{}, {"every_tuples": 3}, {"every_time": 7}, {"changes_only": True}, {"by": third}],
    ids=lambda options: next(iter(options), "plain"),
)
def test_signals_at_random(store: str, options: dict[str, Any]) -> None:
    rng, armed, hits = generator(), False, 0
    by = {"by": third} if "by" in options else {}

    def interrupt(*_: object) -> None:
        if armed:
            raise Injected

    before_all = signal.signal(signal.SIGALRM, interrupt)
    try:
        while hits < 100:
            queries = rng.choice([KNOWN, ROWS])
            slicer = Slicer(STEPS, queries, lateness=20, store=store, name="s", **options)
            twin = Slicer(STEPS, queries, lateness=20, name="s", **options)
            now = 0
            for _ in range(50):
                now += rng.randint(0, 4)
                call, before, raised, got = some_call(rng, now), twin.dump(), False, None
                try:
                    signal.setitimer(signal.ITIMER_REAL, rng.random() * rng.choice([2e-5, 1e-4, 1e-3]) + 1e-6)
                    armed = True
                    got = call(slicer)
                    armed = False
                except Injected:
                    raised = True
                armed = False
                signal.setitimer(signal.ITIMER_REAL, 0)
                hits += raised
                expected = call(twin)
                if not raised:
                    assert got == expected
                elif held(slicer, bool(by)) != held(twin, bool(by)):  # then it has not happened
                    assert held(slicer, bool(by)) == held(Slicer.load(before, STEPS, **by), bool(by))
                    assert call(slicer) == expected
            assert slicer.watermark(300) == twin.watermark(300)
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before_all)
