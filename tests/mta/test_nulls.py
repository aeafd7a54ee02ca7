"""Windows with nulls="skip": missing values in batches of any kind, frames, stores, readers, predicates."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mta import AmortizedMTA, LogMTA, Reader, baselines, monoids, policies
from mta.errors import ManifestMismatch
from mta.monoids.expressions import monoid_from_text
from mta.monoids.missing import NULL
from mta.policies import CountWindow
from mta.slicing import Session, Slicer, Tumbling
from stores import open_store
from tests.chance import examples

KINDS = [AmortizedMTA, LogMTA, baselines.DABA]
NAN = math.nan


def listed(results: Any) -> Any:
    if isinstance(results, dict):
        return {name: listed(each) for name, each in results.items()}
    return [None if isinstance(value, float) and math.isnan(value) else value for value in results.tolist()]


# -- batches ------------------------------------------------------------------------------------------------

LARGE = 2**53 + 1
WHOLE: dict[str, Any] = {
    "list": [LARGE, None, 3, None],
    "tuple": (LARGE, None, 3, None),
    "list of NumPy": [np.int64(LARGE), None, np.int32(3), np.float64("nan")],
    "objects": np.array([LARGE, None, 3, NAN], dtype=object),
    "masked": np.ma.array([LARGE, 7, 3, 7], mask=[0, 1, 0, 1]),
    "masked, small": np.ma.array([LARGE, NULL, 3, NULL], mask=[0, 1, 0, 1]),
    "masked, unsigned": np.ma.array([LARGE, 2**64 - 1, 3, 0], mask=[0, 1, 0, 1], dtype=np.uint64),
    "arrow": pa.array([LARGE, None, 3, None]),
    "arrow, unsigned": pa.array([LARGE, None, 3, None], pa.uint64()),
    "arrow, a part": pa.array([1] * 9 + [LARGE, None, 3, None] + [1])[9:13],
    "arrow, chunked": pa.chunked_array([[LARGE, None], [], [3, None]]),
    "arrow, chunked parts": pa.chunked_array([[5, LARGE, None], [3, None]])[1:],
    "polars": pl.Series([LARGE, None, 3, None]),
    "pandas": pd.Series([LARGE, None, 3, None], dtype="Int64", index=[7, 8, 9, 1]),
    "pandas, unsigned": pd.Series([LARGE, None, 3, None], dtype="UInt64"),
    "pandas, objects": pd.Series([LARGE, None, 3, pd.NA], dtype=object),
    "pandas of arrow": pd.Series([LARGE, None, 3, None], dtype="int64[pyarrow]"),
}
REAL: dict[str, Any] = {
    "list": [1.5, None, -0.5, NAN],
    "array": np.array([1.5, NAN, -0.5, NAN]),
    "array, single": np.array([1.5, NAN, -0.5, NAN], dtype=np.float32),
    "array, half": np.array([1.5, NAN, -0.5, NAN], dtype=np.float16),
    "masked": np.ma.array([1.5, 7, -0.5, NAN], mask=[0, 1, 0, 0]),
    "arrow": pa.array([1.5, None, -0.5, NAN]),
    "arrow, single": pa.array([1.5, None, -0.5, NAN], pa.float32()),
    "arrow, chunked": pa.chunked_array([pa.array([1.5, None]), pa.array([-0.5, NAN])]),
    "polars": pl.Series([1.5, None, -0.5, NAN]),
    "pandas": pd.Series([1.5, None, -0.5, NAN]),
    "pandas, nullable": pd.Series([1.5, None, -0.5, None], dtype="Float64"),
}
FLAGS: dict[str, Any] = {
    "list": [True, None, False, None],
    "masked": np.ma.array([True, True, False, True], mask=[0, 1, 0, 1]),
    "arrow": pa.array([True, None, False, None]),
    "arrow, a part": pa.array([True] * 9 + [None, False, None])[8:],
    "polars": pl.Series([True, None, False, None]),
    "pandas": pd.Series([True, None, False, None], dtype="boolean"),
}
TEXTS: dict[str, Any] = {
    "list": ["a", None, "b", None],
    "masked": np.ma.array(["a", "x", "b", "x"], mask=[0, 1, 0, 1]),
    "masked objects": np.ma.array(["a", "x", "b", "x"], mask=[0, 1, 0, 1], dtype=object),
    "arrow": pa.array(["a", None, "b", None]),
    "arrow, chunked": pa.chunked_array([["a", None], ["b", None]]),
    "arrow, dictionary": pa.array(["a", None, "b", None]).dictionary_encode(),
    "polars": pl.Series(["a", None, "b", None]),
    "pandas": pd.Series(["a", None, "b", NAN], dtype=object),
    "pandas, nullable": pd.Series(["a", None, "b", None], dtype="string"),
    "pandas, categories": pd.Series(["a", None, "b", None], dtype="category"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("label", WHOLE)
def test_whole_numbers(kind: Any, label: str) -> None:
    column = WHOLE[label]
    found = kind(monoids.Max(), CountWindow(2), nulls="skip").slide(column)
    assert listed(found) == [LARGE, LARGE, 3, 3]
    assert list(kind(monoids.Collect(), CountWindow(2), nulls="skip").slide(column)) == [
        [LARGE],
        [LARGE],
        [3],
        [3],
    ]
    # a missing element rounds nothing
    assert kind(monoids.Sum(), nulls="skip").slide(column).tolist() == [LARGE, LARGE, LARGE + 3, LARGE + 3]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("label", REAL)
def test_real_numbers(kind: Any, label: str) -> None:
    window = kind(monoids.Fields(top=monoids.Max(), sum=monoids.Sum(), n=monoids.Count()), nulls="skip")
    assert listed(window.slide(REAL[label])) == {
        "top": [1.5] * 4,
        "sum": [1.5, 1.5, 1.0, 1.0],
        "n": [1, 2, 3, 4],
    }
    window = kind(monoids.Mean(), CountWindow(1), nulls="skip")
    assert listed(window.slide(REAL[label])) == [1.5, None, -0.5, None]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("label", FLAGS)
def test_booleans(kind: Any, label: str) -> None:
    assert kind(monoids.Sum(), CountWindow(2), nulls="skip").slide(FLAGS[label]).tolist() == [1, 1, 0, 0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("label", TEXTS)
def test_texts(kind: Any, label: str) -> None:
    table = {"w": TEXTS[label], "x": [1, 2, None, 3]}
    for more in ({}, {"all": monoids.Collect("w")}):
        some = {"last": monoids.Last("w"), "n": monoids.Count("w"), "top": monoids.ArgMax("x", "w")}
        window = kind(monoids.Fields(**some, **more), CountWindow(2), nulls="skip")
        found = listed(window.slide(table))
        assert found["last"] == ["a", "a", "b", "b"]
        assert found["n"] == [1, 1, 1, 1]
        assert found["top"] == ["a", None, None, None]
        if more:
            assert found["all"] == [["a"], ["a"], ["b"], ["b"]]
    assert kind(monoids.Concat(), nulls="skip").slide(TEXTS[label]).tolist() == ["a", "a", "ab", "ab"]


ANYTHING: dict[str, Any] = {
    "times": np.array(["2026-01-01", "NaT", "2026-01-02"], dtype="M8[s]"),
    "durations": np.array([1, "NaT", 2], dtype="m8[s]"),
    "arrow times": pa.array([datetime(2026, 1, 1), None, datetime(2026, 1, 2)]),
    "arrow times, chunked": pa.chunked_array([[datetime(2026, 1, 1), None], [datetime(2026, 1, 2)]]),
    "arrow dates": pa.array([date(2026, 1, 1), None, date(2026, 1, 2)]),
    "arrow durations": pa.array([1, None, 2], pa.duration("ms")),
    "arrow decimals": pa.array([Decimal("1.5"), None, Decimal(2)]),
    "arrow lists": pa.array([[1], None, []]),
    "arrow texts": pa.array(["", None, "x"]),
    "polars times": pl.Series([datetime(2026, 1, 1), None, datetime(2026, 1, 2)]),
    "pandas times": pd.Series([pd.Timestamp("2026-01-01"), pd.NaT, pd.Timestamp("2026-01-02")]),
    "pandas zoned": pd.Series(
        [pd.Timestamp("2026-01-01", tz="UTC"), pd.NaT, pd.Timestamp("2026-01-02", tz="UTC")]
    ),
    "list": [{1}, None, [pd.NaT]],
    "the code": [NULL, NAN, float(NULL)],
    "array of the code": np.array([NULL, NAN, 1.0]),
    "masked": np.ma.array([NULL, 1, 2], mask=[0, 1, 0]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("label", ANYTHING)
def test_counts_of_anything(kind: Any, label: str) -> None:
    """Count("x") only asks whether x is there, and Count() counts elements."""
    for more in ({}, {"all": monoids.Collect("k")}, {"top": monoids.Max("k")}):
        fields = monoids.Fields(n=monoids.Count("x"), rows=monoids.Count(), **more)
        window = kind(fields, nulls="skip")
        found = window.slide({"x": ANYTHING[label], "k": [1, 2, 3]})
        assert found["n"].tolist() == [1, 1, 2]
        assert found["rows"].tolist() == [1, 2, 3]
    window = kind(monoids.Count("x"), CountWindow(2), nulls="skip")
    assert window.slide({"x": ANYTHING[label]}).tolist() == [1, 1, 1]
    assert kind(monoids.Count(), nulls="skip").slide(ANYTHING[label]).tolist() == [1, 2, 3]


@pytest.mark.parametrize("label", ["times", "durations", "arrow times", "arrow dates", "pandas times"])
def test_columns_of_times_are_refused_as_without_nulls(label: str) -> None:
    for nulls in ("refuse", "skip"):
        with pytest.raises((TypeError, ValueError), match=r"whole numbers first|is missing"):
            AmortizedMTA(monoids.Max(), nulls=nulls).slide(ANYTHING[label])


def test_tables() -> None:
    frame = pd.DataFrame({"x": [1.0, None, 3.0], "w": ["a", "b", None]})
    for table in (
        frame,
        pl.from_pandas(frame),
        pa.Table.from_pandas(frame),
        pa.RecordBatch.from_pandas(frame),
    ):
        window = AmortizedMTA(monoids.ArgMax("x", "w"), nulls="skip")
        assert window.slide(table).tolist() == ["a", "a", None]
        assert AmortizedMTA({"n": monoids.Count()}, nulls="skip").slide(table)["n"].tolist() == [1, 2, 3]


@pytest.mark.parametrize("kind", KINDS)
def test_pairs(kind: Any) -> None:
    x, y = [1.0, None, 3.0, 2.0], [2.0, 5.0, None, 6.0]
    rows = [*zip(x[:3], y[:3], strict=True), None, (2.0, 6.0)]
    for batch in ((x, y), (np.array(x, float), pa.array(y))):
        window = kind(monoids.Slope(), nulls="skip")
        assert listed(window.slide(batch)) == [None, None, None, 4.0]
    assert listed(kind(monoids.Slope(), nulls="skip").slide(rows)) == [None, None, None, None, 4.0]
    window = kind(monoids.Fields(a=monoids.ArgMax(), n=monoids.Count()), nulls="skip")
    assert listed(window.slide(rows)) == {"a": [2.0, 2.0, None, None, None], "n": [1, 2, 3, 4, 5]}
    window = kind(monoids.LongestIncreasingRun(), nulls="skip")
    assert [run.count for run in window.slide(rows)] == [1, 1, 1, 1, 2]


mixed = st.one_of(st.none(), st.just(NAN), st.integers(-(2**63) + 1, 2**63 - 1), st.floats(-9, 9))


@settings(max_examples=examples(25))
@given(
    st.lists(st.lists(mixed, max_size=9), min_size=1, max_size=6),
    st.sampled_from([2, 4, None]),
    st.booleans(),
)
def test_whole_and_real_numbers_in_turn(batches: list[list[Any]], page_size: int | None, push: bool) -> None:
    """Columns of both kinds are joined, and nothing of a missing value stays."""
    window = AmortizedMTA(monoids.Max(), CountWindow(7), page_size=page_size, nulls="skip")
    seen: list[Any] = []
    for batch in batches:
        wanted = []
        for value in batch:
            seen.append(value)
            wanted.append(
                max((each for each in seen[-7:] if each is not None and each == each), default=None)
            )
        found = [window.push(value) for value in batch] if push else window.slide(batch).tolist()
        assert found == wanted
        assert len(window) == min(7, len(seen))


# -- bad input ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "column",
    [
        [1, None, NULL],
        [1.5, None, float(NULL)],
        np.array([1, 2, NULL]),
        np.array([1.0, -math.inf, NULL]),
        np.array([NAN, -math.inf, NULL]),
        np.ma.array([1, NULL, NULL], mask=[0, 1, 0]),
        pa.array([1, None, NULL]),
        ["a", None, np.int64(NULL)],
    ],
    ids=["list", "reals", "array", "infinite", "NaN", "masked", "arrow", "texts"],
)
def test_the_code_is_no_element(kind: Any, column: Any) -> None:
    window = kind(monoids.Last(), nulls="skip")
    with pytest.raises(ValueError, match=r"row 2.*nulls='skip'|-9223372036854775808 in row 2.*nulls='skip'"):
        window.slide(column)
    with pytest.raises(ValueError, match=r"got -9223372036854775808, the one number that nulls='skip' keeps"):
        window.push(column[2].as_py() if isinstance(column, pa.Array) else column[2])
    assert len(window) == 0
    assert kind(monoids.Last()).slide([NULL]).tolist() == [NULL]


@pytest.mark.parametrize("kind", KINDS)
def test_bad_values_among_missing_ones_name_their_row(kind: Any) -> None:
    cases: list[tuple[monoids.Monoid, Any, str]] = [
        (monoids.Sum(), [None, 1, None, "x"], "row 3: .*got 'x'"),
        (monoids.Sum(), [None, 1, None, 2**64], "row 3: .*does not fit in 64 bits"),
        (monoids.GeometricMean(), np.array([NAN, 1, NAN, -2]), "row 3: .*no negative numbers"),
        (monoids.Concat(), [None, "a", None, 5], "row 3: .*takes str"),
        (monoids.Covariance(), ([None, 1, 2, 2**53 + 1], [1, 2, None, 4]), "row 3: .*beyond 2.53"),
        (monoids.DistinctCount(), [None, "a", None, [1]], "row 3: "),
    ]
    for monoid, batch, why in cases:
        window = kind(monoid, nulls="skip")
        with pytest.raises((TypeError, ValueError, OverflowError), match=why):
            window.slide(batch)
        assert len(window) == 0
    window = kind(monoids.Fields(a=monoids.Max("x"), b=monoids.Last("y")), nulls="skip")
    for element in ({"x": None}, {"y": None}):
        with pytest.raises(KeyError, match="needs the field"):
            window.push(element)
    with pytest.raises(KeyError, match=r"needs the column\(s\) \['y'\]"):
        window.slide({"x": [None, 1]})
    with pytest.raises(ValueError, match="must have one length"):
        window.slide({"x": [None, 1], "y": [None]})
    for element in (None, 5):
        with pytest.raises(TypeError, match="takes a mapping"):
            window.push(element)
    assert len(window) == 0


@pytest.mark.parametrize("kind", [AmortizedMTA, LogMTA])
def test_a_column_has_one_dimension(kind: Any) -> None:
    for monoid in (monoids.Max("x"), monoids.Count("x"), monoids.Last("x")):
        for column in (np.ones((2, 2)), np.array([[1, None], ["a", 2]], dtype=object)):
            with pytest.raises(TypeError, match=r"takes columns, got an array of shape \(2, 2\)"):
                kind(monoid, nulls="skip").slide({"x": column})


@pytest.mark.parametrize("kind", KINDS)
def test_batches_of_nothing(kind: Any) -> None:
    """Without elements, and with nothing but missing ones."""
    fields = {"top": monoids.Max("x"), "n": monoids.Count("x"), "last": monoids.Last("w")}
    for empty in ([], np.zeros(0), pa.array([], pa.int64()), pa.chunked_array([], pa.string())):
        window = kind(fields, nulls="skip")
        window.slide({"x": empty, "w": empty})
        assert len(window) == 0
    for column in (
        [None] * 3,
        np.full(3, NAN),
        pa.nulls(3),
        pa.nulls(3, pa.float64()),
        pl.Series([None] * 3),
    ):
        for objects in ({}, {"all": monoids.Collect("x")}):
            window = kind({**fields, **objects}, nulls="skip")
            found = listed(window.slide({"x": column, "w": column}))
            assert (found["top"], found["n"], found["last"]) == ([None] * 3, [0] * 3, [None] * 3)
            assert len(window) == 3


def test_other_choices_are_refused() -> None:
    for kind in KINDS:
        for nulls in ("drop", None, True):
            with pytest.raises(ValueError, match='nulls is "refuse" or "skip", got'):
                kind(monoids.Max(), nulls=nulls)
    assert AmortizedMTA(monoids.Max()).nulls == "refuse"
    assert AmortizedMTA({"a": monoids.Max("x")}, nulls="skip").nulls == "skip"


# -- frames -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page_size", [2, 4, None])
@pytest.mark.parametrize("kind", [AmortizedMTA, LogMTA])
@pytest.mark.parametrize("objects", [False, True])
def test_frames(kind: Any, page_size: int | None, objects: bool) -> None:
    """Frames and min_count count all elements, and aggregates have those with a value."""
    fields: dict[str, Any] = {
        "max_3": monoids.Max("x").over(rows=3),
        "sum_5": monoids.Sum("x").over(5),
        "n_5": monoids.Count("x").over(5),
        "rows_5": monoids.Count().over(5),
        "before": monoids.Last("x").over(policies.TimeWindow(4, closed="left")),
        "enough": monoids.Max("x").over(rows=4, min_count=3),
        **({"all_3": monoids.Collect("x").over(rows=3)} if objects else {}),
    }
    xs = [None, 4, None, None, None, 2, 7, None, None, None, None, 1, None]
    count = len(xs)

    def there(start: int, stop: int) -> list[Any]:
        return [x for x in xs[max(0, start) : max(0, stop)] if x is not None]

    wanted = [
        {
            "max_3": max(there(at - 2, at + 1), default=None),
            "sum_5": sum(there(at - 4, at + 1)),
            "n_5": len(there(at - 4, at + 1)),
            "rows_5": min(5, at + 1),
            "before": (there(at - 4, at) or [None])[-1],
            "enough": None if at < 2 else max(there(at - 3, at + 1), default=None),
            **({"all_3": there(at - 2, at + 1)} if objects else {}),
        }
        for at in range(count)
    ]
    pushed = kind(monoids.Fields(**fields), page_size=page_size, nulls="skip")
    assert [pushed.push({"x": x}, time=at) for at, x in enumerate(xs)] == wanted
    assert len(pushed) == 5
    window = kind(monoids.Fields(**fields), page_size=page_size, nulls="skip")
    for start, stop in ((0, 1), (1, 8), (8, count)):
        found = listed(window.slide({"x": xs[start:stop]}, range(start, stop)))
        assert found == {name: [each[name] for each in wanted[start:stop]] for name in wanted[0]}
    assert window.at(count + 1)["n_5"] == len(there(count + 1 - 4, count))


# -- predicates ---------------------------------------------------------------------------------------------


def kept_by(evicts: Callable[[Sequence[Any], int], bool], xs: Sequence[Any]) -> list[int]:
    """The length of a window after each element, where `evicts(window, k)` has its first k elements leave."""
    window: list[Any] = []
    lengths = []
    for x in xs:
        window.append(x)
        gone = 0
        while gone < len(window) and evicts(window, gone + 1):
            gone += 1
        del window[:gone]
        lengths.append(len(window))
    return lengths


def total(xs: Sequence[Any]) -> int:
    return sum(x for x in xs if x is not None)


def top(xs: Sequence[Any]) -> float:
    return max((x for x in xs if x is not None), default=-math.inf)


PREDICATES: dict[str, tuple[Any, Any, Callable[[Sequence[Any], int], bool]]] = {
    "sum": (monoids.Sum, lambda field: policies.SumWindow(9, field), lambda xs, k: total(xs[k:]) >= 9),
    "max": (monoids.Max, policies.OlderThanMaximum, lambda xs, k: top(xs) > top(xs[:k])),
    "while": (
        monoids.Sum,
        lambda field: policies.While(
            lambda all_, old: all_ - old > 9 if field is None else all_[field] - old[field] > 9, columns=True
        ),
        lambda xs, k: total(xs) - total(xs[:k]) > 9,
    ),
}


@pytest.mark.parametrize("kind", [*KINDS, baselines.TwoStacks])
@pytest.mark.parametrize("case", PREDICATES)
@pytest.mark.parametrize("field", [None, "x"])
def test_predicates_see_values(kind: Any, case: str, field: str | None) -> None:
    """Where there is no value, a predicate sees the aggregate of no elements."""
    make, policy, evicts = PREDICATES[case]
    xs = [None, None, 3, None, 5, None, None, 4, 1, None, 9, None, None, None, 2, 30, None, None, 1, None] * 4
    for page_size in (2, None):
        options = {} if kind in (baselines.DABA, baselines.TwoStacks) else {"page_size": page_size}
        monoid = make() if field is None else monoids.Fields(x=make(), n=monoids.Count())
        window = kind(monoid, policy(field), nulls="skip", **options)
        lengths = kept_by(evicts, xs)
        for at, x in enumerate(xs[:20]):
            window.push(x)
            assert len(window) == lengths[at]
        window.slide(xs[20:])
        assert len(window) == lengths[-1]


# -- stores -------------------------------------------------------------------------------------------------


def test_checkpoints_know_what_becomes_of_missing_values() -> None:
    store = open_store("memory:")
    for name, monoid in {"plain": monoids.Max(), "fields": monoids.Fields(a=monoids.Max("x"))}.items():
        for nulls, other in (("refuse", "skip"), ("skip", "refuse")):
            with AmortizedMTA(monoid, store=store, name=f"{name}-{nulls}", nulls=nulls) as window:
                window.checkpoint()
            for open_one in (AmortizedMTA.restore, AmortizedMTA.open, Reader.open):
                with pytest.raises(ManifestMismatch, match=rf'\(give nulls="{nulls}"\)'):
                    open_one(store, f"{name}-{nulls}", monoid, nulls=other)
            with AmortizedMTA.open(store, f"{name}-{nulls}", monoid, nulls=nulls) as window:
                assert window.nulls == nulls


@pytest.mark.parametrize("page_size", [2, 4, None])
@pytest.mark.parametrize("objects", [False, True])
def test_readers(page_size: int | None, objects: bool) -> None:
    fields: dict[str, Any] = {
        "top": monoids.Max("x"),
        "n": monoids.Count("x"),
        "who": monoids.ArgMax("x", "w"),
    }
    if objects:
        fields["all"] = monoids.Collect("w")
    store, policy = open_store("memory:"), policies.CountWindow(7)
    xs = [None, 3, 5, None, 1, None, None, None, 2, None, None]
    ws = ["a", None, None, "b", "c", None, "d", "e", "f", None, "g"]
    options: Any = {"store": store, "page_size": page_size, "nulls": "skip"}
    with AmortizedMTA(monoids.Fields(**fields), policy, name="w", **options) as window:
        window.extend({"x": xs, "w": ws})
        window.checkpoint()
        wanted = window.query()
    assert {name: wanted[name] for name in ("top", "n", "who")} == {"top": 2, "n": 2, "who": "f"}
    assert not objects or wanted["all"] == ["c", "d", "e", "f", "g"]
    reader = Reader.open(store, "w", monoids.Fields(**fields), policy, nulls="skip")
    assert reader.query() == wanted
    assert len(reader) == 7
    assert reader.range_query(5, 7)["top"] is None
    many = Reader.open_many(store, ["w"], monoids.Fields(**fields), policy, nulls="skip")
    assert many["w"].query() == wanted
    text = monoid_from_text(reader.monoid.fingerprint())
    assert text.fingerprint() == reader.monoid.fingerprint()
    assert Reader.open(store, "w", text, policy).query() == wanted  # as `mta query` does


# -- baselines, slicers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    [
        *(baselines.Recalculate, baselines.SubtractOnEvict, baselines.TwoStacks, baselines.FunctionalOkasaki),
        *(baselines.ImperativeOkasaki, baselines.DABA, baselines.ReactiveAggregator, baselines.BaseIntervals),
        lambda *args, **options: baselines.DABA(*args, cached=True, **options),
    ],
)
def test_baselines(kind: Any) -> None:
    fields = {
        "n": monoids.Count("x"),
        "rows": monoids.Count(),
        "sum": monoids.Sum("x"),
        "mean": monoids.Mean("x"),
        "text": monoids.Concat("w"),
    }
    xs = [None, 3, 5, None, 1, None, None, None, 2, None, None, 7]
    ws = ["a", None, None, "b", "c", None, None, None, "f", None, "g", "h"]

    def expected(at: int) -> dict[str, Any]:
        some = [x for x in xs[max(0, at - 2) : at + 1] if x is not None]
        return {
            "n": len(some),
            "rows": min(at + 1, 3),
            "sum": sum(some),
            "mean": sum(some) / len(some) if some else None,
            "text": "".join(w for w in ws[max(0, at - 2) : at + 1] if w is not None),
        }

    wanted = [expected(at) for at in range(len(xs))]
    window = kind(fields, CountWindow(3), nulls="skip")
    for at in range(6):
        found = window.push({"x": xs[at], "w": ws[at]})
        assert {**found, "mean": None if math.isnan(found["mean"]) else found["mean"]} == wanted[at]
    found = listed(window.slide({"x": xs[6:], "w": ws[6:]}))
    assert found == {name: [each[name] for each in wanted[6:]] for name in fields}


def test_subtraction_by_a_function() -> None:
    add = monoids.from_function(lambda a, b: a + b, None, name="add")
    window = baselines.SubtractOnEvict(add, CountWindow(2), inverse=lambda state: -state, nulls="skip")
    assert [window.push(x) for x in (None, 1, 2, None, 5, None)] == [None, 1, 3, 2, 5, 5]


@pytest.mark.parametrize("objects", [False, True])
def test_slicers(objects: bool) -> None:
    fields: dict[str, Any] = {"sum": monoids.Sum("x"), "top": monoids.Max("x"), "n": monoids.Count("x")}
    if objects:
        fields["all"] = monoids.Collect("x")
    queries: Any = {"ten": Tumbling(10), "visit": Session(5)}
    tuples = [(3, None), (1, 4), (7, 2.5), (13, None), (14, None), (33, 7), (31, None), (52, None)]

    def wanted(some: Sequence[Any]) -> dict[str, Any]:
        there = [x for x in some if x is not None]
        found = {"sum": sum(there), "top": max(there, default=None), "n": len(there), "all": there}
        return {name: found[name] for name in fields}

    by_time = sorted(tuples, key=lambda each: each[0])
    tens: dict[int, list[Any]] = {}
    for time, x in by_time:
        tens.setdefault(time // 10 * 10, []).append(x)
    sessions: dict[int, list[Any]] = {}
    last, start = -math.inf, 0
    for time, x in by_time:
        start = start if time - last < 5 else time
        sessions.setdefault(start, []).append(x)
        last = time
    for way in ("lazy", "eager", "dump", "store"):
        store: Any = open_store("memory:") if way == "store" else "eager" if way == "eager" else "lazy"
        slicer = Slicer(fields, queries, store=store, name="s", nulls="skip")
        for time, x in tuples[:5]:
            slicer.insert({"x": x}, time)
        results = slicer.watermark(6)
        if way == "dump":
            with pytest.raises(ManifestMismatch, match='give nulls="skip"'):
                Slicer.load(slicer.dump(), fields)
            slicer = Slicer.load(slicer.dump(), fields, nulls="skip")
        if way == "store":
            slicer.checkpoint()
            slicer.close()
            with pytest.raises(ManifestMismatch, match='give nulls="skip"'):
                Slicer.restore(store, "s", fields)
            slicer = Slicer.restore(store, "s", fields, nulls="skip")
        slicer.extend({"x": [x for _, x in tuples[5:]]}, [time for time, _ in tuples[5:]])
        results += slicer.watermark(1000)
        found = {(each.query, each.start): each.value for each in results}
        assert {start: value for (name, start), value in found.items() if name == "ten"} == {
            start: wanted(some) for start, some in tens.items()
        }
        assert {start: value for (name, start), value in found.items() if name == "visit"} == {
            start: wanted(some) for start, some in sessions.items()
        }
