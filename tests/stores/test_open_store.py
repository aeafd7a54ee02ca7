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
from stores.base import escape_name, unescape_name

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
    with pytest.raises(TypeError, match=r"unknown option speed .*known: .*(none|max_tries|patience)"):
        open_store(url, **options)


def test_options_in_the_url() -> None:
    store = open_store("redis://host:1/?max_tries=3&socket_timeout=0.5&allow_eviction=true", max_tries=4)
    assert store._options == {"max_tries": 4, "socket_timeout": 0.5, "allow_eviction": True}
    for query in ("max_tries=many", "allow_eviction=perhaps"):
        with pytest.raises(StoreConfigError, match=query.partition("=")[0]):
            open_store(f"redis://host/?{query}")


@pytest.mark.parametrize(
    "url",
    [
        "rocksdb://dir/sub",
        "rocksdb:",
        "rocksdb:///a#b",
        "redis://h:port",
        "redis://h/x",
        "redis+cluster://h/3",
    ],
)
def test_malformed_urls(url: str) -> None:
    with pytest.raises(StoreConfigError):
        open_store(url)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    monkeypatch.delitem(sys.modules, "stores.redis", raising=False)
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
    ],
)
def test_passwords_are_not_shown_but_travel(url: str, options: dict[str, Any]) -> None:
    store = open_store(url, **options)
    assert "hunter2" not in f"{store} {store!r} {store.url}"
    assert "host" in store.url
    travelled = pickle.loads(pickle.dumps(store))
    assert travelled._credentials == store._credentials  # type: ignore[attr-defined]
    assert travelled._credentials["password"] == "hunter2"


@pytest.mark.parametrize("password", ["hun/ter2", "hun?ter2", "hun#ter2", "hun[ter2", "hun@ter2/"])
def test_a_password_that_breaks_the_url_is_not_shown(password: str) -> None:
    try:
        shown = repr(open_store(f"redis://:{password}@host"))
    except StoreConfigError as error:
        shown = f"{error} {error.__cause__}"
    assert "ter2" not in shown


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
