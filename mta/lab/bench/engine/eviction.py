"""One bulk eviction: the older half of a large window in one call."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np

from mta import AmortizedMTA, LogMTA, monoids
from mta.baselines import DABA, TwoStacks
from mta.lab.bench.report import Section
from mta.lab.contents import discarded
from mta.lab.harness import Setting
from mta.lab.turns import Timings, timed

#: How many times AmortizedMTA over Redis is faster than DABA, and how many round trips it takes at most.
FASTER, ROUND_TRIPS = 1000.0, 10.0
#: Seconds for the background writer to come to rest before the clock runs.
REST = 0.3

Make = Callable[[], AbstractContextManager[Any]]


class Measured(NamedTuple):
    evictions: dict[str, Timings]
    #: seconds of the query after an eviction
    queries: dict[str, float]
    #: seconds of a round trip to Redis
    trip: float


def measure(setting: Setting) -> Section:
    count, evicted = (1 << 15, 1 << 14) if setting.quick else (1 << 22, 1 << 21)
    section = Section("eviction", f"{evicted:,} of {count:,} elements, Max, cold cache; DABA one by one")
    measured = _measured(setting, count, evicted)
    _lines(section, f"evict({evicted:,})", measured, setting.quick)
    section.raw = {
        "elements": count,
        "evicted": evicted,
        "round_trip_seconds": measured.trip,
        "query_seconds": measured.queries,
        "evictions": {name: timing.record() for name, timing in measured.evictions.items()},
    }
    return section


def _contenders(setting: Setting) -> dict[str, tuple[int, Make]]:
    """How often each is measured, and what makes a window of it."""
    size = setting.page_size

    def amortized(store: Any) -> Make:
        return lambda: discarded(AmortizedMTA(monoids.Max(), store=store, page_size=size))

    def log(store: Any) -> Make:
        return lambda: discarded(LogMTA(monoids.Max(), store=store, page_size=size))

    # the baselines take seconds to fill and to evict, so they go once
    few, many = 1, (2 if setting.quick else 7)
    return {
        "AmortizedMTA, redis": (many, amortized(setting.redis)),
        "AmortizedMTA, rocksdb": (many, amortized(setting.rocksdb)),
        "AmortizedMTA": (many, amortized(None)),
        "LogMTA, redis": (many, log(setting.redis)),
        "LogMTA": (many, log(None)),
        "DABA": (few, lambda: nullcontext(DABA(monoids.Max()))),
        "TwoStacks": (few, lambda: nullcontext(TwoStacks(monoids.Max()))),
    }


def _measured(setting: Setting, count: int, evicted: int) -> Measured:
    values, times = np.random.default_rng(3).random(count), np.arange(count)
    evictions: dict[str, Timings] = {}
    queries: dict[str, float] = {}
    trips: list[float] = []
    results = set()
    for name, (repetitions, make) in _contenders(setting).items():
        setting.say(f"eviction: {name}")
        timing, query = Timings(1), []
        for _ in range(repetitions):
            with make() as window:
                window.extend(values, times)
                if "redis" in name or "rocksdb" in name:
                    time.sleep(REST)
                if "redis" in name:
                    trips.extend(_pings(setting.redis_url))
                timing.add(*timed(lambda: window.evict(evicted)))
                query.append(timed(lambda: results.add(window.query()))[0])
                if len(window) != count - evicted:
                    raise AssertionError(f"{name} holds {len(window)} of {count - evicted}")
        evictions[name], queries[name] = timing, statistics.median(query)
    if len(results) != 1:
        raise AssertionError(f"the windows do not agree after an eviction: {results}")
    return Measured(evictions, queries, statistics.median(trips))


def _lines(section: Section, subject: str, measured: Measured, quick: bool) -> None:
    daba = statistics.median(measured.evictions["DABA"].wall)
    for name, timing in measured.evictions.items():
        seconds = statistics.median(timing.wall)
        section.add(
            subject,
            name,
            seconds,
            "s",
            cpu=statistics.median(timing.cpu),
            ratio=None if name == "DABA" else daba / seconds,
            reference=None if name == "DABA" else "faster",
            sense=">=",
            target=FASTER if name == "AmortizedMTA, redis" and not quick else None,
        )
    for name, seconds in measured.queries.items():
        section.add("query() after it", name, seconds, "s")
    one, trip = "in round trips to Redis", measured.trip
    section.add(one, "ping", trip, "s")
    for name in ("AmortizedMTA, redis", "LogMTA, redis"):
        seconds = statistics.median(measured.evictions[name].wall)
        target = ROUND_TRIPS if name.startswith("Amortized") and not quick else None
        section.add(one, name, seconds, "s", ratio=seconds / trip, reference="ping", target=target)


def _pings(url: str, count: int = 200) -> list[float]:
    """Seconds of round trips to the server, as the client library of the store makes them."""
    import redis

    took = []
    with redis.Redis.from_url(url) as client:
        client.ping()
        for _ in range(count):
            began = time.perf_counter()
            client.ping()
            took.append(time.perf_counter() - began)
    return took
