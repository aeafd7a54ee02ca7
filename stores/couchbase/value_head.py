"""The head of a value that takes several documents: which pieces are the value, and which ones are to go.

The pieces of each attempt to write the value have names of their own, by a nonce that the head holds before
the first of them is written. So whatever a crash leaves is found by the key of the value.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from stores.couchbase import document_names

MOST_PIECES = 1024
NONCE_LENGTH = 32


@dataclass(frozen=True)
class Attempt:
    nonce: str
    pieces: int
    #: a write that was not acknowledged may still arrive, until this time
    until: float
    #: it may still become the value
    alive: bool

    def documents(self) -> list[str]:
        return [document_names.piece(self.nonce, number) for number in range(self.pieces)]


@dataclass(frozen=True)
class Head:
    value: Attempt | None = None
    size: int = 0
    others: tuple[Attempt, ...] = ()

    def begun(self, attempt: Attempt) -> Head:
        return replace(self, others=(*self._without(attempt), attempt))

    def committed(self, attempt: Attempt, size: int) -> Head:
        """The attempt is the value, and every other one is to go. Unchanged if it is to go itself."""
        if not any(other.nonce == attempt.nonce and other.alive for other in self.others):
            return self
        rest = Head(self.value, 0, self._without(attempt)).ended()
        return Head(replace(attempt, alive=False), size, rest.others)

    def ended(self) -> Head:
        """No value, and every attempt is to go."""
        others = self.others if self.value is None else (*self.others, self.value)
        return Head(None, 0, tuple(replace(other, alive=False) for other in others))

    def cleared(self, gone: tuple[Attempt, ...], now: float) -> Head:
        """Without those whose pieces are deleted and cannot come back."""
        nonces = {attempt.nonce for attempt in gone if attempt.until <= now}
        return replace(self, others=tuple(other for other in self.others if other.nonce not in nonces))

    def _without(self, attempt: Attempt) -> tuple[Attempt, ...]:
        return tuple(other for other in self.others if other.nonce != attempt.nonce)


def encode_head(head: Head) -> bytes:
    return json.dumps(
        {
            "value": None if head.value is None else _encoded(head.value),
            "size": head.size,
            "others": [_encoded(other) for other in head.others],
        }
    ).encode()


def decode_head(data: bytes) -> Head | None:
    """None if this is no head."""
    try:
        fields = json.loads(data)
        size = fields["size"]
        value = None if fields["value"] is None else _decoded(fields["value"])
        others = tuple(map(_decoded, fields["others"]))
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return Head(value, size, others) if type(size) is int and size >= 0 else None


def _encoded(attempt: Attempt) -> list[str | float | bool]:
    return [attempt.nonce, attempt.pieces, attempt.until, attempt.alive]


def _decoded(fields: object) -> Attempt:
    if not isinstance(fields, list) or len(fields) != 4:
        raise ValueError(f"not an attempt: {fields!r}")
    nonce, pieces, until, alive = fields
    if not (isinstance(nonce, str) and len(nonce) == NONCE_LENGTH and nonce.isalnum() and nonce.isascii()):
        raise ValueError(f"not a nonce: {nonce!r}")
    if not (type(pieces) is int and 0 < pieces <= MOST_PIECES and isinstance(alive, bool)):
        raise ValueError(f"not an attempt: {fields!r}")
    if isinstance(until, bool) or not isinstance(until, (int, float)):
        raise ValueError(f"not a time: {until!r}")
    return Attempt(nonce, pieces, until, alive)
