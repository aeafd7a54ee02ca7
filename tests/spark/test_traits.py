"""What an aggregate is in SQL: monoids that bring their own record, and what is so without one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from chance import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import types as sql
from rolled import column, roll

from mta import monoids, policies
from mta.monoids.base import ColumnarMonoid, Columns, Monoid
from mta.monoids.missing import NO_VALUE
from spark_integration import SqlTraits, rolling
from spark_integration.aggregates.catalogue import TRAITS, traits_of
from spark_integration.aggregates.inputs import NULL_WHOLE
from spark_integration.aggregates.null_columns import PRESENT, Nullable
from spark_integration.errors import RollingError, UnsupportedColumn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE = pa.table(
    {
        "k": [1] * 6,
        "o": range(6),
        "x": pa.array([None, 4.0, None, 1.0, 9.0, None]),
        "i": pa.array([3, None, None, -2, 5, 5]),
        "s": ["b", None, "a", "a", None, "c"],
    }
)


def spread(traits: SqlTraits | None) -> type[ColumnarMonoid]:
    """A monoid over columns that nobody knows: how far the least and the greatest value are apart."""

    class Spread(ColumnarMonoid):
        identity = (math.inf, -math.inf)
        width = 2

        def lift_row(self, row: Any) -> Any:
            return (row, row)

        def combine(self, older: Any, younger: Any) -> Any:
            return (min(older[0], younger[0]), max(older[1], younger[1]))

        def lower(self, state: Any) -> Any:
            return state[1] - state[0]

        def lift_columns(self, inputs: Columns) -> Columns:
            return (inputs[0], inputs[0])

        def combine_columns(self, older: Columns, younger: Columns) -> Columns:
            return (np.minimum(older[0], younger[0]), np.maximum(older[1], younger[1]))

        def lower_columns(self, states: Columns) -> Any:
            return states[1] - states[0]

    if traits is not None:
        Spread.sql_traits = traits  # type: ignore[attr-defined]
    return Spread


def letters(traits: SqlTraits) -> type[Monoid]:
    """A monoid over Python objects, told as a set of texts; its result is what `lower` of its record says."""

    class Letters(Monoid):
        identity = frozenset()
        sql_traits = traits

        def __init__(self, field: str) -> None:
            self.fields = (field,)

        def lift(self, value: Any) -> Any:
            return frozenset(value[self.fields[0]])

        def combine(self, older: Any, younger: Any) -> Any:
            return older | younger

    return Letters


# lambdas, which travel by value: workers do not have this module
NUMBERS = SqlTraits(result=lambda _monoid, inputs: inputs[0].type, takes=("number",), nothing=-1)
WORD = SqlTraits(
    result="string", takes=("text",), nothing="", lower=lambda _monoid, state: "".join(sorted(state))
)


@pytest.mark.parametrize("algorithm", ["amta", "daba"])
@pytest.mark.parametrize("chunk", [1, 2, 100])
def test_a_record_that_a_monoid_brings(chunk: int, algorithm: str) -> None:
    aggregates = {"sx": spread(NUMBERS)("x"), "si": spread(NUMBERS)("i"), "word": letters(WORD)("s")}
    out = roll(TABLE, rows=2, aggregates=aggregates, chunk=chunk, algorithm=algorithm)
    assert column(out, "sx") == [-1.0, 0.0, 0.0, 0.0, 8.0, 0.0]
    assert column(out, "si") == [0, 0, -1, 0, 7, 0]
    assert column(out, "word") == ["b", "b", "a", "a", "a", "c"]
    assert [out.schema.field(name).type for name in aggregates] == [pa.float64(), pa.int64(), pa.string()]


def test_in_a_job(spark: SparkSession) -> None:
    df = spark.range(3000).selectExpr(
        "id % 3 AS k", "id", "IF(id % 5 = 0, NULL, id % 7) AS x", "char(97 + id % 26) AS s"
    )
    aggregates = {"spread": spread(NUMBERS)("x"), "word": letters(WORD)("s")}
    out = rolling(df, partition_by="k", order_by="id", rows=4, aggregates=aggregates, page_size=2)
    assert [(field.dataType, field.nullable) for field in out.schema.fields[-2:]] == [
        (sql.LongType(), False),
        (sql.StringType(), False),
    ]
    for row in out.collect():
        ids = [each for each in range(row["id"] - 9, row["id"] + 1, 3) if each >= 0]
        values = [each % 7 for each in ids if each % 5]
        assert row["spread"] == (max(values) - min(values) if values else -1)
        assert row["word"] == "".join(sorted({chr(97 + each % 26) for each in ids}))


def test_without_a_record() -> None:
    """Nulls are skipped, nothing is null, the monoid checks its input, and the caller says the type."""
    own = spread(None)
    out = roll(TABLE, rows=1, aggregates={"sx": own("x")}, types={"sx": "double"})
    assert column(out, "sx") == [None, 0.0, None, 0.0, 0.0, None]
    with pytest.raises(RollingError, match=r"'sx': the type of the results of Spread\('x'\) cannot be known"):
        roll(TABLE, rows=1, aggregates={"sx": own("x")})
    with_nan = TABLE.set_column(2, "x", pa.array([math.nan] * 6, from_pandas=False))
    with pytest.raises(ValueError, match=r"Spread\('x'\) got NaN"):
        roll(with_nan, rows=1, aggregates={"sx": own("x")}, types={"sx": "double"})
    taken = spread(SqlTraits(result="double", takes_nan=True))
    assert all(each != each for each in column(roll(with_nan, rows=1, aggregates={"sx": taken("x")}), "sx"))


def test_a_monoid_made_from_one_of_the_catalogue() -> None:
    """It has that one's types and nothing, but its own operator."""

    class Furthest(monoids.Max):
        """The value that is furthest from zero."""

        def combine(self, older: Any, younger: Any) -> Any:
            return younger if abs(younger) > abs(older) else older

    table = pa.table({"k": [1] * 3, "o": range(3), "i": pa.array([-7, 3, None], pa.int32())})
    out = roll(table, rows=2, aggregates={"far": Furthest("i")}, algorithm="daba")
    assert column(out, "far") == [-7, -7, 3]
    assert out.schema.field("far").type == pa.int32()
    assert traits_of(Furthest("i")).ordered is None


@pytest.mark.parametrize(
    ("traits", "field", "message"),
    [
        (NUMBERS, "s", r"'a': Spread\('s'\) takes numbers, and column 's' is of type string"),
        (WORD, "x", r"'a': Spread\('x'\) takes text, and column 'x' is of type double"),
        (SqlTraits(result="decimal"), "x", r"the result of Spread\('x'\) takes a type of .* got 'decimal'"),
    ],
)
def test_what_a_record_refuses(traits: SqlTraits, field: str, message: str) -> None:
    with pytest.raises(RollingError, match=message):
        roll(TABLE, rows=1, aggregates={"a": spread(traits)(field)})


def test_what_is_no_record() -> None:
    with pytest.raises(RollingError, match=r"sql_traits of Spread\('x'\) is to be SqlTraits\(...\), got 5"):
        roll(TABLE, rows=1, aggregates={"a": spread(5)("x")})  # type: ignore[arg-type]


def test_every_monoid_of_the_catalogue_has_a_record() -> None:
    made = {monoids.ColumnarMonoid, monoids.Fields, monoids.Monoid}
    classes = {
        each
        for name in monoids.__all__
        if isinstance(each := getattr(monoids, name), type) and issubclass(each, Monoid)
    }
    assert classes - made <= set(TRAITS)


@pytest.mark.parametrize("algorithm", ["amta", "daba"])
@pytest.mark.parametrize(
    ("monoid", "least"),
    [
        (monoids.Min("x"), lambda state: state),
        (monoids.MinCount("x"), lambda state: state[0]),
        (monoids.ArgMin("x", "o"), lambda state: state[0]),
    ],
)
def test_nulls_leave_before_a_minimum(monoid: Monoid, least: Any, algorithm: str) -> None:
    """The least of nothing but nulls is above anything, as the greatest is below."""
    table = pa.table({"k": [1] * 6, "o": range(6), "x": [None, None, 3, None, 2, 5]})
    policy = policies.While(lambda total, old: least(old["low"]) > least(total["low"]))
    aggregates = {"low": monoid, "n": monoids.Count()}
    out = roll(table, policy=policy, aggregates=aggregates, algorithm=algorithm, chunk=2)
    assert column(out, "n") == [1, 2, 1, 2, 1, 2]


def test_takes_numbers_only_where_it_says_so() -> None:
    with pytest.raises(UnsupportedColumn, match="takes numbers"):
        roll(TABLE, rows=1, aggregates={"a": monoids.Mean("s")})


@given(
    st.lists(st.one_of(st.none(), st.integers(-(2**63) + 1, 2**63 - 1)), min_size=1, max_size=60),
    st.integers(0, 60),
)
def test_sums_with_nulls_leave_64_bits(values: list[int | None], middle: int) -> None:
    """What sums of any runs are, whichever elements of them are null, is what Python has."""
    nullable = Nullable(monoids.Sum("x"), ["x"], traits_of(monoids.Sum("x")), skips=(0,))
    states = nullable.lift_columns((np.array([NULL_WHOLE if value is None else value for value in values]),))

    def shown(columns: Columns) -> list[int | None]:
        sums, present = nullable.inner.state_list(columns[:-1]), columns[-1].tolist()
        return [total if there else None for total, there in zip(sums, present, strict=True)]

    def summed(some: list[int | None]) -> int | None:
        there = [value for value in some if value is not None]
        return sum(there) if there else None

    count = len(values)
    prefixes, suffixes = nullable.prefix_columns(states), nullable.suffix_columns(states)
    assert shown(prefixes) == [summed(values[: end + 1]) for end in range(count)]
    assert shown(suffixes) == [summed(values[start:]) for start in range(count)]
    assert shown(nullable.fold_columns(states)) == [summed(values)]
    both = [summed([a, b]) for a, b in zip(shown(suffixes), shown(prefixes), strict=True)]
    assert shown(nullable.combine_columns(suffixes, prefixes)) == both
    one = tuple(part[middle % count :][:1] for part in suffixes)
    with_one = [summed([shown(one)[0], b]) for b in shown(prefixes)]
    assert shown(nullable.combine_columns(one, prefixes)) == with_one


maybe = st.one_of(st.none(), st.integers(-4, 5))


@settings(max_examples=examples(15))
@given(
    pairs=st.lists(st.tuples(maybe, maybe), min_size=1, max_size=60),
    width=st.integers(1, 20),
    page_size=st.sampled_from([2, 4, None]),
    chunk=st.sampled_from([1, 7, 100]),
    algorithm=st.sampled_from(["amta", "daba"]),
)
def test_aggregates_of_wide_states_skip_nulls(
    pairs: list[tuple[int | None, int | None]], width: int, page_size: int | None, chunk: int, algorithm: str
) -> None:
    """Sketches, kept elements and pairs, over columns and over objects."""
    count = len(pairs)
    table = pa.table(
        {
            "k": [1] * count,
            "o": range(count),
            "x": pa.array([x for x, _ in pairs], pa.int64()),
            "y": pa.array([y for _, y in pairs], pa.float64()),
            "s": pa.array([None if x is None else f"{x}" for x, _ in pairs], pa.string()),
        }
    )
    aggregates = {
        "users": monoids.DistinctCount("x"),
        "reals": monoids.DistinctCount("y"),
        "names": monoids.DistinctCount("s"),
        "last": monoids.LastK(3, "x"),
        "last_s": monoids.LastK(3, "s"),
        "top": monoids.TopK(2, "y"),
        "both": monoids.Covariance("x", "y", ddof=0),
    }
    how = {} if page_size is None else {"page_size": page_size}
    out = roll(table, rows=width, aggregates=aggregates, chunk=chunk, batch=5, algorithm=algorithm, **how)
    for at, row in enumerate(out.to_pylist()):
        some = pairs[max(0, at + 1 - width) : at + 1]
        xs, ys = [x for x, _ in some if x is not None], [y for _, y in some if y is not None]
        assert round(row["users"]) == round(row["names"]) == len(set(xs))
        assert round(row["reals"]) == len(set(ys))
        assert row["last"] == xs[-3:]
        assert row["last_s"] == [f"{x}" for x in xs[-3:]]
        assert row["top"] == sorted(ys, reverse=True)[:2]
        full = [(x, y) for x, y in some if x is not None and y is not None]
        if not full:
            assert row["both"] is None
            continue
        mean_x, mean_y = (sum(each) / len(full) for each in zip(*full, strict=True))
        wanted = sum((x - mean_x) * (y - mean_y) for x, y in full) / len(full)
        assert row["both"] == pytest.approx(wanted, abs=1e-9)


@given(st.lists(maybe, min_size=1, max_size=60), st.integers(0, 60))
def test_sketches_with_nulls(values: list[int | None], middle: int) -> None:
    """Of any runs, whichever elements of them are null: a sketch has as many elements as a set."""
    nullable = Nullable(monoids.DistinctCount("x"), ["x"], traits_of(monoids.DistinctCount("x")), skips=(0,))
    states = nullable.lift_columns((np.array([NULL_WHOLE if value is None else value for value in values]),))

    def counted(columns: Columns) -> list[int]:
        lowered = nullable.lower_columns(columns)
        there = lowered[PRESENT].tolist()
        plain = nullable.state_list(columns)
        assert nullable.state_list(nullable.columns_of(plain)) == plain
        assert all(type(state) is bytes for state in plain if state is not NO_VALUE)
        return [round(count) if each else 0 for count, each in zip(lowered[""].tolist(), there, strict=True)]

    def distinct(*some: list[int | None]) -> int:
        return len({value for each in some for value in each} - {None})

    count = len(values)
    runs = {
        "elements": (states, [[value] for value in values]),
        "prefixes": (nullable.prefix_columns(states), [values[: at + 1] for at in range(count)]),
        "suffixes": (nullable.suffix_columns(states), [values[at:] for at in range(count)]),
    }
    for older, before in runs.values():
        assert counted(older) == [distinct(some) for some in before]
        assert counted(nullable.fold_columns(older)) == [distinct(*before)]
        one, at = tuple(part[middle % count :][:1] for part in older), before[middle % count]
        for younger, after in runs.values():
            both = [distinct(*pair) for pair in zip(before, after, strict=True)]
            assert counted(nullable.combine_columns(older, younger)) == both
            assert counted(nullable.combine_columns(one, younger)) == [distinct(at, some) for some in after]
            assert counted(nullable.combine_columns(younger, one)) == [distinct(at, some) for some in after]
