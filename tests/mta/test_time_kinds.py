"""Times as people have them become whole microseconds, and come back, whatever library they are of."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import dateutil.tz
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import pytz
from chance import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from mta.times.kinds import (
    FIRST,
    INSTANTS,
    LAST,
    LOCAL,
    NUMBERS,
    TimeKind,
    as_people_have_it,
    column_of_dates,
    is_date,
    number_of,
)

BERLIN = ZoneInfo("Europe/Berlin")
ZONES: list[tzinfo] = [
    UTC,
    timezone(timedelta(hours=-11, seconds=7)),
    BERLIN,
    ZoneInfo("America/New_York"),
    dateutil.tz.gettz("Europe/Berlin"),
    dateutil.tz.tzoffset(None, 3600),
    pytz.UTC,
    pytz.FixedOffset(-90),
]


def microseconds(moment: datetime) -> int:
    """By the definition: the days before it, and its clock, less the offset of its zone."""
    days = moment.toordinal() - date(1970, 1, 1).toordinal()
    seconds = (days * 24 + moment.hour) * 3600 + moment.minute * 60 + moment.second
    offset = moment.utcoffset() or timedelta()
    return (
        seconds * 10**6
        + moment.microsecond
        - ((offset.days * 86400 + offset.seconds) * 10**6 + offset.microseconds)
    )


@settings(max_examples=examples(200))
@given(st.datetimes(timezones=st.one_of(st.none(), st.sampled_from(ZONES)), allow_imaginary=True))
def test_a_datetime_is_exact_and_comes_back(moment: datetime) -> None:
    kind = LOCAL if moment.tzinfo is None else INSTANTS
    expected = microseconds(moment)
    if not FIRST <= expected <= LAST:
        with pytest.raises(ValueError, match="years 1 to 9999"):
            number_of(moment)
        return
    assert number_of(moment) == (expected, kind)
    back = as_people_have_it(expected, kind)
    assert back == (moment if kind is LOCAL else moment.astimezone(UTC))
    assert back.tzinfo is (None if kind is LOCAL else UTC)


@settings(max_examples=examples(100))
@given(st.datetimes())
def test_a_zone_of_pytz(moment: datetime) -> None:
    for name in ("Europe/Berlin", "America/New_York"):
        moment_there = pytz.timezone(name).localize(moment)
        assert number_of(moment_there) == (microseconds(moment_there), INSTANTS)


def test_both_hours_of_a_fold() -> None:
    first = datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN)
    second = first.replace(fold=1)
    assert number_of(second)[0] - number_of(first)[0] == 3600 * 10**6
    stamps = pd.DatetimeIndex([first.astimezone(UTC), second.astimezone(UTC)]).tz_convert("Europe/Berlin")
    assert [number_of(stamp)[0] for stamp in stamps] == [number_of(first)[0], number_of(second)[0]]


class Own(datetime):
    """As libraries subclass it."""

    def __sub__(self, other: Any) -> Any:
        raise AssertionError("the own arithmetic is not used")


class Nowhere(tzinfo):
    def utcoffset(self, _: datetime | None) -> None:
        return None


def test_other_single_times() -> None:
    noon = datetime(2024, 2, 29, 12)
    number = microseconds(noon)
    midnight = number - 12 * 3600 * 10**6
    assert number_of(date(2024, 2, 29)) == (midnight, LOCAL)
    assert number_of(np.datetime64("2024-02-29")) == (midnight, LOCAL)
    assert number_of(np.datetime64("2024-02")) == (midnight - 28 * 86400 * 10**6, LOCAL)
    assert number_of(Own(2024, 2, 29, 12)) == (number, LOCAL)
    assert number_of(Own(2024, 2, 29, 12, tzinfo=UTC)) == (number, INSTANTS)
    assert number_of(noon.replace(tzinfo=Nowhere())) == (number, LOCAL)
    assert number_of(pd.Timestamp(noon)) == (number, LOCAL)
    assert number_of(pd.Timestamp(noon, tz="Asia/Tokyo")) == (number - 9 * 3600 * 10**6, INSTANTS)
    assert number_of(datetime.min) == (FIRST, LOCAL)
    assert number_of(datetime.max) == (LAST, LOCAL)
    assert as_people_have_it(2.5, NUMBERS) == 2.5
    assert [is_date(each) for each in (noon, date.min, np.datetime64("NaT"), pd.NaT)] == [True] * 4
    assert [is_date(each) for each in (3, None, "2024-01-01", timedelta(1), np.timedelta64(1, "s"))] == [
        False
    ] * 5


UNITS = ["us", "ns", "ms", "s", "10ms", "25s", "m", "h", "D", "W", "ps", "M", "Y", "3M"]


@settings(max_examples=examples(200))
@given(
    st.lists(st.integers(-(10**5), 10**5), max_size=9), st.sampled_from(UNITS), st.sampled_from(["<", ">"])
)
def test_columns_of_numpy(ticks: list[int], unit: str, order: str) -> None:
    column = np.array(ticks, dtype=f"{order}M8[{unit}]")
    exact = [moment.astype(f"M8[{unit}]").astype("M8[us]") for moment in column]
    lost = [bool(moment.astype(f"M8[{unit}]") != column[row]) for row, moment in enumerate(exact)]
    wide = [not FIRST <= int(moment.astype(np.int64)) <= LAST for moment in exact]
    if unit in ("W", "Y", "M", "3M"):  # NumPy itself would run over
        years = {"W": 1 / 52.1775, "Y": 1, "M": 1 / 12, "3M": 1 / 4}[unit]
        wide = [not -1969 < tick * years < 8030 for tick in ticks]
        if any(abs(abs(tick * years - 3030) - 5000) < 2 for tick in ticks):
            return
    if any(wide):
        with pytest.raises(ValueError, match=rf"row {wide.index(True)}: .*years 1 to 9999"):
            column_of_dates(column)
    elif any(lost):
        with pytest.raises(ValueError, match=rf"row {lost.index(True)}: .*would be lost"):
            column_of_dates(column)
    else:
        found, kind = some(column_of_dates(column))
        assert kind is LOCAL
        assert found.dtype == np.int64
        assert found.tolist() == [int(moment.astype(np.int64)) for moment in exact]
        for moment, number in zip(column, found.tolist(), strict=True):
            assert number_of(moment) == (number, LOCAL)


def some(found: Any) -> Any:
    assert found is not None
    return found


def local_columns(moments: list[datetime]) -> dict[str, Any]:
    whole = np.array(moments, dtype="M8[us]")
    return {
        "list": moments,
        "tuple": tuple(moments),
        "numpy": whole,
        "ns": whole.astype("M8[ns]"),
        "strided": np.repeat(whole, 2)[::2],
        "masked": np.ma.MaskedArray(whole),
        "objects": np.array(moments, dtype=object),
        "scalars": list(whole),
        "pandas": pd.Series(whole),
        "pandas ns": pd.Series(whole.astype("M8[ns]")),
        "index": pd.Index(whole),
        "array": pd.Series(whole).array,
        "timestamps": [pd.Timestamp(moment) for moment in moments],
        "pandas objects": pd.Series(moments, dtype=object),
        "pandas arrow": pd.Series(whole).astype("timestamp[us][pyarrow]"),
        "arrow": pa.array(whole),
        "arrow ns": pa.array(whole.astype("M8[ns]")),
        "chunked": pa.chunked_array([pa.array(whole), pa.array(whole[:0])]),
        "polars": pl.Series(moments, dtype=pl.Datetime("us")),
        "polars ns": pl.Series(moments, dtype=pl.Datetime("ns")),
    }


def instant_columns(moments: list[datetime]) -> dict[str, Any]:
    there = [moment.astimezone(BERLIN) for moment in moments]
    series = pd.Series(pd.DatetimeIndex(moments, tz="UTC")).dt.tz_convert("Europe/Berlin")
    arrow = pa.array(moments, pa.timestamp("us", tz="America/New_York"))
    return {
        "list": there,
        "objects": np.array(there, dtype=object),
        "pandas": series,
        "pandas us": series.astype("datetime64[us, Asia/Tokyo]"),
        "index": pd.Index(series),
        "array": series.array,
        "timestamps": list(series),
        "pandas objects": series.astype(object),
        "pandas arrow": series.astype("timestamp[us, tz=Europe/Berlin][pyarrow]"),
        "index arrow": pd.Index(series.astype("timestamp[us, tz=Europe/Berlin][pyarrow]")),
        "arrow": arrow,
        "chunked": pa.chunked_array([arrow, arrow[:0]]),
        "arrow ms": pa.array(
            [moment.replace(microsecond=0) for moment in moments], pa.timestamp("ms", tz="UTC")
        ),
        "polars": pl.Series(moments, dtype=pl.Datetime("us", "UTC")).dt.convert_time_zone("Asia/Tokyo"),
        "polars ns": pl.Series(moments, dtype=pl.Datetime("ns", "UTC")),
    }


NEAR = st.lists(
    st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)), min_size=1, max_size=6
)


@settings(max_examples=examples(50), deadline=None)
@given(NEAR)
def test_columns_of_all_libraries(moments: list[datetime]) -> None:
    expected = [microseconds(moment) for moment in moments]
    for name, column in local_columns([moment.replace(tzinfo=None) for moment in moments]).items():
        found, kind = some(column_of_dates(column))
        assert (name, found.tolist(), kind) == (name, expected, LOCAL)
        assert found.dtype == np.int64
    for name, column in instant_columns(moments).items():
        found, kind = some(column_of_dates(column))
        coarse = [number // 10**6 * 10**6 for number in expected] if name == "arrow ms" else expected
        assert (name, found.tolist(), kind) == (name, coarse, INSTANTS)


def test_columns_of_days() -> None:
    days = [date(1969, 12, 31), date(2024, 2, 29)]
    expected = [-86400 * 10**6, microseconds(datetime(2024, 2, 29))]
    for column in (
        days,
        np.array(days, dtype="M8[D]"),
        pa.array(days),
        pl.Series(days),
        pa.array(days, pa.date64()),
    ):
        found, kind = some(column_of_dates(column))
        assert (found.tolist(), kind) == (expected, LOCAL)


def test_a_column_is_a_copy() -> None:
    moments = np.array(["2024-01-01"], dtype="M8[us]")
    found, _ = some(column_of_dates(moments))
    found[0] = 7
    assert moments[0] == np.datetime64("2024-01-01")


@pytest.mark.parametrize(
    "column",
    [
        *([], (), [1, 2], [None], ["2024-01-01"], range(3), 7, None),
        *(np.arange(3), np.array([1.5]), np.array([1, 2], dtype="m8[s]"), np.array([], dtype=object)),
        *(np.array(np.datetime64("2024-01-01")), np.array([["2024-01-01"]], dtype="M8[s]")),
        *(pd.Series([1, 2]), pd.Series([1, None], dtype="Int64")),
        *(pa.array([1]), pa.array([timedelta(1)]), pa.array([timedelta(1)], pa.duration("us"))),
        *(pl.Series([1.5]), pl.Series([timedelta(1)])),
    ],
)
def test_what_is_no_column_of_dates(column: Any) -> None:
    assert column_of_dates(column) is None


EMPTY = [np.array([], dtype="M8[s]"), pd.Series([], dtype="M8[ns]"), pa.array([], pa.timestamp("s"))]


@pytest.mark.parametrize("column", EMPTY)
def test_an_empty_column(column: Any) -> None:
    found, kind = some(column_of_dates(column))
    assert (found.tolist(), found.dtype, kind) == ([], np.int64, LOCAL)


GOOD, LATER = datetime(2024, 1, 1), datetime(2024, 1, 2)


@pytest.mark.parametrize(
    "column",
    [
        [GOOD, pd.NaT],
        [GOOD, np.datetime64("NaT")],
        np.array([GOOD, None], dtype="M8[s]"),
        np.array([GOOD, None], dtype="M8[ns]"),
        np.array([GOOD, None], dtype="M8[Y]"),
        np.ma.MaskedArray(np.array([GOOD, LATER], dtype="M8[s]"), mask=[False, True]),
        pd.Series([GOOD, None]),
        pd.Series([GOOD, None]).dt.tz_localize("UTC"),
        pd.Series([GOOD, None]).astype("timestamp[us][pyarrow]"),
        pa.array([GOOD, None]),
        pl.Series([GOOD, None]),
        pl.Series([GOOD.date(), None]),
    ],
)
def test_missing_times(column: Any) -> None:
    with pytest.raises(ValueError, match=r"^row 1: a time is missing"):
        column_of_dates(column)


@pytest.mark.parametrize("moment", [np.datetime64("NaT"), np.datetime64("NaT", "s"), pd.NaT])
def test_a_missing_time(moment: Any) -> None:
    with pytest.raises(ValueError, match="a time is missing, got"):
        number_of(moment)


@pytest.mark.parametrize(
    "moment",
    [
        np.datetime64(10**15, "s"),
        np.datetime64(-(2**63) + 1, "us"),
        np.datetime64(2**62, "Y"),
        np.datetime64("10000-01-01"),
        np.datetime64("0000-12-31T23:59:59.999999"),
        np.datetime64(8030, "Y"),
        np.datetime64(-1970 * 12, "M"),
        pd.Timestamp(np.datetime64("20000-01-01", "s")),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=1))),
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))),
    ],
)
def test_times_that_no_datetime_has(moment: Any) -> None:
    with pytest.raises(ValueError, match="a time is in the years 1 to 9999, got"):
        number_of(moment)
    with pytest.raises(ValueError, match="row 1: a time is in the years 1 to 9999, got"):
        column_of_dates([GOOD.replace(tzinfo=getattr(moment, "tzinfo", None)), moment])
    if isinstance(moment, np.datetime64):
        with pytest.raises(ValueError, match="row 0: a time is in the years 1 to 9999, got"):
            column_of_dates(np.array([moment]))


@pytest.mark.parametrize("moment", [np.datetime64(1001, "ns"), np.datetime64(1, "as"), pd.Timestamp(1001)])
def test_nanoseconds_are_not_lost(moment: Any) -> None:
    with pytest.raises(ValueError, match="would be lost"):
        number_of(moment)
    with pytest.raises(ValueError, match=r"row 0: .*would be lost"):
        column_of_dates([moment])


@pytest.mark.parametrize(
    ("column", "says"),
    [
        (
            [GOOD, 3],
            "^row 1: the times of this window are local times without a zone, got 3 ",
        ),
        ([GOOD, LATER.replace(tzinfo=UTC)], "^row 1: .* are local times without a zone, got .*its"),
        ([GOOD.replace(tzinfo=UTC), LATER], r"^row 1: .* are instants in UTC, got .*replace\(tzinfo=...\)"),
        ([GOOD, None], "^row 1: .*got None"),
        ([GOOD, "2024-01-02"], "^row 1: .*got '2024-01-02'"),
        (np.array([GOOD, 3], dtype=object), "^row 1: "),
    ],
)
def test_a_column_is_of_one_kind(column: Any, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        column_of_dates(column)


def test_the_kinds_have_names() -> None:
    assert [kind.value for kind in TimeKind] == ["numbers", "instants in UTC", "local times without a zone"]
