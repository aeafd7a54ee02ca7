"""`dir(window)` shows what a user may call, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from mta import AmortizedMTA, LogMTA, Roller, monoids
from stores import open_store

CALLS = {
    *("push", "insert", "extend", "slide"),
    *("query", "range_query", "oldest", "youngest"),
    *("evict", "evict_until", "enforce"),
    *("at", "checkpoint", "open", "restore", "close", "offset", "version"),
    *("monoid", "policy", "nulls", "store", "name", "page_size", "pages_read"),
}


@pytest.mark.parametrize("kind", [LogMTA, AmortizedMTA])
@pytest.mark.parametrize("url", [None, "memory:"])
def test_a_window_shows_what_users_may_call(kind: Any, url: str | None) -> None:
    store = None if url is None else open_store(url)
    with kind(monoids.Sum(), store=store) as window:
        assert {name for name in dir(window) if not name.startswith("_")} == CALLS
        assert all(getattr(type(window), name).__doc__ for name in CALLS)


def test_a_roller_shows_what_users_may_call() -> None:
    with Roller(aggregates={"n": monoids.Count()}) as roller:
        assert {name for name in dir(roller) if not name.startswith("_")} == {"append", "close"}
        assert all(getattr(Roller, name).__doc__ for name in ("append", "close", "__len__"))
