"""What is wrong with a call is said before a job starts, in one message that names the cause."""

from __future__ import annotations

import datetime as dt
import operator
import re
import threading
from typing import Any

import numpy as np
import pytest
from pyspark.sql import types as sql

from mta import monoids, policies
from spark_integration.call.columns import check_sorted
from spark_integration.call.planning import make_plan, with_results
from spark_integration.errors import RollingError

SCHEMA = sql.StructType(
    [
        sql.StructField("k", sql.StringType()),
        sql.StructField("ts", sql.TimestampType()),
        sql.StructField("day", sql.DateType()),
        sql.StructField("n", sql.LongType()),
        sql.StructField("x", sql.DoubleType()),
        sql.StructField("price", sql.DecimalType(10, 2)),
        sql.StructField("list", sql.ArrayType(sql.LongType())),
        sql.StructField("flag", sql.BooleanType()),
        sql.StructField("name", sql.StringType("UTF8_LCASE")),
        sql.StructField("f", sql.FloatType()),
    ]
)
MAX = {"peak": monoids.Max("x")}


def plan(**arguments: Any) -> Any:
    given: dict[str, Any] = {"partition_by": "k", "order_by": "ts", "aggregates": MAX}
    if not {"window", "rows", "policy"} & arguments.keys():
        given["window"] = "1 day"
    return make_plan(SCHEMA, **(given | arguments))


CASES: dict[str, tuple[dict[str, Any], str]] = {
    "unknown key": ({"partition_by": "user"}, r"partition_by: no column 'user', the DataFrame has k, ts, "),
    "unknown order": ({"order_by": "time"}, r"order_by: no column 'time'"),
    "unknown input": ({"aggregates": {"a": monoids.Max("y")}}, r"aggregate 'a': no column 'y'"),
    "key of no name": ({"partition_by": [3]}, r"partition_by= takes columns or names of columns, got 3"),
    "no order": ({"order_by": []}, r"order_by= names no column"),
    "order by text": (
        {"order_by": "k"},
        r"order_by='k' is of type string, and a window in time takes timestamp",
    ),
    "order by decimal": ({"order_by": "price"}, r"type decimal\(10,2\).*cast it to double or bigint"),
    "zero window": ({"window": "0 days"}, r"window= must be longer than 0, got '0 days'"),
    "negative window": ({"window": dt.timedelta(-1)}, r"window= must be longer than 0"),
    "endless window": ({"window": float("inf"), "order_by": "n"}, r"window= must be finite"),
    "window of no sense": (
        {"window": "soon"},
        r"window= takes a duration such as \"90 days\", .*; got 'soon'",
    ),
    "window of months": (
        {"window": "2 months"},
        r"fixed length, which months, .* as in \"30 days\", got '2 months'",
    ),
    "unknown unit": ({"window": "2 moons"}, r"takes weeks, .* and us, and no 'moons': got '2 moons'"),
    "minutes or months": (
        {"window": "30m"},
        r"window= takes no m, which may be minutes or months: write min, or days; got '30m'",
    ),
    "window of true": ({"window": True}, r"window= is a text such as"),
    "window in float": (
        {"window": 0.1, "order_by": "f"},
        r"order_by='f' is of type float, whose differences SQL rounds to 32 bits .* cast it to double",
    ),
    "time policy over float": ({"policy": policies.TimeWindow(5), "order_by": "f"}, r"cast it to double"),
    "empty window": ({"window": " "}, r"window= takes a duration such as .* got ' '"),
    "window of another type": (
        {"window": [1]},
        r"window= is a text such as \"90 days\", a timedelta, timedelta64 or a number",
    ),
    "days over numbers": (
        {"window": "2 days", "order_by": "n"},
        r"window='2 days' is a length of time, and order_by='n' is of type bigint: give a number in its unit",
    ),
    "hours over dates": ({"window": "5 hours", "order_by": "day"}, r"not a whole number of days"),
    "parts of a microsecond": (
        {"window": "0.0000001 seconds"},
        r"window= takes a duration of whole microseconds",
    ),
    "days of a policy over numbers": (
        {"policy": policies.TimeWindow("2 days"), "order_by": "n"},
        r"is a length of time, and order_by='n' is of type bigint: give a number in its unit",
    ),
    "hours of a policy over dates": (
        {"policy": policies.CountWindow(3) | policies.TimeWindow("5 hours"), "order_by": "day"},
        r"not a whole number of days",
    ),
    "both": (
        {"window": "1 day", "rows": 5},
        r"exactly one of window=, rows= and policy=, got window and rows",
    ),
    "neither": ({"window": None}, r"exactly one of window=, rows= and policy=, got none of them"),
    "no rows": ({"rows": 0}, r"rows= must be at least 1"),
    "rows of another type": ({"rows": "5"}, r"rows= is a whole number of rows, got '5'"),
    "closed": ({"closed": "left"}, r'closed= is "both" or "right", got \'left\''),
    "closed rows": ({"rows": 5, "closed": "right"}, r"closed= goes with window= only"),
    "policy of another type": ({"policy": 5}, r"policy= is one of mta.policies, got 5"),
    "time policy over text": (
        {"policy": policies.TimeWindow(5), "order_by": "k"},
        r"order_by='k' is of type string",
    ),
    "no aggregates": ({"aggregates": {}}, r"aggregates= maps names of new columns to monoids"),
    "aggregates of another type": ({"aggregates": {"a": "max"}}, r"got 'a': 'max'"),
    "name that is no text": (
        {"aggregates": {"a\ud800": monoids.Max("x")}},
        r"aggregate 'a\\ud800': the name is no valid Unicode",
    ),
    "name taken": (
        {"aggregates": {"K": monoids.Max("x")}},
        r"aggregate 'K': the DataFrame has a column of this name",
    ),
    "names alike": (
        {"aggregates": {"a": monoids.Max("x"), "A": monoids.Min("x")}},
        r"aggregates 'a' and 'A' are one name to Spark",
    ),
    "no field": ({"aggregates": {"a": monoids.Max()}}, r"aggregate 'a': Max\(\) names no column"),
    "decimals": (
        {"aggregates": {"a": monoids.Sum("price")}},
        r"aggregate 'a': Sum\('price'\) reads column 'price' of type decimal\(10,2\), and decimals would",
    ),
    "collation": (
        {"partition_by": "name"},
        r"column 'name' has the collation UTF8_LCASE, which windows do not",
    ),
    "lists": (
        {"aggregates": {"a": monoids.First("list")}},
        r"column 'list' of type array<bigint>, which no window",
    ),
    "sum of flags": (
        {"aggregates": {"a": monoids.Sum("flag")}},
        r"Sum\('flag'\) takes numbers, and column 'flag' is of type boolean",
    ),
    "mean of times": (
        {"aggregates": {"a": monoids.Mean("ts")}},
        r"takes numbers, and column 'ts' is of type timestamp",
    ),
    "text of numbers": (
        {"aggregates": {"a": monoids.Concat("n")}},
        r"takes text, and column 'n' is of type bigint",
    ),
    "result of no known type": (
        {"aggregates": {"a": monoids.from_function(operator.add, 0, field="n")}},
        r"the type of the results of from_function\(operator\.add, field='n'\) cannot be known: give it",
    ),
    "type of no sense": (
        {"types": {"peak": "number"}},
        r"types=\{'peak': ...\} takes a type of pyspark.sql.types, or",
    ),
    "type of nothing": ({"types": {"other": "double"}}, r"types= names no aggregate: \['other'\]"),
    "algorithm": ({"algorithm": "fast"}, r'algorithm= is "amta", "lmta" or "daba", got \'fast\''),
    "page size": ({"page_size": 1000}, r"page_size is a power of two and at least 2, got 1000"),
    "store of another type": ({"store": None}, r'store= is "rocksdb" or the URL of a store, got None'),
    "store of no URL": ({"store": "redis"}, r"store='redis' is no URL"),
    "unknown store": ({"store": "mysql://host"}, r"no store for the scheme 'mysql' \(known: memory, rocksdb"),
    "relative directory": ({"store": "rocksdb:windows"}, r"executors need an absolute directory"),
    "unreachable store": (
        {"store": "redis://127.0.0.1:1/0"},
        r"the driver cannot use the store redis://127.0.0.1:1/0: ",
    ),
    "memory of several processes": (
        {"store": "memory:", "several_processes": True},
        r'store="memory:" keeps every window in the memory of a worker, and this job has several executors',
    ),
    "password": (
        {"store": "redis://:secret@host/0"},
        r"the store's URL names a user or a password.*spark.executorEnv",
    ),
    "password option": (
        {"store": "redis://host", "store_options": {"password": "secret"}},
        r"store_options=\{'password': ...\} names a user or a password",
    ),
    "unknown option of the embedded store": (
        {"store": "rocksdb", "store_options": {"patence": 3}},
        r"unknown option patence for rocksdb: \(known: create, direct, patience, read_only\)",
    ),
    "unknown option": ({"store": "redis://127.0.0.1:1", "store_options": {"tries": 1}}, r"tries"),
}


@pytest.mark.parametrize("name", CASES)
def test_message(name: str) -> None:
    arguments, message = CASES[name]
    with pytest.raises(RollingError, match=message) as raised:
        plan(**arguments)
    assert "secret" not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_monoid_that_cannot_travel() -> None:
    held = threading.Lock()
    monoid = monoids.from_function(operator.add, 0, lift=lambda value: (held, value)[1], field="n")
    with pytest.raises(
        RollingError, match=r"aggregate 'a': from_function\(.*cannot be sent to the executors: .*lock"
    ):
        plan(aggregates={**MAX, "a": monoid}, types={"a": "bigint"})
    policy = policies.While(lambda *_: held.locked())
    with pytest.raises(RollingError, match=r"policy=While\(.*cannot be sent to the executors: .*lock"):
        plan(policy=policy)


def test_names_are_found_as_spark_finds_them() -> None:
    found = plan(partition_by="K", order_by="TS", aggregates={"a": monoids.Max("X")})
    assert (found.keys[0].name, found.order[0].name, found.parts[0].inputs[0].name) == ("k", "ts", "x")
    with pytest.raises(RollingError, match="no column 'K'"):
        plan(partition_by="K", case_sensitive=True)
    schema = sql.StructType([sql.StructField(name, sql.LongType()) for name in ("a", "A", "b")])
    with pytest.raises(RollingError, match="2 columns are named 'a'"):
        make_plan(schema, order_by="a", partition_by=None, rows=2, aggregates={"n": monoids.Count()})
    make_plan(
        schema,
        order_by="a",
        partition_by=None,
        rows=2,
        aggregates={"n": monoids.Count()},
        case_sensitive=True,
    )


@pytest.mark.parametrize(
    ("window", "order", "closed", "span"),
    [
        ("90 days", "ts", "both", 90 * 86_400_000_000),
        ("INTERVAL 90 DAYS", "ts", "both", 90 * 86_400_000_000),
        ("1 hour 30 minutes", "ts", "both", 5_400_000_000),
        ("1.5 hours", "ts", "both", 5_400_000_000),
        ("2 weeks", "day", "both", 14),
        (dt.timedelta(days=2), "day", "both", 2),
        (dt.timedelta(microseconds=3), "ts", "both", 3),
        (1_000, "ts", "both", 1_000),
        (7, "day", "both", 7),
        ("7d", "ts", "both", 7 * 86_400_000_000),
        ("2w", "day", "both", 14),
        ("1h30min", "ts", "both", 5_400_000_000),
        ("1.5 hrs 2 secs", "ts", "both", 5_402_000_000),
        ("15s 3ms 7us", "ts", "both", 15_003_007),
        ("INTERVAL 2 days", "day", "both", 2),
        ("interval 1 hour", "ts", "both", 3_600_000_000),
        (np.timedelta64(90, "m"), "ts", "both", 5_400_000_000),
        (np.int64(7), "day", "both", 7),
        (np.uint8(7), "n", "both", 7),
        (np.float32(2.5), "x", "both", 2.5),
        (2.5, "n", "both", 2),
        (2.5, "n", "right", 3),
        (2.5, "x", "both", 2.5),
        (np.float64(2.5), "x", "both", 2.5),
    ],
)
def test_spans(window: Any, order: str, closed: str, span: float) -> None:
    frame = plan(window=window, order_by=order, closed=closed).frame
    assert frame.policy == policies.TimeWindow(span, closed=closed)  # type: ignore[arg-type]


def test_policies_with_a_unit_are_in_the_unit_of_the_order_column() -> None:
    either = policies.TimeWindow("2 days", closed="both") | policies.CountWindow(9)
    for order, span in (("ts", 2 * 86_400_000_000), ("day", 2)):
        frame = plan(window=None, policy=either, order_by=order).frame
        assert frame.policy == policies.TimeWindow(span, closed="both") | policies.CountWindow(9)
        frame = plan(window=None, policy=policies.TimeWindow(dt.timedelta(2)), order_by=order).frame
        assert frame.policy == policies.TimeWindow(span)


def test_numbers_of_numpy() -> None:
    assert plan(rows=np.int32(5)).frame.policy == policies.CountWindow(5)
    assert plan(page_size=np.int64(64)).page_size == 64
    assert type(plan(page_size=np.int64(64)).page_size) is int
    with pytest.raises(RollingError, match="rows= is a whole number of rows"):
        plan(rows=np.float64(5))
    assert plan(rows=5, order_by="f").frame.policy == policies.CountWindow(5)


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (
            sql.YearMonthIntervalType(),
            "column 'i' is of type interval year to month, and Spark does not hand",
        ),
        (
            sql.ArrayType(sql.CalendarIntervalType()),
            "column 'i' is of type array<interval>, and Spark does not",
        ),
        (
            sql.StructType([sql.StructField(name, sql.LongType()) for name in "aa"]),
            "column 'i' is of type struct<a:bigint,a:bigint>, and Spark does not hand structs with one name",
        ),
        (
            sql.MapType(
                sql.StringType(), sql.StructType([sql.StructField("i", sql.YearMonthIntervalType())])
            ),
            "does not hand intervals of months to Python: drop it before rolling",
        ),
        (
            sql.CharType(5),
            "column 'i' is of type char(5), and Spark does not hand text of a fixed length to Python: drop",
        ),
        (
            sql.ArrayType(sql.VarcharType(5)),
            "array<varchar(5)>, and Spark does not hand text of a fixed length to",
        ),
        (
            sql.ArrayType(sql.NullType(), containsNull=False),
            "column 'i' is of type array<void>, and Arrow has no values of type void that are not null: drop",
        ),
        (
            sql.MapType(sql.NullType(), sql.NullType()),
            "column 'i' is of type map<void,void>, and Arrow has no values of type void that are not null",
        ),
        (
            sql.StructType([sql.StructField("a", sql.MapType(sql.StringType(), sql.NullType(), False))]),
            "column 'i' is of type struct<a:map<string,void>>, and Arrow has no values of type void",
        ),
    ],
)
def test_columns_that_cannot_be_carried(kind: sql.DataType, why: str) -> None:
    schema = sql.StructType([*SCHEMA.fields, sql.StructField("i", kind)])
    with pytest.raises(RollingError, match=re.escape(why)) as raised:
        make_plan(schema, partition_by="k", order_by="ts", rows=2, aggregates=MAX)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "kind",
    [
        sql.NullType(),
        sql.ArrayType(sql.NullType()),
        sql.MapType(sql.StringType(), sql.NullType()),
        sql.StructType([sql.StructField("a", sql.NullType())]),
    ],
)
def test_columns_of_nothing_but_nulls_are_carried(kind: sql.DataType) -> None:
    schema = sql.StructType([*SCHEMA.fields, sql.StructField("i", kind)])
    assert make_plan(schema, partition_by="k", order_by="ts", rows=2, aggregates=MAX)


CASELESS = sql.StringType("UTF8_LCASE")


@pytest.mark.parametrize(
    "kind",
    [
        sql.ArrayType(CASELESS),
        sql.StructType([sql.StructField("a", sql.LongType()), sql.StructField("b", sql.ArrayType(CASELESS))]),
        sql.MapType(CASELESS, sql.LongType()),
        sql.MapType(sql.LongType(), sql.StructType([sql.StructField("a", CASELESS)])),
    ],
    ids=lambda kind: kind.simpleString(),
)
def test_collations_inside_of_keys_and_order(kind: sql.DataType) -> None:
    schema = sql.StructType([*SCHEMA.fields, sql.StructField("v", kind)])
    how: dict[str, Any] = {"partition_by": "k", "order_by": "ts", "rows": 2, "aggregates": MAX}
    for changed in ({"partition_by": "v"}, {"order_by": ["ts", "v"]}):
        with pytest.raises(
            RollingError, match="column 'v' has the collation UTF8_LCASE, which windows do not"
        ):
            make_plan(schema, **how | changed)
    make_plan(schema, **how)


@pytest.mark.parametrize(
    ("kind", "arguments"), [("VariantType", ()), ("GeometryType", (0,)), ("GeographyType", (4326,))]
)
def test_what_spark_cannot_sort(kind: str, arguments: tuple[int, ...]) -> None:
    if not hasattr(sql, kind):
        pytest.skip("this version of Spark has no such type")
    found = getattr(sql, kind)(*arguments)
    how: dict[str, Any] = {"partition_by": "k", "order_by": "ts", "rows": 2, "aggregates": MAX}
    for inner in (found, sql.ArrayType(found), sql.StructType([sql.StructField("a", found)])):
        schema = sql.StructType([*SCHEMA.fields, sql.StructField("v", inner)])
        for where in ("partition_by", "order_by"):
            plan = make_plan(schema, **how | {where: "v"})
            for map_keys in (False, True):
                with pytest.raises(
                    RollingError, match=f"{where}: column 'v' is of .*, which Spark cannot sort"
                ):
                    check_sorted(plan, map_keys=map_keys)


def test_maps_are_keys_of_streams_alone() -> None:
    kind = sql.ArrayType(sql.MapType(sql.StringType(), sql.LongType()))
    schema = sql.StructType([*SCHEMA.fields, sql.StructField("v", kind)])
    how: dict[str, Any] = {"partition_by": "k", "order_by": "ts", "rows": 2, "aggregates": MAX}
    plan = make_plan(schema, **how | {"partition_by": "v"})
    check_sorted(plan, map_keys=True)
    with pytest.raises(RollingError, match=r"partition_by: column 'v' is of .*, which Spark cannot sort"):
        check_sorted(plan)
    with pytest.raises(RollingError, match=r"order_by: column 'v' is of .*, which Spark cannot sort"):
        check_sorted(make_plan(schema, **how | {"order_by": ["ts", "v"]}), map_keys=True)


def test_results_that_are_never_null() -> None:
    aggregates = {
        "rows": monoids.Count(),
        "some": monoids.Count("x"),
        "different": monoids.CountDistinct("x"),
        "both": monoids.Fields(n=monoids.Count(), top=monoids.Max("x")),
        "top": monoids.Max("x"),
    }
    found = with_results(SCHEMA, plan(aggregates=aggregates))
    assert {name: found[name].nullable for name in aggregates} == {
        "rows": False,
        "some": False,
        "different": False,
        "both": False,
        "top": True,
    }


def test_names_that_differ_by_case() -> None:
    both = {"a": monoids.Count(), "A": monoids.Max("x")}
    assert [each.name for each in plan(aggregates=both, case_sensitive=True).aggregates] == ["a", "A"]
    assert plan(aggregates={"K": monoids.Max("x")}, case_sensitive=True).aggregates[0].name == "K"


def test_a_plan_holds_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_PASSWORD", "hunter2")
    found = plan(store="redis://host:6379/0", reachable=False)
    from pyspark import cloudpickle

    assert b"hunter2" not in cloudpickle.dumps(found)


def test_decimals_may_pass_through() -> None:
    assert plan(partition_by="price").keys[0].type == sql.DecimalType(10, 2)
