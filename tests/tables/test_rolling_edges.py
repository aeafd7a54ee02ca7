"""Rare types, skewed keys, times far apart: the results are those of plain Python."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import mta
from mta import monoids
from mta.keyed import folds
from mta.tables import leaf, long, rows, tree
from mta.tables import roller as roller_module
from mta.tables.long import LongWork
from mta.times.cuts import cuts
from stores import open_store

FAR = 2**62


def column(values: list[Any], kind: pa.DataType) -> pa.Array:
    return pa.array(values, kind, from_pandas=False)


KEYS: dict[str, pa.Array] = {
    "a date that Python has not": column([2**30, 2**30, 2, None], pa.int32()).cast(pa.date32()),
    "a time that Python has not": column([FAR, FAR, 2, None], pa.timestamp("us")),
    "seconds in a zone": column([2**50, 2**50, 2, None], pa.timestamp("s", "UTC")),
    "nanoseconds": column([1, 1, 2, None], pa.timestamp("ns")),
    "duration": column([FAR, FAR, 2, None], pa.duration("ns")),
    "time of day": column([5, 5, 2, None], pa.time64("ns")),
    "interval": column([(1, 1, 1), (1, 1, 1), (1, 2, 1), None], pa.month_day_nano_interval()),
    "decimal of 32 bits": column([Decimal("1.1"), Decimal("1.10"), Decimal(2), None], pa.decimal32(5, 2)),
    "decimal of 64 bits": column([Decimal("1.1"), Decimal("1.10"), Decimal(2), None], pa.decimal64(5, 2)),
    "decimal of 256 bits": column([Decimal("1.1"), Decimal("1.10"), Decimal(2), None], pa.decimal256(50, 2)),
    "view of bytes": column([b"a", b"a", b"", None], pa.binary_view()),
    "view of text": column(["a", "a", "", None], pa.string_view()),
    "bytes of one width": column([b"ab", b"ab", b"cd", None], pa.binary(2)),
    "unsigned": column([2**64 - 1, 2**64 - 1, 2, None], pa.uint64()),
    "extension": pa.ExtensionArray.from_storage(
        pa.uuid(), pa.array([b"a" * 16, b"a" * 16, b"b" * 16, None], pa.binary(16))
    ),
    "not a number": column([math.nan, math.nan, 0.0, None], pa.float64()),
    "no number below 0": column([0.0, -0.0, 1.0, None], pa.float32()),
    "half": pa.array(np.array([math.nan, math.nan, -0.0, 1], np.float16)),
    "bool": column([True, True, False, None], pa.bool_()),
    "category": pa.array(["a", "a", "", None]).dictionary_encode(),
}


@pytest.fixture
def small_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "LEAF_ROWS", 8)


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("name", KEYS)
def test_keys_of_each_type(name: str, split: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if split:
        monkeypatch.setattr(tree, "LEAF_ROWS", 2)
    frame = pa.table({"key": KEYS[name]})
    with mta.Roller(by="key", aggregates={"n": monoids.Count()}) as roller:
        assert roller.append(frame)["n"].to_pylist() == [1, 2, 1, 1]
        assert roller.append(frame.to_reader()).read_all()["n"].to_pylist() == [3, 4, 2, 2]


def test_a_column_of_keys_without_values_goes_with_any_type() -> None:
    with mta.Roller(by="key", aggregates={"n": monoids.Count()}) as roller:
        assert roller.append(pd.DataFrame({"key": ["a", None, "b"]}))["n"].tolist() == [1, 1, 1]
        assert roller.append(pd.DataFrame({"key": [None, None]}))["n"].tolist() == [2, 3]


INPUTS: dict[str, pa.Array] = {
    "decimal": column([Decimal("1.50"), None, Decimal("99999999.99")], pa.decimal128(10, 2)),
    "seconds of a day": column([1, None, 3], pa.int32()).cast(pa.time32("s")),
    "day": column([1, None, 3], pa.int32()).cast(pa.date32()),
    "list": column([[1, 2], None, []], pa.list_(pa.int64())),
    "list of one length": column([["a", "b"], None, ["c", None]], pa.list_(pa.string(), 2)),
    "struct": column([{"x": 1.5, "y": "a"}, None, {"x": None, "y": "b"}], pa.struct({"x": "f8", "y": "str"})),
    "bytes of one width": column([b"ab", None, b"cd"], pa.binary(2)),
}


@pytest.mark.parametrize("name", INPUTS)
def test_aggregates_of_columns_that_are_no_numbers(name: str) -> None:
    values = INPUTS[name]
    frame = pa.table({"x": values, "a": [1, 2, 3]})
    features = {"n": monoids.Count("x"), "all": monoids.Collect("x"), "sum": monoids.Sum("a")}
    out = mta.rolling(frame, aggregates=features)
    assert out["n"].to_pylist() == [1, 1, 2]
    assert out["sum"].to_pylist() == [1, 3, 6]
    first, _, last = values.to_pylist()
    assert out["all"].to_pylist() == [[first], [first], [first, last]]


class Rates(monoids.Monoid):
    """An operator that takes only values that it knows."""

    identity = 0.0
    fields = ("currency",)

    def row(self, value: Any) -> Any:
        return value["currency"]

    def lift_row(self, row: Any) -> float:
        return {"EUR": 1.0, "USD": 0.5}[row]

    def lift(self, value: Any) -> float:
        return self.lift_row(self.row(value))

    def combine(self, older: float, younger: float) -> float:
        return older + younger


@pytest.mark.parametrize("stream", [False, True])
def test_an_operator_is_asked_for_no_value_that_no_row_has(stream: bool) -> None:
    frame = pa.table({"currency": ["EUR", "USD", "EUR"]})
    features = {"rate": Rates(), "last": monoids.Last("currency").over(rows=1)}
    out = mta.rolling(frame.to_reader() if stream else frame, aggregates=features)
    found = out.read_all() if stream else out
    assert found["rate"].to_pylist() == [1.0, 1.5, 2.5]
    assert found["last"].to_pylist() == ["EUR", "USD", "EUR"]


def test_results_that_do_not_fit_are_refused_before_the_rows_are_taken_in() -> None:
    with mta.Roller(on="ts", aggregates={"sum": monoids.Sum("a").over(10)}) as roller:
        roller.append(pa.table({"ts": [0], "a": [0.5]}).to_reader()).close()
        with pytest.raises(TypeError, match="does not fit"):
            roller.append(pa.table({"ts": [100], "a": [2**53 + 1]}).to_reader())
        assert len(roller) == 1
        assert roller.append(pa.table({"ts": [5], "a": [2]}))["sum"].to_pylist() == [2.5]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.usefixtures("small_leaves")
def test_keys_that_come_to_a_long_key_have_no_windows_in_the_store(stream: bool) -> None:
    store = open_store("memory:")
    with mta.Roller(on="ts", by="key", aggregates={"n": monoids.Count().over(1000)}, store=store) as roller:
        seen: dict[int, int] = {}
        # key 0 is long, others come behind it, then 3 gets long too
        for keys in ([0] * 30, [*range(20)], [3] * 30, [0, 3, *range(40)], [7] * 30, [*range(10)] * 2):
            frame = pa.table({"key": keys, "ts": [len(roller)] * len(keys)})
            out = roller.append(frame.to_reader(max_chunksize=7) if stream else frame)
            expected = []
            for key in keys:
                seen[key] = seen.get(key, 0) + 1
                expected.append(seen[key])
            assert (out.read_all() if stream else out)["n"].to_pylist() == expected
        assert len(list(store.list_roots())) == 3
    assert not list(store.list_roots())
    assert not list(store.list_keys(""))


@pytest.mark.usefixtures("small_leaves")
def test_a_key_with_most_of_the_rows_is_set_apart_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    splits = 0
    split = tree.Inflow._split

    def counted(self: tree.Inflow) -> None:
        nonlocal splits
        splits += 1
        split(self)

    monkeypatch.setattr(tree, "LEAF_ROWS", 1000)
    monkeypatch.setattr(tree.Inflow, "_split", counted)
    keys = np.where(np.arange(4000) % 5, 0, np.arange(4000))
    out = mta.rolling(pa.table({"key": keys}), by="key", aggregates={"n": monoids.Count().over(rows=10)})
    assert out["n"].to_pylist()[-2:] == [10, 10]
    assert splits <= 2  # the others may be more than fit together


@pytest.mark.usefixtures("small_leaves")
def test_only_keys_that_are_long_have_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(LongWork, "results", _recorded(LongWork.results, asked))
    keys = [0, 1] * 15 + [*range(2, 20)]
    out = mta.rolling(pa.table({"key": keys}), by="key", aggregates={"n": monoids.Count()})
    assert out["n"].to_pylist() == [i // 2 + 1 for i in range(30)] + [1] * 18
    assert asked == [15, 15]


def _recorded(results: Any, asked: list[int]) -> Any:
    def recorded(self: LongWork, rows: Any) -> Any:
        asked.append(rows.count)
        return results(self, rows)

    return recorded


@pytest.mark.parametrize("closed", ["right", "left", "both", "neither"])
@pytest.mark.parametrize("kind", ["int", "float", "datetime"])
def test_many_keys_whose_times_are_far_apart(kind: str, closed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the windows of all keys cannot be searched on one line of whole numbers."""
    year = 365 * 24 * 3600 * 1_000_000
    searches: list[int] = []
    monkeypatch.setattr(folds, "cuts", lambda *args: searches.append(1) or cuts(*args))
    rng = np.random.default_rng(0)
    keys = np.arange(300) % 100
    times = np.sort(rng.integers(-1000, 1000, 300)) * year
    days = 200 * 365
    if kind == "int":
        times, span = times * 40, 40 * days * 24 * 3600 * 1_000_000
    else:
        span = days * 24 * 3600 * 1_000_000
    moments = pa.array(times)
    duration: Any = span
    if kind == "float":
        moments, duration = pa.array(times.astype(float)), float(span)
    elif kind == "datetime":
        moments, duration = moments.cast(pa.timestamp("us", "UTC")), dt.timedelta(days=days)
    frame = mta.policies.TimeWindow(duration, closed)
    table = pa.table({"key": keys, "ts": moments})
    out = mta.rolling(table, on="ts", by="key", aggregates={"n": monoids.Count().over(frame)})
    assert len(searches) <= 2  # and not one for each key
    expected = []
    for row, (key, time) in enumerate(zip(keys.tolist(), times.tolist(), strict=True)):
        ages = [time - int(times[i]) for i in range(row + 1) if keys[i] == key]
        expected.append(
            sum(
                (age < span or (age == span and closed in ("left", "both")))
                and (age > 0 or closed in ("right", "both"))
                for age in ages
            )
        )
    assert out["n"].to_pylist() == expected


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.usefixtures("small_leaves")
def test_keys_of_one_hash_stay_apart(stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def few(columns: Any, _: int) -> Any:
        return (columns[0].to_numpy() % 3).astype(np.uint64)

    for module in (rows, leaf, roller_module, long):
        monkeypatch.setattr(module, "hashes_of_keys", few)
    rng = np.random.default_rng(0)
    store = open_store("memory:")
    seen: dict[int, list[int]] = {}
    features = {"n": monoids.Count(), "last": monoids.Collect("a").over(rows=3)}
    with mta.Roller(by="key", aggregates=features, store=store) as roller:
        for count in (3, 20, 5, 40, 1, 30):
            keys = rng.integers(0, 9, count).tolist()
            frame = pa.table({"key": keys, "a": list(range(count))})
            expected = []
            for row, key in enumerate(keys):
                held = seen.setdefault(key, [])
                held.append(row)
                expected.append((len(held), held[-3:]))
            out = roller.append(frame.to_reader(max_chunksize=9) if stream else frame)
            table = out.read_all() if stream else out
            assert list(zip(table["n"].to_pylist(), table["last"].to_pylist(), strict=True)) == expected
    assert not list(store.list_roots())


def test_rows_that_come_key_by_key_are_split_in_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "LEAF_ROWS", 64)
    depths = []
    finish = tree.Inflow.finish

    def counted(inflow: tree.Inflow) -> tree.Node:
        depths.append(len(depths_of))
        depths_of.append(inflow)
        try:
            return finish(inflow)
        finally:
            depths_of.pop()

    depths_of: list[tree.Inflow] = []
    monkeypatch.setattr(tree.Inflow, "finish", counted)
    frame = pa.table({"key": np.repeat(np.arange(60), 40)})
    for block in (7, 30, 100):
        monkeypatch.setattr(roller_module, "BLOCK_VALUES", 2 * block)
        out = mta.rolling(frame.to_reader(max_chunksize=5), by="key", aggregates={"n": monoids.Count()})
        assert out.read_all()["n"].to_pylist() == list(range(1, 41)) * 60
    assert max(depths) <= 10
