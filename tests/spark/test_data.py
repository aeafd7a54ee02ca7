"""Data as it comes: one key with nearly all rows, and real prices."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from frame_reference import assert_same

from mta import monoids
from spark_integration import rolling

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

duckdb = pytest.importorskip("duckdb")


@pytest.mark.long
def test_a_million_rows_of_one_key_among_keys_of_one_row(spark: SparkSession) -> None:
    rng = np.random.default_rng(6)
    hot, rare = 1_000_000, 2_000
    data = pa.table(
        {
            "k": np.concatenate([np.zeros(hot, dtype=np.int64), np.arange(1, rare + 1)]),
            "o": rng.integers(0, 5_000_000, hot + rare),
            "x": pa.array(rng.integers(-1000, 1000, hot + rare), mask=rng.random(hot + rare) < 0.01),
            "r": np.arange(hot + rare),
        }
    )
    out = rolling(
        spark.createDataFrame(data),
        partition_by="k",
        order_by="o",
        window=1_500_000,
        aggregates={"total": monoids.Sum("x"), "peak": monoids.Max("x"), "n": monoids.Count()},
    )
    found = out.toArrow().sort_by("r")
    wanted = duckdb.sql(
        """select *, (sum(x) over w)::bigint as total, max(x) over w as peak, count(*) over w as n from data
        window w as (partition by k order by o range between 1500000 preceding and current row) order by r"""
    ).to_arrow_table()
    assert found.num_rows == hot + rare
    for name in ("r", "total", "peak", "n"):
        assert found[name].combine_chunks().equals(wanted[name].combine_chunks()), name


def test_real_prices(spark: SparkSession) -> None:
    """Google's daily prices of 2004 to 2008, which come with matplotlib."""
    if importlib.util.find_spec("matplotlib") is None:
        pytest.skip("no matplotlib: pip install matplotlib")
    from matplotlib import cbook

    prices = cbook.get_sample_data("goog.npz")["price_data"]
    data = pa.table({name: prices[name] for name in ("date", "high", "low", "close", "volume")})
    out = rolling(
        spark.createDataFrame(data),
        order_by="date",
        window="90 days",
        aggregates={
            "peak": monoids.Max("high"),
            "trough": monoids.Min("low"),
            "mean": monoids.Mean("close"),
            "traded": monoids.Sum("volume"),
            "best_day": monoids.ArgMax("close", "date"),
        },
        page_size=16,
    )
    wanted = duckdb.sql(
        """select *, max(high) over w as peak, min(low) over w as trough, avg(close) over w as mean,
        (sum(volume) over w)::bigint as traded, arg_max(date, close) over w as best_day from data
        window w as (order by date range between interval 90 days preceding and current row) order by date"""
    ).to_arrow_table()
    assert_same(out.toArrow().sort_by("date").to_pylist(), wanted.to_pylist(), out.columns)
