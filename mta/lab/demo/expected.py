"""What the job has to give, computed in another way: running sums, and plain scans of whole windows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mta.lab.demo.data import COLUMNS, PRIME, SENSORS, Batch, Stream, in_numpy
from mta.monoids.base import Array

#: Rows that are generated at once.
STRIDE = 1 << 19
#: Rows whose results are all computed anew.
SAMPLES = 12
SEED = 20

#: Makes of a result and its row one number, in SQL; XOR over all rows then tells any wrong result.
MARK = f"bit_xor(({{column}} % {PRIME}) * (id % {PRIME} + 1))"


@dataclass
class Expected:
    """Of the whole stream."""

    #: by sensor
    rows: Array
    longest_window: Array
    #: over all rows, as MARK has it
    marks: dict[str, int]
    #: results of the sampled rows, by id
    results: dict[int, dict[str, Any]]


def sampled_rows(stream: Stream) -> list[int]:
    """The last row, and others by chance."""
    rng = np.random.default_rng(SEED)
    return sorted({stream.rows - 1, *rng.integers(0, stream.rows, SAMPLES - 1).tolist()})


def expected(stream: Stream) -> Expected:
    entered, left = _Running(), _Running()
    windows = [_Window(row - stream.span, row) for row in sampled_rows(stream)]
    longest = np.zeros(SENSORS, dtype=np.int64)
    marks = {"readings": 0, "energy": 0}
    for start in range(0, stream.rows, STRIDE):
        stop = min(start + STRIDE, stream.rows)
        batch = in_numpy(start, stop, list(COLUMNS))
        behind = in_numpy(max(start - stream.span, 0), max(stop - stream.span, 0), ["power"])
        order = np.argsort(batch.sensors, kind="stable")
        ids, sensors = batch.ids[order], batch.sensors[order]
        counts, sums = entered.before(batch, sensors, ids + 1)
        gone_counts, gone_sums = left.before(behind, sensors, ids - stream.span)
        counts, sums = counts - gone_counts, sums - gone_sums
        marks["readings"] ^= _mark(counts, ids)
        marks["energy"] ^= _mark(sums, ids)
        np.maximum.at(longest, sensors, counts)
        for window in windows:
            window.scan(batch)
    return Expected(entered.counts, longest, marks, {window.last: window.results for window in windows})


def mistakes(
    expected: Expected, marks: Mapping[str, int], found: Mapping[int, Mapping[str, Any]]
) -> list[str]:
    """Where the marks, and the results of the sampled rows, are others than expected."""
    wrong = []
    if marks["rows"] != int(expected.rows.sum()):
        wrong.append(f"{marks['rows']} rows came out, of {int(expected.rows.sum())}")
    wrong += [f"{name} is wrong at some row" for name, mark in expected.marks.items() if marks[name] != mark]
    for row, results in expected.results.items():
        if row not in found:
            wrong.append(f"row {row} is missing")
            continue
        for name, value in results.items():
            if found[row][name] != value:
                wrong.append(f"row {row}: {name} is {found[row][name]}, expected {value}")
    return wrong


def _mark(values: Array, ids: Array) -> int:
    return int(np.bitwise_xor.reduce((values % PRIME) * (ids % PRIME + 1)))


class _Running:
    """Rows of each sensor so far, and the sum of their power."""

    def __init__(self) -> None:
        self.counts = np.zeros(SENSORS, dtype=np.int64)
        self.sums = np.zeros(SENSORS, dtype=np.int64)

    def before(self, batch: Batch, sensors: Array, ids: Array) -> tuple[Array, Array]:
        """Takes the next batch in; for each pair of sensor and id, the rows of the sensor before the id.

        The id must not be before the batch.
        """
        order = np.argsort(batch.sensors, kind="stable")
        of, running = batch.sensors[order], np.append(0, np.cumsum(batch.columns["power"][order]))
        starts = np.searchsorted(of, np.arange(len(self.counts) + 1))
        # sorted by sensor and then by id
        places = np.searchsorted(of << 40 | batch.ids[order], sensors << 40 | np.maximum(ids, 0))
        counts = self.counts[sensors] + places - starts[sensors]
        sums = self.sums[sensors] + running[places] - running[starts[sensors]]
        self.counts = self.counts + np.diff(starts)
        self.sums = self.sums + np.diff(running[starts])
        return counts, sums


@dataclass
class _Window:
    """The rows of one window, looked at one by one as far as NumPy goes."""

    first: int
    last: int
    sensor: int = field(init=False)
    readings: int = 0
    vibration: int = -1
    temperature: int = 0
    pressure: float = math.inf
    power: int = 0
    load: int = 0
    voltage: int = -1

    def __post_init__(self) -> None:
        self.sensor = int(in_numpy(self.last, self.last + 1, []).sensors[0])

    def scan(self, batch: Batch) -> None:
        start = max(self.first - int(batch.ids[0]), 0)
        stop = self.last + 1 - int(batch.ids[0])
        if stop <= 0 or start >= len(batch.ids):
            return
        here = start + np.flatnonzero(batch.sensors[start:stop] == self.sensor)
        if not len(here):
            return
        columns = {name: column[here] for name, column in batch.columns.items()}
        self.readings += len(here)
        peak = int(np.argmax(columns["vibration"]))
        if columns["vibration"][peak] > self.vibration:
            self.vibration = int(columns["vibration"][peak])
            self.temperature = int(columns["temperature"][peak])
        self.pressure = min(self.pressure, int(columns["pressure"].min()))
        self.power += int(columns["power"].sum())
        self.load += int(columns["load"].sum())
        self.voltage = max(self.voltage, int(columns["voltage"].max()))

    @property
    def results(self) -> dict[str, Any]:
        return {
            "sensor": self.sensor,
            "readings": self.readings,
            "shaken_at": self.temperature,
            "lowest_pressure": self.pressure,
            "energy": self.power,
            "mean_load": self.load / self.readings,
            "highest_voltage": self.voltage,
        }
