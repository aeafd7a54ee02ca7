"""Slicers whose times are dates: against windows that are found by Python's own arithmetic of dates."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import pytest
from chance import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from mta import monoids
from mta.errors import ManifestCorrupt, MissingTime, OutOfOrderError
from mta.slicing import FixedBand, Late, Session, Slicer, Sliding, Tumbling
from mta.slicing.saved import deserialized, serialized
from stores import open_store

HOUR = timedelta(hours=1)
START = datetime(2024, 3, 30, 22, 17)
ORIGINS = {UTC: datetime(1970, 1, 1, tzinfo=UTC), None: datetime(1970, 1, 1)}
STEPS = st.lists(st.timedeltas(-3 * HOUR, 5 * HOUR), min_size=1, max_size=12)
Window = tuple[str, datetime, datetime, list[int]]


def cut(rows: list[tuple[datetime, int]], start: datetime, end: datetime) -> list[int]:
    return [value for time, value in rows if start <= time < end]


def windows(rows: list[tuple[datetime, int]], origin: datetime) -> list[Window]:
    """All windows that hold a tuple, by their definitions. Rows are in the order of their times."""
    found: list[Window] = []
    for name, length, slide, first in (
        ("hourly", HOUR, HOUR, origin),
        ("shifted", 2 * HOUR, 2 * HOUR, origin + timedelta(minutes=30)),
        ("sliding", timedelta(minutes=150), HOUR, origin),
    ):
        starts = set()
        for time, _ in rows:
            start = first + (time - first) // slide * slide
            while start > time - length:
                starts.add(start)
                start -= slide
        found += [(name, start, start + length, cut(rows, start, start + length)) for start in sorted(starts)]
    session: list[tuple[datetime, int]] = []
    for row in [*rows, None]:
        if session and (row is None or row[0] - session[-1][0] > 2 * HOUR):
            last = session[-1][0]
            found.append(("visit", session[0][0], last + 2 * HOUR, [value for _, value in session]))
            session = []
        session += [] if row is None else [row]
    band = origin.replace(year=2024, month=3, day=31), origin.replace(year=2024, month=4, day=1)
    if any(band[0] <= time < band[1] for time, _ in rows):
        found.append(("day", *band, cut(rows, *band)))
    return sorted(found, key=str)


def queries(zone: Any) -> dict[str, Any]:
    return {
        "hourly": Tumbling("1 hour"),
        "shifted": Tumbling(np.timedelta64(2, "h"), offset=ORIGINS[zone] + timedelta(minutes=30)),
        "sliding": Sliding(timedelta(minutes=150), "60 min"),
        "visit": Session("2 hours"),
        "day": FixedBand(datetime(2024, 3, 31, tzinfo=zone), "1 day"),
    }


@settings(max_examples=examples(60), deadline=None)
@given(STEPS, st.data())
@pytest.mark.parametrize("zone", [UTC, None], ids=["instants", "local"])
@pytest.mark.parametrize("stored", [False, True], ids=["memory", "stored"])
def test_windows_are_of_dates(zone: Any, stored: bool, steps: list[timedelta], data: Any) -> None:
    store = open_store("memory:")
    options: dict[str, Any] = {"store": store, "name": "s", "page_size": 2} if stored else {}
    slicer = Slicer(monoids.Collect(), queries(zone), lateness="1 day", **options)
    assert slicer.lateness == timedelta(days=1)
    now, rows, results = START.replace(tzinfo=zone), list[tuple[datetime, int]](), list[Any]()
    for value, step in enumerate(steps):
        now += step
        rows.append((now, value))
        if data.draw(st.booleans()):
            assert slicer.insert(value, pd.Timestamp(now)) == []
        else:
            assert slicer.extend([value], pd.Series([now])) == []
        what = data.draw(st.sampled_from(["nothing", "watermark", "save"]))
        if what == "watermark" and (slicer.time is None or slicer.time < now - 3 * HOUR):
            results += slicer.watermark(now - 3 * HOUR)
            assert slicer.time == now - 3 * HOUR
        elif what == "save" and stored:
            slicer.checkpoint()
            slicer.close()
            slicer = Slicer.restore(store, "s", monoids.Collect())
        elif what == "save":
            slicer = Slicer.load(slicer.dump(), monoids.Collect())
        assert slicer.queries == queries(zone)
        assert slicer.lateness == timedelta(days=1)
    results += slicer.watermark(math.inf)
    rows.sort(key=lambda row: row[0])
    last = {}
    for each in results:
        assert each.start.tzinfo is zone
        if each.query == "visit" and each.is_update:  # replaces what lies in it
            for key in [key for key in last if key[0] == "visit" and each.start <= key[1] < each.end]:
                del last[key]
        last[each.query, each.start] = (each.query, each.start, each.end, each.value)
    assert sorted(last.values(), key=str) == windows(rows, ORIGINS[zone])


def test_equal_kinds_of_windows() -> None:
    assert Tumbling("1 hour") == Tumbling(HOUR) == Tumbling("60min")
    assert Tumbling("1 hour") != Tumbling(3_600_000_000)
    assert repr(Tumbling("1 hour")) == "Tumbling('1 hour')"
    assert repr(Tumbling(3.5, offset=2)) == "Tumbling(3.5, offset=2)"
    assert repr(Sliding("1d", "1h")) == "Sliding(length='1 day', slide='1 hour')"
    assert repr(Tumbling("7d", offset="4 days")) == "Tumbling('7 days', offset='4 days')"
    monday = datetime(1970, 1, 5)
    assert repr(Tumbling("7d", offset=monday)) == "Tumbling('7 days', offset=1970-01-05T00:00:00)"
    assert Tumbling("7d", offset=monday) != Tumbling("7d", offset=monday.replace(tzinfo=UTC))
    assert repr(Session("30 minutes")) == "Session(gap='30 minutes')"
    assert repr(FixedBand(monday, "1h")) == "FixedBand(start=1970-01-05T00:00:00, length='1 hour')"


NOW = datetime(2024, 5, 1, 12)
MIXED: list[Any] = [
    lambda: Sliding("1 hour", 5),
    lambda: Sliding(5, HOUR),
    lambda: Tumbling("1 hour", offset=5),
    lambda: Tumbling(5, offset=NOW),
    lambda: Tumbling(5, offset="1 hour"),
    lambda: FixedBand(5, "1 hour"),
    lambda: FixedBand(NOW, 5),
    lambda: Slicer(monoids.Sum(), {"a": Tumbling("1h"), "b": Tumbling(5)}),
    lambda: Slicer(monoids.Sum(), {"a": Tumbling("1h"), "b": Session(5)}),
    lambda: Slicer(monoids.Sum(), {"a": FixedBand(NOW, "1h"), "b": FixedBand(NOW.replace(tzinfo=UTC), "1h")}),
    lambda: Slicer(monoids.Sum(), {"a": Tumbling("1h")}, lateness=5),
    lambda: Slicer(monoids.Sum(), {"a": Tumbling("1h")}, lateness={"a": 5}),
    lambda: Slicer(monoids.Sum(), {"a": Tumbling(5)}, lateness="1h"),
    lambda: Slicer(monoids.Sum(), {"a": Tumbling(5)}, every_time="1h"),
    lambda: Slicer(monoids.Sum(), {"a": Tumbling(5)}, by="x", forget_after=HOUR),
    lambda: Slicer(monoids.Sum(), {"a": Tumbling(5)}).add("b", Tumbling("1h")),
    lambda: Slicer(monoids.Sum(), {"a": Tumbling("1h")}).add("b", Tumbling(5)),
    lambda: Slicer(monoids.Sum(), {"a": Tumbling("1h")}).add("b", Tumbling("1h"), lateness=5),
]


@pytest.mark.parametrize("make", MIXED)
def test_units_are_not_mixed(make: Any) -> None:
    with pytest.raises(
        TypeError, match=r"all numbers or all with their unit|with their unit, or all as numbers"
    ):
        make()


def test_no_lateness_goes_with_all() -> None:
    slicer = Slicer(monoids.Sum(), {"a": Tumbling("1h")}, lateness={"a": 0})
    slicer.insert(1, NOW)
    assert Slicer(monoids.Sum(), {"a": Tumbling(5)}, lateness=0).lateness == 0


CALLS: dict[str, Any] = {
    "insert": lambda slicer, time: slicer.insert(1, time),
    "extend": lambda slicer, time: slicer.extend([1, 2], [time, time]),
    "watermark": lambda slicer, time: slicer.watermark(time),
}


@pytest.mark.parametrize("first", CALLS)
@pytest.mark.parametrize("then", CALLS)
def test_a_slicer_has_times_of_one_kind(first: str, then: str) -> None:
    given = {"numbers": 3, "instants in UTC": NOW.replace(tzinfo=UTC), "local times without a zone": NOW}
    for name, time in given.items():
        slicer = Slicer(monoids.Sum(), {"three": Tumbling(3, measure="count")})
        CALLS[first](slicer, time)
        for again in (slicer, Slicer.load(slicer.dump(), monoids.Sum())):
            for other, wrong in given.items():
                if other != name:
                    with pytest.raises(TypeError, match=f"the times of this window are {name}, got "):
                        CALLS[then](again, wrong)
            CALLS[then](again, time)


@pytest.mark.parametrize("call", CALLS)
def test_durations_decide_the_kind(call: str) -> None:
    slicer = Slicer(monoids.Sum(), {"hour": Tumbling("1h")})
    with pytest.raises(TypeError, match=r"durations were given here with their unit, so .*, got 3"):
        CALLS[call](slicer, 3)
    CALLS[call](slicer, NOW)
    slicer = Slicer(monoids.Sum(), {"hour": Tumbling(3600)})
    with pytest.raises(TypeError, match=r"durations were given here as numbers, so .*, got datetime"):
        CALLS[call](slicer, NOW)
    CALLS[call](slicer, 3)
    slicer = Slicer(monoids.Sum(), {"day": FixedBand(NOW, "1 day")})
    with pytest.raises(TypeError, match="the times of this window are local times without a zone, got "):
        CALLS[call](slicer, NOW.replace(tzinfo=UTC))


def test_a_call_that_raises_fixes_nothing() -> None:
    slicer = Slicer(monoids.Sum(), {"three": Tumbling(3, measure="count")})
    with pytest.raises(TypeError):
        slicer.insert("x", NOW)
    with pytest.raises(MissingTime):
        slicer.insert(1, None)
    slicer.insert(1, 3)
    with pytest.raises(TypeError, match="and the times are numbers"):
        slicer.add("hour", Tumbling("1h"))
    slicer.insert(1, 3)


def test_late_tuples_errors_and_counts() -> None:
    late: list[Late] = []
    slicer = Slicer(
        monoids.Sum(), {"hour": Tumbling("1h"), "two": Tumbling(2, measure="count")}, on_late=late.append
    )
    slicer.extend([1, 2], [NOW, NOW + HOUR])
    results = slicer.watermark(NOW + HOUR)
    assert [(each.query, each.start, each.end) for each in results] == [
        ("hour", NOW, NOW + HOUR),
        ("two", 0, 2),
    ]
    slicer.insert(5, NOW)
    slicer.extend([5], [NOW])
    assert {each.time for each in late} == {NOW}
    assert [(each.start, each.end) for each in slicer.watermark(math.inf)] == [(NOW + HOUR, NOW + 2 * HOUR)]
    assert slicer.time == math.inf
    slicer = Slicer(monoids.Sum(), {"hour": Tumbling("1h")}, in_order=True, every_time="30 min")
    slicer.extend([1], [NOW])
    with pytest.raises(
        OutOfOrderError, match=r"time datetime.datetime\(2024, 5, 1, 11, 0\) is before datetime"
    ):
        slicer.insert(1, NOW - HOUR)
    early = slicer.insert(1, NOW + HOUR / 2)
    assert [(each.start, each.end, each.value, each.is_early) for each in early] == [
        (NOW, NOW + HOUR, 2, True)
    ]
    early = slicer.extend([1], [NOW + HOUR * 3 / 4])
    assert early == []
    slicer.watermark(NOW + HOUR)
    with pytest.raises(
        OutOfOrderError, match=r"watermark datetime.datetime\(2024, 5, 1, 12, 0\) is before datetime"
    ):
        slicer.watermark(NOW)
    slicer.insert(1, NOW + 2 * HOUR)
    assert slicer.add("later", Tumbling("2h")) == NOW + 2 * HOUR + timedelta(microseconds=1)


def test_edges_where_no_datetime_is() -> None:
    slicer = Slicer(monoids.Sum(), {"long": Tumbling("5000000 days")})
    slicer.insert(1, NOW)
    (found,) = slicer.watermark(math.inf)
    assert found.start == datetime(1970, 1, 1)
    assert found.end == np.datetime64("1970-01-01", "us") + np.timedelta64(5_000_000, "D")


def test_numbers_are_saved_as_before_there_were_kinds() -> None:
    slicer = Slicer(monoids.Sum(), {"a": Tumbling(5, offset=2)}, lateness=3)
    slicer.insert(1, 3)
    with deserialized("it", slicer.dump()) as saved:
        assert "times" not in saved
        assert saved["queries"][0][1] == ["Tumbling", {"length": 5, "offset": 2, "measure": "time"}]
    assert Slicer.load(slicer.dump(), monoids.Sum()).watermark(math.inf) == slicer.watermark(math.inf)


@pytest.mark.parametrize(
    "times",
    [None, [], ["NUMBERS"], ["NUMBERS", True], ["SUNDIALS", False], [1, False], [["LOCAL"], True], "LOCAL"],
)
def test_a_bad_kind_of_times_in_a_dump(times: Any) -> None:
    slicer = Slicer(monoids.Sum(), {"a": Tumbling("1h")}, lateness="3h")
    slicer.insert(1, NOW)
    with deserialized("it", slicer.dump()) as saved:
        assert saved["times"] == ["LOCAL", True]
        with pytest.raises(ManifestCorrupt):
            Slicer.load(serialized({**saved, "times": times}), monoids.Sum())


@pytest.mark.parametrize(
    "offset", [["LOCAL"], ["LOCAL", 2**62], ["NUMBERS", 5], ["X", 5], ["LOCAL", 0.5], "5", {}]
)
def test_a_bad_offset_in_a_dump(offset: Any) -> None:
    slicer = Slicer(monoids.Sum(), {"a": Tumbling("1h", offset=NOW)})
    with deserialized("it", slicer.dump()) as saved:
        assert saved["queries"][0][1][1]["offset"] == ["LOCAL", 1714564800000000]
        saved["queries"][0][1][1]["offset"] = offset
        with pytest.raises(ManifestCorrupt):
            Slicer.load(serialized(saved), monoids.Sum())


def test_a_query_that_is_added_decides_the_kind_if_it_is_added() -> None:
    slicer = Slicer(monoids.Sum(), {"two": Tumbling(2, measure="count")})
    with pytest.raises(TypeError, match="with their unit, or all as numbers"):
        slicer.add("hour", Tumbling("1h"), lateness=5)
    slicer.add("hour", Tumbling("1h"))
    with pytest.raises(TypeError, match=r"durations were given here with their unit, so .*, got 3"):
        slicer.insert(1, 3)
    slicer.insert(1, NOW)
    slicer = Slicer(monoids.Sum(), {"two": Tumbling(2, measure="count")})
    with pytest.raises(ValueError, match="there is a query 'two' already"):
        slicer.add("two", Tumbling("1h"))
    slicer.insert(1, 3)
