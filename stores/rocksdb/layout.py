"""The kinds of keys in a database, and how the entries of one kind are read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

PAGE = b"p"
ROOT = b"r"
COMMITS = b"s"


def scan(rocks: Any, prefix: bytes, start: bytes) -> Iterator[Any]:
    """The entries with a prefix, from the key `start` on. Yields the engine's iterator at each of them."""
    entry = rocks.iter()
    entry.seek(start)
    while entry.valid() and entry.key().startswith(prefix):
        yield entry
        entry.next()
    entry.status()  # raises if the iterator ended because of damage
