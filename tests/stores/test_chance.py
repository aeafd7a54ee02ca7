"""Stores leave the state of the module `random` alone: a program that seeded it gets its own numbers."""

from __future__ import annotations

import random

import pytest
import servers

from stores import Store, StoreUnavailable, open_store


def test_calls_leave_the_programs_chance_alone(any_store: Store) -> None:
    before = random.getstate()
    for number in range(40):
        any_store.put_many([(f"chance/{number}/pages/0", b"page")])
    any_store.get_many(["chance/0/pages/0"])
    any_store.list_keys("chance/")
    any_store.delete_many([f"chance/{number}/pages/0" for number in range(40)])
    assert random.getstate() == before


@pytest.mark.parametrize("scheme", ["redis", "redis+cluster"])
def test_pauses_leave_the_programs_chance_alone(scheme: str) -> None:
    before = random.getstate()
    with (
        pytest.raises(StoreUnavailable),
        open_store(f"{scheme}://127.0.0.1:{servers.free_port()}", patience=0.5) as store,
    ):
        store.get_many(["key"])
    assert random.getstate() == before
