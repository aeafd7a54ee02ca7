from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stores import (
    Conflict,
    StoreConfigError,
    UnknownStore,
    open_store,
    page_key,
    page_prefix,
    pages_of,
    parse_page_key,
)
from stores.names import escape_name, unescape_name
from stores.redis import RedisStore
from stores.redis.location import read_location
from stores.urls import parse_bool

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@pytest.mark.parametrize("url", ["sqlite:///x", "localhost:6379", "", "/tmp/dir"])
def test_unknown_schemes_name_the_known_ones(url: str) -> None:
    with pytest.raises(UnknownStore, match="memory, rocksdb, redis"):
        open_store(url)
    with pytest.raises(ValueError, match="no store for the scheme"):
        open_store(url)


def test_a_path_is_not_a_url(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="must be a str"):
        open_store(tmp_path)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("memory:", {"speed": 1}),
        ("memory:?speed=1", {}),
        ("redis://host", {"speed": 1}),
        ("rocksdb:///x?speed=1", {}),
    ],
)
def test_unknown_options_name_the_known_ones(url: str, options: dict[str, Any]) -> None:
    with pytest.raises(
        StoreConfigError, match=r"unknown option speed .*known: .*(max_tries|patience|read_only)"
    ):
        open_store(url, **options)


def test_options_in_the_url() -> None:
    store = open_store("redis://host:1/?max_tries=3&socket_timeout=0.5&allow_eviction=true", max_tries=4)
    assert store._options == {"max_tries": 4, "socket_timeout": 0.5, "allow_eviction": True}
    for query in ("max_tries=many", "allow_eviction=perhaps"):
        with pytest.raises(StoreConfigError, match=query.partition("=")[0]):
            open_store(f"redis://host/?{query}")


HOSTILE = [
    None,
    True,
    "",
    "x",
    "nan",
    "-1",
    b"1",
    [],
    {},
    object(),
    float("nan"),
    float("inf"),
    -1,
    10**400,
    1j,
]
#: What some option of Redis may be, of these.
FINE = {str: ["", "x", "nan", "-1"], parse_bool: [True]}


@pytest.mark.parametrize("option", sorted(RedisStore.known_options))
@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: repr(value)[:9])
def test_options_of_any_type_are_checked(option: str, value: Any) -> None:
    if value in FINE.get(RedisStore.known_options[option], []):
        assert open_store("redis://host", **{option: value})._options == {option: value}
        return
    with pytest.raises(StoreConfigError, match=f"option {option} of redis: expected"):
        open_store("redis://host", **{option: value})


@pytest.mark.parametrize("url", ["redis://host", "redis+cluster://host", "couchbase://host", "rocksdb:x"])
@pytest.mark.parametrize("value", [None, "soon", float("inf"), [1]], ids=repr)
def test_a_bad_patience_is_told_by_every_store(url: str, value: Any) -> None:
    with pytest.raises(StoreConfigError, match="patience"):
        open_store(url, patience=value)


def test_a_value_that_may_be_a_secret_is_not_shown() -> None:
    with pytest.raises(
        StoreConfigError, match="option password of redis: expected a str, got bytes"
    ) as caught:
        open_store("redis://host", password=b"hunter2")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "rocksdb://dir/sub",
        "rocksdb:",
        "rocksdb:///a#b",
        "redis://h:port",
        "redis://h/x",
        "redis+cluster://h/3",
        "redis:h/0",
        "redis:6379",
        "redis://h:0",
        "redis://h/-1",
        "redis://h/1/2",
        "redis+sentinel://h",
        "redis+sentinel://h/service/0/1",
        "redis+cluster://h,,h",
        f"redis://{'h' * 64}",
        "redis://h\0",
        "redis://..",
    ],
)
def test_malformed_urls(url: str) -> None:
    with pytest.raises(StoreConfigError):
        open_store(url)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    for name in [name for name in sys.modules if name.startswith("stores.redis")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(StoreConfigError, match=r"pip install 'mta-windows\[redis\]'"):
        open_store("redis://host")


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("redis://user:hunter2@host:6379/0", {}),
        ("redis://:hunter2@host", {}),
        ("redis://host?password=hunter2", {}),
        ("rediss://host", {"password": "hunter2"}),
        ("redis+cluster://a:hunter2@host:7000", {}),
        ("valkey+sentinel://a:hunter2@host,[::1]:7001/service/3", {}),
        ("redis+sentinel://host/service", {"password": "hunter2"}),
    ],
)
def test_passwords_are_not_shown_but_travel(url: str, options: dict[str, Any]) -> None:
    store = open_store(url, **options)
    assert "hunter2" not in f"{store} {store!r} {store.url}"
    assert "host" in store.url
    travelled = pickle.loads(pickle.dumps(store))
    assert travelled._client._settings.login == store._client._settings.login  # type: ignore[attr-defined]
    assert travelled._client._settings.login["password"] == "hunter2"


SECRETS = [
    *(f"//:hun{breaker}ter2@host" for breaker in "/?#[@:% \\"),
    "//:hun@ter2/@host",
    "//user:hunter2@host:port/0",
    "//user:hunter2@host:99999",
    "//user:hunter2@host/0/1/2",
    "//user:hunter2@host,/0",
    "//user:hunter2@",
    "//user:hunter2",
    "//host&password=hunter2",
    "//host/0&password=hunter2",
    "//host/0;password=hunter2",
    "//host:6379;password=hunter2",
    "//host,password=hunter2",
    "user:hunter2@host/0",
    ":hunter2@host/0",
    "/user:hunter2@host/0",
    "user:hun/ter2@host",
    "///user:hunter2@host/0",
]


SCHEMES = [
    "redis",
    "rediss",
    "redis+cluster",
    "valkey+sentinel",
    "couchbase",
    "rocksdb",
    "memory",
    "http",
    "",
]


def may_be_a_name(scheme: str, rest: str) -> bool:
    """Whether this is a directory or a name like any other, or what Couchbase takes for a host."""
    if scheme in ("rocksdb", "memory"):
        return "@" not in rest or rest.lstrip("/") != rest.removeprefix("//")
    return scheme == "couchbase" and "@" not in rest


@pytest.mark.parametrize(
    "url",
    [
        f"{scheme}:{rest}"
        for scheme in [*SCHEMES, "]x"]
        for rest in SECRETS
        if not may_be_a_name(scheme, rest)
    ],
)
def test_no_malformed_url_shows_its_password(url: str) -> None:
    try:
        store = open_store(url)
        shown = f"{store} {store!r} {store.url}"
    except (StoreConfigError, UnknownStore) as error:
        shown = f"{error} {error!r} {error.__cause__}"
    assert "ter2" not in shown


@pytest.mark.parametrize(
    ("url", "addresses"),
    [
        ("redis://", [("localhost", 6379)]),
        ("redis:///3", [("localhost", 6379)]),
        ("valkey://[::1]:7000/1", [("::1", 7000)]),
        ("redis+cluster://a,b:7001,c/0", [("a", 6379), ("b", 7001), ("c", 6379)]),
        ("redis+sentinel://u:p@a,b:7001/service/2", [("a", 26379), ("b", 7001)]),
    ],
)
def test_several_hosts(url: str, addresses: list[tuple[str, int]]) -> None:
    assert read_location(url).addresses == addresses


@pytest.mark.parametrize("scheme", ["redis", "valkey"])
def test_several_hosts_need_a_scheme_that_says_what_they_are(scheme: str) -> None:
    with pytest.raises(StoreConfigError, match=rf"{scheme}\+cluster:// or {scheme}\+sentinel://"):
        open_store(f"{scheme}://a,b")


def test_users_and_passwords_come_from_the_environment_of_the_product(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("REDIS_PASSWORD", "of-redis")
    monkeypatch.setenv("VALKEY_PASSWORD", "of-valkey")
    for scheme, password in (
        ("rediss", "of-redis"),
        ("valkey", "of-valkey"),
        ("valkeys+cluster", "of-valkey"),
    ):
        assert open_store(f"{scheme}://h")._client._settings.login["password"] == password  # type: ignore[attr-defined]


def test_conflict_pickles() -> None:
    assert pickle.loads(pickle.dumps(Conflict("name"))).name == "name"


@given(names, st.integers(0, 2**64 - 1), st.integers(0, 255), st.integers(0, 2**64 - 1))
def test_page_keys_parse_back(name: str, epoch: int, tier: int, number: int) -> None:
    assert parse_page_key(page_key(page_prefix(name, epoch, tier), number)) == (name, epoch, tier, number)
    assert unescape_name(escape_name(name)) == name


@given(names, names)
def test_windows_share_no_prefix(one: str, other: str) -> None:
    assert (one == other) == pages_of(one).startswith(pages_of(other))


@given(st.integers(0, 2**64 - 2))
def test_keys_sort_as_their_numbers(number: int) -> None:
    assert page_key("p", number) < page_key("p", number + 1)


@pytest.mark.parametrize("key", ["", "name", "{a}:0:0:0", page_key(page_prefix("a", 1, 0), 1) + "0"])
def test_other_keys_do_not_parse(key: str) -> None:
    with pytest.raises(ValueError, match="not a page key"):
        parse_page_key(key)


@pytest.mark.parametrize(("epoch", "tier"), [(-1, 0), (2**64, 0), (0, 256), (0, -1)])
def test_epoch_and_tier_have_limits(epoch: int, tier: int) -> None:
    with pytest.raises(ValueError, match="epoch must fit"):
        page_prefix("name", epoch, tier)
