"""Streams over files, one file a micro-batch, and what their state names."""

from __future__ import annotations

import datetime as dt
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgpack
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rolled import schema_of

from mta import monoids, policies
from mta.durability.coding import unpack_version
from mta.durability.manifest import DOCUMENTS, Version
from mta.keyed.directory import Directory
from mta.keyed.documents import DocumentId
from spark_integration import rolling
from spark_integration.streaming.packing import QUERY_KEY
from stores import Store, page_key
from stores.base import page_prefix

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
    "different_i": monoids.DistinctCount("i"),
    "different_s": monoids.DistinctCount("s"),
    "last_i": monoids.LastK(3, "i"),
    "top_i": monoids.TopK(2, "i"),
    "slope": monoids.Slope("i", "x"),
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


def seconds_of(first: int, seconds: list[int], **columns: Any) -> pa.Table:
    """Rows from a number on, at these seconds."""
    times = [dt.datetime.fromtimestamp(START + second, dt.UTC) for second in seconds]
    numbers = range(first, first + len(seconds))
    found = {NUMBER: pa.array(numbers, pa.int64()), "o": pa.array(times, pa.timestamp("us", "UTC"))}
    return pa.table(found | columns)


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
    #: buckets in the state at the end, as Spark counts them
    buckets: int

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
        """Until all files there are were taken in; `select` makes the DataFrame of the one over the files."""
        how = self.how | changed
        select = how.pop("select", lambda df: df)
        out = rolling(select(self.source(how.pop("delay", None))), **how)
        writer = out.writeStream.format("parquet").trigger(availableNow=True)
        query = writer.start(str(self.directory / "out"), checkpointLocation=str(self.checkpoint))
        try:
            query.awaitTermination()
        finally:
            query.stop()
            self.progress += [each for each in query.recentProgress if each.observedMetrics]

    def played(self) -> Played:
        found = [next(iter(each.observedMetrics.values())).asDict() for each in self.progress]
        with_file = [
            counts for counts, each in zip(found, self.progress, strict=True) if each.numInputRows > 0
        ]
        # one of the states is the query's own
        buckets = self.progress[-1].stateOperators[0].numRowsTotal - 1
        return Played(self.directory, rows_of(self.directory / "out"), found, with_file, buckets)

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
    """What the state store keeps of each bucket, by Spark's own reader."""
    rows = spark.read.format("statestore").load(str(checkpoint)).collect()
    return [bytes(row["value"]["groupState"]["window"]) for row in rows if bytes(row["key"][0]) != QUERY_KEY]


@dataclass
class Blob:
    """A bucket's state, as far as it tells what is in the store."""

    #: by the names of windows
    versions: dict[str, Version] = field(default_factory=dict)
    #: documents of the bucket itself, by its name
    documents: dict[str, list[DocumentId]] = field(default_factory=dict)
    retired: list[str] = field(default_factory=list)
    stored: list[str] = field(default_factory=list)
    #: known keys, as far as they do not stand in segments
    keys_inline: int = 0
    #: documents with keys, and with rows that wait
    segments: int = 0
    waiting: int = 0

    @property
    def in_store(self) -> set[str]:
        return {*self.stored, *self.retired}

    @property
    def keys(self) -> set[str]:
        found = {key for name, version in self.versions.items() for key in version.keys(name)}
        for name, documents in self.documents.items():
            found |= {page_key(page_prefix(name, epoch, DOCUMENTS), number) for epoch, number in documents}
        return found


def opened(blob: bytes, stores: Sequence[Store] = ()) -> Blob:
    """The state with what it names, for which the segments are read from the store that has them."""
    content = msgpack.unpackb(blob, strict_map_key=False)
    _, _, base, bucket, documents, keys, backlog, _, retired = content
    name = f"{base}/{bucket}/rows"
    found = Blob(retired=retired)
    block, directory, _ = keys
    documents_of: list[DocumentId] = []
    blocks = [] if block is None else [block]
    if directory is not None:
        segments = Directory.decode(directory)
        documents_of += segments.documents(segments.used)
        found.segments = len(documents_of)
        blocks += [_document(stores, name, each) for each in documents_of]
    if backlog is not None:
        table, _ = backlog
        if table and isinstance(table[0], int):
            documents_of.append(DocumentId(table[0], table[1]))
            table = msgpack.unpackb(_document(stores, name, documents_of[-1]))
        documents_of += [DocumentId(epoch, number) for epoch, number, *_ in table]
        found.waiting = len(table)
    if retired and isinstance(retired[0], int):
        documents_of.append(DocumentId(retired[0], retired[1]))
        found.retired = msgpack.unpackb(_document(stores, name, documents_of[-1]))
    if documents[1] is not None:
        found.stored.append(name)
        found.documents[name] = documents_of
    assert documents[1] is not None or not documents_of
    found.keys_inline = 0 if block is None else msgpack.unpackb(block)[0]
    for each in blocks:
        for long in msgpack.unpackb(each, strict_map_key=False)[-1]:
            own, windows, stored, _ = msgpack.unpackb(long, strict_map_key=False)
            found.stored += stored
            for number, window in enumerate(windows):
                if window[0] == "window":
                    _, page_size, packed = window
                    found.versions[f"{own}/{number}"] = unpack_version(page_size.bit_length() - 1, packed)
    return found


def _document(stores: Sequence[Store], name: str, document: DocumentId) -> bytes:
    epoch, number = document
    key = page_key(page_prefix(name, epoch, DOCUMENTS), number)
    (data,) = [data for store in stores for data in store.get_many([key]) if data is not None]
    return data[:-8]
