"""A table of keys is saved and loaded under a writer's hold of either kind, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Any
from unittest import mock

import msgpack
import numpy as np
import pytest

from mta import Fenced
from mta.durability.attempts import AttemptHold
from mta.durability.coding import decode_root
from mta.durability.manifest import DOCUMENTS, Version
from mta.durability.operations import collect_window
from mta.durability.ownership import Ownership
from mta.errors import PageCorrupt, PagesLost
from mta.keyed import segments, table
from mta.keyed.block import DIGEST, Block, Shape, digests_of
from mta.keyed.documents import Documents, Hold, SavedDocuments
from mta.keyed.table import KeyTable, SavedTable
from mta.monoids.base import Array
from stores import Store, open_store, parse_page_key

SHAPE = Shape(whole=True, timed=True, programs=((("x", np.dtype(np.float64)),), (("s", np.dtype(object)),)))
KEYS = 300

#: Makes the hold of one session, by its number, which goes on from a version.
Session = Callable[[Store, int], Callable[[str, int, Version | None], Hold]]


def attempt(store: Store, number: int) -> Callable[[str, int, Version | None], Hold]:
    def make_hold(name: str, page_size: int, base: Version | None) -> Hold:
        return AttemptHold(store, name, page_size, base, batch=number, run="run", lease=60)

    return make_hold


def ownership(store: Store, number: int) -> Callable[[str, int, Version | None], Hold]:  # noqa: ARG001
    def make_hold(name: str, page_size: int, base: Version | None) -> Hold:
        if base is None:
            return Ownership(store, name, page_size, retain=1)
        hold = Ownership.find(store, name, base.number, lambda _: None, retain=1)
        assert hold.take_over() == base
        return hold

    return make_hold


@pytest.fixture
def store() -> Iterator[Store]:
    with (
        open_store("memory:") as opened,
        mock.patch.object(table, "INLINE", 200),
        mock.patch.object(segments, "DENSE_BYTES", 400),
    ):
        yield opened


def digests(keys: Array) -> Array:
    return digests_of(b"".join(sorted(blake2b(bytes([key % 256, key // 256]), digest_size=DIGEST).digest()
                                      for key in keys.tolist())))  # fmt: skip


def block_of(keys: Array, number: int) -> Block:
    """Keys with as many rows as their place says, which tell by whom they were put."""
    count = len(keys)
    counts = np.arange(count) % 4
    rows = int(counts.sum())
    youngest = np.full(count, number)
    return Block(
        digests(keys), youngest, np.zeros(count, dtype=np.int64), counts, np.full(rows, number),
        [{"x": np.arange(rows) / 4}, {"s": [f"{number}: {row}" for row in range(rows)]}],
        np.full(count, None, dtype=object),
    )  # fmt: skip


def saved(documents: Documents, keys: KeyTable, number: int) -> list[Any]:
    """What a state keeps, as it comes back from bytes."""
    state = [keys.save(None), documents.save(number, keys.ranges)]
    found: list[Any] = msgpack.unpackb(msgpack.packb(state))
    return found


def opened(store: Store, session: Session, number: int, state: list[Any]) -> tuple[Documents, KeyTable]:
    documents = Documents("cards", store, session(store, number), SavedDocuments.decode(state[1]))
    return documents, KeyTable(SHAPE, documents, SavedTable.decode(state[0]), None, by_clock=False)


EMPTY = msgpack.unpackb(msgpack.packb([SavedTable(), SavedDocuments()]))


@pytest.mark.parametrize("session", [attempt, ownership])
def test_a_table_is_saved_and_loaded(store: Store, session: Session) -> None:
    rng = np.random.default_rng(5)
    state, expected = EMPTY, dict[bytes, int]()
    for number in range(1, 8):
        documents, keys = opened(store, session, number, state)
        # each session goes on from the state of the one before, so nobody goes back behind that
        documents.clear()
        come = np.arange(KEYS) if number == 1 else rng.choice(KEYS, 20, replace=False)
        block = block_of(come, number)
        keys.load(block.digests)
        assert set(block.digests.tolist()) & expected.keys() <= set(keys.block.digests.tolist())
        keys.put(block)
        expected |= dict.fromkeys(block.digests.tolist(), number)
        state = saved(documents, keys, number)
        assert state[0][1] is not None
    _, keys = opened(store, session, 8, state)
    keys.load(digests(np.arange(KEYS)))
    assert dict(zip(keys.block.digests.tolist(), keys.block.youngest.tolist(), strict=True)) == expected
    assert (keys.block.times == np.repeat(keys.block.youngest, keys.block.rows)).all()
    texts = keys.block.values[1]["s"]
    assert [int(text.split(":")[0]) for text in texts] == keys.block.times.tolist()  # type: ignore[union-attr]


@pytest.mark.parametrize("session", [attempt, ownership])
def test_nothing_else_is_in_the_store(store: Store, session: Session) -> None:
    """Documents that are in use no longer go with the next session; those of one that failed go at once."""
    state = EMPTY
    for number in range(1, 5):
        documents, keys = opened(store, session, number, state)
        documents.clear()
        keys.load(digests(np.arange(KEYS)))
        keys.put(block_of(np.arange(KEYS - number), number))
        if number == 3:
            documents.write([b"of a session that fails"])
            documents.give_up()
            continue
        state = saved(documents, keys, number)
    documents, keys = opened(store, session, 5, state)
    documents.clear()
    named = {(epoch, number) for epoch, first, last in keys.ranges for number in range(first, last)}
    found = [parse_page_key(key) for key in store.list_keys("")]
    assert all(each is not None and each.tier == DOCUMENTS for each in found)
    assert {(each.epoch, each.number) for each in found if each is not None} <= named
    collect_window(store, "cards")
    assert len(list(store.list_keys(""))) == len(found)
    root = store.read_root("cards")
    assert root is not None
    assert decode_root("cards", root[0]).retained[-1].documents


def test_an_owner_that_was_taken_over_from_is_fenced(store: Store) -> None:
    documents, keys = opened(store, ownership, 1, EMPTY)
    keys.put(block_of(np.arange(KEYS), 1))
    state = saved(documents, keys, 1)
    older, older_keys = opened(store, ownership, 2, state)
    younger, younger_keys = opened(store, ownership, 2, state)
    for each in (older_keys, younger_keys):
        each.load(digests(np.arange(KEYS)))
        each.put(block_of(np.arange(KEYS), 2))
    saved(younger, younger_keys, 2)
    with pytest.raises(Fenced):
        saved(older, older_keys, 2)


@pytest.mark.parametrize("session", [attempt, ownership])
def test_lost_and_damaged_documents_are_refused(store: Store, session: Session) -> None:
    documents, keys = opened(store, session, 1, EMPTY)
    keys.put(block_of(np.arange(KEYS), 1))
    state = saved(documents, keys, 1)
    kept = {key: data for key in store.list_keys("") for data in store.get_many([key]) if data is not None}
    for key, data in kept.items():
        store.put_many({key: data[:-1] + bytes([data[-1] ^ 1])})
    with pytest.raises(PageCorrupt, match="rows of 'cards' are damaged"):
        opened(store, session, 2, state)[1].load(digests(np.arange(KEYS)))
    store.delete_many(list(kept))
    with pytest.raises(PagesLost, match="rows of 'cards' are not in"):
        opened(store, session, 2, state)[1].load(digests(np.arange(KEYS)))
