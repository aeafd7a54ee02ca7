"""The names of documents: 6 bytes for the kind, before a key of up to 240. The server takes 246 bytes."""

from __future__ import annotations

from stores.names import check_key, escape_name, stored_name, valid_or_none

PAGE = "mta:p:"
HEAD = "mta:h:"  # the head of a value that takes several documents
PIECE = "mta:c:"  # and a piece of it
ROOT = "mta:r:"
LIST = "mta:l:"
PREFIX_LENGTH = 6


def page(key: str) -> str:
    return PAGE + _without_nul(key)


def head(key: str) -> str:
    return HEAD + _without_nul(key)


def piece(nonce: str, number: int) -> str:
    return f"{PIECE}{nonce}:{number:x}"


def root(name: str) -> str:
    return ROOT + escape_name(name)


def key_of(document: str) -> str | None:
    """The key of a page's or a head's document, or None if no store can have written the document."""
    return valid_or_none(document[PREFIX_LENGTH:], check_key)


def name_of(document: str) -> str | None:
    """The name of a root's document, or None if no store can have written the document."""
    return stored_name(document[PREFIX_LENGTH:])


def _without_nul(key: str) -> str:
    if "\0" in key:
        raise ValueError(f"a key must not contain NUL, at which Couchbase's client ends it: {key!r}")
    return key
