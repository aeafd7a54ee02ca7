"""What every store does when many threads use it at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from stores.base import Store, Token
from stores.errors import Conflict
from stores.names import page_key, page_prefix
from stores.testing.fixtures import Fixtures


class ThreadsContract(Fixtures):
    def test_one_of_two_racing_swaps_wins(self, store: Store, name: str) -> None:
        start = threading.Barrier(2)
        token: Token | None = None

        def swap(data: bytes) -> Token | None:
            start.wait()
            try:
                return store.swap_root(name, data, token)
            except Conflict:
                return None

        with ThreadPoolExecutor(2) as threads:
            for _ in range(30):
                won = [each for each in threads.map(swap, (b"a", b"b")) if each is not None]
                assert len(won) == 1
                token = won[0]

    def test_swaps_from_many_threads_lose_nothing(self, store: Store, name: str) -> None:
        store.swap_root(name, b"0", None)

        def add_ten(_: int) -> None:
            added = 0
            while added < 10:
                current = store.read_root(name)
                assert current is not None
                try:
                    store.swap_root(name, b"%d" % (int(current[0]) + 1), current[1])
                    added += 1
                except Conflict:
                    pass

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(add_ten, range(4)))
        current = store.read_root(name)
        assert current is not None
        assert current[0] == b"40"

    def test_many_threads_put_get_and_delete(self, store: Store, name: str) -> None:
        def work(tier: int) -> None:
            prefix = page_prefix(name, 1, tier)
            for index in range(30):
                key = page_key(prefix, index)
                store.put_many({key: b"%d" % index * 1000})
                assert store.get_many([key, page_key(prefix, index + 1)]) == [b"%d" % index * 1000, None]
            store.delete_range(prefix, 0, 29)
            assert list(store.list_keys(prefix)) == [page_key(prefix, 29)]

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(work, range(8)))
