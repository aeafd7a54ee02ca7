from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from couchbase_inside import collection, connected

from stores import Store, StoreClosed, StoreError, open_store, page_key, page_prefix, pages_of
from stores.testing import StoreContract

pytest.importorskip("couchbase")

from couchbase.options import UpsertOptions
from couchbase.transcoder import JSONTranscoder, RawStringTranscoder

from stores.couchbase import document_names as documents
from stores.couchbase.list_lines import list_of

pytestmark = pytest.mark.couchbase

LIMIT = 20 << 20
ROOT = Path(__file__).parents[3]


class TestCouchbase(StoreContract):
    @pytest.fixture
    def store(self, couchbase_url: str) -> Iterator[Store]:
        with open_store(couchbase_url, patience=100, timeout=50) as store:
            yield store


# Limits


def test_a_root_fits_in_a_document(store: Any, name: str) -> None:
    with pytest.raises(StoreError, match=f"root '{name}'.*{LIMIT + 16} bytes"):
        store.swap_root(name, bytes(LIMIT), None)
    assert store.read_root(name) is None
    token = store.swap_root(name, bytes(LIMIT - 16), None)
    store.delete_root(name, token)


def test_the_longest_key_is_within_246_bytes(store: Any) -> None:
    key = page_key(page_prefix("x" * 200, 1, 0), 0)
    assert len(documents.page(key)) <= len(documents.page("k" * 240)) == 246
    store.put_many({"k" * 240: b"x"})
    assert store.get_many(["k" * 240]) == [b"x"]
    store.delete_many(["k" * 240])


def test_nul_in_a_key_is_refused(store: Any, keys: list[str]) -> None:
    calls: list[Callable[[], object]] = [
        lambda: store.put_many({keys[0]: b"x", "a\0b": b"x"}),
        lambda: store.get_many(["a\0b"]),
        lambda: store.delete_many(["a\0b"]),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="NUL"):
            call()
    assert store.get_many(keys[:1]) == [None]
    assert list(store.list_keys("a\0")) == []


def test_pages_expire_only_with_a_time_to_live(couchbase_url: str, name: str, keys: list[str]) -> None:
    with open_store(couchbase_url) as lasting, open_store(couchbase_url, ttl=0.2) as passing:
        lasting.put_many({keys[0]: b"x"})
        passing.put_many({keys[1]: b"x"})
        token = passing.swap_root(name, b"root", None)
        assert passing.get_many(keys[:2]) == [b"x", b"x"]
        deadline = time.monotonic() + 300
        while passing.get_many(keys[1:2]) != [None]:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert lasting.get_many(keys[:2]) == [b"x", None]
        assert passing.read_root(name) == (b"root", token)
        assert set(lasting.list_keys(pages_of(name))) == {keys[0]}


# Processes and threads

FORKS = """
import os, sys, time
from stores import open_store
store = open_store(sys.argv[1])
store.put_many({"forks": b"x"})
parents = store._client.connector.connected
for grandchildren in (0, 1):
    child = os.fork()
    if not child:
        assert store.get_many(["forks"]) == [b"x"]
        assert store._client.connector.connected is not parents
        if grandchildren:
            grandchild = os.fork()
            if not grandchild:
                assert store.get_many(["forks"]) == [b"x"]
                sys.exit(0)
            assert os.waitpid(grandchild, 0)[1] == 0
            assert store.get_many(["forks"]) == [b"x"]
            store.close()
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
unused = os.fork()
if not unused:
    del store, parents
    sys.exit(0)
assert os.waitpid(unused, 0)[1] == 0
assert store.get_many(["forks"]) == [b"x"]
store.close()
print("done")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_forked_children_come_to_their_end(couchbase_url: str) -> None:
    """A child that exits as usual frees what it has; what the client made in the parent must not be freed."""
    run = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKS, couchbase_url],
        cwd=ROOT,
        capture_output=True,
        timeout=300,
        check=False,
        text=True,
    )
    assert (run.returncode, run.stdout) == (0, "done\n"), run.stderr


def test_threads_share_one_connection(couchbase_url: str) -> None:
    with open_store(couchbase_url) as store, ThreadPoolExecutor(8) as threads:
        assert store._client.connector.connected is None  # type: ignore[attr-defined]
        list(threads.map(lambda _: store.get_many(["key"]), range(16)))
        assert len(set(threads.map(lambda _: id(collection(store)), range(16)))) == 1


def test_a_store_closed_in_the_middle_of_a_call_says_so(store: Any, keys: list[str]) -> None:
    get_multi = collection(store).get_multi

    def closed(*arguments: Any) -> Any:
        store.close()
        return get_multi(*arguments)

    collection(store).get_multi = closed
    with pytest.raises(StoreClosed):
        store.get_many(keys)


# What somebody else wrote


def test_documents_of_another_kind_are_given_as_bytes(store: Any, name: str, keys: list[str]) -> None:
    """JSON or text where a page should be is for the reader of the page to refuse, and stops no other."""
    for number, transcoder in enumerate((JSONTranscoder(), RawStringTranscoder())):
        options = UpsertOptions(transcoder=transcoder)
        collection(store).upsert(documents.page(keys[number]), "text", options)
        collection(store).upsert(documents.root(f"{name}{number}"), "text", options)
    store.put_many({keys[2]: b"x"})
    assert store.get_many(keys[:3]) == [b'"text"', b"text", b"x"]
    for number, data in enumerate((b'"text"', b"text")):
        assert store.read_root(f"{name}{number}") == (b"", data)
        store.swap_root(f"{name}{number}", b"mine", data)
    store.delete_many(keys)


def test_names_that_nobody_could_have_given_are_not_listed(store: Any, name: str) -> None:
    store.put_many({"probe": b""})
    if connected(store).scans:
        pytest.skip("this server has scans")
    there = ["mta:r:", f"mta:r:{name}{{", f"mta:r:{name}%zz", f"mta:r:{name}" + "x" * 200]
    line = "".join(f'[{int(time.time())}, "{each}"]\n' for each in there).encode()
    for each in there:
        collection(store).upsert(each, b"x" * 20)
    token = store.swap_root(name, b"x", None)
    collection(store).binary().append(list_of(documents.root(name)), line)
    assert list(store.list_roots(name)) == [name]
    assert documents.name_of("mta:r:") is documents.key_of("mta:p:") is None
    store.delete_root(name, token)
