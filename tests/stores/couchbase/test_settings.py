from __future__ import annotations

import pickle
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from couchbase_inside import collection, connected

from stores import StoreConfigError, StoreUnavailable, open_store

pytest.importorskip("couchbase")

import couchbase.exceptions as cb
from couchbase.durability import DurabilityLevel

from stores.couchbase import connection
from stores.couchbase.documents import Documents

pytestmark = pytest.mark.couchbase


# URLs and options


class Recorder:
    """Stands for the client's Cluster."""

    def __init__(self, servers: str, options: Any) -> None:
        self.servers = servers
        self.options = options

    def bucket(self, name: str) -> Recorder:
        self.bucket_name = name
        return self

    def scope(self, name: str) -> Recorder:
        self.scope_name = name
        return self

    def collection(self, name: str) -> Recorder:
        self.collection_name = name
        return self

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("url", "options", "expected"),
    [
        ("couchbase://", {}, ("couchbase://localhost", "", "", "default", "_default", "_default")),
        ("couchbase://a:b@h/win", {}, ("couchbase://h", "a", "b", "win", "_default", "_default")),
        (
            "couchbases://a:b%40%2Fc@h:1,i:2/",
            {},
            ("couchbases://h:1,i:2", "a", "b@/c", "default", *["_default"] * 2),
        ),
        ("couchbase://[::1]:3/w?scope=s&collection=c", {}, ("couchbase://[::1]:3", "", "", "w", "s", "c")),
        (
            "couchbase://a:b@h/w",
            {"username": "x", "password": "y", "scope": "s"},
            ("couchbase://h", "x", "y", "w", "s", "_default"),
        ),
    ],
)
def test_urls(
    url: str, options: dict[str, Any], expected: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "Cluster", Recorder)
    for variable in ("COUCHBASE_USERNAME", "COUCHBASE_PASSWORD"):
        monkeypatch.delenv(variable, raising=False)
    store: Any = open_store(url, **options)
    cluster = connected(store).cluster
    login = cluster.options["authenticator"].as_dict()
    assert expected == (
        cluster.servers,
        login["username"],
        login["password"],
        cluster.bucket_name,
        cluster.scope_name,
        cluster.collection_name,
    )


def test_credentials_come_from_the_environment_and_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUCHBASE_USERNAME", "me")
    monkeypatch.setenv("COUCHBASE_PASSWORD", "hunter2")
    stores = [
        open_store("couchbase://host/w"),
        open_store("couchbase://me:hunter2@host/w"),
        open_store("couchbase://host?password=hunter2"),
        open_store("couchbase://me:hunter2@host:1,other:2/w"),
    ]
    for store in stores:
        assert "hunter2" not in f"{store} {store!r} {store.url}"
        travelled = pickle.loads(pickle.dumps(store))
        settings = travelled._client.settings  # type: ignore[attr-defined]
        assert (settings.username, settings.password) == ("me", "hunter2")
        assert "hunter2" not in repr(settings)


def test_timeouts_are_explicit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "Cluster", Recorder)
    store: Any = open_store(
        "couchbase://h?timeout=0.5&connect_timeout=3&network=external&ssl_ca_certs=/ca.pem"
    )
    options = connected(store).cluster.options
    times = {name: value.total_seconds() for name, value in options.items() if isinstance(value, timedelta)}
    assert times == {
        "bootstrap_timeout": 3,
        "connect_timeout": 3,
        "resolve_timeout": 3,
        "kv_timeout": 0.5,
        "kv_durable_timeout": 0.5,
    }
    assert options["network"] == "external"
    assert options["authenticator"].as_dict()["trust_store_path"] == "/ca.pem"


@pytest.mark.parametrize(
    "url",
    [
        "couchbase://h/a/b",
        "couchbase://h:port",
        "couchbase://h,/b",
        "couchbase://h?max_tries=0",
        "couchbase://h?backoff=-1",
        "couchbase://h?timeout=0",
        "couchbase://h?ttl=-1",
        "couchbase://h?durability=often",
        "couchbase://h?patience=0",
        "couchbase://h?patience=inf",
        "couchbase://h?connect_timeout=nan",
    ],
)
def test_malformed_urls(url: str) -> None:
    with pytest.raises(StoreConfigError):
        open_store(url)


@pytest.mark.parametrize("level", ["majority", "majority_and_persist_to_active", "persist_to_majority"])
def test_durability_is_asked_of_every_write(
    couchbase_url: str, name: str, keys: list[str], monkeypatch: pytest.MonkeyPatch, level: str
) -> None:
    """The mock knows no durable writes, so they are sent without."""
    seen = []
    with open_store(couchbase_url, durability=level) as store:
        for call in ("upsert_multi", "remove_multi", "insert", "replace", "remove"):

            def send(operation: Any, call: str, *arguments: Any) -> Any:
                assert arguments[-1].pop("durability").level is DurabilityLevel[level.upper()]
                seen.append(call)
                return operation(*arguments)

            operation = getattr(collection(store), call)
            monkeypatch.setattr(collection(store), call, partial(send, operation, call))
        monkeypatch.setattr(Documents, "append", lambda *_: None)
        store.put_many({keys[0]: b"x"})
        store.delete_many(keys)
        token = store.swap_root(name, b"x", store.swap_root(name, b"x", None))
        store.delete_root(name, token)
    assert seen == ["upsert_multi", "remove_multi", "insert", "replace", "remove"]


def test_too_few_nodes_for_durability_are_told(
    couchbase_url: str, keys: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(couchbase_url, durability="majority", max_tries=2, backoff=0) as store:

        def impossible(items: Any, *_: Any) -> Any:
            return SimpleNamespace(
                results={}, exceptions=dict.fromkeys(items, cb.DurabilityImpossibleException())
            )

        monkeypatch.setattr(Documents, "append", lambda *_: None)
        monkeypatch.setattr(collection(store), "upsert_multi", impossible)
        with pytest.raises(StoreUnavailable, match=r"durability=majority.*2 tries"):
            store.put_many({keys[0]: b"x"})
