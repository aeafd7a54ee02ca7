"""The envelope of all stored bytes: a checksum shows that they are the bytes that were written.

    magic | payload | xxh3 of both, 8 bytes

The magic says what kind of bytes they are. It is empty where the payload says that itself.
"""

from __future__ import annotations

import xxhash

from mta.encoding.untrusted import Malformed, shown

_CHECKSUM = 8


def seal(*payload: bytes | memoryview, magic: bytes = b"") -> bytes:
    """An envelope around a payload, which may come in parts."""
    digest = xxhash.xxh3_64(magic)
    for part in payload:
        digest.update(part)
    return b"".join((magic, *payload, digest.digest()))


def unseal(data: bytes, magic: bytes = b"") -> memoryview:
    """The payload, which is not copied. Malformed if the magic or the checksum is wrong."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise Malformed(f"{shown(data)} stands where bytes should")
    end = len(data) - _CHECKSUM
    if end < len(magic) or data[: len(magic)] != magic:
        raise Malformed(f"{len(data)} bytes do not begin as they should")
    body = memoryview(data)[:end]
    if xxhash.xxh3_64_digest(body) != data[end:]:
        raise Malformed("the checksum does not match")
    return body[len(magic) :]
