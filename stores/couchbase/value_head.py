"""The head of a value that takes several documents: the pieces of the value, and the pieces to be deleted.

Each write of the value gives its pieces names of their own, by a nonce that the head records before the first
piece is written. So all that a crash leaves behind is found by the key of the value.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, replace

from stores.couchbase import document_names

MOST_PIECES = 1024
NONCE_LENGTH = 32


@dataclass(frozen=True)
class ValueWrite:
    """One write of the value, and the documents that have its pieces."""

    nonce: str
    pieces: int
    #: the time until which a write without a reply may still arrive
    may_arrive_until: float
    #: whether it may still become the value
    may_commit: bool

    @classmethod
    def new(cls, pieces: int, may_arrive_until: float) -> ValueWrite:
        return cls(secrets.token_hex(NONCE_LENGTH // 2), pieces, may_arrive_until, may_commit=True)

    def documents(self) -> list[str]:
        return [document_names.piece(self.nonce, number) for number in range(self.pieces)]


@dataclass(frozen=True)
class ValueHead:
    """The write that is the value, its size in bytes, and other writes whose pieces may be in the store."""

    value: ValueWrite | None = None
    size: int = 0
    others: tuple[ValueWrite, ...] = ()

    def begun(self, write: ValueWrite) -> ValueHead:
        return replace(self, others=(*self._others_than(write), write))

    def committed(self, write: ValueWrite, size: int) -> ValueHead:
        """Makes the write the value, and marks all others for deletion. Unchanged if it is marked itself."""
        if not any(other.nonce == write.nonce and other.may_commit for other in self.others):
            return self
        rest = ValueHead(self.value, 0, self._others_than(write)).deleted()
        return ValueHead(replace(write, may_commit=False), size, rest.others)

    def deleted(self) -> ValueHead:
        """No value, and every write marked for deletion."""
        others = self.others if self.value is None else (*self.others, self.value)
        return ValueHead(None, 0, tuple(replace(other, may_commit=False) for other in others))

    def cleared(self, gone: tuple[ValueWrite, ...], now: float) -> ValueHead:
        """Without the writes whose pieces are deleted and can no longer arrive."""
        nonces = {write.nonce for write in gone if write.may_arrive_until <= now}
        return replace(self, others=tuple(other for other in self.others if other.nonce not in nonces))

    def _others_than(self, write: ValueWrite) -> tuple[ValueWrite, ...]:
        return tuple(other for other in self.others if other.nonce != write.nonce)


def encode_head(head: ValueHead) -> bytes:
    return json.dumps(
        {
            "value": None if head.value is None else _encoded(head.value),
            "size": head.size,
            "others": [_encoded(other) for other in head.others],
        }
    ).encode()


def decode_head(data: bytes) -> ValueHead | None:
    """The head, or None if the bytes are no head."""
    try:
        fields = json.loads(data)
        size = fields["size"]
        value = None if fields["value"] is None else _decoded(fields["value"])
        others = tuple(map(_decoded, fields["others"]))
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return ValueHead(value, size, others) if type(size) is int and size >= 0 else None


def _encoded(write: ValueWrite) -> list[str | float | bool]:
    return [write.nonce, write.pieces, write.may_arrive_until, write.may_commit]


def _decoded(fields: object) -> ValueWrite:
    if not isinstance(fields, list) or len(fields) != 4:
        raise ValueError(f"not a write: {fields!r}")
    nonce, pieces, may_arrive_until, may_commit = fields
    if not (isinstance(nonce, str) and len(nonce) == NONCE_LENGTH and nonce.isalnum() and nonce.isascii()):
        raise ValueError(f"not a nonce: {nonce!r}")
    if not (type(pieces) is int and 0 < pieces <= MOST_PIECES and isinstance(may_commit, bool)):
        raise ValueError(f"not a write: {fields!r}")
    if isinstance(may_arrive_until, bool) or not isinstance(may_arrive_until, (int, float)):
        raise ValueError(f"not a time: {may_arrive_until!r}")
    return ValueWrite(nonce, pieces, may_arrive_until, may_commit)
