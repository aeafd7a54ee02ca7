"""The examples in docstrings of stores run, and what users import has one."""

from __future__ import annotations

import doctest
import importlib

import pytest

import stores
import stores.testing

#: Module and name of all that has to be shown by an example.
SHOWN = [
    ("stores.schemes", "open_store"),
    ("stores.schemes", "store_class"),
    ("stores.names", "page_prefix"),
    ("stores.wrapper", "WrapperStore"),
    ("stores.wrapper", "LatencyStore"),
    ("stores.wrapper", "CountingStore"),
    ("stores.memory", "MemoryStore"),
    ("stores.rocksdb.store", "RocksDBStore"),
    ("stores.redis.store", "RedisStore"),
    ("stores.couchbase.store", "CouchbaseStore"),
    ("stores.testing.faults", "FaultyStore"),
    ("stores.testing.faults", "LateStore"),
    ("stores.testing.faults", "WriteOnceStore"),
]


@pytest.mark.parametrize(("module", "name"), SHOWN)
def test_example(module: str, name: str) -> None:
    if "couchbase" in module:
        pytest.importorskip("couchbase")
    place = importlib.import_module(module)
    (example,) = doctest.DocTestFinder(recurse=False).find(getattr(place, name), name, globs=vars(place))
    assert example.examples
    found: list[str] = []
    result = doctest.DocTestRunner().run(example, out=found.append)
    assert result.failed == 0, "".join(found)


def test_what_opens_or_wraps_a_store_is_shown() -> None:
    every = {*stores.__all__, *stores.testing.__all__} - {"Store", "UnknownStore", "SlowStore"}
    public = {name for name in every if name.endswith("Store") or name.startswith("open_")}
    assert len(public) >= 7
    assert public <= {name for _, name in SHOWN}
