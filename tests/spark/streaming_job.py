"""A stream whose driver is killed again and again, and what has to be left of it.

    python tests/spark/streaming_job.py --kills 20 --store redis

runs it, kills it, starts it again until it is done, and checks that no row is missing or doubled, and that
the store has what the state names and nothing else.

The file sink skips a micro-batch that it has already, when its query was killed before it could commit it
too. Spark then does not see the times of that micro-batch, and the watermark of the next one is too low: rows
of it are not late that otherwise would be, for any stateful operator. So the watermarks are those of the
query's log. With `--sink each-batch`, which does every micro-batch again, they must be those of an
uninterrupted run.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
from stream_reference import assert_as_wanted, wanted_with_watermark, watermarks
from streams import NUMBER, Blob, opened, write_file

from mta import monoids
from mta.durability.coding import decode_root
from mta.durability.operations import collect
from mta.lab.processes import is_java, members
from stores import Store, open_store

#: Where rows go: Spark's file sink, or a directory a micro-batch, written anew by each run of it.
Sink = Literal["file", "each-batch"]

#: What is killed: everything, or the JVM or the driver alone, whose workers then end by themselves.
Whom = Literal["all", "jvm", "driver"]

SCHEMA = pa.schema(
    [
        (NUMBER, pa.int64()),
        ("k", pa.int64()),
        ("o", pa.timestamp("us", "UTC")),
        ("i", pa.int64()),
        ("s", pa.string()),
    ]
)
ROWS, KEYS = 300, 300
DELAY = 20_000
AGGREGATES = {
    "total": monoids.Sum("i"),
    "peak": monoids.Max("i"),
    "n": monoids.Count(),
    "first": monoids.First("s"),
}
HOW: dict[str, Any] = {
    "partition_by": "k",
    "order_by": ["o", NUMBER],
    "window": "700 seconds",
    "aggregates": AGGREGATES,
}
#: So few that the rows of their keys are in segments.
BUCKETS = 2


def make_files(count: int) -> list[pa.Table]:
    """A row a second, most of them of two keys, some 10 s too early or too late, and a few far too late."""
    rng = np.random.default_rng(7)
    files = []
    for number in range(count):
        ids = np.arange(number * ROWS, (number + 1) * ROWS)
        seconds = 100_000 + ids + rng.integers(-10, 11, ROWS)
        seconds[rng.random(ROWS) < 0.02] -= 200
        columns = [
            pa.array(ids),
            pa.array(np.where(rng.random(ROWS) < 0.6, rng.integers(0, 2, ROWS), rng.integers(2, KEYS, ROWS))),
            pa.array(seconds * 1_000_000, SCHEMA.field("o").type),
            pa.array(rng.integers(-(2**55), 2**55, ROWS), mask=rng.random(ROWS) < 0.1),
            pa.array([f"{value:x}" * 80 for value in rng.integers(0, 1 << 20, ROWS)]),
        ]
        files.append(pa.Table.from_arrays(columns, schema=SCHEMA))
    return files


# -- the driver -------------------------------------------------------------------------------------------


def drive(directory: Path, store: str, sink: Sink) -> None:
    """Runs the query to the end of its files, and writes down what came out and what is in the state."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    from pyspark.sql import SparkSession
    from rolled import schema_of
    from streams import blobs_of

    from spark_integration import rolling

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "600m")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.local.dir", str(directory / "local"))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    schema = schema_of(SCHEMA.empty_table())
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    df = reader.parquet(str(directory / "in")).withWatermark("o", f"{DELAY} milliseconds")
    writer = rolling(df, **HOW, store=store, page_size=4, buckets=BUCKETS).writeStream.trigger(
        availableNow=True
    )
    writer = writer.option("checkpointLocation", str(directory / "checkpoint"))
    if sink == "file":
        query = writer.format("parquet").start(str(directory / "out"))
    else:
        query = writer.foreachBatch(
            lambda rows, batch: rows.write.parquet(str(directory / "out" / f"batch={batch}"), "overwrite")
        ).start()
    query.awaitTermination()
    rows = spark.read.parquet(str(directory / "out")).drop("o", "batch").toArrow().to_pylist()
    blobs = [blob.hex() for blob in blobs_of(spark, directory / "checkpoint")]
    unfinished = directory / "unfinished"
    unfinished.write_text(json.dumps({"rows": rows, "blobs": blobs}))
    unfinished.rename(directory / "done")
    spark.stop()


# -- killing it -------------------------------------------------------------------------------------------


@dataclass
class Kill:
    """When a kill came."""

    whom: Whom
    #: the last micro-batch that began, and the last one that is done; -1 for none
    begun: int
    done: int
    #: keys that Redis had, or files of the embedded stores
    keys: int
    #: commands that Redis got, or bytes that were written to files, since this run began
    work: int
    seconds: float

    def __str__(self) -> str:
        where = f"in batch {self.begun}" if self.begun > self.done else f"after batch {self.done}"
        return (
            f"{self.whom:6} {where:15} {self.seconds:5.1f} s after the start, {self.keys} keys, "
            f"{self.work} of work since"
        )


@dataclass
class Trial:
    """One stream, with its directory and store."""

    directory: Path
    store: str
    kills: int
    seed: int
    sink: Sink = "file"
    tell: Callable[[str], Any] = print
    killed: list[Kill] = field(default_factory=list)
    runs: int = 0
    #: how often Spark forgot a watermark
    forgotten: int = 0
    #: files that came in a micro-batch with the next one
    together: int = 0
    #: segments that the state names in the end
    segments: int = 0

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        #: of the files of embedded stores
        self._sizes: dict[Path, int] = {}
        self._written = 0
        self._files = make_files(2 * self.kills + 1)
        (self.directory / "in").mkdir(parents=True)
        for number, file in enumerate(self._files):
            write_file(self.directory / "in", number, file)

    def run(self) -> None:
        while not (self.directory / "done").exists():
            assert self.runs < self.kills + 5, f"the query does not end: {self._log()}"
            self._run()
        self._check()

    def _log(self) -> str:
        return (self.directory / "log").read_text()[-4000:]

    def _run(self) -> None:
        self.runs += 1
        before, began = self._work(), time.monotonic()
        with (self.directory / "log").open("wb") as log:
            driver = subprocess.Popen(
                [
                    *[sys.executable, __file__, "--directory", str(self.directory)],
                    *["--store", self.store, "--sink", self.sink],
                ],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            if len(self.killed) < self.kills and self._reached(driver, before):
                whom: Whom = self._random.choice(("all", "jvm", "driver"))
                kill = Kill(
                    whom,
                    self._last("offsets"),
                    self._last("commits"),
                    self._keys(),
                    self._work() - before,
                    time.monotonic() - began,
                )
                self._kill(driver, whom)
                self.killed.append(kill)
                self.tell(f"kill {len(self.killed)}: {kill}")
            driver.wait(1800)
        finally:
            # a driver that lost its JVM, or a JVM that lost its driver, ends by itself; workers need not have
            deadline = time.monotonic() + 120
            while time.monotonic() < deadline and any(is_java(each) for each in members(driver.pid)):
                time.sleep(0.05)
            for process in members(driver.pid):
                if is_java(process) or process == driver.pid:
                    os.kill(process, signal.SIGKILL)
            driver.wait()

    def _reached(self, driver: subprocess.Popen[bytes], before: int) -> bool:
        """Waits for a moment that chance chose; false if the driver ended before."""
        kind = self._random.choice(("start", "batch", "batch", "sink", "write", "write", "write"))
        began = self._last("commits")
        work = self._random.randrange(1, 100)
        if not self.store.startswith("redis"):
            work *= 8000
        batches, delay = self._random.randrange(2), self._random.random() * 1.5
        while driver.poll() is None:
            if kind == "start":
                time.sleep(self._random.random() * 5)
                return driver.poll() is None
            if kind == "write" and self._work() - before >= work:
                return True
            if kind == "sink" and self._last("commits") < self._last_of_sink() > began:
                return True
            if kind == "batch" and self._last("commits") - began > batches:
                time.sleep(delay)
                return driver.poll() is None
            time.sleep(0.002)
        return False

    def _kill(self, driver: subprocess.Popen[bytes], whom: Whom) -> None:
        processes = list(members(driver.pid))
        if whom == "driver":
            processes = [driver.pid]
        elif whom == "jvm":
            processes = [each for each in processes if is_java(each)] or processes
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def _last(self, log: str) -> int:
        """The last micro-batch in a log of the checkpoint."""
        return max(_numbers(self.directory / "checkpoint" / log), default=-1)

    def _last_of_sink(self) -> int:
        """The last micro-batch that the sink has whole."""
        out = self.directory / "out"
        whole = [int(path.parent.name.partition("=")[2]) for path in out.glob("batch=*/_SUCCESS")]
        return max(whole + _numbers(out / "_spark_metadata"), default=-1)

    def _redis(self) -> Any:
        import redis

        return redis.Redis.from_url(self.store)

    def _keys(self) -> int:
        if not self.store.startswith("redis"):
            return sum(1 for _ in (self.directory / "windows").rglob("*"))
        with self._redis() as client:
            return int(client.dbsize())

    def _work(self) -> int:
        if not self.store.startswith("redis"):
            for path in (self.directory / "windows").rglob("*"):
                with suppress(FileNotFoundError):
                    size = path.stat().st_size
                    # files shrink and go too
                    self._written += max(0, size - self._sizes.get(path, 0))
                    self._sizes[path] = size
            return self._written
        with self._redis() as client:
            commands = client.info("commandstats")
        return sum(commands.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("set", "mset", "evalsha"))

    # -- what is left -----------------------------------------------------------------------------------

    def _check(self) -> None:
        done = json.loads((self.directory / "done").read_text())
        rows = {row[NUMBER]: row for row in done["rows"]}
        assert len(rows) == len(done["rows"]), "a row came out twice"
        marks = self._watermarks()
        self.forgotten = len(set(watermarks(self._files, DELAY)) - set(marks))
        assert self.sink == "file" or self.forgotten <= self.together
        wanted = wanted_with_watermark(self._files, DELAY, marks=marks, **HOW)
        assert sum(wanted.late) > 0
        assert_as_wanted(rows, wanted.rows, [*AGGREGATES, "k", "i", "s"])
        with ExitStack() as stack:
            stores = [stack.enter_context(open_store(url)) for url in self._urls()]
            blobs = [opened(bytes.fromhex(blob), stores) for blob in done["blobs"]]
            self.segments = sum(blob.segments for blob in blobs)
            assert self.segments, "the stream was too short to have segments"
            for store in stores:
                collect(store, grace=0)
            check_stored(stores, blobs)

    def _watermarks(self) -> list[int]:
        """Those of the micro-batch of each file, and the last one, by the query's log."""
        checkpoint = self.directory / "checkpoint"
        marks: dict[int, int] = {}
        for batch in sorted(_numbers(checkpoint / "offsets")):
            _, metadata, offset = (checkpoint / "offsets" / str(batch)).read_text().splitlines()
            last = json.loads(metadata)["batchWatermarkMs"]
            marks.setdefault(json.loads(offset)["logOffset"], last)
        numbers = range(len(self._files))
        assert list(marks)[-1] == numbers[-1]
        assert set(marks) <= set(numbers)
        # a file that the source had noted when it was killed, and the query had not, comes with the next one
        with_file = [min(each for each in marks if each >= number) for number in numbers]
        self.together = len(numbers) - len(marks)
        return [*(marks[each] for each in with_file), last]

    def _urls(self) -> list[str]:
        if self.store.startswith("redis"):
            return [self.store]
        return [f"rocksdb://{path}" for path in sorted((self.directory / "windows").glob("*/*"))]


def _numbers(log: Path) -> list[int]:
    with suppress(FileNotFoundError):
        return [int(name) for name in os.listdir(log) if name.isdigit()]
    return []


def check_stored(stores: Sequence[Store], blobs: Sequence[Blob]) -> None:
    """The stores have what the state names, what it was made from, and nothing else."""
    stored = {key for store in stores for key in store.list_keys("")}
    roots = {
        name: decode_root(name, store.read_root(name)[0]) for store in stores for name in store.list_roots()
    }  # type: ignore[index]
    named = {key for blob in blobs for key in blob.keys}
    assert named, "the stream was too short to have pages"
    assert not named - stored, f"pages are lost: {sorted(named - stored)[:5]}"
    # windows that ended in the last micro-batch, too: it may be played again, and the next one removes them
    expected = {name for blob in blobs for name in blob.in_store}
    assert not roots.keys() - expected, f"windows that nobody has: {sorted(roots.keys() - expected)[:5]}"
    assert not expected - roots.keys(), f"windows without a root: {sorted(expected - roots.keys())[:5]}"
    for blob in blobs:
        for name, version in blob.versions.items():
            assert name in roots or not list(version.keys(name))
    for name, root in roots.items():
        # one that some attempt published, maybe some micro-batches ago, and the one that it was made from
        assert len(root.attempts) <= 1
        assert len(root.versions) <= 1
        named |= {key for old in root.retained for key in old.keys(name)}
    assert stored <= named, f"pages that nobody needs: {sorted(stored - named)[:5]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--store", default="redis", help="redis, rocksdb, or the URL of the driver's store")
    parser.add_argument("--sink", choices=get_args(Sink), default="file")
    parser.add_argument("--directory", type=Path, help="run the driver in it")
    arguments = parser.parse_args()
    if arguments.directory is not None:
        drive(arguments.directory, arguments.store, arguments.sink)
        return
    sys.path.append(str(Path(__file__).parents[1]))
    import servers

    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if arguments.store == "redis":
            url = stack.enter_context(servers.redis_server(directory / "redis")).url
        else:
            url = f"rocksdb://{directory / 'stream' / 'windows'}"
        trial = Trial(
            directory / "stream",
            url,
            arguments.kills,
            arguments.seed,
            arguments.sink,
            tell=lambda text: print(text, flush=True),
        )
        trial.run()
        kinds = Counter("in a batch" if each.begun > each.done else "between" for each in trial.killed)
        print(
            f"{len(trial.killed)} kills ({dict(kinds)}), {trial.runs} runs: exact, and nothing left over; "
            f"{trial.segments} segments; "
            f"Spark forgot {trial.forgotten} of {len(trial.killed) * 2 + 1} watermarks"
        )


if __name__ == "__main__":
    main()
