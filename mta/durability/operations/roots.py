"""The windows of a store, a hundred at a time: a few calls for each hundred, in memory that is bounded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple, TypeVar

from stores import PageKey, Store, Token, page_key, page_prefix, parse_page_key
from stores.base import check_name

T = TypeVar("T")

#: Windows that are looked at together, and keys that are put in order by their windows.
WINDOWS, KEYS = 100, 100_000


class Stored(NamedTuple):
    """A root as a store has it."""

    data: bytes
    token: Token


class Seen(NamedTuple):
    """Keys of a window's pages, and its root as it was read after they were seen."""

    name: str
    root: Stored | None
    keys: list[tuple[str, PageKey]]


def window_names(store: Store, prefix: str = "") -> Iterator[str]:
    """The names of windows, in any order; one may come twice. What no window can be called is left out."""
    return filter(_is_name, store.list_roots(prefix))


def read_roots(store: Store, names: Iterable[str]) -> Iterator[dict[str, Stored]]:
    """The roots of windows, of those that have one, by name."""
    for some in chunks(names, WINDOWS):
        found = store.read_roots(some)
        yield {name: Stored(*root) for name, root in zip(some, found, strict=True) if root is not None}


def by_window(store: Store, keys: Iterable[str]) -> Iterator[list[Seen]]:
    """Page keys that come in any order, window by window. A window may come more than once."""
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
    """What a page key says; None if it is none that a window of ours could have."""
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
