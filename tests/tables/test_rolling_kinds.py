"""Every kind of column and of frame: the results of `rolling`, and the types of its new columns."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from chance import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from recomputed import Fold, Frame, Recomputed, Row

import mta
from mta import monoids
from mta.core import blocks
from mta.policies import CountWindow, TimeWindow
from mta.tables import folding, older, tree

DAY, NEXT = dt.date(2020, 1, 1), dt.date(2020, 1, 2)
BIG = 2**53 + 1

#: columns of two values with a null between them, and the type of First of them; None if windows refuse them
COLUMNS = {
    "int8": (pa.array([1, None, 3], pa.int8()), pa.int64()),
    "uint64": (pa.array([1, None, 3], pa.uint64()), pa.int64()),
    "half": (pa.array([1.0, None, 3.0], pa.float16()), pa.float64()),
    "text": (pa.array(["a", None, "b"]), pa.string()),
    "view": (pa.array(["a", None, "b"], pa.string_view()), pa.string()),
    "bytes": (pa.array([b"a", None, b"b"], pa.binary(1)), pa.binary()),
    "category": (pa.array(["a", None, "b"]).dictionary_encode(), pa.string()),
    "decimal": (pa.array([Decimal("1.1"), None, Decimal("99.9")], pa.decimal128(6, 2)), pa.decimal128(6, 2)),
    "wide": (pa.array([Decimal("1.1"), None, Decimal("9" * 40)], pa.decimal256(50, 2)), pa.decimal256(50, 2)),
    "day": (pa.array([DAY, None, NEXT]), None),
    "moment": (pa.array([1, None, 3], pa.timestamp("ns", "Europe/Madrid")), None),
    "time": (pa.array([1, None, 3], pa.time64("us")), pa.time64("us")),
    "length": (pa.array([1, None, 3], pa.duration("ns")), None),
    "list": (pa.array([[BIG], None, [3, None]]), pa.list_(pa.int64())),
    "struct": (pa.array([{"a": BIG, "b": "x"}, None, {"a": 3, "b": None}]), "itself"),
    "map": (pa.array([[("a", 1)], None, [("b", 2)]], pa.map_(pa.string(), pa.int64())), "pairs"),
    "uuid": (pa.array([b"a" * 16, None, b"b" * 16], pa.uuid()), pa.binary()),
    "runs": (pa.RunEndEncodedArray.from_arrays([1, 2, 3], pa.array([1, None, 3])), pa.int64()),
    "empty": (pa.nulls(3), pa.null()),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_each_type_of_column_is_counted_collected_and_a_key(kind: str) -> None:
    column, first = COLUMNS[kind]
    listed = column.to_pylist()
    if kind == "map":
        listed = [None if each is None else [{"key": k, "value": v} for k, v in each] for each in listed]
    if kind == "uuid":
        listed = [None if each is None else each.bytes for each in listed]
    there = [each for each in listed if each is not None]
    table = pa.table({"x": column, "n": [1, 2, 3]})
    features: dict[str, Any] = {
        "count": monoids.Count("x"),
        "all": monoids.Collect("x"),
        "sum": monoids.Sum("n"),  # what one column is says nothing of the others
    }
    if first is not None:
        features |= {"first": monoids.First("x"), "best": monoids.ArgMax("n", "x")}
    out = mta.rolling(table, aggregates=features)
    runs = [sum(each is not None for each in listed[: row + 1]) for row in range(3)]
    assert out["count"].to_pylist() == runs
    assert out["sum"].to_pylist() == [1, 3, 6]
    assert out["all"].to_pylist() == [there[:count] for count in runs]
    if first is not None:
        assert out["first"].to_pylist() == [there[0] if there else None] * 3
        assert out["best"].to_pylist() == listed
        if isinstance(first, pa.DataType):
            assert out.schema.field("first").type == first
    assert mta.rolling(table.slice(0, 0), aggregates=features).schema == out.schema
    if not pa.types.is_nested(column.type) or kind == "runs":
        keyed = pa.table({"x": pa.concat_arrays([column, column])})
        again = mta.rolling(keyed, by="x", aggregates={"n": monoids.Count()})
        assert again["n"].to_pylist() == ([1, 1, 1, 2, 2, 2] if kind != "empty" else [1, 2, 3, 4, 5, 6])


@pytest.mark.parametrize(
    "column",
    [
        pa.array([b"a", b"b", b"a"], pa.binary_view()),
        pa.array([1, 2, 1], pa.decimal32(5, 2)),
        pa.array([1, 2, 1], pa.decimal64(12, 2)),
        pa.array([2**62, None, 2**62], pa.timestamp("s")),
        pa.array(["1", "2", "1"], pa.json_()),
        pa.array([DAY, None, DAY], pa.date64()).dictionary_encode(),
    ],
    ids=lambda column: str(column.type),
)
def test_keys_of_rare_types(column: pa.Array) -> None:
    out = mta.rolling(pa.table({"k": column}), by="k", aggregates={"n": monoids.Count()})
    assert out["n"].to_pylist() == [1, 1, 2]


@pytest.mark.parametrize("kind", ["plain", "dictionary", "runs"])
def test_times_may_be_encoded(kind: str) -> None:
    times = pa.array([0, 0, 90], pa.timestamp("s"))
    column = {
        "plain": times,
        "dictionary": times.dictionary_encode(),
        "runs": pa.RunEndEncodedArray.from_arrays([2, 3], pa.array([0, 90], pa.timestamp("s"))),
    }[kind]
    out = mta.rolling(pa.table({"ts": column}), on="ts", aggregates={"n": monoids.Count().over("1 minute")})
    assert out["n"].to_pylist() == [1, 2, 1]


def words(function: Any) -> monoids.Monoid:
    """Adds numbers that a user's function finds in a text."""
    return monoids.from_function(lambda a, b: a + b, 0.0, lift=function, field="x", name="words")


@pytest.mark.parametrize(
    "function",
    [
        lambda text: float(text.split(":")[1]),  # an IndexError for another text
        lambda text: {"a:1": 1.0, "b:2": 2.0}[text],  # a KeyError
    ],
    ids=["index", "key"],
)
def test_functions_need_not_take_values_that_are_in_no_row(function: Any) -> None:
    table = pa.table({"x": ["a:1", None, "b:2"]})
    out = mta.rolling(table, aggregates={"s": words(function), "n": monoids.Collect("x")})
    assert out["s"].to_pylist() == [1.0, 1.0, 3.0]
    assert out.schema.field("s").type == pa.float64()
    assert out.schema.field("n").type == pa.list_(pa.string())
    reader = mta.rolling(table.to_reader(), aggregates={"s": words(function)})
    assert reader.schema.field("s").type == pa.float64()
    assert reader.read_all()["s"].to_pylist() == [1.0, 1.0, 3.0]


def test_a_column_without_values_may_get_them_later() -> None:
    features = {"last": monoids.Last("x"), "top": monoids.Max("y")}
    with mta.Roller(aggregates=features) as roller:
        first = roller.append(pd.DataFrame({"x": [None, None], "y": [None, None]}))
        more = roller.append(pd.DataFrame({"x": ["a", None], "y": [None, 2.5]}))
        last = roller.append(pd.DataFrame({"x": ["b"], "y": [1.5]}))
    assert first["last"].isna().all()
    assert more["last"].tolist() == ["a", "a"]
    assert more["top"].tolist()[1] == last["top"].tolist()[0] == 2.5
    assert last["last"].tolist() == ["b"]


#: monoids over columns that may have nulls, and the same of plain lists of rows
SKIPPING: dict[str, tuple[monoids.Monoid, Fold]] = {
    "rows": (monoids.Count(), len),
    "count": (monoids.Count("label"), lambda held: len([row for row in held if row.label is not None])),
    "sum": (monoids.Sum("a"), lambda held: sum(row.a for row in held if row.a is not None)),
    "max": (monoids.Max("a"), lambda held: max((row.a for row in held if row.a is not None), default=None)),
    "last": (
        monoids.Last("label"),
        lambda held: ([None] + [r.label for r in held if r.label is not None])[-1],
    ),
    "text": (
        monoids.Concat("label"),
        lambda held: "".join(row.label for row in held if row.label is not None),
    ),
    "list": (monoids.Collect("a"), lambda held: [row.a for row in held if row.a is not None]),
    "who": (
        monoids.ArgMax("a", "label"),
        lambda held: next(
            (
                row.label
                for row in held
                if row.a is not None and row.a == max(other.a for other in held if other.a is not None)
            ),
            None,
        ),
    ),
}


@pytest.mark.parametrize("size", [2, 4, None])
@pytest.mark.parametrize("kind", ["pandas", "polars", "reader"])
def test_missing_values_are_skipped(kind: str, size: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if size is not None:
        for module in (blocks, folding, older):
            monkeypatch.setattr(module, "BLOCK", size)
        for module in (blocks, folding):
            monkeypatch.setattr(module, "FEW_ENTRIES", 4 * size)
        monkeypatch.setattr(tree, "LEAF_ROWS", 32)

    frames = st.tuples(st.sampled_from([None, 1, 3]), st.sampled_from([1, 5, 60])).map(
        lambda each: Frame(*each)
    )
    row = st.tuples(
        st.sampled_from(["k", "l", None]),
        st.integers(0, 20),
        st.none() | st.integers(-3, 3),
        st.none() | st.text("ab"),
    )

    @settings(max_examples=examples(8), deadline=None, derandomize=True)
    @given(frames, st.lists(st.lists(row, max_size=40), min_size=1, max_size=3))
    def check(frame: Frame, drawn: list[list[Any]]) -> None:
        policy: Any = (
            TimeWindow(frame.d) if frame.count is None else TimeWindow(frame.d) | CountWindow(frame.count)
        )
        plain = Recomputed({name: (frame, fold) for name, (_, fold) in SKIPPING.items()})
        features = {name: monoid.over(policy) for name, (monoid, _) in SKIPPING.items()}
        schema = pa.schema(
            [("k", pa.string()), ("ts", pa.int64()), ("a", pa.int64()), ("label", pa.string())]
        )
        with mta.Roller(on="ts", by="k", aggregates=features) as roller:
            for number, batch in enumerate(drawn):
                listed = [Row(key, 30 * number + time, a, label) for key, time, a, label in batch]  # type: ignore[arg-type]
                if kind == "reader":
                    listed.sort(key=lambda each: each.time)
                table = pa.Table.from_arrays(
                    [pa.array([each[i] for each in listed], field.type) for i, field in enumerate(schema)],
                    schema=schema,
                )
                if kind == "pandas":
                    out = pa.Table.from_pandas(roller.append(table.to_pandas(types_mapper=pd.ArrowDtype)))
                elif kind == "polars":
                    out = roller.append(pl.from_arrow(table)).to_arrow()
                else:
                    out = roller.append(table.to_reader(max_chunksize=5)).read_all()
                for name, column in plain.append(listed).items():
                    assert out[name].to_pylist() == column, name

    check()


def rows() -> pd.DataFrame:
    generator = np.random.default_rng(7)
    seconds = np.sort(generator.choice(9000, 200, replace=False))
    x = generator.integers(0, 100, 200).astype(float)
    x[generator.choice(200, 20)] = np.nan
    keys = generator.choice(list("abc"), 200)
    return pd.DataFrame({"k": keys, "ts": pd.to_datetime(seconds, unit="s"), "x": x})


FEATURES = {
    "right": monoids.Sum("x").over("10 minutes"),
    "left": monoids.Max("x").over(TimeWindow("10 minutes", closed="left")),
    "both": monoids.Mean("x").over(TimeWindow("10 minutes", closed="both")),
    "last": monoids.Count("x").over(rows=5),
}


def test_the_windows_of_pandas() -> None:
    frame = rows()
    frame.index = pd.MultiIndex.from_arrays([range(200), list("xy") * 100], names=["i", "j"])
    shuffled = frame.sample(frac=1, random_state=1)
    out = mta.rolling(shuffled, on="ts", by="k", aggregates=FEATURES)
    assert out.index.equals(shuffled.index)
    out = out.sort_index()
    pd.testing.assert_frame_equal(out[["k", "ts", "x"]], frame)
    for _, each in frame.groupby("k"):
        windows = {
            closed: each.rolling("600s", on="ts", closed=closed, min_periods=0)["x"]
            for closed in ("right", "left", "both")
        }
        expected = {
            "right": windows["right"].sum(),
            "left": windows["left"].max(),
            "both": windows["both"].mean(),
            "last": each["x"].rolling(5, min_periods=0).count(),
        }
        for name, column in expected.items():
            found = out.loc[each.index, name].astype(float)
            np.testing.assert_allclose(found.to_numpy(), column.to_numpy())


def test_the_windows_of_polars() -> None:
    frame = pl.from_pandas(rows(), nan_to_null=True)
    out = mta.rolling(frame, on="ts", by="k", aggregates=FEATURES)
    x = pl.col("x")
    expected = frame.select(
        right=x.rolling_sum_by("ts", "10m", closed="right").over("k").fill_null(0.0),
        left=x.rolling_max_by("ts", "10m", closed="left").over("k"),
        both=x.rolling_mean_by("ts", "10m", closed="both").over("k"),
    )
    assert out["left"].to_list() == expected["left"].to_list()
    for name in ("right", "both"):
        np.testing.assert_allclose(
            out[name].to_numpy(), expected[name].cast(pl.Float64).to_numpy().astype(float)
        )


def test_the_windows_of_duckdb() -> None:
    with duckdb.connect() as connection:
        frame = rows().assign(x=lambda each: each["x"].astype("Int64"))
        connection.register("rows", frame)
        relation = connection.sql("SELECT * FROM rows")
        out = mta.rolling(relation, on="ts", by="k", aggregates=FEATURES).df()
        expected = connection.sql(
            "SELECT ts, avg(x) OVER w AS both, count(x) OVER r AS last FROM rows WINDOW "
            "w AS (PARTITION BY k ORDER BY ts RANGE INTERVAL 10 MINUTES PRECEDING), "
            "r AS (PARTITION BY k ORDER BY ts ROWS 4 PRECEDING) ORDER BY ts"
        ).df()
    np.testing.assert_allclose(out["both"], expected["both"])
    assert out["last"].tolist() == expected["last"].tolist()


def test_frames_of_files_give_the_same(tmp_path: Path) -> None:
    table = pa.Table.from_pandas(rows(), preserve_index=False)
    expected = mta.rolling(table, on="ts", by="k", aggregates=FEATURES)
    file, parts, hive = tmp_path / "rows.parquet", tmp_path / "parts", tmp_path / "hive"
    pq.write_table(table, file, row_group_size=30)
    for number in range(4):
        parts.mkdir(exist_ok=True)
        pq.write_table(table.slice(50 * number, 50), parts / f"{number}.parquet")
    pq.write_to_dataset(table, hive, partition_cols=["k"])
    frames = {
        "batch": table.combine_chunks().to_batches()[0],
        "reader": table.to_reader(max_chunksize=7),
        "path": file,
        "text": str(file),
        "directory": parts,
        "dataset": ds.dataset([parts / f"{number}.parquet" for number in range(4)]),
        "file": pq.ParquetFile(file),
        "polars": pl.from_arrow(table).lazy().collect(),
        "hive": hive,
    }
    for name, frame in frames.items():
        out = mta.rolling(frame, on="ts", by="k", aggregates=FEATURES)
        found = out.to_arrow() if name == "polars" else out
        found = found.read_all() if isinstance(found, pa.RecordBatchReader) else pa.table(found)
        found = found.sort_by("ts")  # the files of a hive are in the order of its keys
        for column in FEATURES:
            np.testing.assert_array_equal(found[column].to_numpy(), expected[column].to_numpy(), err_msg=name)


@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize("kind", ["table", "batch", "reader", "path", "pandas", "polars", "duckdb"])
def test_few_rows_have_the_schema_of_many(kind: str, rows: int, tmp_path: Path) -> None:
    table = pa.table({"k": ["a", "b"], "ts": pa.array([0, 60], pa.timestamp("us")), "x": [1.5, None]})
    features = {**FEATURES, "who": monoids.ArgMax("x", "k"), "all": monoids.Collect("ts").over(rows=2)}

    def schema(count: int) -> Any:
        some = table.slice(0, count)
        if kind == "path":
            frame: Any = tmp_path / f"{count}.parquet"
            pq.write_table(some, frame)
        else:
            frame = {
                "table": lambda: some,
                "batch": lambda: pa.RecordBatch.from_arrays(
                    [each.combine_chunks() for each in some.columns], schema=some.schema
                ),
                "reader": some.to_reader,
                "pandas": some.to_pandas,
                "polars": lambda: pl.from_arrow(some),
                "duckdb": lambda: connection.from_arrow(some),
            }[kind]()
        out = mta.rolling(frame, on="ts", aggregates=features)
        if kind == "pandas":
            return out.drop(columns=["k", "who"]).dtypes.to_dict()  # objects, of which none may be there
        return list(zip(out.columns, out.types, strict=True)) if kind == "duckdb" else out.schema

    with duckdb.connect() as connection:
        assert schema(rows) == schema(2)


def test_any_names() -> None:
    table = pa.table({"on": [1, 2], "by": ["a", "a"], "rows": [1, 2], "": [1, 2], 'a"b.c\n': [3, 4]})
    features = {
        "aggregates": monoids.Sum("rows"),
        "self": monoids.Sum(""),
        "ü ": monoids.Max('a"b.c\n').over(1),
    }
    out = mta.rolling(table, on="on", by="by", aggregates=features)
    assert [out[name].to_pylist() for name in features] == [[1, 3], [1, 3], [3, 4]]


def test_results_that_arrow_has_no_type_for() -> None:
    table = pa.table({"x": ["a", "b"]})
    for monoid in (monoids.BloomFilter("x"), monoids.CountMin("x")):
        with pytest.raises(
            TypeError, match=r"results of the aggregate 'r', such as .*, have no common type of Arrow"
        ):
            mta.rolling(table, aggregates={"r": monoid})


def test_results_that_are_mappings() -> None:
    table = pa.table({"x": ["a", None, "b", "b"], "n": [1.0, None, None, 3.0]})
    features = {
        "top": monoids.HeavyHitters("x", top=1),
        "q": monoids.Quantiles("n", q=(0.0, 1.0)).over(rows=2),
    }
    out = mta.rolling(table, aggregates=features)
    assert out.schema.field("top").type == pa.map_(pa.string(), pa.int64())
    assert out["top"].to_pylist() == [[("a", 1)], [("a", 1)], [("a", 1)], [("b", 2)]]
    assert str(out["q"].to_pylist()) == str(
        [[(0.0, low), (1.0, high)] for low, high in [(1.0, 1.0), (1.0, 1.0), (np.nan, np.nan), (3.0, 3.0)]]
    )
    assert mta.rolling(table.slice(0, 0), aggregates=features).schema == out.schema
    assert mta.rolling(pl.from_arrow(table.select(["n"])), aggregates={"q": features["q"]}).height == 4
    assert mta.rolling(table.to_pandas(), aggregates=features)["top"].tolist()[-1] == [("b", 2)]
