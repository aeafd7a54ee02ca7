"""Random frames of all kinds against plain Python and DuckDB, with pages and chunks of a few rows."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from chance import seeds
from frame_reference import assert_same, expected
from rolled import roll

from mta import monoids

AGGREGATES = {
    "sum_x": monoids.Sum("x"),
    "max_x": monoids.Max("x"),
    "min_x": monoids.Min("x"),
    "mean_x": monoids.Mean("x"),
    "std_x": monoids.SampleStdDev("x"),
    "sum_i": monoids.Sum("i"),
    "max_i": monoids.Max("i"),
    "most_i": monoids.MaxCount("i"),
    "count": monoids.Count(),
    "first_i": monoids.First("i"),
    "last_x": monoids.Last("x"),
    "r_of_max_x": monoids.ArgMax("x", "r"),
    "x_of_min_i": monoids.ArgMin("i", "x"),
}
IN_DUCKDB = {
    "sum_x": "sum(x)",
    "max_x": "max(x)",
    "min_x": "min(x)",
    "mean_x": "avg(x)",
    "sum_i": "sum(i)",
    "max_i": "max(i)",
    "count": "count(*)",
}
ORDERS = {
    "timestamp": (
        pa.timestamp("us", tz="UTC"),
        lambda v: dt.datetime(2020, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=v),
    ),
    "timestamp_ntz": (pa.timestamp("us"), lambda v: dt.datetime(2020, 1, 1) + dt.timedelta(seconds=v)),
    "date": (pa.date32(), lambda v: dt.date(2020, 1, 1) + dt.timedelta(days=v)),
    "int": (pa.int32(), lambda v: v),
    "bigint": (pa.int64(), lambda v: v * 10**12),
    "double": (pa.float64(), lambda v: v / 4),
}
ODD = (math.nan, math.inf, -math.inf)


class Case:
    """A random table, sorted as Spark sorts, and how to roll over it."""

    def __init__(self, seed: int, order: str) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.order = order
        count = int(rng.integers(1, 300))
        kind, value = ORDERS[order]
        times = [value(int(v)) for v in rng.integers(0, int(rng.choice([5, 50, 2000])), count)]
        if order == "double" and rng.random() < 0.5:
            times = [float(rng.choice(ODD)) if rng.random() < 0.2 else time for time in times]
        self.odd = any(kind == pa.float64() and not math.isfinite(time) for time in times)
        nulls = float(rng.choice([0, 0.1, 0.9]))
        x = [math.nan if rng.random() < 0.03 else float(v) for v in rng.integers(-50, 50, count) / 4]
        columns = {
            "k": pa.array(self.thinned(rng.integers(0, int(rng.choice([1, 3, 60])), count).tolist(), 0.05)),
            "o": pa.array(self.thinned(times, 0.05), kind, from_pandas=False),
            "x": pa.array(self.thinned(x, nulls), pa.float64(), from_pandas=False),
            "i": pa.array(self.thinned(rng.integers(-9, 9, count).tolist(), nulls), pa.int32()),
            "r": pa.array(rng.permutation(count)),
        }
        self.database = duckdb.connect()
        self.database.execute("set timezone = 'UTC'")
        self.database.register("unsorted", pa.table(columns))
        self.table = self.database.sql(
            "select * from unsorted order by k nulls first, o nulls first, r"
        ).to_arrow_table()
        self.table = self.table.cast(pa.schema([pa.field(name, each.type) for name, each in columns.items()]))
        self.width = int(rng.integers(1, 60))
        self.rows = self.table.to_pylist()

    def thinned(self, values: list[Any], share: float) -> list[Any]:
        return [None if self.rng.random() < share else value for value in values]

    @property
    def window(self) -> Any:
        if self.order.startswith("timestamp"):
            return dt.timedelta(seconds=self.width) if self.width % 2 else f"{self.width} seconds"
        if self.order == "date":
            return f"{self.width} days"
        return self.width * 10**12 if self.order == "bigint" else self.width

    @property
    def span(self) -> Any:
        if self.order.startswith("timestamp"):
            return dt.timedelta(seconds=self.width)
        return dt.timedelta(days=self.width) if self.order == "date" else self.window

    def rolled(self, **how: Any) -> list[dict[str, Any]]:
        rng = self.rng
        return roll(
            self.table,
            order_by=["o", "r"],
            batch=int(rng.integers(1, 60)),
            chunk=int(rng.choice([1, 5, 50, 1000])),
            page_size=int(rng.choice([2, 4, 16])),
            **how,
        ).to_pylist()

    def from_duckdb(self, frame: str) -> list[dict[str, Any]]:
        self.database.register("t", self.table)
        named = ", ".join(f"{text} over w as {name}" for name, text in IN_DUCKDB.items())
        query = (
            f"select k, o, r, {named} from t window w as ({frame}) order by k nulls first, o nulls first, r"
        )
        return self.database.sql(query).to_arrow_table().to_pylist()


@pytest.mark.parametrize("algorithm", ["amta", "lmta", "daba"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("seed", seeds(8))
def test_range(order: str, algorithm: str, seed: int) -> None:
    case = Case(seed, order)
    found = case.rolled(window=case.window, aggregates=AGGREGATES, algorithm=algorithm)
    assert_same(found, expected(case.rows, span=case.span), ["k", "o", "r", *AGGREGATES])
    if not case.odd:
        width = {"date": "days", "timestamp": "seconds", "timestamp_ntz": "seconds"}.get(order)
        span = f"interval {case.width} {width}" if width else str(case.window)
        wanted = case.from_duckdb(
            f"partition by k order by o nulls first range between {span} preceding and current row"
        )
        assert_same(found, wanted, ["k", "o", "r", *IN_DUCKDB], "DuckDB")


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("seed", seeds(8))
def test_half_open_range(order: str, seed: int) -> None:
    case = Case(seed + 100, order)
    found = case.rolled(window=case.window, closed="right", aggregates=AGGREGATES)
    assert_same(found, expected(case.rows, span=case.span, closed="right"), ["k", "o", "r", *AGGREGATES])


@pytest.mark.parametrize("algorithm", ["amta", "lmta", "daba"])
@pytest.mark.parametrize("seed", seeds(12))
def test_rows(algorithm: str, seed: int) -> None:
    case = Case(seed + 200, list(ORDERS)[seed % len(ORDERS)])
    found = case.rolled(rows=case.width, aggregates=AGGREGATES, algorithm=algorithm)
    assert_same(found, expected(case.rows, rows=case.width), ["k", "o", "r", *AGGREGATES])
    if not case.odd:
        wanted = case.from_duckdb(
            "partition by k order by o nulls first, r "
            f"rows between {case.width - 1} preceding and current row"
        )
        assert_same(found, wanted, ["k", "o", "r", *IN_DUCKDB], "DuckDB")


@pytest.mark.parametrize("seed", seeds(6))
def test_columns_beside_objects(seed: int) -> None:
    """Aggregates over Python objects have a window of their own beside those over columns."""
    case = Case(seed + 300, "timestamp")
    aggregates = {"all_i": monoids.Collect("i"), "sum_x": monoids.Sum("x")}
    found = case.rolled(window=case.window, aggregates=aggregates)
    assert_same(found, expected(case.rows, span=case.span), ["k", "o", "r", *aggregates])
