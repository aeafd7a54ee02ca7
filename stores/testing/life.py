"""How every store is closed, pickled and forked."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from stores.base import Store
from stores.errors import StoreClosed, StoreConfigError
from stores.testing.fixtures import Fixtures


def _read_in_child(store: Store, key: str, results: Any) -> None:
    try:
        results.put(store.get_many([key]))
    except Exception as error:
        results.put(repr(error))


class LifeContract(Fixtures):
    picklable = True
    survives_fork = True
    """Whether a forked child can use the store while its parent has it open."""

    def test_a_closed_store_says_so(self, store: Store, name: str, keys: list[str]) -> None:
        store.put_many({keys[0]: b"x"})
        store.close()
        store.close()
        calls: list[Callable[[], object]] = [
            lambda: store.put_many({keys[0]: b"x"}),
            lambda: store.get_many(keys),
            lambda: store.delete_many(keys),
            lambda: store.delete_range(name, 0, 1),
            lambda: store.list_keys(name),
            lambda: store.read_root(name),
            lambda: store.swap_root(name, b"", None),
            lambda: store.delete_root(name, b""),
            lambda: store.read_roots([name]),
            lambda: store.delete_roots({name: b""}),
            store.list_roots,
        ]
        for call in calls:
            with pytest.raises(StoreClosed) as caught:
                call()
            assert store.url in str(caught.value)

    def test_with_closes(self, store: Store) -> None:
        with store as same:
            assert same is store
        with pytest.raises(StoreClosed):
            store.get_many(["key"])

    def test_repr_names_the_store(self, store: Store) -> None:
        assert store.url in repr(store)

    def test_pickle_gives_the_same_data(self, store: Store, name: str, keys: list[str]) -> None:
        store.put_many({keys[0]: b"x"})
        token = store.swap_root(name, b"root", None)
        if not self.picklable:
            with pytest.raises(StoreConfigError):
                pickle.dumps(store)
            return
        with pickle.loads(pickle.dumps(store)) as other:
            assert type(other) is type(store)
            assert other.url == store.url
            assert other.get_many(keys[:1]) == [b"x"]
            assert other.read_root(name) == (b"root", token)
        with copy.copy(store) as other:
            assert other.get_many(keys[:1]) == [b"x"]
        assert store.get_many(keys[:1]) == [b"x"]

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
    @pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
    def test_a_forked_child_connects_anew(self, store: Store, keys: list[str]) -> None:
        store.put_many({keys[0]: b"x"})
        processes = multiprocessing.get_context("fork")
        results = processes.SimpleQueue()
        child = processes.Process(target=_read_in_child, args=(store, keys[0], results))
        child.start()
        child.join(30)
        assert child.exitcode == 0
        answer = results.get()
        results.close()
        assert answer == [b"x"] if self.survives_fork else "fork" in answer
        assert store.get_many(keys[:1]) == [b"x"]
