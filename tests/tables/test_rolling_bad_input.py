"""Bad input: each has one error on one line, which names the column or the row, before anything changes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mta
from mta import monoids, policies

TABLE = pa.table(
    {"k": ["a", "b", "a"], "ts": [1, 2, 3], "x": [1, 2, 3], "d": pa.array([1, 2, 3], pa.date32())}
)
COUNT = {"n": monoids.Count().over(2)}
DATED = {"n": monoids.Count().over("1 day")}
SUM = {"s": monoids.Sum("x")}


def rolled(frame: Any = TABLE, **arguments: Any) -> Any:
    return mta.rolling(frame, **{"aggregates": COUNT, **arguments})


def times(*values: Any, kind: Any = None, **arguments: Any) -> Any:
    return rolled(pa.table({"ts": pa.array(values, kind)}), **{"on": "ts", **arguments})


def values(*given: Any, kind: Any = None, **arguments: Any) -> Any:
    return rolled(pa.table({"x": pa.array(given, kind)}), **{"aggregates": SUM, **arguments})


#: what is given, the error, and what its message says
CASES: dict[str, tuple[Callable[[], Any], type[Exception], list[str]]] = {
    # columns
    "no such on": (lambda: rolled(on="tz"), KeyError, ["['tz']", "['k', 'ts', 'x', 'd']"]),
    "no such by": (lambda: rolled(on="ts", by="q"), KeyError, ["['q']"]),
    "no such input": (lambda: rolled(aggregates={"s": monoids.Sum("y")}), KeyError, ["['y']"]),
    "an index": (
        lambda: rolled(pd.DataFrame({"x": [1]}, index=pd.Index([1], name="ts")), on="ts"),
        KeyError,
        ["['ts']", "frame.reset_index()"],
    ),
    "on is a list": (lambda: rolled(on=["ts"]), TypeError, ["on= is the name of a column", "['ts']"]),
    "by is a set": (lambda: rolled(on="ts", by={"k"}), TypeError, ["by=", "{'k'}"]),
    "by twice": (lambda: rolled(on="ts", by=["k", "k"]), ValueError, ["by= names a column twice"]),
    "by lists": (
        lambda: rolled(pa.table({"k": [[1]], "ts": [1]}), on="ts", by="k"),
        TypeError,
        ["by=", "'k'", "list<item: int64>", "make it text"],
    ),
    "by structs": (lambda: rolled(pa.table({"k": [{"a": 1}]}), by="k", aggregates=SUM), KeyError, ["['x']"]),
    "a name twice": (
        lambda: rolled(pa.table([[1], [2]], ["ts", "ts"]), on="ts"),
        ValueError,
        ["['ts']", "rename"],
    ),
    "numbers as names": (
        lambda: rolled(pd.DataFrame({0: [1]}), on="ts"),
        TypeError,
        ["0 of type int", "rename"],
    ),
    # times
    "no on": (rolled, ValueError, ["give on="]),
    "texts": (lambda: rolled(on="k"), TypeError, ["on='k': row 0", "'a' of type str"]),
    "a null": (lambda: times(1, None), ValueError, ["on='ts': row 1", "missing", "replace"]),
    "no time": (
        lambda: times(1, None, kind=pa.timestamp("us"), aggregates=DATED),
        ValueError,
        ["on='ts': row 1", "missing", "replace"],
    ),
    "NaN": (lambda: times(1.0, float("nan")), ValueError, ["on='ts': row 1", "nan"]),
    "infinity": (lambda: times(1.0, float("inf")), ValueError, ["on='ts': row 1", "inf"]),
    "too large": (
        lambda: times(1, 2**63 + 1, kind=pa.uint64()),
        ValueError,
        ["on='ts': row 1", str(2**63 + 1)],
    ),
    "flags": (lambda: times(True, False), TypeError, ["on='ts': row 0", "bool"]),
    "decimals": (lambda: times(Decimal(1)), TypeError, ["on='ts': row 0", "Decimal"]),
    "times of a day": (
        lambda: times(dt.time(1), aggregates=DATED),
        TypeError,
        ["on='ts': row 0", "datetime.time"],
    ),
    "lengths": (
        lambda: times(dt.timedelta(1), aggregates=DATED),
        TypeError,
        ["on='ts': row 0", "timedelta64"],
    ),
    "lists": (lambda: times([1]), TypeError, ["on='ts': row 0", "[1]"]),
    "a mapping": (
        lambda: times([("a", 1)], kind=pa.map_(pa.string(), pa.int64())),
        TypeError,
        ["on='ts': row 0"],
    ),
    "nanoseconds": (
        lambda: times(1000, 3001, kind=pa.timestamp("ns"), aggregates=DATED),
        ValueError,
        ["on='ts': row 1", "000003001", "round"],
    ),
    "numbers under a duration": (
        lambda: rolled(on="ts", aggregates=DATED),
        TypeError,
        ["on='ts'", "give dates"],
    ),
    "dates under a number": (lambda: rolled(on="d"), TypeError, ["on='d'", "durations with their unit"]),
    # aggregates
    "no aggregates": (lambda: rolled(aggregates={}), TypeError, ["at least one", "got none"]),
    "one monoid": (lambda: rolled(aggregates=monoids.Sum("x")), TypeError, ["mapping", "Sum('x')"]),
    "one frame": (
        lambda: rolled(aggregates=monoids.Sum("x").over(2)),
        TypeError,
        ["mapping", "Sum('x').over"],
    ),
    "a list of monoids": (
        lambda: rolled(aggregates=[monoids.Sum("x")]),
        TypeError,
        ["mapping", "[Sum('x')]"],
    ),
    "a text": (lambda: rolled(aggregates={"a": "sum"}), TypeError, ["a=", "'sum'"]),
    "a class": (lambda: rolled(aggregates={"a": monoids.Sum}), TypeError, ["a=", "Sum'>"]),
    "without a field": (lambda: rolled(aggregates={"a": monoids.Sum()}), TypeError, ["'a'", "which column"]),
    "a number as a name": (lambda: rolled(aggregates={1: monoids.Sum("x")}), TypeError, ["got 1"]),
    "a name of the frame": (
        lambda: rolled(aggregates={"k": monoids.Sum("x")}),
        ValueError,
        ["['k'] already"],
    ),
    "fields in fields": (
        lambda: rolled(aggregates={"a": monoids.Fields(p=monoids.Sum("x"))}),
        TypeError,
        ["other Fields", "'a'"],
    ),
    "two units": (
        lambda: rolled(on="ts", aggregates={**COUNT, "m": DATED["n"]}),
        TypeError,
        ["all have a unit"],
    ),
    "a predicate": (
        lambda: rolled(aggregates=SUM, policy=policies.SumWindow(3)),
        ValueError,
        ["SumWindow(3)", "use AmortizedMTA"],
    ),
    "no policy": (lambda: rolled(aggregates=SUM, policy="1 day"), TypeError, ["policy", "'1 day'"]),
    "no such nulls": (lambda: rolled(on="ts", nulls="drop"), ValueError, ['"refuse" or "skip"', "'drop'"]),
    "a URL": (lambda: rolled(on="ts", store="redis://"), TypeError, ["open_store", "'redis://'"]),
    # values
    "refused nulls": (lambda: values(1, None, nulls="refuse"), ValueError, ["row 1", "'x'", 'nulls="skip"']),
    "refused null texts": (
        lambda: values("a", None, nulls="refuse", aggregates={"t": monoids.Concat("x")}),
        ValueError,
        ["row 1", "'x'", 'nulls="skip"'],
    ),
    "sums of texts": (lambda: values(None, "a"), TypeError, ["row 1", "Sum('x')", "'a' of type str"]),
    "sums of dates": (
        lambda: values(dt.date(2020, 1, 1)),
        TypeError,
        ["Sum('x')", "'x' is of type date32[day]: cast"],
    ),
    "sums of decimals": (
        lambda: values(Decimal("1.5")),
        TypeError,
        ["Sum('x')", "decimal128(2, 1): cast it"],
    ),
    "sums of maps": (
        lambda: values([("a", 1)], kind=pa.map_(pa.string(), pa.int64())),
        TypeError,
        ["row 0", "Sum('x')", "list"],
    ),
    "the number for nulls": (lambda: values(1, -(2**63)), ValueError, ["'x' got", "row 1"]),
    "a large number": (
        lambda: values(1, 2**63, kind=pa.uint64()),
        OverflowError,
        ["row 1", "Sum('x')", str(2**63)],
    ),
    "a large sum": (lambda: values(1, 2**62, 2**62), OverflowError, ["Sum('x')", str(2**63 + 1)]),
    # frames
    "a mapping of columns": (lambda: rolled({"ts": [1]}, on="ts"), TypeError, ["got dict", "pyarrow.table"]),
    "a lazy frame": (lambda: rolled(pl.LazyFrame({"ts": [1]}), on="ts"), TypeError, [".collect()"]),
    "a series": (lambda: rolled(pd.Series([1], name="ts"), on="ts"), TypeError, ["Series", ".to_frame()"]),
    "groups": (lambda: rolled(pd.DataFrame({"ts": [1]}).groupby("ts"), on="ts"), TypeError, ["by="]),
    "a list of paths": (
        lambda: rolled(["a.parquet"], on="ts"),
        TypeError,
        ["pyarrow.dataset.dataset(paths)"],
    ),
    "no file": (lambda: rolled(Path("/no/such.parquet"), on="ts"), FileNotFoundError, ["'/no/such.parquet'"]),
    "nothing": (lambda: rolled(None, on="ts"), TypeError, ["got NoneType"]),
}


@pytest.mark.parametrize("case", CASES)
def test_one_error_that_says_what_is_wrong(case: str) -> None:
    call, kind, parts = CASES[case]
    with pytest.raises(kind) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text
    assert "skipping_nulls" not in text
    for part in parts:
        assert part in text, text


def test_a_sum_that_is_too_large_names_no_row_of_another_order() -> None:
    table = pa.table({"k": ["b", "a", "b", "a"], "ts": [4, 3, 2, 1], "x": [1, 2**62, 1, 2**62]})
    with pytest.raises(
        OverflowError, match=r"^the result of Sum\('x'\) is 9223372036854775808, which"
    ) as caught:
        mta.rolling(table, on="ts", by="k", aggregates=SUM)
    assert "row" not in str(caught.value)
    assert "intact" not in str(caught.value)


BAD: dict[str, Any] = {
    "time": pa.table({"k": ["a", "a"], "ts": [9, None], "x": [1, 1], "l": ["p", "q"]}),
    "value": pd.DataFrame({"k": ["a", "a"], "ts": [9, 10], "x": [1, "z"], "l": ["p", "q"]}),
    "text": pa.table({"k": ["a"], "ts": [9], "x": ["z"], "l": ["p"]}),
    "key": pa.table({"k": [1], "ts": [9], "x": [1], "l": ["p"]}),
    "nested key": pa.table({"k": [["a"]], "ts": [9], "x": [1], "l": ["p"]}),
    "column": pa.table({"k": ["a"], "ts": [9], "l": ["p"]}),
    "label": pa.table({"k": ["a"], "ts": [9], "x": [1], "l": [7]}),
    "name": pa.table({"k": ["a"], "ts": [9], "x": [1], "l": ["p"], "s": [1]}),
    "kind": pa.table({"k": ["a"], "ts": pa.array([9], pa.timestamp("s")), "x": [1], "l": ["p"]}),
    "earlier": pa.table({"k": ["b", "a"], "ts": [9, 0], "x": [1, 1], "l": ["p", "q"]}),
    "overflow": pa.table({"k": ["a", "a"], "ts": [9, 10], "x": [2**62, 2**62], "l": ["p", "q"]}),
    "frame": 7,
}


#: what a roller without rows takes
ONLY_LATER = ("key", "label", "kind", "earlier")


@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize("case", BAD)
def test_an_append_that_raises_has_not_happened(case: str, reads: bool) -> None:
    def refused(roller: mta.Roller) -> None:
        bad = BAD[case].to_reader(max_chunksize=1) if reads and isinstance(BAD[case], pa.Table) else BAD[case]
        with pytest.raises((TypeError, ValueError, KeyError, OverflowError, mta.OutOfOrderError)):
            roller.append(bad)

    features = {
        "s": monoids.Sum("x").over(100),
        "l_last": monoids.Last("l"),
        "all": monoids.Collect("x").over(rows=3),
    }
    with mta.Roller(on="ts", by="k", aggregates=features) as roller:
        if case not in ONLY_LATER:
            refused(roller)
        assert len(roller) == 0
        roller.append(pa.table({"k": ["a", "b"], "ts": [1, 2], "x": [1, 2], "l": ["p", "q"]}))
        refused(roller)
        assert len(roller) == 2
        out = roller.append(pa.table({"k": ["a", "b"], "ts": [3, 3], "x": [10, 20], "l": ["r", None]}))
    assert out["s"].to_pylist() == [11, 22]
    assert out["all"].to_pylist() == [[1, 10], [2, 20]]
    assert out["l_last"].to_pylist() == ["r", "q"]


def test_an_error_in_a_later_block_says_from_which_row_it_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mta.tables.roller.BLOCK_VALUES", 8)
    table = pa.table({"x": pa.array([1] * 9 + [2**63], pa.uint64())})
    texts = pa.array([b"a"] * 9 + [b"\xff"]).view(pa.string())
    reader = pa.table({"x": texts}).to_reader(max_chunksize=4)
    with pytest.raises(ValueError, match=r"can't decode byte 0xff .*rows count from row 8 of the frame"):
        mta.rolling(reader, aggregates={"t": monoids.Concat("x")})
    with pytest.raises(OverflowError, match=r"Sum\('x'\) .* in row 1.*rows count from row 8 of the frame"):
        mta.rolling(table.to_reader(max_chunksize=4), aggregates=SUM)


def test_a_closed_roller_says_so() -> None:
    roller = mta.Roller(aggregates={"s": monoids.Sum("x"), "n": monoids.Count()})
    roller.append(pa.table({"x": [1]}))
    roller.close()
    roller.close()
    with pytest.raises(mta.WindowClosed, match=r"^the roller 's, n' is closed; make a new one$"):
        roller.append(pa.table({"x": [1]}))


def test_a_column_keeps_its_sort_of_values() -> None:
    features = {"last": monoids.Last("x"), "n": monoids.Count()}
    with mta.Roller(by="k", aggregates=features) as roller:
        roller.append(pa.table({"k": ["a"], "x": pa.nulls(1)}))
        roller.append(pa.table({"k": ["a"], "x": ["p"]}))
        with pytest.raises(
            TypeError, match=r"^the column 'x' was of type string, and is of int64 now: cast it$"
        ):
            roller.append(pa.table({"k": ["a"], "x": [7]}))
        with pytest.raises(
            TypeError, match=r"keys \['k'\] were of the types \['string'\], and are of \['int8'\] now"
        ):
            roller.append(pa.table({"k": pa.array([1], pa.int8()), "x": ["q"]}))
        roller.append(pd.DataFrame({"k": [], "x": []}))  # of numbers, as it has no rows
        out = roller.append(pa.table({"k": ["a"], "x": pa.array(["q"], pa.large_string())}))
    assert out["last"].to_pylist() == ["q"]
    assert out["n"].to_pylist() == [3]


def test_files_of_other_types_are_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1, 2]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": [1.5]}), tmp_path / "b.parquet")
    with pytest.raises(ValueError, match=r"b\.parquet: .*1\.5"):
        mta.rolling(tmp_path, aggregates=SUM)
