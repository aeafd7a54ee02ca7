"""Frames of every kind: their rows as Arrow, and the same kind with new columns behind unchanged ones."""

from __future__ import annotations

import datetime
import importlib.util
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import polars.testing
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta.tables import formats
from mta.tables.formats import ROWS, Source, source_of

DAY = datetime.date(2026, 3, 4)
NOON = datetime.datetime(2026, 3, 4, 12, 0, 0, 123456)


class Stream:
    """Any library's object with the stream interface of Arrow."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)


def numbered(batches: Iterable[pa.RecordBatch], *, whole: bool) -> Iterator[pa.RecordBatch]:
    """The batches with a column `row`, or this column alone."""
    start = 0
    for batch in batches:
        row = pa.array(range(start, start + batch.num_rows), pa.int64())
        start += batch.num_rows
        yield batch.append_column("row", row) if whole else pa.record_batch([row], ["row"])


def with_rows(source: Source) -> Any:
    """The frame of a source with a new column `row`, the numbers of its rows."""
    new = pa.schema([("row", pa.int64())])
    if source.in_memory:
        return source.made(new, numbered(source.batches([]), whole=False))
    return source.made(source.schema.append(new.field(0)), numbered(source.batches(), whole=True))


def read(source: Source, columns: list[str] | None = None) -> pa.Table:
    """All rows of a source, whose batches are small and have the columns that were asked for."""
    batches = list(source.batches(columns))
    names = source.schema.names if columns is None else columns
    assert all(0 < batch.num_rows <= ROWS and batch.schema.names == names for batch in batches)
    return pa.Table.from_batches(batches, pa.schema([source.schema.field(name) for name in names]))


def dictionary(values: pa.DataType, **options: Any) -> pa.Array:
    return (
        pa.array(["a", None, "b"])
        .cast(values)
        .dictionary_encode()
        .cast(pa.dictionary(pa.int8(), values, **options))
    )


#: Columns of all types of Arrow, with a null in each.
ARROW: dict[str, pa.Array] = {
    **{str(kind): pa.array([1, None, 2], kind) for kind in (pa.int8(), pa.int64(), pa.uint16(), pa.uint64())},
    "large int": pa.array([2**63 - 1, None, -(2**63)]),
    "float16": pa.array([np.float16(1.5), None, np.float16(2)], pa.float16()),
    "float32": pa.array([1.5, None, float("nan")], pa.float32()),
    "float64": pa.array([1.5, None, float("nan")]),
    "bool": pa.array([True, None, False]),
    "null": pa.nulls(3),
    **{
        str(kind): pa.array(["a", None, "é"], kind)
        for kind in (pa.string(), pa.large_string(), pa.string_view())
    },
    **{
        str(kind): pa.array([b"a", None, b"\0"], kind)
        for kind in (pa.binary(), pa.large_binary(), pa.binary_view())
    },
    "fixed binary": pa.array([b"ab", None, b"\0\0"], pa.binary(2)),
    "date32": pa.array([DAY, None, DAY]),
    "date64": pa.array([DAY, None, DAY], pa.date64()),
    **{f"timestamp {unit}": pa.array([1, None, -1], pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")},
    "timestamp with zone": pa.array([NOON, None, NOON], pa.timestamp("us", "Europe/Berlin")),
    "time": pa.array([NOON.time(), None, NOON.time()]),
    "duration": pa.array([1, None, 2], pa.duration("us")),
    "decimal": pa.array([Decimal("1.25"), None, Decimal("-3.00")], pa.decimal128(38, 2)),
    "wide decimal": pa.array([Decimal("1.25"), None, Decimal("-3.00")], pa.decimal256(50, 2)),
    "list": pa.array([[1, None], None, []], pa.list_(pa.int16())),
    "large list": pa.array([["a"], None, []], pa.large_list(pa.string())),
    "fixed list": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int32(), 2)),
    "struct": pa.array([{"a": 1, "b": ["x"]}, None, {"a": None, "b": []}]),
    "map": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int32())),
    "dictionary": dictionary(pa.string()),
    "ordered dictionary": dictionary(pa.large_string(), ordered=True),
    "extension": pa.ExtensionArray.from_storage(
        pa.uuid(), pa.array([b"0" * 16, None, b"1" * 16], pa.binary(16))
    ),
}
#: Types that pyarrow does not write to Parquet, or reads back as others.
NOT_IN_PARQUET = {"date64", "binary_view", "string_view", "timestamp s", "ordered dictionary", "wide decimal"}

#: How frames are made of tables of Arrow, for the kinds whose columns are Arrow's.
AS_ARROW: dict[str, Callable[[pa.Table, Path], Any]] = {
    "Table": lambda table, _: table,
    "RecordBatch": lambda table, _: table.combine_chunks().to_batches()[0],
    "RecordBatchReader": lambda table, _: table.to_reader(),
    "capsule": lambda table, _: Stream(table),
    "Dataset": lambda table, _: pyarrow.dataset.dataset(table),
}
AS_PARQUET: dict[str, Callable[[Path], Any]] = {
    "path": lambda path: path,
    "str": str,
    "directory": lambda path: path.parent,
    "ParquetFile": pq.ParquetFile,
    "Dataset": pyarrow.dataset.dataset,
    "Dataset with a filter": lambda path: pyarrow.dataset.dataset(path).filter(pa.compute.scalar(True)),
}


def test_columns_of_arrow_stay_as_they_are(tmp_path: Path) -> None:
    table = pa.table(ARROW).replace_schema_metadata({"whose": "mine"})
    for kind, make in AS_ARROW.items():
        frame = make(table, tmp_path)
        out = with_rows(source_of(frame))
        assert type(out).__name__ == (kind if kind in ("Table", "RecordBatch") else "RecordBatchReader")
        found = out.read_all() if isinstance(out, pa.RecordBatchReader) else pa.table(out)
        assert found.schema.equals(table.schema.append(pa.field("row", pa.int64())), check_metadata=True), (
            kind
        )
        assert repr(found.drop_columns(["row"]).to_pylist()) == repr(table.to_pylist()), kind
        assert found["row"].to_pylist() == [0, 1, 2]
        assert read(source_of(make(table, tmp_path)), ["time", "int8"]).schema.names == ["time", "int8"]


@pytest.mark.parametrize("kind", AS_PARQUET)
def test_columns_of_parquet_stay_as_they_are(kind: str, tmp_path: Path) -> None:
    arrays = {name: array for name, array in ARROW.items() if name not in NOT_IN_PARQUET}
    table = pa.table(arrays).replace_schema_metadata({"whose": "mine"})
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=2)
    out = with_rows(source_of(AS_PARQUET[kind](tmp_path / "x.parquet")))
    assert isinstance(out, pa.RecordBatchReader)
    assert out.schema.metadata == {b"whose": b"mine"}
    found = out.read_all()
    assert found.schema.equals(table.schema.append(pa.field("row", pa.int64())))
    assert repr(found.drop_columns(["row"]).to_pylist()) == repr(table.to_pylist())
    assert found["row"].to_pylist() == [0, 1, 2]
    wanted = read(source_of(AS_PARQUET[kind](tmp_path / "x.parquet")), ["struct", "int8"])
    assert repr(wanted.to_pylist()) == repr(table.select(["struct", "int8"]).to_pylist())


def test_directories_may_have_partitions_and_files_may_lack_columns(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no Parquet file"):
        source_of(tmp_path)
    for day, columns in [(2, {"x": [3], "z": ["a"]}), (1, {"x": [1, 2], "y": [1.5, None]})]:
        (tmp_path / f"day={day}").mkdir()
        pq.write_table(pa.table(columns), tmp_path / f"day={day}" / "part.parquet")
    assert with_rows(source_of(tmp_path)).read_all().to_pydict() == {
        "x": [1, 2, 3],
        "y": [1.5, None, None],
        "day": [1, 1, 2],
        "z": [None, None, "a"],
        "row": [0, 1, 2],
    }
    assert read(source_of(tmp_path), ["day"]).to_pydict() == {"day": [1, 1, 2]}


def test_options_of_a_dataset_are_kept(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": ["a", "a"]}), tmp_path / "x.parquet")
    form = pyarrow.dataset.ParquetFileFormat(dictionary_columns={"x"}, pre_buffer=False)
    dataset = pyarrow.dataset.dataset(tmp_path, format=form)
    assert pa.types.is_dictionary(read(source_of(dataset)).schema.field("x").type)
    both = pyarrow.dataset.dataset([dataset, dataset])
    assert with_rows(source_of(both)).read_all()["row"].to_pylist() == [0, 1, 2, 3]


def test_reading_parquet_takes_the_memory_of_a_few_batches(tmp_path: Path) -> None:
    rows = 40 * ROWS
    column = np.random.default_rng(7).integers(0, 2**60, rows)
    pq.write_table(pa.table({"x": column}), tmp_path / "x.parquet", row_group_size=rows)
    for frame in (tmp_path, tmp_path / "x.parquet"):
        before, most, count = pa.total_allocated_bytes(), 0, 0
        for batch in with_rows(source_of(frame)):
            most = max(most, pa.total_allocated_bytes() - before)
            count += batch.num_rows
        assert count == rows
        assert most < column.nbytes / 2


#: Columns of pandas. Those of the second group have no type in Arrow.
PANDAS: dict[str, pd.Series] = {
    "int": pd.Series([1, 2, 2**63 - 1]),
    "int8": pd.Series([1, 2, 3], dtype="int8"),
    "float": pd.Series([1.5, np.nan, -0.0]),
    "float32": pd.Series([1.5, np.nan, -0.0], dtype="float32"),
    "bool": pd.Series([True, False, True]),
    "Int64": pd.Series([1, None, 2**63 - 1], dtype="Int64"),
    "Float64": pd.Series([1, None, 2], dtype="Float64") / pd.Series([1, 1, 2], dtype="Float64"),
    "boolean": pd.Series([True, None, False], dtype="boolean"),
    "string": pd.Series(["a", None, "b"], dtype="string"),
    "string of arrow": pd.Series(["a", None, "b"], dtype="string[pyarrow]"),
    "objects": pd.Series(["a", None, np.nan], dtype=object),
    "decimals": pd.Series([Decimal("1.5"), None, Decimal("10.25")]),
    "lists": pd.Series([[1], None, []]),
    "dates": pd.Series([DAY, None, DAY]),
    "category": pd.Series(["b", None, "a"], dtype=pd.CategoricalDtype(["b", "c", "a"], ordered=True)),
    "datetime": pd.Series([NOON, None, NOON]),
    "seconds": pd.Series([NOON, None, NOON]).astype("datetime64[s]"),
    "with zone": pd.Series([NOON, None, NOON]).dt.tz_localize("Europe/Berlin"),
    "timedelta": pd.Series([pd.Timedelta(1), None, pd.Timedelta(2)]),
    "period": pd.Series(pd.period_range("2026", periods=3)),
    "interval": pd.Series(pd.interval_range(0, 3)),
    "arrow int": pd.Series([1, None, 2], dtype="int64[pyarrow]"),
    "arrow float": pd.Series(pd.array(pa.array([1.5, None, float("nan")]), dtype="float64[pyarrow]")),
    "arrow dictionary": pd.Series(
        ["a", None, "b"], dtype=pd.ArrowDtype(pa.dictionary(pa.int8(), pa.string()))
    ),
}
NO_ARROW: dict[str, pd.Series] = {
    "mixed": pd.Series([object(), "a", 1]),
    "late mixed": pd.Series([1, "a", 2]),
    "huge": pd.Series([1, 2**70, 2]),
    "sparse": pd.Series([1, 0, 0], dtype="Sparse[int]"),
    "complex": pd.Series([1j, 2, 3]),
}
INDEXES = {
    "range": pd.RangeIndex(5, 11, 2, name="r"),
    "twice": pd.Index(["a", "a", "b"]),
    "dates": pd.DatetimeIndex([NOON, NOON, None], name="ts"),
    "multi": pd.MultiIndex.from_tuples([(1, "a"), (1, "a"), (2, "b")], names=["i", None]),
    "category": pd.CategoricalIndex(["x", "y", "x"]),
}


@pytest.mark.parametrize("label", INDEXES)
def test_columns_of_pandas_stay_as_they_are(label: str) -> None:
    frame = pd.DataFrame({**PANDAS, **NO_ARROW}).set_index(INDEXES[label])
    frame.columns.name, frame.attrs = "names", {"unit": ["EUR"]}
    before = frame.copy()
    out = with_rows(source_of(frame))
    pd.testing.assert_frame_equal(frame, before)
    pd.testing.assert_frame_equal(out.drop(columns="row"), before)
    pd.testing.assert_index_equal(out.index, INDEXES[label], exact=True)
    assert out["row"].tolist() == [0, 1, 2]
    assert out["row"].dtype == np.int64
    assert out.attrs == {"unit": ["EUR"]}
    out.attrs["unit"].append("USD")
    for name in ("int", "float32", "bool", "Int64", "objects"):
        out.iloc[0, out.columns.get_loc(name)] = out[name].iloc[2]
    pd.testing.assert_frame_equal(frame, before)
    assert frame.attrs == {"unit": ["EUR"]}


def test_columns_of_pandas_as_arrow() -> None:
    source = source_of(pd.DataFrame({**PANDAS, **NO_ARROW}))
    assert source.in_memory
    found = read(source, list(PANDAS))
    for name, column in PANDAS.items():
        nulls = column.isna() | (column.map(repr) == "nan")
        assert [value.is_valid for value in found[name]] == (~nulls).tolist(), name
    assert found["Int64"].to_pylist() == [1, None, 2**63 - 1]
    assert found["category"].to_pylist() == ["b", None, "a"]
    assert found["decimals"].to_pylist() == [Decimal("1.50"), None, Decimal("10.25")]
    assert found.schema.field("with zone").type == pa.timestamp("ns", "Europe/Berlin")
    for name in NO_ARROW:
        with pytest.raises(TypeError, match=f"column '{name}'"):
            read(source, [name])


def test_zero_by_zero_is_null_in_pandas() -> None:
    """pandas' Float64 and its columns of Arrow hold NaN beside null."""
    zeros = pd.Series([0.0, 1.0, None], dtype="Float64")
    frame = pd.DataFrame({"masked": zeros / zeros, "arrow": PANDAS["arrow float"]})
    assert read(source_of(frame)).to_pydict() == {"masked": [None, 1.0, None], "arrow": [1.5, None, None]}


def test_new_columns_of_pandas_are_exact() -> None:
    new = pa.table(
        {
            "int": [2**63 - 1, None],
            "bool": [None, True],
            "float": [None, 1.5],
            "whole": [2**63 - 1, 1],
            "text": ["a", None],
            "list": [[1], []],
        }
    )
    out = source_of(pd.DataFrame({"x": [1, 2]}, index=[1, 1])).made(new.schema, new.to_batches())
    assert out.dtypes.astype(str).tolist() == [
        "int64",
        "Int64",
        "boolean",
        "float64",
        "int64",
        "object",
        "object",
    ]
    assert out["int"].tolist() == [2**63 - 1, pd.NA]
    assert out["whole"].tolist() == [2**63 - 1, 1]


def test_many_new_columns_of_pandas() -> None:
    new = pa.table({f"n{i}": [i] for i in range(200)})
    assert source_of(pd.DataFrame({"x": [1]})).made(new.schema, new.to_batches()).shape == (1, 201)


def polars_frame() -> pl.DataFrame:
    return pl.DataFrame(
        [
            *(
                pl.Series(str(kind), [1, None, 2], dtype=kind)
                for kind in (pl.Int8, pl.UInt64, pl.Float32, pl.Int128, pl.Decimal(20, 3), pl.Duration("ms"))
            ),
            pl.Series("nan", [1.5, None, float("nan")]),
            pl.Series("bool", [True, None, False]),
            pl.Series("text", ["a", None, "a text that is longer than twelve bytes"]),
            pl.Series("bytes", [b"a", None, b""]),
            pl.Series("category", ["b", None, "a"], dtype=pl.Categorical),
            pl.Series("enum", ["b", None, "a"], dtype=pl.Enum(["b", "c", "a"])),
            pl.Series("date", [DAY, None, DAY]),
            pl.Series("time", [NOON.time(), None, NOON.time()]),
            pl.Series("ts", [NOON, None, NOON], dtype=pl.Datetime("ns")),
            pl.Series("zone", [NOON, None, NOON], dtype=pl.Datetime("us", "Europe/Berlin")),
            pl.Series("list", [[1], None, []]),
            pl.Series("array", [[1, 2], None, [3, 4]], dtype=pl.Array(pl.Int8, 2)),
            pl.Series("struct", [{"a": 1}, None, {"a": 2}]),
            pl.Series("null", [None, None, None]),
            pl.Series("object", [object(), None, "a"], dtype=pl.Object),
        ]
    )


def test_columns_of_polars_stay_as_they_are() -> None:
    frame = polars_frame()
    objects = frame["object"].to_list()
    before = frame.drop("object").clone()
    out = with_rows(source_of(frame))
    assert out.columns == [*frame.columns, "row"]
    assert frame.columns == polars_frame().columns
    polars.testing.assert_frame_equal(out.drop("object", "row"), before)
    assert out.schema == {**frame.schema, "row": pl.Int64}
    assert out["row"].to_list() == [0, 1, 2]
    assert out["object"].to_list() == objects


def test_columns_of_polars_as_arrow() -> None:
    source = source_of(polars_frame())
    names = [name for name in source.schema.names if name not in ("Int128", "object")]
    found = read(source, names)
    assert repr(pl.from_arrow(found).to_dict(as_series=False)) == repr(
        polars_frame().select(names).to_dict(as_series=False)
    )
    for name in ("Int128", "object"):
        with pytest.raises(TypeError, match=f"column '{name}'"):
            read(source, [name])


DUCKDB = [
    "hugeint '-170141183460469231731687303715884105727'",
    "uhugeint '340282366920938463463374607431768211455'",
    "uuid '430bbd85-bdda-4f01-adee-9f7c15b7c9ce'",
    "'101'::bit",
    "'12:00:00+02'::timetz",
    "interval '1 month 2 days 3 us'",
    "'a'::enum('b', 'a')",
    "{'My id': uuid '430bbd85-bdda-4f01-adee-9f7c15b7c9ce'}",
    "map {'a': 1}",
    "[1, NULL]",
    "[1, 2]::int[2]",
    "union_value(n := 1)",
    "timestamptz '2026-01-01 00:00:00+00'",
    "timestamp_s '2026-01-01'",
    "timestamp_ns '2026-01-01 00:00:00.123456789'",
    "timestamp '2026-01-01'",
    "date '2026-01-01'",
    "time '12:00'",
    "1.5::decimal(9, 2)",
    "'{}'::json",
    "'x'::blob",
    "1::utinyint",
    "1.5::float",
    "'é'",
    "true",
    "NULL",
]


@pytest.fixture
def connection() -> Iterator[Any]:
    with duckdb.connect() as opened:
        yield opened


def test_columns_of_duckdb_stay_as_they_are(connection: Any) -> None:
    items = ", ".join(f'{value} AS "column {i}"' for i, value in enumerate(DUCKDB))
    nulls = ", ".join(f"NULL AS column_{i}" for i in range(len(DUCKDB)))
    relation = connection.sql(f"SELECT {items} UNION ALL SELECT {nulls}")
    out = with_rows(source_of(relation))
    assert isinstance(out, duckdb.DuckDBPyRelation)
    assert out.columns == [*relation.columns, "row"]
    assert list(map(str, out.types)) == [*map(str, relation.types), "BIGINT"]
    expected = [(*row, i) for i, row in enumerate(relation.fetchall())]
    assert out.fetchall() == expected
    assert out.fetchall() == expected  # as often as somebody looks
    names = ["column 0", "column 9"]
    assert read(source_of(relation), names).to_pydict() == dict(
        zip(
            names,
            zip(*relation.select(*map(duckdb.ColumnExpression, names)).fetchall(), strict=True),
            strict=True,
        )
    ) | {"column 0": [Decimal(1 - 2**127), None], "column 9": [[1, None], None]}


def test_duckdb_keeps_the_order_of_rows_and_needs_their_table_no_longer(connection: Any) -> None:
    connection.execute("CREATE TEMP TABLE t AS SELECT (i * 7919) % 300007 AS x FROM range(300000) r(i)")
    relation = connection.table("t")
    before = relation.fetchall()
    out = with_rows(source_of(relation))
    connection.execute("DROP TABLE t")
    assert out.fetchall() == [(*row, i) for i, row in enumerate(before)]
    assert out.filter("row = 5").union(connection.sql("SELECT 1, 2")).fetchall() == [(*before[5], 5), (1, 2)]
    assert connection.sql("SHOW TABLES").fetchall() == []


def test_duckdb_is_free_again_after_an_error(connection: Any) -> None:
    source = source_of(connection.sql("SELECT * FROM range(200000) r(i)"))

    def broken() -> Iterator[pa.RecordBatch]:
        yield next(source.batches())
        raise OverflowError("a monoid's")

    with pytest.raises(OverflowError, match="monoid"):
        source.made(source.schema, broken())
    assert connection.sql("SELECT 1").fetchall() == [(1,)]


def test_duckdb_may_be_read_only_and_in_a_transaction(tmp_path: Path) -> None:
    with duckdb.connect(tmp_path / "x.db") as connection:
        connection.execute("BEGIN; CREATE TABLE t AS SELECT 7 AS x")
        assert with_rows(source_of(connection.table("t"))).fetchall() == [(7, 0)]
        connection.execute("COMMIT")
    with duckdb.connect(tmp_path / "x.db", read_only=True) as connection:
        relation = connection.sql("SELECT x + $n AS x FROM t", params={"n": 1})
        assert with_rows(source_of(relation)).fetchall() == [(8, 0)]


def test_duckdb_says_itself_that_a_table_is_gone(connection: Any) -> None:
    connection.execute("CREATE TABLE t AS SELECT 1 AS x")
    relation = connection.table("t")
    connection.execute("DROP TABLE t")
    with pytest.raises(duckdb.CatalogException, match="t does not exist"):
        source_of(relation)


def test_duckdb_columns_that_arrow_would_change(connection: Any) -> None:
    for value in (
        "['1'::bit]",
        "{'BIT': 1, 'b': [['a'::enum('a')]]}",
        "map {1: '12:00:00+02'::timetz}::map(int, timetz)",
    ):
        with pytest.raises(TypeError, match=r"column 'b' of type .* cast it"):
            source_of(connection.sql(f"SELECT 1 AS a, {value} AS b"))
    for second in ("a", "A"):
        with pytest.raises(ValueError, match="a name of its own, got \\['a'\\]"):
            source_of(connection.sql(f'SELECT 1 AS a, 2 AS "{second}"'))
    connection.execute("SET python_enable_replacements = false")
    with pytest.raises(ValueError, match="SET python_enable_replacements = true"):
        source_of(connection.sql("SELECT 1 AS a"))


def test_duckdb_takes_new_names_that_differ_in_case(connection: Any) -> None:
    source = source_of(connection.sql("SELECT 1 AS a"))
    out = source.made(
        pa.schema([("a", pa.int32()), ("A", pa.int64())]), [pa.record_batch([[1], [2]], ["a", "A"])]
    )
    assert (out.columns, out.fetchall()) == (["a", "A"], [(1, 2)])


#: All kinds of frames, made of a table of whole numbers, and how their content is read.
FRAMES: dict[str, Callable[[pa.Table, Path], Any]] = {
    **AS_ARROW,
    "pandas": lambda table, _: table.to_pandas(),
    "polars": lambda table, _: pl.from_arrow(table),
    "parquet": lambda table, path: (
        pq.write_table(table, path / "x.parquet", row_group_size=7) or path / "x.parquet"
    ),
    "duckdb": lambda table, _: duckdb.connect().from_arrow(table),
}


def content(frame: Any) -> dict[str, list[Any]]:
    if isinstance(frame, pd.DataFrame):
        return frame.to_dict("list")
    if isinstance(frame, duckdb.DuckDBPyRelation):
        return frame.to_arrow_table().to_pydict()
    if isinstance(frame, pa.RecordBatchReader):
        frame = frame.read_all()
    return (
        frame.to_pydict() if isinstance(frame, pa.Table | pa.RecordBatch) else frame.to_dict(as_series=False)
    )


@pytest.mark.parametrize("kind", FRAMES)
@given(chunks=st.lists(st.lists(st.integers(-5, 5), max_size=20), max_size=5), cut=st.integers(0, 10))
def test_any_chunks(kind: str, tmp_path_factory: Any, chunks: list[list[int]], cut: int) -> None:
    table = pa.table({"x": pa.chunked_array(chunks, pa.int64()), "y": pa.chunked_array(chunks, pa.int64())})
    table = table.slice(cut)
    path = tmp_path_factory.mktemp("frames")
    if kind == "RecordBatch" and not table.num_rows:
        frame = pa.RecordBatch.from_pylist([], table.schema)
    else:
        frame = FRAMES[kind](table, path)
    values = [value for chunk in chunks for value in chunk][cut:]
    assert content(with_rows(source_of(frame))) == {"x": values, "y": values, "row": list(range(len(values)))}


@pytest.mark.parametrize("kind", FRAMES)
def test_many_rows_come_in_batches(kind: str, tmp_path: Path) -> None:
    values = list(range(2 * ROWS + 5))
    frame = FRAMES[kind](pa.table({"x": values, "y": values}), tmp_path)
    assert read(source_of(frame), ["y"]).to_pydict() == {"y": values}
    again = FRAMES[kind](pa.table({"x": values, "y": values}), tmp_path)
    batches = list(source_of(again).batches([]))
    assert (sum(batch.num_rows for batch in batches), batches[0].num_columns) == (len(values), 0)


@pytest.mark.parametrize("kind", ["RecordBatchReader", "parquet", "duckdb"])
def test_an_error_of_the_caller_comes_out_as_it_is(kind: str, tmp_path: Path) -> None:
    class Refused(Exception):
        pass

    def broken(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield next(batches)
        raise Refused

    source = source_of(FRAMES[kind](pa.table({"x": range(2 * ROWS)}), tmp_path))
    with pytest.raises(Refused):
        content(source.made(source.schema, broken(source.batches())))


@pytest.mark.parametrize("kind", ["Table", "RecordBatch", "pandas", "polars", "RecordBatchReader", "capsule"])
def test_no_columns(kind: str, tmp_path: Path) -> None:
    table = pa.table({})
    frame = pa.record_batch({}) if kind == "RecordBatch" else FRAMES[kind](table, tmp_path)
    assert content(with_rows(source_of(frame))) == {"row": []}


def test_rows_without_columns() -> None:
    assert with_rows(source_of(pd.DataFrame(index=[7, 7])))["row"].tolist() == [0, 1]
    assert with_rows(source_of(pl.DataFrame(height=2)))["row"].to_list() == [0, 1]
    assert with_rows(source_of(pa.table({"x": [1, 2]}).select([])))["row"].to_pylist() == [0, 1]


def test_dictionaries_that_differ_by_chunk(connection: Any) -> None:
    chunks = pa.chunked_array(
        [pa.array(["a", "b"]).dictionary_encode(), pa.array(["c", "a"]).dictionary_encode()]
    )
    table = pa.table({"x": chunks})
    assert with_rows(source_of(table)).to_pydict() == {"x": ["a", "b", "c", "a"], "row": [0, 1, 2, 3]}
    source = source_of(connection.sql("SELECT 1 AS i FROM range(4)"))
    out = source.made(table.schema, table.to_batches())
    assert out.fetchall() == [("a",), ("b",), ("c",), ("a",)]


@pytest.mark.parametrize(
    ("frame", "advice"),
    [
        (pl.LazyFrame({"x": [1]}), r"polars.*LazyFrame: call \.collect\(\)"),
        (pl.Series([1]), r"call \.to_frame"),
        (pd.Series([1]), r"call \.to_frame"),
        ({"x": [1]}, r"got dict: pyarrow\.table"),
        ([{"x": 1}], r"got list: pyarrow\.Table\.from_pylist"),
        (np.zeros(3), r"numpy\.ndarray: pyarrow\.table"),
        (pa.array([1]), r"pyarrow\.table"),
        (pa.chunked_array([[1]]), r"pyarrow\.table"),
        (pyarrow.dataset.dataset(pa.table({"x": [1]})).scanner(), r"call \.to_reader"),
        (type("DataFrame", (), {"__module__": "pyspark.sql.dataframe"})(), r"spark_integration\.rolling"),
        (7, r"a frame is .* got int$"),
        (None, r"got NoneType$"),
        (pd.DataFrame, r"got type$"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_frame(frame: Any, advice: str) -> None:
    with pytest.raises(TypeError, match=advice):
        source_of(frame)


def test_a_reader_is_closed_after_an_error(connection: Any) -> None:
    reader = connection.sql("SELECT * FROM range(200000) r(i)").to_arrow_reader(1000)
    batches = source_of(reader).batches()
    next(batches)
    batches.close()  # type: ignore[attr-defined]
    assert connection.sql("SELECT 1").fetchall() == [(1,)]


def test_a_connection_is_no_frame(connection: Any) -> None:
    with pytest.raises(TypeError, match="relation of the connection"):
        source_of(connection)


def test_names_of_columns() -> None:
    with pytest.raises(TypeError, match="names of columns are strings, got 0 of type int"):
        source_of(pd.DataFrame([[1]]))
    with pytest.raises(TypeError, match=r"got \('a', 1\) of type tuple"):
        source_of(pd.DataFrame({("a", 1): [1]}))
    for frame in (pd.DataFrame([[1, 2]], columns=["a", "a"]), pa.table([[1], [2]], ["a", "a"])):
        with pytest.raises(ValueError, match=r"a name of its own, got \['a'\] more than once"):
            source_of(frame)
    with pytest.raises(FileNotFoundError, match="no_such"):
        source_of("no_such.parquet")


def test_a_subclass_is_a_frame() -> None:
    class Mine(pd.DataFrame):
        @property
        def _constructor(self) -> type[Mine]:
            return Mine

    assert type(with_rows(source_of(Mine({"x": [1]})))) is Mine


def test_no_other_library_is_imported() -> None:
    program = """
import sys
import pyarrow as pa
from mta.tables.formats import source_of
source = source_of(pa.table({"x": [1]}))
assert source.made(pa.schema([("y", pa.int64())]), [pa.record_batch([[2]], ["y"])]).num_columns == 2
print(sorted({"polars", "duckdb", "pyspark", "pyarrow.dataset", "pyarrow.parquet"} & sys.modules.keys()))
"""
    assert (
        subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
        == "[]\n"
    )


def test_without_pyarrow_it_says_what_to_install(monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    spec = importlib.util.spec_from_file_location("formats_again", formats.__file__)
    assert spec is not None
    assert spec.loader is not None
    with pytest.raises(ModuleNotFoundError, match=r"pyarrow: pip install 'mta-windows\[tables\]'") as caught:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    assert caught.value.name == "pyarrow"
