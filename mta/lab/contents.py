"""What a window has in its store, and taking it away again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import NamedTuple

from mta.window import MonoidTreeAggregator
from stores import Store, pages_of, parse_page_key

#: Pages that are read at once to find their sizes.
CHUNK = 8


class Contents(NamedTuple):
    """Pages of a window in a store: how many of each tier, and their bytes."""

    pages: dict[int, int]
    bytes: int


def contents(store: Store, name: str) -> Contents:
    pages: dict[int, int] = {}
    size = 0
    keys = iter(set(store.list_keys(pages_of(name))))
    while chunk := list(islice(keys, CHUNK)):
        for key, page in zip(chunk, store.get_many(chunk), strict=True):
            if page is not None:
                tier = parse_page_key(key).tier
                pages[tier] = pages.get(tier, 0) + 1
                size += len(page)
    return Contents(dict(sorted(pages.items())), size)


def discard(store: Store, name: str) -> None:
    """Deletes a window's pages and its root."""
    keys = iter(list(store.list_keys(pages_of(name))))
    while chunk := list(islice(keys, 1000)):
        store.delete_many(chunk)
    root = store.read_root(name)
    if root is not None:
        store.delete_root(name, root[1])


@contextmanager
def discarded(window: MonoidTreeAggregator) -> Iterator[MonoidTreeAggregator]:
    """Closes a window afterwards, and leaves nothing of it in its store."""
    try:
        with window:
            yield window
    finally:
        if window.store is not None:
            discard(window.store, window.name)
