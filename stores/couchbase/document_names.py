"""The names of documents: as the server ends them at 246 bytes, and keys take up to 240, 6 are left."""

from __future__ import annotations

from stores.names import escape_name, stored_key, stored_name

PAGE = "mta:p:"
HEAD = "mta:h:"  # of a value that takes several documents
PIECE = "mta:c:"
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
    """The key of a page's or a head's document, None if nobody could have written it here."""
    return stored_key(document[PREFIX_LENGTH:])


def name_of(document: str) -> str | None:
    """The name of a root's document, None if nobody could have written it here."""
    return stored_name(document[PREFIX_LENGTH:])


def _without_nul(key: str) -> str:
    if "\0" in key:
        raise ValueError(f"a key must not contain NUL, at which Couchbase's client ends it: {key!r}")
    return key
