"""The windows of a store, a hundred at a time, with a few calls for each hundred, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple, TypeVar

from stores import PageKey, Store, Token, page_key, page_prefix, parse_page_key
from stores.base import check_name

T = TypeVar("T")

#: The most windows whose roots are read together, and the most keys that are sorted by window together.
WINDOWS, KEYS = 100, 100_000


class Stored(NamedTuple):
    """A root as it is in a store."""

    data: bytes
    token: Token


class Seen(NamedTuple):
    """Keys of a window's pages, and its root, which was read after the keys were listed."""

    name: str
    root: Stored | None
    keys: list[tuple[str, PageKey]]


def window_names(store: Store, prefix: str = "") -> Iterator[str]:
    """The names of windows that begin with a prefix, in any order; a name may come twice.

    Names that no window can have are left out. Raises StoreError. Lists the roots.
    """
    return filter(_is_name, store.list_roots(prefix))


def read_roots(store: Store, names: Iterable[str]) -> Iterator[dict[str, Stored]]:
    """The roots of those windows that have one, by name, a hundred windows at a time."""
    for some in chunks(names, WINDOWS):
        found = store.read_roots(some)
        yield {name: Stored(*root) for name, root in zip(some, found, strict=True) if root is not None}


def by_window(store: Store, keys: Iterable[str]) -> Iterator[list[Seen]]:
    """Page keys in any order, sorted by window. A window may come more than once."""
    for some in chunks(keys, KEYS):
        windows: dict[str, dict[str, PageKey]] = {}
        for text in some:
            key = _parsed(text)
            if key is not None:
                windows.setdefault(key.name, {})[text] = key
        for names in chunks(windows, WINDOWS):
            roots = next(read_roots(store, names))
            yield [Seen(name, roots.get(name), list(windows[name].items())) for name in names]


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk


def _parsed(text: str) -> PageKey | None:
    """The parts of a page key; None if no window can have such a key."""
    try:
        key = parse_page_key(text)
        return key if page_key(page_prefix(key.name, key.epoch, key.tier), key.number) == text else None
    except ValueError:
        return None


def _is_name(name: str) -> bool:
    try:
        check_name(name)
    except ValueError:
        return False
    return True
