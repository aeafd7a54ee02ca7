"""Streams over files, one file a micro-batch, and what has to come out of them."""

from __future__ import annotations

import datetime as dt
import math
import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import msgpack
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from rolled import roll, schema_of

from mta import monoids, policies
from mta.manifest import Version, unpack_version
from spark_integration import rolling
from spark_integration.metrics import STREAM_SUMS
from spark_integration.planning import make_plan, with_results
from spark_integration.streaming import function
from spark_integration.streaming.function import StreamFunction
from spark_integration.streaming.packing import COUNTS, arrow_schema, pack, unpack
from spark_integration.streaming.query import stream_plan
from spark_integration.streaming.storage import Place
from stores import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = dict[str, Any]

#: The column that numbers the rows of all files, from 0 on.
NUMBER = "r"


# -- rows ----------------------------------------------------------------------------------------------

SCHEMA = pa.schema(
    [
        (NUMBER, pa.int64()),
        ("k", pa.string()),
        ("f", pa.float64()),
        ("o", pa.timestamp("us", "UTC")),
        ("tie", pa.float64()),
        ("x", pa.float64()),
        ("i", pa.int64()),
        ("s", pa.string()),
    ]
)
START = 1_600_000_000

AGGREGATES = {
    "sum_x": monoids.Sum("x"),
    "max_x": monoids.Max("x"),
    "std_x": monoids.SampleStdDev("x"),
    "sum_i": monoids.Sum("i"),
    "min_i": monoids.Min("i"),
    "count": monoids.Count(),
    "first_s": monoids.First("s"),
    "last_s": monoids.Last("s"),
    "all_s": monoids.Collect("s"),
    "newest": monoids.Max("o"),
    "both": monoids.Fields(low=monoids.Min("i"), text=monoids.Last("s"), n=monoids.Count()),
}

#: Asked row by row.
POLICY = policies.While(lambda total, old: total["count"] - old["count"] > 23)


def thinned(rng: np.random.Generator, values: list[Any], share: float) -> list[Any]:
    return [None if rng.random() < share else value for value in values]


def make_files(seed: int, count: int, rows: int = 70) -> list[pa.Table]:
    """A minute a file, out of order within 15 s, with ties, and some rows that are two minutes too old.

    Two in three rows are of one key. A few times are a fraction of a millisecond behind another.
    """
    rng = np.random.default_rng(seed)
    files = []
    for number in range(count):
        quarters = rng.integers(number * 240 - 60, number * 240 + 240, rows)
        quarters[rng.random(rows) < 0.06] -= 480
        micros = quarters * 250_000 + rng.choice([0, 0, 0, 400, -1], rows) + START * 1_000_000
        x = [math.nan if rng.random() < 0.02 else float(value) / 4 for value in rng.integers(-50, 50, rows)]
        columns = {
            NUMBER: list(range(number * rows, (number + 1) * rows)),
            "k": [rng.choice(["hot", "hot", "hot", "hot", "cold", None]) for _ in range(rows)],
            "f": [float(value) for value in rng.choice([0.0, -0.0, math.nan], rows, p=[0.5, 0.4, 0.1])],
            "o": [dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=int(m)) for m in micros],
            "tie": thinned(rng, [float(each) for each in rng.choice([1.0, 2.0, math.nan], rows)], 0.2),
            "x": thinned(rng, x, 0.1),
            "i": thinned(rng, rng.integers(-(2**56), 2**56, rows).tolist(), 0.3),
            "s": thinned(rng, [f"s{value}" for value in rng.integers(0, 40, rows)], 0.2),
        }
        columns["o"] = thinned(rng, columns["o"], 0.04)
        files.append(
            pa.table(
                {
                    name: pa.array(columns[name], SCHEMA.field(name).type, from_pandas=False)
                    for name in columns
                },
                schema=SCHEMA,
            )
        )
    return files


# -- playing ----------------------------------------------------------------------------------------------


@dataclass
class Played:
    """What came of a stream."""

    directory: Path
    #: the rows that came out, by number
    rows: dict[int, Row]
    #: what was observed in each micro-batch
    counts: list[Row]
    #: the same, of those micro-batches that had a file
    of_files: list[Row]
    #: keys in the state at the end, as Spark counts them
    keys: int

    def total(self, name: str) -> float:
        return sum(each[name] for each in self.counts)


class Stream:
    """A directory of files and a query over it, which may be started again and again."""

    def __init__(self, spark: SparkSession, directory: Path, schema: pa.Schema, **how: Any) -> None:
        self._spark, self._schema, self.how = spark, schema, how
        self.directory = directory
        self._files = 0
        #: of all runs
        self.progress: list[Any] = []
        (directory / "in").mkdir(parents=True)

    @property
    def checkpoint(self) -> Path:
        return self.directory / "checkpoint"

    def add(self, *files: pa.Table) -> None:
        for file in files:
            write_file(self.directory / "in", self._files, file)
            self._files += 1

    def source(self, delay: str | None) -> DataFrame:
        schema = schema_of(self._schema.empty_table())
        reader = self._spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        df = reader.parquet(str(self.directory / "in"))
        return df if delay is None else df.withWatermark("o", delay)

    def run(self, **changed: Any) -> None:
        """Until all files there are were taken in."""
        how = self.how | changed
        out = rolling(self.source(how.pop("delay", None)), **how)
        writer = out.writeStream.format("parquet").trigger(availableNow=True)
        query = writer.start(str(self.directory / "out"), checkpointLocation=str(self.checkpoint))
        try:
            query.awaitTermination()
        finally:
            query.stop()
            self.progress += [each for each in query.recentProgress if each.observedMetrics]

    def played(self) -> Played:
        observed = [next(iter(each.observedMetrics.values())).asDict() for each in self.progress]
        found = [{name: count or 0 for name, count in each.items()} for each in observed]
        with_file = [
            counts for counts, each in zip(found, self.progress, strict=True) if each.numInputRows > 0
        ]
        keys = self.progress[-1].stateOperators[0].numRowsTotal
        return Played(self.directory, rows_of(self.directory / "out"), found, with_file, keys)

    def blobs(self) -> list[bytes]:
        return blobs_of(self._spark, self.checkpoint)


def play(
    spark: SparkSession, directory: Path, files: Sequence[pa.Table], *, runs: int = 1, **how: Any
) -> Played:
    """A stream over files, in one run of the query or in several."""
    stream = Stream(spark, directory, files[0].schema, **how)
    for number in range(runs):
        stream.add(*files[number * len(files) // runs : (number + 1) * len(files) // runs])
        stream.run()
    return stream.played()


def write_file(directory: Path, number: int, table: pa.Table) -> None:
    """Files come in the order of their times."""
    path = directory / f"{number:04d}.parquet"
    unfinished = path.with_name(f".{path.name}")
    pq.write_table(table, unfinished)
    os.utime(unfinished, (1e9 + number, 1e9 + number))
    unfinished.rename(path)


def rows_of(directory: Path) -> dict[int, Row]:
    """What a file sink was given, where nothing ever failed."""
    rows = [row for path in sorted(directory.glob("*.parquet")) for row in pq.read_table(path).to_pylist()]
    found = {row[NUMBER]: row for row in rows}
    assert len(found) == len(rows), "a row came out twice"
    return found


@contextmanager
def configured(spark: SparkSession, **settings: Any) -> Iterator[None]:
    """Settings of the session, with _ for the dots of their names behind `spark.sql`."""
    before = {}
    for name, value in settings.items():
        full = f"spark.sql.{name.replace('_', '.')}"
        before[full] = spark.conf.get(full, None)
        spark.conf.set(full, value)
    try:
        yield
    finally:
        for full, old in before.items():
            if old is None:
                spark.conf.unset(full)
            else:
                spark.conf.set(full, old)


# -- the state --------------------------------------------------------------------------------------------


def blobs_of(spark: SparkSession, checkpoint: Path) -> list[bytes]:
    """What the state store keeps of each key, by Spark's own reader."""
    rows = spark.read.format("statestore").load(str(checkpoint)).collect()
    return [bytes(row["value"]["groupState"]["window"]) for row in rows]


@dataclass
class Blob:
    """A key's state, as far as it tells what is in the store."""

    name: str
    #: by the names of windows and backlogs
    versions: dict[str, Version] = field(default_factory=dict)
    retired: list[str] = field(default_factory=list)
    stored: list[str] = field(default_factory=list)

    @property
    def in_store(self) -> set[str]:
        return {*self.stored, *self.retired}

    @property
    def keys(self) -> set[str]:
        return {key for name, version in self.versions.items() for key in version.keys(name)}


def opened(blob: bytes) -> Blob:
    content = msgpack.unpackb(blob, strict_map_key=False)
    _, _, name, _, windows, backlog, retired, stored = content
    found = Blob(name, retired=retired, stored=stored)
    for number, window in enumerate(windows):
        if window[0] == "window":
            _, page_size, packed = window
            found.versions[f"{name}/{number}"] = unpack_version(page_size.bit_length() - 1, packed)
    if backlog is not None and backlog[1] is not None:
        found.versions[f"{name}/rows"] = unpack_version(1, backlog[1])
    return found


# -- what has to come out ---------------------------------------------------------------------------------


@dataclass
class Wanted:
    """What has to come out of a stream, by the rules alone."""

    rows: dict[int, Row]
    #: rows of each file that are late
    late: list[int]
    #: rows that come out in each micro-batch; the last one has no file
    out: list[int]


def wanted_with_watermark(
    files: Sequence[pa.Table], delay: int, *, end: int | None = None, **how: Any
) -> Wanted:
    """Rows come out when the watermark has passed them. `delay` is in milliseconds, as its end is."""
    marks = watermarks(files, delay)
    if end is not None:
        marks[-1] = end
    late, on_time, untimed = [], [], []
    for file, mark in zip(files, marks, strict=False):
        timed, without = _split(file)
        kept = [row for row in timed if mark <= 0 or _micros(row["o"]) > mark * 1000]
        late.append(len(timed) - len(kept))
        on_time += kept
        untimed.append(without)
    ready = [row for row in on_time if _micros(row["o"]) <= max(marks[-1], 0) * 1000]
    rows = _rolled(ready, files[0].schema, how)
    out = [sum(each) for each in zip(*(_passed(row, marks) for row in ready), strict=True)] or [0] * len(
        marks
    )
    for number, without in enumerate(untimed):
        rows |= _rolled(without, files[0].schema, how)
        out[number] += len(without)
    return Wanted(rows, late, out)


def _passed(row: Row, marks: list[int]) -> list[bool]:
    """In which micro-batch the watermark comes to a row."""
    time = _micros(row["o"])
    return [
        time <= mark * 1000 and not (number and time <= marks[number - 1] * 1000)
        for number, mark in enumerate(marks)
    ]


def wanted_without_watermark(files: Sequence[pa.Table], **how: Any) -> Wanted:
    """The rows of each file come out at once; those older than what came out of their key are late."""
    youngest: dict[Any, Any] = {}
    before: list[Row] = []
    wanted = Wanted({}, [], [])
    for file in files:
        timed, untimed = _split(file)
        kept = [row for row in timed if (key := _key(row, how)) not in youngest or row["o"] >= youngest[key]]
        for row in kept:
            key = _key(row, how)
            youngest[key] = max(row["o"], youngest.get(key, row["o"]))
        before += sorted(kept, key=_by(how["order_by"]))
        rows = _rolled(before, file.schema, how, in_order=True)
        numbers = {row[NUMBER] for row in kept}
        wanted.rows |= {number: row for number, row in rows.items() if number in numbers}
        wanted.rows |= _rolled(untimed, file.schema, how)
        wanted.late.append(len(timed) - len(kept))
        wanted.out.append(len(kept) + len(untimed))
    return wanted


def watermarks(files: Sequence[pa.Table], delay: int) -> list[int]:
    """In milliseconds, of the micro-batch of each file, and of the one behind the last file."""
    marks = [0]
    for file in files:
        times = [_micros(time) for time in file["o"].to_pylist() if time is not None]
        newest = max(times) // 1000 - delay if times else 0
        marks.append(max(marks[-1], newest))
    return marks


def _split(file: pa.Table) -> tuple[list[Row], list[Row]]:
    """Rows with a time, and those without."""
    timed, untimed = [], []
    for row in file.to_pylist():
        time = row["o"]
        missing = time is None or (isinstance(time, float) and not math.isfinite(time))
        (untimed if missing else timed).append(row)
    return timed, untimed


def _micros(time: Any) -> int:
    """Of a timestamp, since 1970."""
    micros: int = pa.scalar(time).cast(pa.timestamp("us")).value
    return micros


def _rolled(
    rows: list[Row], schema: pa.Schema, how: Mapping[str, Any], *, in_order: bool = False
) -> dict[int, Row]:
    """The batch's results of rows, by number."""
    if not rows:
        return {}
    if not in_order:
        rows = sorted(rows, key=_by(how["order_by"]))
    rows = sorted(rows, key=lambda row: repr(_key(row, how)))
    table = roll(pa.Table.from_pylist(rows, schema), batch=1000, **{"partition_by": None} | how)
    return {row[NUMBER]: row for row in table.to_pylist()}


def _names(given: str | Sequence[str] | None) -> list[str]:
    return [given] if isinstance(given, str) else list(given or ())


def _key(row: Row, how: Mapping[str, Any]) -> tuple[Any, ...]:
    """Equal where Spark says that keys are equal."""
    values = (row[name] for name in _names(how.get("partition_by")))
    return tuple(
        "NaN" if value != value else value + 0.0 if isinstance(value, float) else value for value in values
    )


def _by(order: str | Sequence[str]) -> Callable[[Row], list[Any]]:
    """Spark's order: null, numbers, NaN."""

    def place(value: Any) -> tuple[Any, ...]:
        return (0,) if value is None else (2,) if value != value else (1, value)

    return lambda row: [place(row[name]) for name in _names(order)]


def same(a: Any, b: Any) -> bool:
    """Whole numbers and text exactly; real ones as far as they may be summed in another order."""
    if isinstance(a, float) and isinstance(b, float):
        return (a != a and b != b) or a == b or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return type(a) is type(b) and bool(a == b)


def assert_as_wanted(found: Mapping[int, Row], wanted: Mapping[int, Row], names: Sequence[str]) -> None:
    """The same rows, with the same values of some columns."""
    assert found.keys() == wanted.keys(), (
        f"missing: {sorted(wanted.keys() - found.keys())[:20]}, "
        f"not wanted: {sorted(found.keys() - wanted.keys())[:20]}"
    )
    for number, row in wanted.items():
        for name in names:
            got = found[number][name]
            assert same(got, row[name]), f"row {number}, {name}: {got!r}, not {row[name]!r}"


# -- without Spark ----------------------------------------------------------------------------------------


class KeyStateOfSpark:
    """What Spark gives to the function for a key: its state, the watermark and a timeout."""

    def __init__(self, blob: bytes | None, watermark: int, timed_out: bool) -> None:
        self.blob, self._watermark, self.hasTimedOut = blob, watermark, timed_out
        self.timeout: int | None = None

    @property
    def exists(self) -> bool:
        return self.blob is not None

    @property
    def get(self) -> tuple[bytes]:
        assert self.blob is not None
        return (self.blob,)

    def update(self, value: tuple[bytes]) -> None:
        (self.blob,) = value

    def remove(self) -> None:
        self.blob = None

    def getCurrentWatermarkMs(self) -> int:  # noqa: N802
        return self._watermark

    def setTimeoutTimestamp(self, milliseconds: int) -> None:  # noqa: N802
        assert milliseconds > 0
        assert milliseconds >= self._watermark
        self.timeout = milliseconds


class Simulated:
    """Micro-batches of a query with a watermark, in this process and without Spark.

    A task may run twice, and chance says which attempt's rows and state count; or a run of the query ends
    after some keys of a micro-batch, which is then played again.
    """

    def __init__(
        self, schema: pa.Schema, store: Store, seed: int, *, forget_after: str | None = None, **how: Any
    ) -> None:
        spark_schema = schema_of(schema.empty_table())
        plan = make_plan(spark_schema, **{"partition_by": None} | how, store="rocksdb:///unused")
        self._random, self._store = random.Random(seed), store
        self._plan, self._schema = plan, arrow_schema(spark_schema, "UTC")
        self._stream = stream_plan(plan, True, forget_after, False)
        out = with_results(spark_schema, plan)
        self._out, self._names = arrow_schema(out, "UTC"), out.names
        self._marked = schema.field("o").type
        self.states: dict[bytes, tuple[bytes, int | None]] = {}
        self.late: list[int] = []
        self.rows: dict[int, Row] = {}
        self.batch = self.run = 0

    def play(self, file: pa.Table | None, watermark: int) -> None:
        """One micro-batch."""
        arrived: dict[bytes, list[tuple[int, bytes]]] = {}
        for packed in pack(file.to_batches() if file else [], self._plan.keys, self._schema, self._marked):
            for row in packed.to_pylist():
                arrived.setdefault(row["key"], []).append((row["place"], row["packed"]))
        timed_out = [
            key
            for key, (_, timeout) in self.states.items()
            if key not in arrived and timeout is not None and timeout < watermark
        ]
        call = StreamFunction(self._stream, self._schema)
        if self._chance(0.2):
            # the run ends after some of the keys
            for key in [*arrived, *timed_out][:2]:
                self._attempt(call, key, arrived.get(key), watermark)
            self.run += 1
        states, late, rows = dict(self.states), 0.0, []
        for key in [*arrived, *timed_out]:
            answers = [self._attempt(call, key, arrived.get(key), watermark)]
            if self._chance(0.2):
                answers.append(self._attempt(call, key, arrived.get(key), watermark))
            state, own_rows, own_late = answers[self._chance(0.5) * (len(answers) - 1)]
            late += own_late
            rows += own_rows
            states.pop(key, None)
            if state.blob is not None:
                assert len(state.blob) < 64 << 10
                states[key] = (state.blob, state.timeout)
        self.states = states
        self.late.append(int(late))
        for row in rows:
            assert row[NUMBER] not in self.rows, f"row {row[NUMBER]} came out twice"
            self.rows[row[NUMBER]] = row
        self.batch += 1

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _attempt(
        self, call: StreamFunction, key: bytes, arrived: list[tuple[int, bytes]] | None, watermark: int
    ) -> tuple[KeyStateOfSpark, list[Row], float]:
        blob, _ = self.states.get(key, (None, None))
        state = KeyStateOfSpark(blob, watermark, arrived is None)
        frame = pd.DataFrame(arrived or [], columns=["place", "packed"])
        place = Place("query", str(self.run), self.batch, 0)
        shelf = mock.Mock(store=lambda *_: nullcontext(self._store))
        with (
            mock.patch.object(Place, "here", return_value=place),
            mock.patch.object(function, "SHELF", shelf),
        ):
            frames = list(call((key,), iter([frame]), state))  # type: ignore[arg-type]
        packed = [
            pa.RecordBatch.from_arrays([pa.array(each["packed"], pa.binary())], ["packed"]) for each in frames
        ]
        rows, late = [], 0.0
        for batch in unpack(packed, self._out, self._names):
            for row in batch.to_pylist():
                counts = row.pop(COUNTS)
                if counts is None:
                    rows.append(row)
                else:
                    late += counts[STREAM_SUMS.index("late")]
        return state, rows, late

    def blobs(self) -> list[bytes]:
        return [blob for blob, _ in self.states.values()]
