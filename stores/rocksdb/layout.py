"""What is in a database: the kinds of keys, and the entries of one kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

PAGE = b"p"
ROOT = b"r"
COMMITS = b"s"


def scan(rocks: Any, prefix: bytes, start: bytes) -> Iterator[Any]:
    """The entries from a key on that begin with a prefix, each as the engine's iterator that stands on it."""
    entry = rocks.iter()
    entry.seek(start)
    while entry.valid() and entry.key().startswith(prefix):
        yield entry
        entry.next()
    entry.status()  # an iterator that comes to a damaged place ends there, and says so only if asked
