"""What may be asked for, as users of Spark write it, and how it is told what cannot be."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import functions as fn
from pyspark.sql import types as sql

import spark_integration
from mta import monoids
from spark_integration import Metrics, rolling
from spark_integration.call.naming import Named, text_of
from spark_integration.call.workers import for_workers
from spark_integration.errors import RollingError, WorkersNotUsable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")

COUNT = {"n": monoids.Count()}


@pytest.fixture
def df(spark: SparkSession) -> DataFrame:
    """Ten rows: k is 0, 0, 1, 1 ..., and st.k and `st.k` are something else."""
    number = fn.col("id")
    return spark.range(10).select(
        number.alias("o"),
        fn.floor(number / 2).alias("k"),
        fn.struct((number % 2).alias("k"), number.alias("o.o")).alias("st"),
        (number % 5).alias("a.b"),
        (-number).alias("b`c"),
        fn.when(number != 3, number % 3).alias("x"),
    )


def counted(df: DataFrame, **how: Any) -> list[int]:
    """The size of the whole group up to each row, by o, with only the columns asked for added."""
    out = rolling(df, **{"order_by": "o", "rows": 99, "aggregates": COUNT} | how)
    assert out.columns == [*df.columns, "n"]
    return [row["n"] for row in sorted(out.collect(), key=lambda row: row["o"])]


# -- keys and order ---------------------------------------------------------------------------------------


def test_keys_as_columns(df: DataFrame) -> None:
    pairs, alternating, fives = [1, 2] * 5, [1, 1, 2, 2, 3, 3, 4, 4, 5, 5], [1] * 5 + [2] * 5
    assert counted(df, partition_by="k") == pairs
    assert counted(df, partition_by=df.k) == pairs
    assert counted(df, partition_by=[fn.col("K")]) == pairs
    assert counted(df, partition_by="st.k") == alternating
    assert counted(df, partition_by=fn.col("st.k")) == alternating
    assert counted(df, partition_by=[df["st"]["k"]]) == alternating
    assert counted(df, partition_by="a.b") == fives
    assert counted(df, partition_by="`a.b`") == fives
    assert counted(df, partition_by=df["`a.b`"]) == fives
    assert counted(df, partition_by=(fn.col("k") % 1).alias("zero")) == list(range(1, 11))
    assert counted(df, partition_by=["k", "st.k"]) == [1] * 10


def test_expressions_are_never_taken_for_columns(spark: SparkSession) -> None:
    """Not for another expression of the same text but for its case, nor for a column that is named so."""
    df = spark.createDataFrame([(0, "x", 1), (1, "X", 1), (2, "y", 2), (3, "x", 2)], "o int, s string, t int")
    upper, lower = fn.col("s") == "X", fn.col("s") == "x"
    text = text_of(lower)
    assert counted(df, partition_by=[upper, lower]) == [1, 1, 1, 2]
    assert counted(df, partition_by=[lower, upper]) == [1, 1, 1, 2]
    assert counted(df, partition_by=[lower, lower]) == [1, 1, 2, 2]
    named = df.withColumnRenamed("t", text)
    assert counted(named, partition_by=lower) == [1, 1, 2, 2]
    assert counted(named, partition_by=fn.col(f"`{text}`")) == [1, 2, 1, 2]
    for name in ("'s'", "1"):
        other = df.withColumnRenamed("s", name)
        assert counted(other, partition_by=fn.lit(name.strip("'")).cast("string")) == [1, 2, 3, 4]
        assert counted(other, partition_by=fn.lit(int(name) if name == "1" else "s")) == [1, 2, 3, 4]
    with pytest.raises(RollingError, match="aggregate 'n': no column"):
        counted(df, partition_by=lower, aggregates={"n": monoids.Count(text)})


def test_columns_named_like_what_is_sorted(spark: SparkSession) -> None:
    df = spark.range(6).selectExpr(
        "id o", "6-id `length(t)`", "repeat('x', cast(id as int)) t", "id%3 `o ASC NULLS FIRST`"
    )
    assert counted(df, partition_by=fn.col("o ASC NULLS FIRST")) == [1, 1, 1, 2, 2, 2]
    assert counted(df, order_by=fn.col("length(t)").asc()) == [6, 5, 4, 3, 2, 1]
    assert counted(df, order_by=fn.length("t")) == [1, 2, 3, 4, 5, 6]
    with pytest.raises(RollingError, match=r"leave .asc\(\) out"):
        counted(df, order_by=fn.length("t").asc())


def test_aggregates_named_as_columns_are_on_their_way(spark: SparkSession) -> None:
    df = spark.range(3).withColumnRenamed("id", "o")
    for name in ("column_0", "column_1", "__rolling_metrics", "cls", "self"):
        metrics = Metrics()
        out = rolling(df, order_by="o", rows=2, aggregates={name: monoids.Count()}, metrics=metrics)
        assert [tuple(row) for row in out.orderBy("o").collect()] == [(0, 1), (1, 2), (2, 2)]
        assert metrics.summary.rows == 3


def test_expressions_are_not_tried_as_names(df: DataFrame, caplog: pytest.LogCaptureFixture) -> None:
    """Which Spark would write an error of."""
    rolling(df, partition_by=fn.col("o") + 1.5, order_by="o", rows=2, aggregates={"n": monoids.Count()})
    assert not caplog.records


def test_functions_as_keys_are_named_shortly(spark: SparkSession) -> None:
    half = fn.udf(lambda value: value // 2, "bigint")
    third = fn.udf(lambda value: value // 3, "bigint")
    df = spark.range(6).withColumnRenamed("id", "o")
    assert counted(df, partition_by=[half("o"), third("o")]) == [1, 2, 1, 1, 1, 2]
    large = df.withColumn("b", fn.lit(2**63 - 1))
    with pytest.raises(PythonException, match=r"the row \[<lambda>\(…\)\]=0, o=1: "):
        counted(large, partition_by=half("o"), aggregates={"n": monoids.Sum("b")})


def test_functions_are_no_keys_of_streams(spark: SparkSession, tmp_path: Path) -> None:
    """Their text is another one in each session."""
    df = spark.readStream.format("rate").load()
    how: dict[str, Any] = {"rows": 5, "aggregates": COUNT, "store": f"rocksdb://{tmp_path}"}
    half = fn.udf(lambda value: value // 2, "bigint")("value")
    for where in ({"partition_by": half + 1, "order_by": "timestamp"}, {"order_by": ["timestamp", half]}):
        with pytest.raises(RollingError, match="make it a column first, with withColumn") as raised:
            rolling(df, **how, **where)
        assert "\n" not in str(raised.value)
        assert len(str(raised.value)) < 300
    address = fn.col("value") == "somebody@deadbeef"
    for key in (address, fn.col("value") % 2):
        rolling(df, **how, partition_by=key, order_by="timestamp")
    rolling(df.withColumn("half", half), **how, partition_by="half", order_by="timestamp")


def test_expressions_of_streams_have_a_name_that_stays(spark: SparkSession) -> None:
    """Whatever columns the source has then, and another one if anything in it changes, were it a case."""
    df = spark.readStream.format("rate").load()

    def name(key: Any, df: DataFrame = df) -> str:
        (found,) = Named(df, case_sensitive=False).names(key, "partition_by")
        return str(found).lower()

    upper, lower = fn.col("value") == "X", fn.col("value") == "x"
    assert name(upper) != name(lower)
    assert name(fn.lit("value")) != name(fn.col("value")) == "value"
    assert name(fn.concat("value", fn.lit("k"))) != name(
        fn.concat("value", fn.col("k")), df.withColumn("k", upper)
    )
    assert name(lower, df.withColumn(text_of(lower), fn.lit(1))) == name(lower)


def test_lambdas_of_streams_have_a_name_that_stays(spark: SparkSession) -> None:
    """Spark numbers their variables from call to call."""
    df = spark.readStream.format("rate").load()

    def name(make: Any, df: DataFrame = df) -> str:
        (found,) = Named(df, case_sensitive=False).names(make(), "partition_by")
        return str(found)

    def parity() -> Any:
        return fn.transform(fn.array("value"), lambda v: v % 2)

    def both() -> Any:
        return fn.zip_with(fn.array("value"), fn.array(fn.lit("x_1")), lambda v, w: fn.concat(v, w, w))

    def first() -> Any:
        return fn.zip_with(fn.array("value"), fn.array(fn.lit("x_1")), lambda v, w: fn.concat(v, w, v))

    assert name(parity) == name(parity)
    assert name(both) == name(both) != name(first)
    assert "x_1'" in name(both) or "x_1)" in name(both)
    assert name(lambda: fn.col("value").asc()) == "value"
    assert name(lambda: fn.col("value") == fn.lit("(x" + "_1" * 100)).startswith("[")
    many = df.withColumn("x" + "_1" * 100, fn.lit(1))
    assert name(lambda: fn.col("x" + "_1" * 100) + 1, many).startswith("[+(x_1_1")  # at once
    named = df.withColumn("x_1", fn.lit(1))
    with pytest.raises(RollingError, match="make it a column first"):  # is it the column, or the variable?
        name(parity, named)


def test_order_as_columns(df: DataFrame) -> None:
    rising, falling = list(range(1, 11)), list(range(10, 0, -1))
    assert counted(df, order_by=df.o) == rising
    assert counted(df, order_by=fn.col("o").asc()) == rising
    assert counted(df, order_by=[df.o.asc()]) == rising
    assert counted(df, order_by=fn.asc("`b``c`")) == falling
    assert counted(df, order_by="`b``c`") == falling
    assert counted(df, order_by=fn.col("`b``c`")) == falling
    assert counted(df, order_by=[-fn.col("o"), "k"], rows=None, window=100) == falling
    assert counted(df, order_by="st.`o.o`") == rising


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"order_by": fn.desc}, "order_by=o DESC NULLS LAST: order is ascending with nulls first"),
        (
            {"order_by": lambda _: (fn.col("o") + 1).asc()},
            r"order_by=.*o.*1.* ASC: leave .asc\(\) out, as order is ascending anyway",
        ),
        ({"order_by": fn.asc_nulls_last}, "order_by=o ASC NULLS LAST: order is ascending with nulls first"),
        ({"partition_by": fn.sum}, r"partition_by=sum\(o\): \[MISSING_GROUP_BY\]"),
        ({"partition_by": lambda _: fn.col("nothing")}, r"partition_by=nothing: \[UNRESOLVED_COLUMN"),
        ({"partition_by": lambda _: "st.q"}, r"partition_by: no column 'st.q', the DataFrame has o, k, "),
        (
            {"partition_by": lambda _: fn.create_map("k", "o")},
            r"of type map<bigint,.*which Spark cannot sort",
        ),
        (
            {"order_by": lambda _: fn.array(fn.struct(fn.create_map("k", "o")))},
            r"order_by: column .* of type array<struct<.*which Spark cannot sort",
        ),
        ({"partition_by": lambda _: 5}, "partition_by= takes columns or names of columns, got 5"),
        ({"partition_by": lambda _: [5]}, "partition_by= takes columns or names of columns, got 5"),
    ],
)
def test_columns_that_cannot_be(df: DataFrame, how: dict[str, Any], message: str) -> None:
    given = {name: make("o") for name, make in how.items()}
    with pytest.raises(RollingError, match=message) as raised:
        counted(df, **given)
    assert "\n" not in str(raised.value)


def test_inputs_in_structs(df: DataFrame) -> None:
    aggregates = {
        "top": monoids.Max("st.k"),
        "both": monoids.Fields(first=monoids.First("st.`o.o`"), sum=monoids.Sum("a.b")),
    }
    out = rolling(df, order_by="st.`o.o`", rows=2, aggregates=aggregates)
    assert out.columns == [*df.columns, "top", "both"]
    found = [(row.top, *row.both) for row in out.orderBy("o").collect()]
    assert found[:4] == [(0, 0, 0), (1, 0, 1), (1, 1, 3), (1, 2, 5)]


# -- names ------------------------------------------------------------------------------------------------


def test_names_that_repeat(spark: SparkSession) -> None:
    left = spark.range(4).select(fn.col("id").alias("k"), (fn.col("id") * 10).alias("x"))
    right = spark.range(4).select(fn.col("id").alias("j"), (fn.col("id") * 100).alias("x"))
    joined = left.join(right, left.k == right.j)
    out = rolling(joined, order_by="k", rows=2, aggregates={"s": monoids.Sum("j")}, metrics=Metrics())
    assert out.columns == ["k", "x", "j", "x", "s"]
    assert sorted(map(tuple, out.collect())) == [(i, 10 * i, i, 100 * i, max(2 * i - 1, 0)) for i in range(4)]
    with pytest.raises(RollingError, match="aggregate 's': 2 columns are named 'x'; rename all but one"):
        rolling(joined, order_by="k", rows=2, aggregates={"s": monoids.Sum("x")})


def test_names_that_differ_by_case(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        df = spark.range(4).select(fn.col("id").alias("a"), (-fn.col("id")).alias("A"))
        aggregates = {"n": monoids.Count(), "N": monoids.Max("A"), "m": monoids.Max("a")}
        out = rolling(df, order_by="A", rows=2, aggregates=aggregates)
        assert out.columns == ["a", "A", "n", "N", "m"]
        assert sorted(map(tuple, out.collect())) == [
            (0, 0, 2, 0, 1),
            (1, -1, 2, -1, 2),
            (2, -2, 2, -2, 3),
            (3, -3, 1, -3, 3),
        ]
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


@pytest.mark.parametrize("how", [{"b\0present": monoids.Count()}, {"b": monoids.Sum("x\0there")}])
def test_names_with_nul_are_refused(spark: SparkSession, how: dict[str, Any]) -> None:
    df = spark.range(3).withColumnRenamed("id", "o").withColumn("x\0there", fn.lit(1))
    with pytest.raises(RollingError, match="the character NUL"):
        rolling(df, order_by="o", rows=2, aggregates=how)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"types": 5}, "types= maps names to values, .* got 5"),
        ({"types": "double"}, "types= maps names to values, .* got 'double'"),
        ({"types": {5: "double", None: "int"}}, "types= maps names"),
        ({"types": {"n": sql.YearMonthIntervalType()}}, "types=.*interval year to month.*give another type"),
        ({"types": {"n": sql.CharType(3)}}, r"types=.*char\(3\).*give another type"),
        ({"store_options": 5}, "store_options= maps names to values, .* got 5"),
        ({"store_options": "x"}, "store_options= maps names to values, .* got 'x'"),
        ({"metrics": 5}, r"metrics= is a Metrics\(\), got 5"),
        ({"metrics": Metrics}, r"metrics= is a Metrics\(\), got <class"),
        ({"rows": None, "window": 10**400}, r"window= must be finite and less than 2 \*\* 63, got 1000"),
        ({"rows": None, "window": -(10**5000)}, r"window= must be finite and less than .*, got a number of"),
        ({"rows": None, "window": 2**63}, r"window= must be finite and less than 2 \*\* 63"),
        (
            {"rows": None, "window": "9" * 5000 + " days"},
            "window= takes a duration .* a text of 5,005 characters",
        ),
        ({"store": "redis://[::1"}, "store= is a URL that cannot be read, Invalid IPv6 URL"),
    ],
)
def test_arguments_of_a_wrong_kind(df: DataFrame, how: dict[str, Any], message: str) -> None:
    with pytest.raises(RollingError, match=message) as raised:
        counted(df, **how)
    assert "\n" not in str(raised.value)


def test_what_is_no_dataframe() -> None:
    frame = pd.DataFrame({"o": [1]})
    for other, hint in ((frame, "spark.createDataFrame"), (None, "spark.create"), ("df", "spark.create")):
        with pytest.raises(RollingError, match=f"takes a DataFrame of Spark, got .*{hint}"):
            rolling(other, order_by="o", rows=3, aggregates=COUNT)  # type: ignore[arg-type]


def test_lengths_of_numpy(spark: SparkSession) -> None:
    df = spark.range(10).selectExpr("id o", "timestamp_seconds(id) ts")
    for window in (np.timedelta64(2, "s"), np.timedelta64(2_000_000_000, "ns"), pd.Timedelta(seconds=2)):
        assert counted(df, order_by="ts", rows=None, window=window) == [1, 2, *[3] * 8]
    for window in (np.timedelta64(1, "M"), np.timedelta64(1, "ns"), np.timedelta64("NaT"), np.timedelta64(5)):
        with pytest.raises(RollingError, match="window= takes a duration"):
            counted(df, order_by="ts", rows=None, window=window)


# -- aggregates -------------------------------------------------------------------------------------------


def test_counts_are_sqls(df: DataFrame) -> None:
    aggregates = {
        "all": monoids.Count(),
        "some": monoids.Count("x"),
        "structs": monoids.Count("st"),
        "different": monoids.CountDistinct("x"),
    }
    out = rolling(df, order_by="o", rows=4, aggregates=aggregates)
    assert [out.schema[name].nullable for name in aggregates] == [False] * 4
    data = pa.table({"o": range(10), "x": [None if i == 3 else i % 3 for i in range(10)]})
    wanted = duckdb.sql(
        """select count(*) over w, count(x) over w, count(*) over w, count(distinct x) over w
        from data window w as (order by o rows 3 preceding) order by o"""
    ).fetchall()
    assert data.num_rows == 10
    assert [tuple(row) for row in out.orderBy("o").select(*aggregates).collect()] == wanted


def test_a_day_of_24_hours(spark: SparkSession) -> None:
    """Spark's INTERVAL 1 DAY is a day of the calendar, of 23 to 25 hours; `window=` counts hours."""
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        df = spark.sql(
            """select ts, id, 1 << id as x from values
            (timestamp'2024-03-09 12:00:00', 0), (timestamp'2024-03-10 11:30:00', 1),
            (timestamp'2024-03-10 12:00:00', 2), (timestamp'2024-03-10 12:30:00', 3),
            (timestamp'2024-03-10 13:00:00', 4), (timestamp'2024-11-02 11:30:00', 5),
            (timestamp'2024-11-02 12:00:00', 6), (timestamp'2024-11-03 11:30:00', 7),
            (timestamp'2024-11-03 12:00:00', 8) as t (ts, id)"""
        )
        df.createOrReplaceTempView("clocks")
        out = rolling(df, order_by="ts", window="1 day", aggregates={"s": monoids.Sum("x")})
        found = [row.s for row in out.orderBy("id").collect()]

        def framed(order: str, span: str) -> list[int]:
            frame = f"order by {order} range between {span} preceding and current row"
            rows = spark.sql(f"select id, sum(x) over ({frame}) as s from clocks order by id").collect()
            return [row.s for row in rows]

        assert found == framed("unix_micros(ts)", str(24 * 3600 * 1_000_000))
        assert found != framed("ts", "interval 1 day")
        assert framed("ts", "interval 24 hours") == framed("ts", "interval 1 day")
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


# -- metrics ----------------------------------------------------------------------------------------------


def test_metrics_after_take(spark: SparkSession) -> None:
    """It reads a few rows; what was done for them is known."""
    metrics = Metrics()
    out = rolling(
        spark.range(200_000),
        order_by="id",
        rows=50_000,
        aggregates={"s": monoids.Sum("id")},
        metrics=metrics,
        page_size=1024,
    )
    assert [row.s for row in out.take(3)] == [0, 1, 3]
    summary = metrics.summary
    assert summary.tasks == 1
    assert 32_768 <= summary.rows <= 200_000
    assert summary.peak_memory > 50 << 20


def test_metrics_after_take_of_few_rows(spark: SparkSession) -> None:
    """A task's only batch says all, whichever of its rows are read."""
    metrics = Metrics()
    df = spark.range(5).coalesce(1)
    out = rolling(df, order_by="id", rows=2, aggregates=COUNT, metrics=metrics)
    assert len(out.take(1)) == 1
    assert (metrics.summary.tasks, metrics.summary.rows) == (1, 5)


def test_metrics_of_all_rows_after_reports_on_the_way(spark: SparkSession) -> None:
    metrics = Metrics()
    df = spark.range(150_000).select("id", (fn.col("id") % 7).alias("k"))
    out = rolling(df, partition_by="k", order_by="id", rows=9, aggregates=COUNT, metrics=metrics)
    assert out.count() == 150_000
    assert metrics.summary.rows == 150_000
    assert 1 <= metrics.summary.tasks <= 3


# -- workers ----------------------------------------------------------------------------------------------


def test_a_python_of_workers_that_lacks_something(spark: SparkSession, tmp_path: Path) -> None:
    bare = tmp_path / "python3"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E "$@"\n')
    bare.chmod(0o755)
    broken = tmp_path / "nothing"
    for python, why in ((bare, "has no module '"), (broken, "does not start")):
        with (
            mock.patch.object(spark.sparkContext, "pythonExec", str(python)),
            pytest.raises(
                WorkersNotUsable, match=f"run {python}, which {why}.*: set PYSPARK_PYTHON to"
            ) as raised,
        ):
            rolling(spark.range(3), order_by="id", rows=2, aggregates=COUNT)
        assert sys.executable in str(raised.value)
        assert "\n" not in str(raised.value)


def test_another_python_that_has_all(spark: SparkSession, tmp_path: Path) -> None:
    other = tmp_path / "python3"
    other.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    other.chmod(0o755)
    with mock.patch.object(spark.sparkContext, "pythonExec", str(other)):
        rolling(spark.range(3), order_by="id", rows=2, aggregates=COUNT)


def test_a_worker_without_the_package(spark: SparkSession, tmp_path: Path) -> None:
    """On hosts that the driver cannot look at, the worker says it."""
    (tmp_path / "only_here.py").write_text("def run(batches):\n    yield from batches\n")
    with mock.patch.object(sys, "path", [str(tmp_path), *sys.path]):
        function = for_workers("rolling", importlib.import_module("only_here").run)
    with pytest.raises(PythonException) as raised:
        spark.range(3).mapInArrow(function, "id bigint").collect()
    first, second = str(raised.value).splitlines()
    assert first.startswith("An exception was thrown from the Python worker")
    assert second.startswith(
        "ImportError: No module named 'only_here': the Python workers of this executor run "
    )
    assert "set PYSPARK_PYTHON to a Python that has mta-windows[spark], on every host" in second


@pytest.mark.parametrize("missing", ["pyarrow", "pyspark"])
def test_without_the_extra(missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; import spark_integration"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    said = ended.stderr.splitlines()[-1]
    needs = f"spark_integration needs the package {missing}: pip install 'mta-windows[spark]'"
    assert said == f"ModuleNotFoundError: {needs}"


def test_help_explains_every_argument() -> None:
    import inspect

    text = inspect.getdoc(spark_integration.rolling) or ""
    for name in inspect.signature(spark_integration.rolling).parameters:
        assert f"\n{name}: " in text, name
    example = text.partition("\n\n")[2].partition("\n\nhas the")[0]
    assert "out = rolling(" in example
    compile(inspect.cleandoc(example), "example", "exec")
