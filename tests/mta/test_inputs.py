"""Batches as arrays, Arrow columns, Series and tables; and what is refused, in words that help."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from mta import AmortizedMTA, LogMTA, baselines, monoids
from mta.policies import CountWindow, TimeWindow
from stores import open_store

KINDS = [AmortizedMTA, LogMTA, baselines.DABA]

NUMBERS = [3, 1, 2]
COLUMNS: dict[str, Callable[[list[int]], Any]] = {
    "list": list,
    "tuple": tuple,
    "int8": lambda some: np.array(some, dtype=np.int8),
    "objects": lambda some: np.array(some, dtype=object),
    "not masked": lambda some: np.ma.array(some, mask=False),
    "arrow": pa.array,
    "arrow, chunked": lambda some: pa.chunked_array([some[:1], some[1:]]),
    "arrow, small": lambda some: pa.array(some, pa.uint8()),
    "polars": pl.Series,
    "pandas": lambda some: pd.Series(some, index=[7, 8, 9]),
    "pandas, nullable": lambda some: pd.Series(some, dtype="Int64"),
    "pandas, nullable real": lambda some: pd.Series(some, dtype="Float64"),
    "pandas of arrow": lambda some: pd.Series(some, dtype="int64[pyarrow]"),
    "pandas by dates": lambda some: pd.Series(some, index=pd.date_range("2026-01-01", periods=3)),
}
TEXTS: dict[str, Any] = {
    "list": ["c", "a", "b"],
    "array": np.array(["c", "a", "b"]),
    "arrow": pa.array(["c", "a", "b"]),
    "arrow, chunked": pa.chunked_array([["c"], ["a", "b"]]),
    "polars": pl.Series(["c", "a", "b"]),
    "pandas": pd.Series(["c", "a", "b"]),
    "pandas, nullable": pd.Series(["c", "a", "b"], dtype="string"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("label", COLUMNS)
def test_columns_of_numbers(kind: Any, label: str) -> None:
    column = COLUMNS[label](NUMBERS)
    assert kind(monoids.Max(), CountWindow(2)).slide(column).tolist() == [3, 3, 2]
    assert list(kind(monoids.Collect(), CountWindow(2)).slide(column)) == [[3], [3, 1], [1, 2]]
    window = kind(monoids.Fields(top=monoids.Max("x"), all=monoids.Collect("x")), CountWindow(2))
    window.extend({"x": column})
    assert window.query() == {"top": 2, "all": [1, 2]}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("label", COLUMNS)
def test_columns_of_times(kind: Any, label: str) -> None:
    window = kind(monoids.Sum(), TimeWindow(2))
    assert window.slide([1, 10, 100], COLUMNS[label]([1, 2, 3])).tolist() == [1, 11, 110]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("label", TEXTS)
def test_columns_of_texts(kind: Any, label: str) -> None:
    assert kind(monoids.Concat(), CountWindow(2)).slide(TEXTS[label]).tolist() == ["c", "ca", "ab"]
    assert kind(monoids.Last(), CountWindow(2)).slide(TEXTS[label]).tolist() == ["c", "a", "b"]
    pairs = kind(monoids.ArgMax(), CountWindow(2))
    assert pairs.slide(list(zip(NUMBERS, ["c", "a", "b"], strict=True))).tolist() == ["c", "c", "b"]


TABLES: dict[str, Any] = {
    "mapping": {"x": NUMBERS, "who": ["c", "a", "b"], "other": [None] * 3},
    "pandas": pd.DataFrame({"x": NUMBERS, "who": ["c", "a", "b"]}),
    "polars": pl.DataFrame({"x": NUMBERS, "who": ["c", "a", "b"]}),
    "arrow": pa.table({"x": NUMBERS, "who": ["c", "a", "b"]}),
    "arrow batch": pa.record_batch({"x": NUMBERS, "who": ["c", "a", "b"]}),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("label", TABLES)
def test_tables(kind: Any, label: str) -> None:
    table = TABLES[label]
    assert kind(monoids.ArgMax("x", "who"), CountWindow(2)).slide(table).tolist() == ["c", "c", "b"]
    assert kind(monoids.Concat("who"), CountWindow(2)).slide(table).tolist() == ["c", "ca", "ab"]
    for monoid in (monoids.Max(), monoids.Collect()):
        with pytest.raises(TypeError, match=r"so it takes one column .*'who', 'x'.*give it one"):
            kind(monoid).slide(table)
    with pytest.raises(KeyError, match=r"needs the column\(s\) \['y'\], got only"):
        kind(monoids.Max("y")).extend(table)


MISSING: dict[str, Any] = {
    "masked": np.ma.array(NUMBERS, mask=[0, 1, 0]),
    "masked reals": np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0]),
    "masked objects": np.ma.array(["a", "b", "c"], mask=[0, 1, 0], dtype=object),
    "arrow": pa.array([1, None, 3]),
    "arrow, chunked": pa.chunked_array([[1], [None, 3]]),
    "arrow texts": pa.array(["a", None, "c"]),
    "polars": pl.Series([1, None, 3]),
    "polars texts": pl.Series(["a", None, "b"]),
    "pandas, nullable": pd.Series([1, None, 3], dtype="Int64"),
    "pandas, nullable texts": pd.Series(["a", None, "c"], dtype="string"),
    "pandas of arrow": pd.Series([1, None, 3], dtype="int64[pyarrow]"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("label", MISSING)
def test_missing_values_are_refused(kind: Any, label: str) -> None:
    column = MISSING[label]
    some = [monoids.Sum(), monoids.Last(), monoids.Collect(), monoids.Count()]
    some += [monoids.from_function(max, None, name="max"), monoids.DistinctCount()]
    for monoid in some:
        window = kind(monoid)
        with pytest.raises(ValueError, match="row 1: the value is missing, as are 1 of 3; drop or replace"):
            window.slide(column)
        with pytest.raises(ValueError, match="row 1: the value is missing"):
            window.slide([1, 2, 3], column)
        assert len(window) == 0
    with pytest.raises(ValueError, match="row 1: the value of 'x' is missing"):
        kind(monoids.Fields(top=monoids.Max("x"), n=monoids.Count())).extend({"x": column})


@pytest.mark.parametrize("kind", KINDS)
def test_a_single_masked_value_is_refused(kind: Any) -> None:
    for monoid in (monoids.Sum(), monoids.Last(), monoids.Collect(), monoids.LongestIncreasingRun()):
        window = kind(monoid)
        with pytest.raises(TypeError, match=r"masked|--"):
            window.push(np.ma.masked)
        with pytest.raises(TypeError):
            window.slide([1, np.ma.masked])
        with pytest.raises(TypeError):
            window.push(1, np.ma.masked)
        assert len(window) == 0


SCALARS = [np.uint8(200), np.int8(100), np.float32(0.1), np.float16(0.1), np.longdouble(0.5), np.True_]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scalar", SCALARS, ids=lambda scalar: type(scalar).__name__)
def test_scalars_of_numpy_are_plain_numbers(kind: Any, scalar: Any) -> None:
    """They wrap or round where Python does not, so a push would differ from a batch."""
    plain = scalar.item() if not isinstance(scalar, np.longdouble) else float(scalar)
    for monoid in (monoids.from_function(operator.add, 0), monoids.Sum()):
        window = kind(monoid, CountWindow(3))
        assert [window.push(scalar) for _ in range(3)] == [plain, plain + plain, plain + plain + plain]
        assert window.slide([scalar, scalar]).tolist() == [plain + plain + plain] * 2
    for monoid in (monoids.Last("x"), monoids.Fields(all=monoids.Collect("x"))):
        window = kind(monoid)
        result = window.push({"x": scalar})
        found = result["all"][0] if isinstance(result, dict) else result
        assert (type(found), found) == (type(plain), plain)
    with open_store("memory:") as store, AmortizedMTA(monoids.Last(), store=store, name="w") as stored:
        assert stored.push(scalar) == plain
        stored.checkpoint()


TIME_TYPES = [np.timedelta64(5, "ns"), np.timedelta64(5, "h"), np.timedelta64("NaT"), np.datetime64(5, "ns")]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", TIME_TYPES, ids=repr)
def test_scalars_of_time_types_are_refused_as_their_columns_are(kind: Any, value: Any) -> None:
    some: list[Any] = [monoids.Sum(), monoids.Last(), monoids.from_function(max, None)]
    for monoid in some:
        with pytest.raises(TypeError, match="64"):
            kind(monoid).push(value)
    with pytest.raises(TypeError, match="64"):
        kind(monoids.Fields(all=monoids.Collect("x"))).push({"x": value})
    window = kind(monoids.Count(), TimeWindow(3))
    with pytest.raises((TypeError, ValueError), match="64"):
        window.push(1, value)
    with pytest.raises((TypeError, ValueError), match="64"):
        window.evict_until(value)


def named(value: object) -> str:
    """The same in every process."""
    return type(value).__name__ if hasattr(value, "__next__") else repr(value)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("batch", "words"),
    [
        ({1, 2}, "has an order, which a set has not"),
        (frozenset([1]), "has an order, which a frozenset has not"),
        ({1: 2}.keys(), "has an order, which a dict_keys has not"),
        (np.array(5), "use insert or push for a single element"),
        (np.float64(5), "use insert or push for a single element"),
        (np.ma.masked, "use insert or push for a single element"),
        (5, "use insert or push for a single element"),
        ("abc", "use insert or push for a single element"),
        (iter([1]), "is a sequence or an array"),
        (np.array(["2026-01-01"], dtype="M8[ns]"), r"datetime64\[ns\]; make them whole numbers first"),
        (pd.Series(pd.date_range("2026-01-01", periods=2)), "make them whole numbers first"),
    ],
    ids=named,
)
def test_what_is_no_batch(kind: Any, batch: Any, words: str) -> None:
    for monoid in (monoids.Sum(), monoids.Collect()):
        window = kind(monoid)
        for call in (window.slide, window.extend):
            with pytest.raises(TypeError, match=words):
                call(batch)
        assert len(window) == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "times", [np.array(["2026-01-01"], dtype="M8[ns]"), {5}, np.array(5), iter([5]), "5"], ids=named
)
def test_what_are_no_times(kind: Any, times: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="time"):
        kind(monoids.Sum(), TimeWindow(5)).slide([1], times)


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_of_dates_is_not_taken_for_times(kind: Any) -> None:
    with pytest.raises(TypeError, match=r"the policy of this window asks for times: give one with each"):
        kind(monoids.Sum(), TimeWindow(5)).slide(COLUMNS["pandas by dates"](NUMBERS))


def test_fields_that_count_rows_take_any_table() -> None:
    window = AmortizedMTA(monoids.Fields(n=monoids.Count()), CountWindow(3))
    table = {"a": ["x", None], "b": [1.0, float("nan")]}
    assert window.slide(table)["n"].tolist() == [1, 2]
    window.extend(pd.DataFrame(table))
    assert window.query() == {"n": 3}
    with pytest.raises(ValueError, match=r"one length.*'a': 2, 'b': 1"):
        window.extend({"a": [1, 2], "b": [1]})
    with pytest.raises(TypeError, match="table without columns"):
        window.extend({})


@pytest.mark.parametrize("kind", KINDS)
def test_a_column_of_mappings_is_no_table(kind: Any) -> None:
    column = pa.array([[("a", 1)], [], [("b", 2)]], pa.map_(pa.string(), pa.int64()))
    found = kind(monoids.Collect("x"), CountWindow(2)).slide({"x": column})
    assert list(found) == [[[("a", 1)]], [[("a", 1)], []], [[], [("b", 2)]]]
    with pytest.raises(TypeError, match=r"row 0: Sum\(\) takes an int or a float"):
        kind(monoids.Sum()).slide(column)
    nulls = pa.array([[("a", 1)], None], column.type)
    assert list(kind(monoids.Count("x"), nulls="skip").slide({"x": nulls})) == [1, 1]
