"""What becomes of a job on a cluster when executors and workers die, and when two attempts write at once."""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import servers
from cluster import Attempt, Cluster, Driver, Job, has_ended, spark_cluster, wait_until

from mta.durability.operations import collect
from stores import Store, StoreError, open_store, pages_of, parse_page_key

#: Two keys, which Spark hashes to different partitions, and two rows of each at a time.
KEYS, ROWS, ROWS_A_TIME, WINDOW, PAGE_SIZE = [1, 2], 220_000, 4, 10_000, 64

#: Pages; a window has three times as many.
MANY = 100

#: Two rows of the first key and one of the second, behind more rows than a chunk has.
GATE, LATER_GATE, OTHER_GATE = 80_000, 200_000, 80_001


pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with spark_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def driver(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    driver = Driver(cluster, tmp_path_factory.mktemp("driver"))
    try:
        cluster.wait_for_workers()
        yield driver
    finally:
        driver.stop()


@pytest.fixture(scope="module")
def expected() -> pa.Table:
    """Every row with the aggregates of its window, by other means."""
    ids = np.arange(ROWS)
    columns = {
        "k": np.array(KEYS)[ids % len(KEYS)],
        "o": ids // ROWS_A_TIME,
        "x": ids * 7919 % 10007,
        "r": ids,
        **{name: np.empty(ROWS, dtype=np.int64) for name in ("total", "peak", "n", "rows")},
    }
    for key in KEYS:
        mine = np.flatnonzero(columns["k"] == key)
        times, x = columns["o"][mine], columns["x"][mine]
        starts = np.searchsorted(times, times - WINDOW, "left")
        stops = np.searchsorted(times, times, "right")
        for name, values in (("total", x), ("rows", mine)):
            sums = np.concatenate([[0], np.cumsum(values)])
            columns[name][mine] = sums[stops] - sums[starts]
        columns["n"][mine] = stops - starts
        columns["peak"][mine] = maxima(x, starts, stops)
    return pa.table(columns)


def maxima(values: Any, starts: Any, stops: Any) -> Any:
    """The maximum of each range: of two ranges of a power of two that cover it."""
    found = np.empty_like(values)
    powers = np.log2(stops - starts).astype(int)
    of_ranges = values
    for power in range(powers.max() + 1):
        here = powers == power
        found[here] = np.maximum(of_ranges[starts[here]], of_ranges[stops[here] - 2**power])
        of_ranges = np.maximum(of_ranges[: -(2**power)], of_ranges[2**power :])
    return found


class Embedded:
    """Embedded stores, which the next tasks on their hosts clear away."""

    url = "rocksdb"

    def __init__(self, driver: Driver, cluster: Cluster) -> None:
        self._driver, self._cluster = driver, cluster

    def pages(self, attempt: Attempt) -> list[str]:
        """Keys of the pages that an attempt has written and not deleted."""
        with tempfile.TemporaryDirectory() as copy, suppress(OSError, StoreError):  # files may go meanwhile
            for directory in self._cluster.embedded(attempt.pid):
                shutil.copytree(directory, copy, dirs_exist_ok=True)
            with open_store(f"rocksdb://{copy}") as opened:
                return list(opened.list_keys(""))
        return []

    def clear(self) -> None:
        """Runs a task on each host."""
        job = submit(self._driver, self.url, 0, 1, rows=1000)
        assert job.waiting(0).executor != job.waiting(1).executor
        job.open(0)
        job.open(1)
        job.answer()

    def left(self, attempt: Attempt | None = None) -> list[Any]:
        """What there is of one attempt, or of all."""
        return list(self._cluster.embedded("*" if attempt is None else attempt.pid))


class Redis:
    """A Redis, which `mta gc` clears."""

    def __init__(self, url: str, opened: Store, driver: Driver) -> None:
        self.url, self._store, self._driver = url, opened, driver

    def pages(self, attempt: Attempt) -> list[str]:
        names = self._store.list_roots(self._names(attempt))
        return [key for name in names for key in self._store.list_keys(pages_of(name))]

    def clear(self) -> None:
        collect(self._store)

    def left(self, attempt: Attempt | None = None) -> list[Any]:
        names = self._names(attempt)
        return [*self._store.list_roots(names), *self._store.list_keys(f"{{{names}")]

    def _names(self, attempt: Attempt | None) -> str:
        return f"spark/{self._driver.application}/" + ("" if attempt is None else f"{attempt.window}/")


@pytest.fixture(params=["rocksdb", pytest.param("redis", marks=pytest.mark.redis)])
def store(request: pytest.FixtureRequest, driver: Driver, cluster: Cluster) -> Iterator[Embedded | Redis]:
    if request.param == "rocksdb":
        yield Embedded(driver, cluster)
        return
    url = request.getfixturevalue("redis_url")
    with open_store(url) as opened:
        yield Redis(url, opened, driver)


def submit(driver: Driver, url: str, *gates: int, rows: int = ROWS, speculation: bool = False) -> Job:
    return driver.submit(
        store=url,
        gates=gates,
        speculation=speculation,
        rows=rows,
        keys=KEYS,
        rows_a_time=ROWS_A_TIME,
        window=WINDOW,
        page_size=PAGE_SIZE,
    )


def check_rows(job: Job, expected: pa.Table) -> None:
    found = pq.read_table(job.answer()["path"]).sort_by("r").cast(expected.schema)
    assert found.num_rows == ROWS
    assert [name for name in expected.column_names if found[name] != expected[name]] == []


def ends(driver: Driver, attempt: Attempt) -> list[str]:
    """Why an attempt ended, as Spark sees it."""
    return [
        event["Task End Reason"]["Reason"]
        for event in driver.events()
        if event["Event"] == "SparkListenerTaskEnd" and event["Task Info"]["Task ID"] == attempt.task
    ]


def check_cleared(store: Embedded | Redis, killed: Attempt) -> None:
    """Nothing is left of an attempt that is dead; nor of others, which Spark may be about to kill."""
    store.clear()
    assert store.left(killed) == []

    def is_empty() -> bool:
        store.clear()
        return not store.left()

    # less than an idle Python worker lives, with whose end it would get by without any cleaning up
    wait_until(lambda: not store.left() or is_empty(), "an empty store", seconds=50)


def speculative(driver: Driver) -> list[int]:
    """Tasks that Spark started because an attempt before them was slow."""
    return [
        event["Task Info"]["Task ID"]
        for event in driver.events()
        if event["Event"] == "SparkListenerTaskStart" and event["Task Info"]["Speculative"]
    ]


def have_written(store: Embedded | Redis, *attempts: Attempt, beyond: int = 0) -> int:
    """Waits until each attempt has many pages, which begin behind a number; the last number of them all."""

    def last(attempt: Attempt) -> int:
        numbers = [parse_page_key(key).number for key in store.pages(attempt)]
        return max(numbers) if len(numbers) > MANY else 0

    for attempt in attempts:
        wait_until(partial(lambda attempt: last(attempt) > beyond, attempt), "pages")
    return max(map(last, attempts))


@pytest.mark.parametrize(
    ("victim", "reason"), [("executor", "ExecutorLostFailure"), ("worker", "ExceptionFailure")]
)
def test_a_process_is_killed(
    driver: Driver, store: Embedded | Redis, expected: pa.Table, victim: str, reason: str
) -> None:
    """An executor, or the Python worker of a task, while the tasks of both executors write."""
    job = submit(driver, store.url, GATE, OTHER_GATE)
    killed, other = job.waiting(GATE), job.waiting(OTHER_GATE)
    assert killed.executor != other.executor
    have_written(store, killed, other)
    getattr(killed, victim).kill()
    # it goes with its executor
    wait_until(lambda: has_ended(killed.worker), "the end of the worker")
    if victim == "executor":  # whose Python worker lives long enough to clear up
        assert store.pages(killed) == []
    job.open(GATE)
    job.open(OTHER_GATE)
    check_rows(job, expected)
    assert ends(driver, killed) == [reason]
    check_cleared(store, killed)


def test_two_attempts_write_at_once(driver: Driver, store: Embedded | Redis, expected: pa.Table) -> None:
    """The first one hangs, a second one is made and is sooner done, and Spark kills the first."""
    job = submit(driver, store.url, GATE, LATER_GATE, speculation=True)
    first, second = job.waiting(GATE, 0), job.waiting(GATE, 1)
    assert first.executor != second.executor
    assert first.window.rpartition(".")[0] == second.window.rpartition(".")[0]  # stage and partition
    written = have_written(store, first, second)
    job.open(GATE)
    # neither goes on from here before the other one is here, too
    job.waiting(LATER_GATE, 0)
    job.waiting(LATER_GATE, 1)
    have_written(store, first, second, beyond=written)
    job.open(LATER_GATE, attempt=1)
    check_rows(job, expected)
    wait_until(lambda: has_ended(first.worker), "the end of the first attempt")
    assert len(store.pages(first)) > MANY
    assert second.task in speculative(driver)
    assert ends(driver, second) == ["Success"]
    check_cleared(store, first)


def test_stores_that_no_executor_could_use(driver: Driver) -> None:
    """They are refused on the driver, before there is a job."""

    def jobs() -> int:
        return sum(event["Event"] == "SparkListenerJobStart" for event in driver.events())

    submit(driver, "rocksdb", rows=10).answer()
    before = jobs()
    refused = submit(driver, "memory:").answer()
    assert refused["error"] == "StoreNotUsable"
    assert refused["message"].startswith('store="memory:" keeps every window in the memory of a worker, and')
    assert "several executors" in refused["message"]
    assert refused["seconds"] < 10
    if importlib.util.find_spec("redis") is not None:
        url = f"redis://127.0.0.1:{servers.free_port()}/0"
        refused = submit(driver, url).answer()
        assert refused["error"] == "StoreNotUsable"
        assert refused["message"].startswith(f"the driver cannot use the store {url}")
        assert refused["seconds"] < 10
    assert 0 < jobs() == before


def test_the_driver_is_killed(driver: Driver, cluster: Cluster) -> None:
    """Its executors end, and what they had written goes with their directories."""
    store = Embedded(driver, cluster)
    attempt = submit(driver, store.url, GATE).waiting(GATE)
    have_written(store, attempt)
    driver.process.kill()
    wait_until(lambda: has_ended(attempt.worker), "the end of the worker")
    wait_until(lambda: not store.left(), "the end of the directories")
