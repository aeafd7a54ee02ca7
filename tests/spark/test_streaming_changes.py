"""Queries that are started again with something changed: columns may change, what the windows are may not."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import msgpack
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import types as sql
from rolled import schema_of
from streams import NUMBER, Stream, configured, seconds_of

from mta import monoids, policies
from mta.encoding.packing import pack
from mta.encoding.untrusted import Malformed
from mta.keyed.documents import SavedDocuments
from mta.keyed.table import SavedTable
from spark_integration import rolling
from spark_integration.aggregates.inputs import Input
from spark_integration.call import stores
from spark_integration.call.planning import make_plan
from spark_integration.errors import RollingError, UnsupportedColumn
from spark_integration.metrics import Metrics
from spark_integration.running.metering import STREAM_SUMS
from spark_integration.streaming.digests import key_column
from spark_integration.streaming.identity import Identity, decode_identity
from spark_integration.streaming.query import stream_plan
from spark_integration.streaming.schema import RowSchema, changed_type, serialized, unpacked_types, widens
from spark_integration.streaming.state import BucketState, decode_state

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")


@pytest.fixture(autouse=True)
def settings(spark: SparkSession) -> Iterator[None]:
    with configured(spark, shuffle_partitions=1, parquet_outputTimestampType="TIMESTAMP_MICROS"):
        yield


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"rocksdb://{tmp_path / 'windows'}"


def rows(first: int, count: int = 20) -> pa.Table:
    """A row a second, with x = 1 and y = 1000."""
    return seconds_of(
        first,
        list(range(first, first + count)),
        k=["a"] * count,
        x=[1] * count,
        y=[1000.0] * count,
        whole=pa.array(range(first, first + count), pa.int32()),
        gone=["text"] * count,
    )


def raw_rows(stream: Stream) -> list[dict[str, Any]]:
    """What came out, in its order, whatever columns each file has."""
    paths = sorted((stream.directory / "out").glob("*.parquet"))
    found = [row for path in paths for row in pq.read_table(path).to_pylist()]
    return sorted(found, key=lambda row: row[NUMBER])


# -- columns ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page_size", [2, None])
def test_columns_may_change(spark: SparkSession, tmp_path: Path, store: str, page_size: int | None) -> None:
    """Order, new ones before and behind, a widened and a removed one, while rows wait in state and store."""
    stream = Stream(
        spark,
        tmp_path / "stream",
        rows(0).schema,
        delay="5 seconds",
        store=store,
        partition_by="k",
        order_by="o",
        rows=10,
        aggregates={"sx": monoids.Sum("x"), "sy": monoids.Sum("y")},
        page_size=page_size,
    )
    stream.add(rows(0))
    stream.run()

    def other_order(df: DataFrame) -> DataFrame:
        return df.selectExpr(
            "'new' AS first", "y", "x", "CAST(whole AS BIGINT) AS whole", "o", NUMBER, "k", "1 AS last"
        )

    stream.add(rows(20))
    stream.run(select=other_order)
    waiting = range(15, 20)
    found = raw_rows(stream)
    assert [row[NUMBER] for row in found] == list(range(35))
    for row in found:
        length = min(row[NUMBER] + 1, 10)
        assert (row["sx"], row["sy"]) == (length, 1000.0 * length), row
        assert (row["x"], row["y"], row["whole"], row["k"]) == (1, 1000.0, row[NUMBER], "a")
        if row[NUMBER] in waiting:
            assert (row["first"], row["last"]) == (None, None)
        elif row[NUMBER] >= 20:
            assert (row["first"], row["last"], "gone" in row) == ("new", 1, False)

    stream.add(rows(40))
    refused = {
        "CAST(y AS BIGINT) AS y": "begun with aggregates: .*'y' \\(real number\\).*'y' \\(whole number\\)",
        "CAST(whole AS INT) AS whole": "column 'whole' was bigint in the rows .* and is now int",
        "5 AS gone": "column 'gone' was string in the rows .* and is now int",
    }
    for expression, message in refused.items():

        def changed(df: DataFrame, expression: str = expression) -> DataFrame:
            others = [name for name in ("k", "o", "x", "y", NUMBER) if name not in expression.split()]
            return df.selectExpr(*others, expression)

        with pytest.raises(StreamingQueryException, match=message):
            stream.run(select=changed)
    stream.run(select=other_order)
    assert [row["sy"] for row in raw_rows(stream)][9:] == [10_000.0] * 46


# -- calls ------------------------------------------------------------------------------------------------

# lambdas, which are all of one name
TOTAL = monoids.from_function(lambda older, younger: older + younger, 0, field="x")
DOUBLED = monoids.from_function(lambda older, younger: older + 2 * younger, 0, field="x")

HOW: dict[str, Any] = {
    "partition_by": ["k", "x"],
    "order_by": ["o", NUMBER],
    "window": "10 seconds",
    "aggregates": {"sx": TOTAL},
    "types": {"sx": "bigint"},
}


def identity(
    *,
    waits: bool = True,
    table: pa.Table | None = None,
    sensitive: bool = False,
    buckets: int | None = None,
    **changed: Any,
) -> Identity:
    schema = schema_of(rows(0) if table is None else table)
    plan = make_plan(schema, **HOW | {"store": "rocksdb:///unused"} | changed)
    row_schema = RowSchema(schema, "UTC", sensitive=sensitive)
    stream = stream_plan(plan, row_schema, waits, None, False, case_sensitive=sensitive, buckets=buckets)
    return stream.identity


def of_type(name: str, kind: pa.DataType) -> pa.Table:
    table = rows(0)
    place = table.schema.names.index(name)
    return table.set_column(place, name, pa.nulls(table.num_rows, kind))


OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "buckets": ("begun with buckets: 64, .* with buckets: 128", {"buckets": 128}),
    "fewer keys": (
        "partition_by: 'k' .*, 'x' .* with partition_by: 'k' \\(string\\)\\.",
        {"partition_by": "k"},
    ),
    "other order of keys": ("partition_by: .* with partition_by: 'x' ", {"partition_by": ["x", "k"]}),
    "no keys": ("with partition_by: nothing", {"partition_by": None}),
    "key of another type": (
        "'x' \\(whole number\\), .* 'x' \\(real number\\)",
        {"table": of_type("x", pa.float64())},
    ),
    "shorter": ("window: TimeWindow\\(10000000, .* window: TimeWindow\\(9", {"window": "9 seconds"}),
    "closed": ("window: .*'both'.* window: .*'right'", {"closed": "right"}),
    "without peers": (
        "window: .* see each other, .*window: ",
        {"window": None, "policy": policies.TimeWindow(10_000_000, closed="both")},
    ),
    "order": ("order_by: .*, 'r' .* with order_by: 'o' ", {"order_by": "o"}),
    "date for timestamp": (
        "order_by: 'o' \\(timestamp\\).* 'o' \\(date\\)",
        {"table": of_type("o", pa.date32()), "window": "10 days"},
    ),
    "local time": (
        "'o' \\(timestamp\\).* 'o' \\(timestamp_ntz\\)",
        {"table": of_type("o", pa.timestamp("us"))},
    ),
    "no watermark": ("watermark: on 'o', .* watermark: none", {"waits": False}),
    "function": ("aggregates: .* aggregates: ", {"aggregates": {"sx": DOUBLED}}),
    "aggregate": ("aggregates: .* aggregates: ", {"aggregates": {"sx": monoids.Sum("x")}, "types": None}),
    "another aggregate": (
        "aggregates: .* aggregates: .*Count",
        {"aggregates": {"sx": TOTAL, "n": monoids.Count()}},
    ),
    "another input": (
        "aggregates: .*'x' .*aggregates: .*'whole' ",
        {"aggregates": {"sx": monoids.from_function(max, 0, field="whole")}},
    ),
    "names that are not folded": (
        "begun with spark.sql.caseSensitive: false, .* spark.sql.caseSensitive: true",
        {"sensitive": True},
    ),
    "column of text": ("column 'y' was double in .* now string", {"table": of_type("y", pa.string())}),
}


@pytest.mark.parametrize("what", OTHERS)
def test_what_a_query_is_cannot_change(what: str) -> None:
    message, changed = OTHERS[what]
    with pytest.raises(RollingError, match=message):
        identity(**changed).after(identity())


def test_what_a_query_does_may_change() -> None:
    other = {
        "algorithm": "lmta",
        "page_size": 4,
        "store": "redis://other-host:6379/0",
        "types": {"sx": "double"},
    }
    with mock.patch.object(stores, "try_store"):
        before, after = identity(), identity(**other)
    assert after.after(before) == after
    assert after.fingerprint == before.fingerprint
    renamed = rows(0).rename_columns([name.upper() for name in rows(0).column_names])
    assert identity(table=renamed).after(before).fingerprint == before.fingerprint
    narrow = of_type("x", pa.int8())
    assert before.after(identity(table=narrow)).fingerprint == before.fingerprint
    # rows that come out at once leave nothing of other columns
    identity(waits=False, table=of_type("y", pa.string())).after(identity(waits=False))


def test_a_bucket_that_is_met_first_tells_what_the_call_is() -> None:
    before, now = identity(), identity(window="9 seconds")
    blob = BucketState(before.fingerprint, "name", 5).encode()
    assert decode_state(blob, before.fingerprint, before.text).name == "name"
    with pytest.raises(
        RollingError, match=r"is started with .*partition_by: 'k' .*window: TimeWindow\(9000000, "
    ) as raised:
        decode_state(blob, now.fingerprint, now.text)
    assert "the query's own record in the checkpoint" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_state_of_the_format_before_is_read() -> None:
    """It has no watermark up to which rows have come out."""
    now = identity()
    documents, keys = [7, None, [[3, 0, b""]]], [b"k", None, [[4, 9]]]
    content = [3, now.fingerprint, "name", 5, documents, keys, None, ["gone"]]
    state = decode_state(msgpack.packb(content), now.fingerprint, now.text)
    saved = SavedDocuments.decode(documents), SavedTable.decode(keys)
    assert state == BucketState(now.fingerprint, "name", 5, *saved, None, None, ["gone"])
    assert decode_state(state.encode(), now.fingerprint, now.text) == state
    decode_identity(msgpack.packb([3, *msgpack.unpackb(now.encode())[1:]]))


def test_a_checkpoint_with_a_state_for_each_key_is_refused_in_one_line() -> None:
    """Those of before had the same record and the same beginning of a state, of format 2."""
    now = identity()
    record = msgpack.unpackb(now.encode())
    for read, content in (
        (decode_identity, [2, *record[1:]]),
        (lambda blob: decode_state(blob, now.fingerprint, now.text), [2, now.fingerprint, "name", [], None]),
    ):
        with pytest.raises(RollingError, match=r"format 2, and this version reads 4: start .* checkpoint"):
            read(msgpack.packb(content))


def test_room_for_nulls_that_is_gone_is_named() -> None:
    def of(element: str, holds_nulls: bool) -> sql.DataType:
        struct = sql.StructType.fromDDL(f"a {element}")
        return sql.StructType([sql.StructField("st", sql.ArrayType(struct, holds_nulls))])

    old, wider = of("int", True), of("bigint", True)
    assert widens(old, wider)
    assert not widens(old, of("bigint", False))
    assert "bigint>>> without nulls among its fields, elements or values, which" in changed_type(
        "c", old, of("bigint", False)
    )
    assert "without nulls" not in changed_type("c", wider, old)
    values = sql.MapType(sql.StringType(), sql.LongType(), True)
    assert "without nulls" in changed_type("c", values, sql.MapType(sql.StringType(), sql.LongType(), False))


def test_a_field_that_is_new_may_be_null() -> None:
    """In the rows that waited it is; and a field that may be null there stays so, however deep it is."""

    def of(fields: str) -> sql.DataType:
        inner = sql.StructType.fromDDL(fields)
        return sql.MapType(sql.StringType(), sql.StructType([sql.StructField("s", inner, False)]))

    assert widens(of("a int"), of("a int, b int"))
    assert widens(of("a int not null"), of("b int, a int not null"))
    for old, new in (
        ("a int", "a int, b int not null"),
        ("a int", "a int not null"),
        ("a int not null, b int", "a int not null, b int not null"),
    ):
        assert not widens(of(old), of(new))
        assert "without nulls among its fields" in changed_type("c", of(old), of(new))


class Point(sql.UserDefinedType):
    @classmethod
    def sqlType(cls) -> sql.DataType:  # noqa: N802
        return sql.StructType.fromDDL("x double, y double")

    @classmethod
    def module(cls) -> str:
        return __name__

    def serialize(self, obj: Any) -> Any:
        return obj

    def deserialize(self, datum: Any) -> Any:
        return datum


def test_rows_name_no_class() -> None:
    """What reads them would have to import it. Those of before are of what stands behind the class."""
    inside = sql.StructType([sql.StructField("p", sql.ArrayType(Point()))])
    schema = sql.StructType([sql.StructField("k", sql.LongType()), sql.StructField("c", inside)])
    rows = RowSchema(schema, "UTC")
    assert b"udt" not in rows.packed
    point = [{"x": 1.0, "y": 2.0}]
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([1]),
            pa.array([{"p": point}], rows.arrow.field(1).type),
            pa.array([b"x" * 16], pa.binary(16)),
        ],
        schema=rows.keyed,
    )
    of_before = pack([[each.name, each.dataType.jsonValue()] for each in schema.fields])
    assert b"udt" in of_before
    for described in (rows.packed, of_before):
        read = rows.read(msgpack.packb([described, serialized(batch)]))
        assert read.column(1).to_pylist() == [{"p": point}]
        assert unpacked_types(described) == rows.types


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("name", ["unittest.__main__.x", "this.x", "os.NoSuch"])
def test_a_class_that_rows_name_is_not_imported(
    name: str, deep: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    evil: Any = {
        "type": "udt", "class": None, "pyClass": name, "sqlType": "string", "serializedClass": "gASVAAAA"
    }  # fmt: skip
    if deep:
        evil = {"type": "array", "elementType": evil, "containsNull": True}
    before = set(sys.modules)
    found = unpacked_types(pack([["k", evil]]))
    assert found == {"k": sql.ArrayType(sql.StringType()) if deep else sql.StringType()}
    assert set(sys.modules) == before
    assert capsys.readouterr() == ("", "")
    with pytest.raises(Malformed):
        unpacked_types(pack([["k", {"type": "udt", "pyClass": name}]]))


def test_metadata_of_fields_are_the_users_own() -> None:
    """Whatever they look like: no type is looked for in them."""
    about = {"type": "udt", "pyClass": "this.x"}
    inside = sql.StructType([sql.StructField("p", sql.LongType(), metadata=about)])
    schema = sql.StructType([sql.StructField("c", inside, metadata=about)])
    rows = RowSchema(schema, "UTC")
    assert rows.types == {"c": inside}
    assert unpacked_types(rows.packed) == {"c": inside}
    assert unpacked_types(rows.packed)["c"]["p"].metadata == about  # type: ignore[index]


def test_a_column_that_comes_back_is_of_the_type_that_rows_may_wait_with() -> None:
    without = identity(table=rows(0).drop("y")).after(identity())
    decoded = decode_identity(without.encode())
    assert decoded == without
    with pytest.raises(RollingError, match=r"column 'y' was double in .* is now string"):
        identity(table=of_type("y", pa.string())).after(decoded)
    assert identity().after(decoded).columns == without.columns


def test_another_query_is_refused_before_its_first_row(
    spark: SparkSession, tmp_path: Path, store: str
) -> None:
    """And the one of before goes on as if nothing had been."""
    stream = Stream(
        spark, tmp_path / "stream", rows(0).schema, store=store, page_size=2, delay="5 seconds", **HOW
    )
    stream.add(rows(0))
    stream.run()
    stream.add(rows(20))
    others: dict[str, dict[str, Any]] = {
        "partition_by: ": {"partition_by": ["x"]},
        "'x' \\(string\\)": {
            "select": lambda df: df.withColumn("x", df["x"].cast("string")),
            "aggregates": {"sx": monoids.Count()},
            "types": None,
        },
        "window: ": {"window": "9 seconds"},
        "buckets: 7": {"buckets": 7},
        "aggregates: ": {"aggregates": {"sx": DOUBLED}},
    }
    for message, changed in others.items():
        with pytest.raises(StreamingQueryException, match=f"is started with .*{message}"):
            stream.run(**changed)
    stream.run(algorithm="lmta", page_size=4, delay="3 seconds", forget_after="1 minute")
    found = raw_rows(stream)
    assert [row[NUMBER] for row in found] == list(range(37))
    assert [row["sx"] for row in found] == [min(number + 1, 11) for number in range(37)]


# -- keys -------------------------------------------------------------------------------------------------

MOMENT = dt.datetime(2024, 3, 10, 7, 30, tzinfo=dt.UTC)


def digests(*columns: pa.Array) -> list[bytes]:
    """Of the keys of rows, in their order."""
    names = [f"c{number}" for number in range(len(columns))]
    batch = pa.RecordBatch.from_arrays(list(columns), names=names)
    inputs = [Input(name, number, sql.NullType(), True) for number, name in enumerate(names)]
    found, codes = key_column(batch, inputs)
    alone = [key_column(batch.slice(row, 1), inputs)[0].tobytes() for row in range(batch.num_rows)]
    assert [found[code : code + 1].tobytes() for code in codes] == alone
    return alone


def in_zone(zone: str | None) -> pa.Array:
    return pa.array([MOMENT, None], pa.timestamp("us", zone))


def nested(zone: str) -> pa.Array:
    item = pa.struct([("at", pa.timestamp("us", zone)), ("f", pa.float64())])
    values = [[{"at": MOMENT, "f": -0.0}], [{"at": None, "f": math.nan}]]
    return pa.array(values, pa.list_(item), from_pandas=False)


SAME: dict[str, tuple[pa.Array, pa.Array]] = {
    "names of one zone": (in_zone("UTC"), in_zone("Etc/UTC")),
    "zones": (in_zone("UTC"), in_zone("America/New_York")),
    "nested": (nested("UTC"), nested("Asia/Kathmandu")),
    "zeros": (pa.array([0.0]), pa.array([-0.0])),
    "widths": (pa.array([5, None], pa.int8()), pa.array([5, None], pa.int64())),
    "real widths": (pa.array([0.1, math.nan], pa.float32()), pa.array([float(np.float32(0.1)), math.nan])),
    "decimals": (
        pa.array([decimal.Decimal("-1.50"), decimal.Decimal("100")], pa.decimal128(38, 2)),
        pa.array([decimal.Decimal("-1.5000"), decimal.Decimal("100")], pa.decimal128(38, 4)),
    ),
    "maps": (
        pa.array([[("a", -0.0), ("b", 1.0)], None], pa.map_(pa.string(), pa.float64())),
        pa.array([[("b", 1.0), ("a", 0.0)], None], pa.map_(pa.string(), pa.float64())),
    ),
    "NaN": (
        pa.array(np.array([0x7FF8000000000001], dtype=np.int64).view(np.float64)),
        pa.array([math.nan], from_pandas=False),
    ),
}


@pytest.mark.parametrize("what", SAME)
def test_a_key_has_one_content(what: str) -> None:
    one, other = SAME[what]
    assert digests(one) == digests(other)
    assert len(set(digests(one))) == len(one)


def test_other_keys_have_other_digests() -> None:
    long = decimal.Decimal("12345678901234567890123456789012345678")
    columns = [
        pa.array([1, 10, 0, -1, None]),
        pa.array([long, long + 1, -long], pa.decimal128(38, 0)),
        pa.array([dt.date(2024, 1, 1), dt.date(2024, 1, 2), None]),
        pa.array([b"", b"a", None], pa.binary()),
        pa.array(["", "a", "None", None]),
        pa.array([MOMENT, MOMENT + dt.timedelta(microseconds=1)], pa.timestamp("us", "UTC")),
        pa.array([{"a": None}, {"a": 1}, None], pa.struct([("a", pa.int64())])),
        pa.array([[], [None], [None, None], None], pa.list_(pa.int64())),
        pa.array([math.nan, math.inf, -math.inf, 0.0, None], from_pandas=False),
    ]
    for column in columns:
        assert len(set(digests(column))) == len(column)
    assert (
        digests(pa.array(["a", "ab"]), pa.array(["bc", "c"]))[0]
        != digests(pa.array(["ab"]), pa.array(["c"]))[0]
    )


def test_times_as_keys_go_on_in_another_session_zone(spark: SparkSession, tmp_path: Path, store: str) -> None:
    day, noon = dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)

    def file(first: int) -> pa.Table:
        return seconds_of(
            first,
            list(range(first, first + 10)),
            at=pa.array([noon] * 10, pa.timestamp("us", "UTC")),
            local=pa.array([day] * 10, pa.timestamp("us")),
            price=pa.array([decimal.Decimal("1.50")] * 10, pa.decimal128(10, 2)),
        )

    stream = Stream(
        spark,
        tmp_path / "stream",
        file(0).schema,
        store=store,
        partition_by=["at", "local", "price"],
        order_by="o",
        rows=100,
        aggregates={"n": monoids.Count(), "newest": monoids.Max("at")},
    )
    for number, zone in enumerate(("UTC", "Etc/UTC", "America/New_York")):
        stream.add(file(number * 10))
        with configured(spark, session_timeZone=zone):
            stream.run(select=lambda df: df.withColumn("price", df["price"].cast("decimal(12,4)")))
    found = raw_rows(stream)
    assert [row["n"] for row in found] == list(range(1, 31))
    assert {row["newest"] for row in found} == {noon}


# -- names, types and places ------------------------------------------------------------------------------


def test_names_may_have_dots_and_backticks_and_differ_by_case(
    spark: SparkSession, tmp_path: Path, store: str
) -> None:
    """And rows without a time are given the same columns, whatever is observed."""
    file = seconds_of(0, list(range(20)), k=["a", "b"] * 10, x=[1.0] * 20, y=[100.0] * 20)
    times = [None if number % 10 == 9 else time for number, time in enumerate(file["o"].to_pylist())]
    place = file.schema.names.index("o")
    file = file.set_column(place, "o", pa.array(times, pa.timestamp("us", "UTC")))
    names = {"k": "a `key`", "x": "v.x", "y": "V.X", "o": "o.clock"}

    def renamed(df: DataFrame) -> DataFrame:
        for old, new in names.items():
            df = df.withColumnRenamed(old, new)
        return df

    metrics = Metrics("of rows")
    stream = Stream(
        spark,
        tmp_path / "stream",
        file.schema,
        store=store,
        select=renamed,
        delay="5 seconds",
        metrics=metrics,
        partition_by="a `key`",
        order_by="o.clock",
        rows=100,
        aggregates={"sum.small": monoids.Sum("v.x"), "sum.large": monoids.Sum("V.X")},
    )
    stream.add(file)
    with configured(spark, caseSensitive="true"):
        stream.run()
    found = raw_rows(stream)
    assert [row[NUMBER] for row in found] == [*range(14), 19]
    for row in found:
        number = row[NUMBER]
        # rows 9 and 19 are of b and have no time
        length = {9: 1, 19: 2}.get(number, number // 2 + 1 - (number in (11, 13)))
        assert (row["sum.small"], row["sum.large"]) == (length, 100.0 * length), row
    assert all(set(each.observedMetrics) == {"of rows"} for each in stream.progress)
    assert stream.played().total("rows") == 15


def test_what_is_observed_is_never_null(spark: SparkSession, tmp_path: Path, store: str) -> None:
    stream = Stream(
        spark,
        tmp_path / "stream",
        rows(0).schema,
        store=store,
        delay="1 hour",
        order_by="o",
        rows=5,
        aggregates={"n": monoids.Count()},
    )
    stream.add(rows(0))
    stream.run()
    counts = [each.observedMetrics["rolling_n"].asDict() for each in stream.progress]
    assert counts
    for each in counts:
        assert each.keys() == set(STREAM_SUMS)
        assert each["rows"] == each["late"] == 0
        assert None not in each.values()


REFUSED: dict[str, tuple[str, type[Exception], str]] = {
    "interval of months": (
        "make_ym_interval(1, 2) AS i",
        UnsupportedColumn,
        "column 'i' is of type interval year",
    ),
    "interval": ("make_interval(1, 2) AS i", UnsupportedColumn, "column 'i' is of type interval, "),
    "name twice": ("value AS timestamp", RollingError, "columns are named 'timestamp', and a stream keeps"),
    "name but for its case": ("value AS Timestamp", RollingError, "columns are named 'timestamp', and"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_columns_that_a_stream_cannot_keep_are_refused_in_one_line(
    spark: SparkSession, store: str, what: str
) -> None:
    expression, kind, message = REFUSED[what]
    df = spark.readStream.format("rate").load().selectExpr("timestamp", "value", "timestamp AS o", expression)
    with pytest.raises(kind, match=message) as caught:
        rolling(df, order_by="o", rows=5, aggregates={"n": monoids.Count()}, store=store)
    assert "\n" not in str(caught.value)


# -- what only the data shows -----------------------------------------------------------------------------


def test_what_the_data_shows_is_said_first_and_names_the_row(
    spark: SparkSession, tmp_path: Path, store: str
) -> None:
    file = seconds_of(0, list(range(20)), k=["a", "b"] * 10, x=[1] * 17 + [2**62, 1, 2**62])
    stream = Stream(
        spark,
        tmp_path / "stream",
        file.schema,
        store=store,
        partition_by="k",
        order_by="o",
        window="1 hour",
        aggregates={"total": monoids.Sum("x")},
    )
    stream.add(file)
    with pytest.raises(StreamingQueryException) as caught:
        stream.run()
    first, *_ = str(caught.value).splitlines()
    time = file["o"][19].as_py().strftime("%Y-%m-%d %H:%M:%S")
    assert f"DataError: the row k='b', o={time}" in first, first
    assert "Sum('x')" in first, first
    stream.run(aggregates={"total": monoids.Mean("x")})
