"""Pages as bytes: a msgpack header, raw little-endian columns, and a checksum over both.

    "MTA1" | length of header, 4 bytes | header | payload of times | payloads of the run | xxh3, 8 bytes

The header names format, window, tier, page number, count and each payload's kind and length, so that a page
which is short, damaged, or another page than the one asked for is found out. Object columns and object
states are a packed list (`mta.packing`).
"""

from __future__ import annotations

import struct
from typing import Any

import msgpack
import numpy as np
import xxhash

from mta import packing
from mta.errors import PageCorrupt
from mta.monoids.base import Array
from mta.pages import Page
from mta.states import ColumnLayout, Layout, Run

MAGIC = b"MTA1"
_DTYPES = {"<i8": np.dtype("<i8"), "<f8": np.dtype("<f8")}
_OBJECTS = "objects"


def encode_page(layout: Layout, window: str, number: int, page: Page) -> bytes:
    return encode_run(layout, [window, page.tier, number], page.tier, page.times, page.run)


def decode_page(layout: Layout, data: bytes, window: str, tier: int, number: int) -> Page:
    times, run = decode_run(
        layout, data, [window, tier, number], tier, f"page {number} of tier {tier} of window {window!r}"
    )
    return Page(tier, times, run)


def encode_run(layout: Layout, identity: list[Any], tier: int, times: Array, run: Run) -> bytes:
    """Times and entries of a tier, marked with what they are."""
    columns = _columns(layout, tier, run)
    payloads = [_column_bytes(times), *columns]
    header = msgpack.packb([*identity, len(times), [[kind, len(raw)] for kind, raw in payloads]])
    header += b"\xc1" * (-(len(MAGIC) + 4 + len(header)) % 8)  # columns start on a multiple of 8 bytes
    parts = [MAGIC, struct.pack("<I", len(header)), header, *(raw for _, raw in payloads)]
    digest = xxhash.xxh3_64()
    for part in parts:
        digest.update(part)
    parts.append(digest.digest())
    return b"".join(parts)


def decode_run(layout: Layout, data: bytes, identity: list[Any], tier: int, what: str) -> tuple[Array, Run]:
    """The reverse of `encode_run`; PageCorrupt where anything is not as it was written."""
    if len(data) < 16 or data[:4] != MAGIC:
        raise PageCorrupt(f"{what} is damaged: {len(data)} bytes that do not start as a page does")
    body = memoryview(data)[:-8]
    if xxhash.xxh3_64_digest(body) != data[-8:]:
        raise PageCorrupt(
            f"{what} is damaged: its checksum does not match; restore it from a copy of the store"
        )
    (header_length,) = struct.unpack_from("<I", data, 4)
    unpacker = msgpack.Unpacker()
    unpacker.feed(body[8 : 8 + header_length])
    *found, count, payloads = unpacker.unpack()
    if found != identity:
        raise PageCorrupt(f"{what} is not itself: the store returned {found} under its key")
    position, columns = 8 + header_length, []
    for kind, length in payloads:
        columns.append(_column(kind, body[position : position + length]))
        position += length
    if any(len(column) != count for column in columns):
        raise PageCorrupt(f"{what} is damaged: its columns do not hold {count} entries")
    times, *rest = columns
    if isinstance(layout, ColumnLayout):
        return times, tuple(rest)
    items = list(rest[0])
    return times, items if tier == 0 else [layout.monoid.unpack(item) for item in items]


def _columns(layout: Layout, tier: int, run: Run) -> list[tuple[str, Any]]:
    if isinstance(layout, ColumnLayout):
        return [_column_bytes(column) for column in run]
    items = run if tier == 0 else [layout.monoid.pack(state) for state in run]
    return [(_OBJECTS, packing.pack(items))]


def _column_bytes(column: Array) -> tuple[str, Any]:
    if column.dtype == object:
        return _OBJECTS, packing.pack(column.tolist())
    little = np.ascontiguousarray(column, dtype=column.dtype.newbyteorder("<"))
    return little.dtype.str, little.data.cast("B") if len(little) else b""


def _column(kind: str, raw: memoryview) -> Any:
    if kind == _OBJECTS:
        values = packing.unpack(raw)
        column = np.empty(len(values), dtype=object)
        column[:] = values
        return column
    return np.frombuffer(raw, dtype=_DTYPES[kind])
