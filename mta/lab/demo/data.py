"""The readings of the demo, made by Spark from row numbers, and by NumPy once more from the same formulas.

All numbers are whole and below 2^63, so that both sides agree to the last bit.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mta import monoids
from mta.monoids.base import Array

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Prime, so that squares modulo it look like chance, and small enough for them to fit into 63 bits.
PRIME = (1 << 31) - 1
STEP = 48_271

#: Milliseconds between two rows.
GAP = 100

SENSORS = 1000
#: Rows of a thousand that the hot sensors have. Spark hashes these numbers to partitions of their own, and
#: the hottest to the first, so that it begins at once and has a core for itself.
HOT = {2: 550, 0: 250, 3: 100}
PARTITIONS = 4

#: The measured columns, with how many values each can have.
COLUMNS = {
    "temperature": 120_000,
    "vibration": 2_000_000_000,
    "pressure": 1_000_000,
    "power": 100_000,
    "load": 10_000,
    "voltage": 500_000,
}
#: Bytes of a row in a window: a time and the measured columns, 64 bits each.
ROW_BYTES = 8 * (1 + len(COLUMNS))

AGGREGATES = {
    "readings": monoids.Count(),
    "shaken_at": monoids.ArgMax("vibration", "temperature"),
    "lowest_pressure": monoids.Min("pressure"),
    "energy": monoids.Sum("power"),
    "mean_load": monoids.Mean("load"),
    "highest_voltage": monoids.Max("voltage"),
}


class Stream(NamedTuple):
    """So many rows, and windows over the last so many of them."""

    rows: int
    span: int

    @property
    def duration(self) -> timedelta:
        """What a window spans: rows with ids in [id - span, id]."""
        return timedelta(milliseconds=self.span * GAP)

    @property
    def expected_window_bytes(self) -> int:
        """About what the longest window has; what it has in fact is counted after the job."""
        return self.span * max(HOT.values()) // 1000 * ROW_BYTES


class Batch(NamedTuple):
    ids: Array
    sensors: Array
    columns: dict[str, Array]


# -- in Spark ---------------------------------------------------------------------------------------------


def in_spark(spark: SparkSession, rows: int) -> DataFrame:
    draw, which = _text(0, 1000), _text(1, SENSORS - len(HOT))
    cases, below = "", 0
    for sensor, share in HOT.items():
        below += share
        cases += f" WHEN {draw} < {below} THEN {sensor}"
    # the others have the numbers that the hot ones do not have
    choice = f"CASE{cases} ELSE IF({which} = 0, 1, {which} + {len(HOT)}) END"
    return spark.range(rows).selectExpr(
        "id",
        f"{choice} AS sensor",
        f"timestamp_millis(id * {GAP}) AS time",
        *(f"{_text(2 + place, values)} AS {name}" for place, (name, values) in enumerate(COLUMNS.items())),
    )


def _text(salt: int, values: int) -> str:
    step = f"((id % {PRIME} * {STEP} + {salt * STEP}) % {PRIME})"
    return f"({step} * {step} % {PRIME} % {values})"


# -- in NumPy ---------------------------------------------------------------------------------------------


def in_numpy(start: int, stop: int, names: list[str]) -> Batch:
    """Rows start to stop, with those of the measured columns that are named."""
    ids = np.arange(start, stop, dtype=np.int64)
    draw, which = _numbers(ids, 0, 1000), _numbers(ids, 1, SENSORS - len(HOT))
    sensors = np.where(which == 0, 1, which + len(HOT))
    below = sum(HOT.values())
    for sensor, share in reversed(HOT.items()):
        sensors[draw < below] = sensor
        below -= share
    places = {name: 2 + place for place, name in enumerate(COLUMNS)}
    return Batch(ids, sensors, {name: _numbers(ids, places[name], COLUMNS[name]) for name in names})


def _numbers(ids: Array, salt: int, values: int) -> Array:
    step = (ids % PRIME * STEP + salt * STEP) % PRIME
    found: Array = step * step % PRIME % values
    return found
