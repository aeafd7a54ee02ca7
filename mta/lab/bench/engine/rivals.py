"""Rolling aggregates of other libraries, on one thread each: what a user would take instead."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

from mta.monoids.base import Array

#: How each library calls an aggregate; where it has none, what comes closest and does less.
POLARS = {"Sum": "sum", "Max": "max", "Mean": "mean", "SampleStdDev": "std", "ArgMax": "max"}
PANDAS = {"Sum": "sum", "Max": "max", "Mean": "mean", "SampleStdDev": "std", "ArgMax": "max"}
DUCKDB = {
    "Sum": "sum(v)",
    "Max": "max(v)",
    "Mean": "avg(v)",
    "SampleStdDev": "stddev_samp(v)",
    "ArgMax": "arg_max(t, v)",
}
#: What the note of a line says where a library does less than is asked.
LESS = {"ArgMax": "the maximum without its argument"}

Rolling = Callable[[], Array]


class Missing(Exception):
    """A library is not installed."""


def load(name: str) -> Any:
    """A library that the benchmark compares with. Polars reads its number of threads when it is imported."""
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise Missing(f"{name} is not installed: pip install 'mta-windows[experiments]'") from error


def polars(aggregate: str, times: Array, values: Array, span: int, by_count: bool) -> Rolling:
    """Rows with times in (t - span, t], as TimeWindow has them; by count, which is faster, if it may be."""
    pl = load("polars")
    frame = pl.DataFrame({"t": times, "v": values})
    name, column = f"rolling_{POLARS[aggregate]}", pl.col("v")
    if by_count:
        rolling = getattr(column, name)(window_size=span, min_samples=1)
    else:
        rolling = getattr(column, f"{name}_by")("t", window_size=f"{span}i")
    return lambda: frame.select(rolling).to_series().to_numpy()


def pandas(aggregate: str, times: Array, values: Array, span: int, by_count: bool) -> Rolling:
    """As for polars."""
    pd = load("pandas")
    if by_count:
        rolling = pd.Series(values).rolling(span, min_periods=1)
    else:
        index = pd.DatetimeIndex(times.astype("M8[ns]"))
        rolling = pd.Series(values, index=index).rolling(pd.Timedelta(span, unit="ns"))
    return lambda: getattr(rolling, PANDAS[aggregate])().to_numpy()


def duckdb(aggregate: str, times: Array, values: Array, span: int, by_count: bool) -> Rolling:
    """As for polars: windows by count are several times faster than windows by time."""
    connection = load("duckdb").connect()
    connection.execute("SET threads = 1")
    connection.register("source", {"t": times, "v": values})
    connection.execute("CREATE TABLE series AS SELECT * FROM source")
    frame = f"ORDER BY t {'ROWS' if by_count else 'RANGE'} BETWEEN {span - 1} PRECEDING AND CURRENT ROW"
    query = f"SELECT {DUCKDB[aggregate]} OVER ({frame}) AS result FROM series"
    return lambda: connection.execute(query).fetchnumpy()["result"]
