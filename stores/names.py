"""Names of windows and keys of pages: which ones are valid, and how a key is built."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

MAX_NAME_BYTES = 200
MAX_KEY_BYTES = 240  # a page key of the longest name; Couchbase ends keys at 246 bytes


class PageKey(NamedTuple):
    """The parts of a page key."""

    name: str
    epoch: int
    tier: int
    number: int


def escape_name(name: str) -> str:
    """The name without braces and control characters, so that it can stand in a `{hash tag}`.

    Each character is escaped by itself, so the escape of a prefix is a prefix of the escape.
    """
    return re.sub(r"[%{}\x00-\x1f\x7f]", lambda match: f"%{ord(match[0]):02X}", name)


def unescape_name(escaped: str) -> str:
    """The inverse of `escape_name`."""
    return re.sub(r"%([0-9A-F]{2})", lambda match: chr(int(match[1], 16)), escaped)


def check_name(name: object) -> str:
    """Returns the name of a window or root; raises ValueError if not every store can hold it."""
    return _check_text("name", name, MAX_NAME_BYTES, escape_name)


def check_key(key: object) -> str:
    """Returns the key; raises ValueError unless it is text of 1 to 240 bytes of UTF-8."""
    return _check_text("key", key, MAX_KEY_BYTES, str)


def _check_text(kind: str, text: object, limit: int, escape: Callable[[str], str]) -> str:
    if not isinstance(text, str):
        raise ValueError(f"a {kind} must be a str, not {text!r}")
    if not text:
        raise ValueError(f"a {kind} must not be empty, got ''")
    try:
        size = len(escape(text).encode())
    except UnicodeEncodeError:
        raise ValueError(f"a {kind} must be valid Unicode, got {text!r}") from None
    if size > limit:
        raise ValueError(f"a {kind} must take at most {limit} UTF-8 bytes once escaped, got {size}: {text!r}")
    return text


def valid_or_none(stored: str | bytes, check: Callable[[object], str]) -> str | None:
    """A key or name that was read from a store; None if it is not valid, and so no `Store` has written it."""
    try:
        return check(stored if isinstance(stored, str) else stored.decode())
    except ValueError:
        return None


def stored_name(stored: str | bytes) -> str | None:
    """The name whose escaped form was read from a store, or None if no `Store` can have written it."""
    try:
        escaped = stored if isinstance(stored, str) else stored.decode()
        name = check_name(unescape_name(escaped))
    except ValueError:
        return None
    return name if escape_name(name) == escaped else None


def page_key(prefix: str, index: int) -> str:
    """The key of page number `index`. Numbers have a fixed width, so keys sort as the numbers do."""
    return f"{prefix}{index:016x}"


def pages_of(name: str) -> str:
    """The prefix that the keys of a window's pages have in common, and no other window's keys have."""
    return f"{{{escape_name(check_name(name))}}}:"


@lru_cache(maxsize=1 << 10)
def page_prefix(name: str, epoch: int, tier: int) -> str:
    """The prefix of the keys of the pages that the writer of one epoch wrote for one tier of a window.

    >>> from stores import page_key, page_prefix, parse_page_key
    >>> page_key(page_prefix("card-7", epoch=3, tier=0), 18)
    '{card-7}:0000000000000003:00:0000000000000012'
    >>> parse_page_key(_)
    PageKey(name='card-7', epoch=3, tier=0, number=18)
    """
    if not (0 <= epoch < 1 << 64 and 0 <= tier < 1 << 8):
        raise ValueError(f"epoch must fit in 64 bits and tier in 8, got {epoch} and {tier}")
    return f"{pages_of(name)}{epoch:016x}:{tier:02x}:"


_PAGE_KEY = re.compile(r"\{([^{}]+)\}:([0-9a-f]{16}):([0-9a-f]{2}):([0-9a-f]{16})")


def parse_page_key(key: str) -> PageKey:
    """The parts of a page key; raises ValueError if it is none."""
    match = _PAGE_KEY.fullmatch(key)
    if match is None:
        raise ValueError(f"not a page key: {key!r}")
    name, epoch, tier, index = match.groups()
    return PageKey(unescape_name(name), int(epoch, 16), int(tier, 16), int(index, 16))
