"""Windows whose times are dates: against plain recomputation with Python's own dates, in all calls."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from chance import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from mta import AmortizedMTA, LogMTA, baselines, monoids
from mta.errors import ManifestMismatch, MissingTime, OutOfOrderError, PageCorrupt
from mta.policies import CountWindow, Policy, TimeWindow, While
from mta.times.durations import Duration
from stores import open_store

WINDOWS = [LogMTA, AmortizedMTA]
KINDS = [*WINDOWS, baselines.TwoStacks, baselines.DABA, baselines.ReactiveAggregator]
START = datetime(2024, 3, 30, 22, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")

#: A duration in the ways to write it.
DURATIONS: dict[timedelta, list[Any]] = {
    timedelta(hours=36): ["36 hours", "1.5d", "1 day 12 hours", timedelta(hours=36), np.timedelta64(36, "h")],
    timedelta(seconds=90): [
        "90s",
        "1 minute 30 seconds",
        pd.Timedelta(90, "s"),
        np.timedelta64(90_000, "ms"),
    ],
    timedelta(microseconds=7): ["7us", "7000 ns", timedelta(microseconds=7)],
}

INSTANT_COLUMNS = [
    list,
    lambda times: [time.astimezone(BERLIN) for time in times],
    lambda times: pd.Series(times).dt.tz_convert("Asia/Tokyo"),
    pd.DatetimeIndex,
    lambda times: pa.array(times, pa.timestamp("us", tz="Europe/Berlin")),
    pl.Series,
]
LOCAL_COLUMNS = [
    list,
    lambda times: np.array(times, dtype="M8[us]"),
    lambda times: np.array(times, dtype="M8[ns]"),
    pd.Series,
    pa.array,
    pl.Series,
]
INSTANT_TIMES = [lambda time: time, lambda time: time.astimezone(BERLIN), pd.Timestamp]
LOCAL_TIMES = [lambda time: time, np.datetime64, pd.Timestamp]

STEPS = st.one_of(
    st.timedeltas(timedelta(0), timedelta(microseconds=9)),
    st.timedeltas(timedelta(0), timedelta(minutes=2)),
    st.timedeltas(timedelta(0), timedelta(hours=30)),
)
CALLS = st.lists(
    st.tuples(
        st.sampled_from(["push", "insert", "slide", "extend", "evict_until", "range_query", "checkpoint"]),
        st.lists(STEPS, min_size=1, max_size=5),
        st.integers(0, 5),
    ),
    max_size=12,
)


class Model:
    """The window by its definition."""

    def __init__(self, span: timedelta, closed: str) -> None:
        self.span, self.closed, self.rows = span, closed, list[tuple[datetime, int]]()

    def kept(self, time: datetime) -> bool:
        cut = self.rows[-1][0] - self.span
        return time > cut if self.closed == "right" else time >= cut

    def push(self, time: datetime, value: int) -> list[int]:
        self.rows.append((time, value))
        self.rows = [row for row in self.rows if self.kept(row[0])]
        return self.values()

    def values(self) -> list[int]:
        return [value for _, value in self.rows]


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("zone", [UTC, None], ids=["instants", "local"])
def test_windows_over_dates(kind: Any, zone: Any, data: Any) -> None:
    span, written = data.draw(st.sampled_from([*DURATIONS.items()]))
    closed = data.draw(st.sampled_from(["right", "both"]))
    columns, times = (LOCAL_COLUMNS, LOCAL_TIMES) if zone is None else (INSTANT_COLUMNS, INSTANT_TIMES)
    stored = kind in WINDOWS
    store = open_store("memory:")
    size = data.draw(st.sampled_from([2, 4, None]))
    more: dict[str, Any] = {"store": store, "name": "w", "page_size": size} if stored else {}

    def policy() -> Policy:
        return TimeWindow(data.draw(st.sampled_from(written)), closed=closed)

    window, model = kind(monoids.Collect(), policy(), **more), Model(span, closed)
    now, value = START.replace(tzinfo=zone), 0
    for call, steps, which in data.draw(CALLS):
        moments = []
        for step in steps:
            moments.append(now + sum(steps[: len(moments)], step))
        one, column = times[which % len(times)], columns[which % len(columns)](moments)
        values = list(range(value, value + len(moments)))
        if call in ("push", "insert"):
            found = getattr(window, call)(values[0], one(moments[0]))
            assert call == "insert" or found == model.push(moments[0], values[0])
            if call == "insert":
                model.rows.append((moments[0], values[0]))
            now, value = moments[0], value + 1
        elif call == "slide":
            results = [model.push(*each) for each in zip(moments, values, strict=True)]
            assert list(window.slide(values, column)) == results
            now, value = moments[-1], value + len(values)
        elif call == "extend":
            model.rows += zip(moments, values, strict=True)
            model.rows = [row for row in model.rows if model.kept(row[0])]
            window.extend(values, column)
            now, value = moments[-1], value + len(values)
        elif call == "evict_until":
            until = now - steps[0]
            staying = [row for row in model.rows if row[0] > until]
            assert window.evict_until(one(until)) == len(model.rows) - len(staying)
            model.rows = staying
        elif stored and call == "range_query":
            t0 = now - max(steps)
            expected = [value for time, value in model.rows if t0 <= time <= now - min(steps)]
            assert window.range_query(one(t0), one(now - min(steps))) == expected
        elif stored:
            window.checkpoint()
            window.close()
            window = kind.restore(store, "w", monoids.Collect(), policy())
        assert window.query() == model.values()
        assert len(window) == len(model.rows)
        assert window.oldest == (model.rows[0][0] if model.rows else None)
        assert window.youngest == (model.rows[-1][0] if model.rows else None)
        assert window.oldest is None or window.oldest.tzinfo is zone


# -- one kind ---------------------------------------------------------------------------------------------

NOW = datetime(2024, 5, 1, 12)
GIVEN = {
    "numbers": 3,
    "instants": NOW.replace(tzinfo=UTC),
    "local": NOW,
}
NAMES = {"numbers": "numbers", "instants": "instants in UTC", "local": "local times without a zone"}
ANY = [None, CountWindow(3), While(lambda total, old: total - old > 9, name="nine")]
REAL = [
    TimeWindow("3 days"),
    TimeWindow("3 days") | CountWindow(4),
    CountWindow(4) | TimeWindow(timedelta(3)),
]
PLAIN = [TimeWindow(5), TimeWindow(5, closed="both") | CountWindow(4)]

CALL = {
    "push": lambda window, time: window.push(1, time),
    "insert": lambda window, time: window.insert(1, time),
    "slide": lambda window, time: window.slide([1], [time]),
    "extend": lambda window, time: window.extend([1, 2], [time, time]),
    "evict_until": lambda window, time: window.evict_until(time),
}


def seen(window: Any) -> Any:
    return len(window), window.oldest, window.youngest, window.query()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first", CALL)
@pytest.mark.parametrize("then", CALL)
@pytest.mark.parametrize("policy", ANY, ids=repr)
def test_the_first_time_fixes_the_kind(kind: Any, first: str, then: str, policy: Any) -> None:
    for name, time in GIVEN.items():
        window = kind(monoids.Sum(), policy)
        CALL[first](window, time)
        before = seen(window)
        for other, refused in GIVEN.items():
            if other != name:
                with pytest.raises(TypeError, match=f"the times of this window are {NAMES[name]}, got "):
                    CALL[then](window, refused)
                assert seen(window) == before
        CALL[then](window, time)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("call", CALL)
def test_the_policy_fixes_the_kind(kind: Any, call: str) -> None:
    for policy in REAL:
        window = kind(monoids.Sum(), policy)
        for wrong in (3, 2.5, 1_714_564_800_000_000_000, np.int64(3)):
            with pytest.raises(
                TypeError, match=r"durations were given here with their unit, so .* UTC or local.*, got"
            ):
                CALL[call](window, wrong)
        CALL[call](window, GIVEN["local"])
        window = kind(monoids.Sum(), policy)
        CALL[call](window, GIVEN["instants"])
        with pytest.raises(
            TypeError, match="the times of this window are instants in UTC, got 3 of type int"
        ):
            CALL[call](window, 3)
    for policy in PLAIN:
        window = kind(monoids.Sum(), policy)
        for date_given in (NOW, NOW.replace(tzinfo=UTC), date(2024, 1, 1), np.datetime64("2024-01-01")):
            with pytest.raises(
                TypeError, match=r"durations were given here as numbers, so .*such as \"30 days"
            ):
                CALL[call](window, date_given)
        CALL[call](window, 3)


@pytest.mark.parametrize("kind", KINDS)
def test_a_column_of_nanoseconds_as_integers_is_refused(kind: Any) -> None:
    times = pd.Series(pd.date_range("2024-01-01", periods=3, tz="UTC"))
    window = kind(monoids.Count(), TimeWindow("30 days"))
    with pytest.raises(TypeError, match="with their unit, so times are instants in UTC or local times"):
        window.slide([1, 2, 3], times.astype("int64"))
    assert window.slide([1, 2, 3], times).tolist() == [1, 2, 3]
    with pytest.raises(TypeError, match="the times of this window are instants in UTC, got 1704"):
        window.slide([1, 2, 3], times.astype("int64"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first", ["instants", "local"])
def test_a_failed_first_element_fixes_nothing(kind: Any, first: str) -> None:
    for other in GIVEN.values():
        window = kind(monoids.Sum())
        for call in ("push", "insert"):
            with pytest.raises(TypeError):
                getattr(window, call)("x", GIVEN[first])
        with pytest.raises(OutOfOrderError):
            window.extend([1, 2], [GIVEN[first], GIVEN[first] - timedelta(1)])
        window.push(1, other)
        assert window.oldest == other
        window = kind(monoids.Sum())
        with pytest.raises(OutOfOrderError):
            window.extend([1, 2], [GIVEN[first], GIVEN[first] - timedelta(1)])
        window.evict_until(other)
        window.push(1, other)
        assert window.oldest == other


@pytest.mark.parametrize("kind", KINDS)
def test_counted_times_are_numbers(kind: Any) -> None:
    window = kind(monoids.Sum())
    window.push(1)
    with pytest.raises(MissingTime, match="an element with a time cannot follow 1"):
        window.push(1, NOW)
    with pytest.raises(TypeError, match="the times of this window are numbers, got "):
        window.evict_until(NOW)
    assert (window.oldest, window.evict_until(0)) == (0, 1)
    window = kind(monoids.Sum())
    window.evict_until(NOW)
    with pytest.raises(
        MissingTime, match="the times of this window are local times without a zone: give one"
    ):
        window.push(1)
    window.push(1, NOW)
    with pytest.raises(MissingTime):
        window.push(1)


@pytest.mark.parametrize("kind", WINDOWS)
def test_a_question_that_raises_fixes_nothing(kind: Any) -> None:
    window = kind(monoids.Sum())
    with pytest.raises(ValueError, match="from the older to the younger"):
        window.range_query(NOW, NOW - timedelta(1))
    with pytest.raises(TypeError, match="are local times without a zone, got 3"):
        window.range_query(NOW, 3)
    assert window.range_query(1, 2) == 0
    with pytest.raises(TypeError, match="the times of this window are numbers, got "):
        window.range_query(NOW, NOW)


@pytest.mark.parametrize("kind", KINDS)
def test_errors_show_times_as_they_are(kind: Any) -> None:
    window = kind(monoids.Sum(), TimeWindow("1 day"))
    window.push(1, NOW.replace(tzinfo=timezone(timedelta(hours=2))))
    with pytest.raises(
        OutOfOrderError, match=r"time datetime.*2024, 5, 1, 9, .* is before .*2024, 5, 1, 10, 0, tz"
    ):
        window.push(1, NOW.replace(hour=9, tzinfo=UTC))
    with pytest.raises(
        OutOfOrderError, match=r"2024, 5, 1, 9, .* in row 0 is before .*2024, 5, 1, 10, 0, tz"
    ):
        window.slide([1], [NOW.replace(hour=9, tzinfo=UTC)])
    with pytest.raises(
        OutOfOrderError, match=r"2024, 5, 1, 11, .* in row 1 is before .*2024, 5, 1, 12, 0, tz"
    ):
        window.slide([1, 2], [NOW.replace(tzinfo=UTC), NOW.replace(hour=11, tzinfo=UTC)])
    with pytest.raises(MissingTime, match="asks for times"):
        window.push(1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [object, "M8[us]"])
@pytest.mark.parametrize("row", [0, 1, 2])
def test_a_masked_time_is_missing(kind: Any, dtype: Any, row: int) -> None:
    dates = np.array([NOW, NOW, NOW + timedelta(1)], dtype=dtype)
    window = kind(monoids.Sum(), TimeWindow("1 day"))
    for call in (window.slide, window.extend):
        with pytest.raises(ValueError, match=f"row {row}: a time is missing, got "):
            call([1, 2, 3], np.ma.masked_array(dates, np.arange(3) == row))
    assert len(window) == 0
    assert list(window.slide([1, 2, 3], np.ma.masked_array(dates, [False] * 3))) == [1, 3, 3]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("time", [np.datetime64("2024-05-01"), date(2024, 5, 1)], ids=repr)
def test_a_type_without_zones_is_told_of_one_that_has_them(kind: Any, time: Any) -> None:
    window = kind(monoids.Sum())
    window.push(1, NOW.replace(tzinfo=UTC))
    for call in CALL.values():
        if call is not CALL["slide"] and call is not CALL["extend"]:
            with pytest.raises(
                TypeError, match=r"; it can have no zone: give a datetime with its zone, as da"
            ):
                call(window, time)
    with pytest.raises(TypeError, match=r"; give it its zone, as in time.replace\(tzinfo=...\)"):
        window.push(1, NOW)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("zone", [UTC, None], ids=["instants", "local"])
@pytest.mark.parametrize(
    ("encoded", "name"),
    [
        (pd.Categorical, "category"),
        (lambda times: pd.Series(pd.Categorical(times)), "category"),
        (pd.CategoricalIndex, "category"),
        (lambda times: pa.array(times).dictionary_encode(), r"dictionary<values=timestamp\[us"),
        (lambda times: pa.chunked_array([pa.array(times)]).dictionary_encode(), "dictionary<values=tim"),
        (lambda times: pl.Series(times, dtype=pl.Object), "Object"),
    ],
)
def test_dates_in_a_column_of_another_type(kind: Any, zone: Any, encoded: Any, name: str) -> None:
    times = encoded([NOW.replace(tzinfo=zone), NOW.replace(tzinfo=zone) + timedelta(1)])
    for policy in (None, TimeWindow("1 day"), TimeWindow(3)):
        window = kind(monoids.Sum(), policy)
        with pytest.raises(TypeError, match=f"times are in a column of type {name}") as raised:
            window.slide([1, 2], times)
        assert len(window) == 0
    hint = str(raised.value).partition("make it one of dates: ")[2]
    window = kind(monoids.Sum(), TimeWindow("1 day"))
    assert list(window.slide([1, 2], eval(hint, {"times": times, "pl": pl}))) == [1, 2]
    assert window.oldest == NOW.replace(tzinfo=zone) + timedelta(1)


@pytest.mark.parametrize("encoded", [pd.Categorical, lambda times: pa.array(times).dictionary_encode()])
def test_numbers_in_a_column_of_another_type_are_times(encoded: Any) -> None:
    window = AmortizedMTA(monoids.Sum(), TimeWindow(3))
    assert window.slide([1, 2, 4], encoded([1, 2, 5])).tolist() == [1, 3, 4]


# -- policies ---------------------------------------------------------------------------------------------


def test_equal_durations_are_equal_policies() -> None:
    for written in DURATIONS.values():
        policies = [TimeWindow(each) for each in written]
        assert len({policy.fingerprint() for policy in policies}) == 1
        assert len(set(policies)) == 1
        assert policies[0] != TimeWindow(policies[0].d)
        assert eval(repr(policies[0]), {"TimeWindow": TimeWindow}) == policies[0]
    assert TimeWindow("90 days").fingerprint() == "TimeWindow('90 days', closed='right')"
    assert TimeWindow(90).fingerprint() == "TimeWindow(90, closed='right')"
    assert TimeWindow("90 days") == TimeWindow(Duration(90 * 86400 * 10**6, real=True))
    both = TimeWindow("90 days") | CountWindow(5) | TimeWindow("2160 hours", closed="both")
    assert both.fingerprint() == (
        "CountWindow(5) | TimeWindow('90 days', closed='right') | TimeWindow('90 days', closed='both')"
    )
    assert both.in_microseconds is True
    assert (TimeWindow(3) | CountWindow(2)).in_microseconds is False
    assert (CountWindow(3) | CountWindow(2)).in_microseconds is None


@pytest.mark.parametrize("one", [TimeWindow(5), TimeWindow(5) | CountWindow(2)], ids=repr)
@pytest.mark.parametrize(
    "other", [TimeWindow("5s"), CountWindow(2) | TimeWindow("5s", closed="both")], ids=repr
)
def test_a_union_is_of_one_unit(one: Policy, other: Policy) -> None:
    for make in (lambda: one | other, lambda: other | one):
        with pytest.raises(TypeError, match=r"all have a unit, or are all numbers .*'5 seconds'"):
            make()


# -- checkpoints ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", WINDOWS)
@pytest.mark.parametrize("name", GIVEN)
def test_a_checkpoint_remembers_the_kind(kind: Any, name: str) -> None:
    store, time = open_store("memory:"), GIVEN[name]
    for question in (False, True):
        with kind(monoids.Sum(), store=store, name=f"w{question}") as window:
            window.evict_until(time) if question else window.push(5, time)
            window.checkpoint()
        with kind.restore(store, f"w{question}", monoids.Sum()) as window:
            assert window.oldest == (None if question else time)
            if question and name == "numbers":
                continue  # as a window that nobody asked
            for other, refused in GIVEN.items():
                if other != name:
                    with pytest.raises(TypeError, match=f"the times of this window are {NAMES[name]}, got"):
                        window.push(1, refused)
            assert window.push(1, time) == (1 if question else 6)
            assert window.range_query(time, time) == (1 if question else 6)


def test_a_checkpoint_after_a_failed_first_element_has_no_kind() -> None:
    store = open_store("memory:")
    with AmortizedMTA(monoids.Sum(), store=store, name="w") as window:
        with pytest.raises(TypeError):
            window.push("x", NOW)
        window.checkpoint()
    with AmortizedMTA.restore(store, "w", monoids.Sum()) as window:
        with pytest.raises(TypeError):
            window.push("x", NOW)
        window.push(1, 3)
        assert window.oldest == 3


def test_the_policy_of_another_unit_is_refused() -> None:
    store = open_store("memory:")
    with AmortizedMTA(monoids.Sum(), TimeWindow("5s"), store=store, name="w") as window:
        window.push(1, NOW)
        window.checkpoint()
    for other in (TimeWindow(5), TimeWindow(5_000_000)):
        with pytest.raises(
            ManifestMismatch, match=r"with the policy TimeWindow.'5 seconds', closed='right'.,"
        ):
            AmortizedMTA.restore(store, "w", monoids.Sum(), other)
    AmortizedMTA.restore(store, "w", monoids.Sum(), TimeWindow(timedelta(seconds=5))).close()


class Own(Policy):
    """A policy of a user's own, which changes its mind about units."""

    def __init__(self, real: bool) -> None:
        self.real = real

    def limits(self) -> Any:
        return TimeWindow(5).limits()

    def fingerprint(self) -> str:
        return "Own"

    @property
    def in_microseconds(self) -> bool:
        return self.real


def test_times_that_the_policy_cannot_have_are_refused_before_the_window_is_taken_over() -> None:
    for real, time in ((True, NOW), (False, 3)):
        store = open_store("memory:")
        with AmortizedMTA(monoids.Sum(), Own(real), store=store, name="w") as window:
            window.push(1, time)
            window.checkpoint()
            with pytest.raises(ManifestMismatch, match="the times in version 1 of the window 'w' are"):
                AmortizedMTA.restore(store, "w", monoids.Sum(), Own(not real))
            window.push(1, time)
            window.checkpoint()


def test_a_page_with_times_that_are_no_dates() -> None:
    window = AmortizedMTA(monoids.Sum())
    window.push(1, NOW)
    for wrong in (2**62, 0.5):
        window._view.oldest = wrong
        with pytest.raises(
            PageCorrupt, match=r"the times of this window are local .*, and one of its pages has"
        ):
            window.oldest  # noqa: B018


@pytest.mark.parametrize("kind", WINDOWS)
def test_a_failed_element_does_not_undo_what_was_fixed_before(kind: Any) -> None:
    window = kind(monoids.Sum())
    window.evict_until(NOW)
    for _ in range(2):
        with pytest.raises(TypeError):
            window.push("x", NOW)
        with pytest.raises(TypeError, match="the times of this window are local times"):
            window.push(1, 3)
    store = open_store("memory:")
    with kind(monoids.Sum(), store=store, name="w") as counted:
        counted.push(1)
        counted.checkpoint()
    with kind.restore(store, "w", monoids.Sum()) as window:
        for time in (None, 5):
            with pytest.raises(TypeError):
                window.push("x", time)
            with pytest.raises(TypeError, match="the times of this window are numbers, got"):
                window.push(1, NOW)
