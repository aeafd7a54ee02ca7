"""Pages as bytes: a msgpack header, columns, and a checksum over both.

    "MTA1" | length of header, 4 bytes | header | payload of times | payloads of the run | xxh3, 8 bytes

The header names format, window, tier, page number, count and each payload's kind and length, so that a page
which is short, damaged, or another page than the one asked for is found out. How a column is written is in
`mta.columns`; object states are a packed list (`mta.packing`). Payloads start on a multiple of 8 bytes.
"""

from __future__ import annotations

import struct
from typing import Any

import msgpack
import xxhash

from mta import packing
from mta.columns import Encoded, decode_column, encode_column
from mta.errors import PageCorrupt
from mta.monoids.base import Array
from mta.pages import Page
from mta.states import ColumnLayout, Layout, Run

MAGIC = b"MTA1"


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
    payloads = [encode_column(times), *columns]
    described = [[kind, parameters, len(raw)] for kind, parameters, raw in payloads]
    header = msgpack.packb([*identity, len(times), described])
    header += b"\xc1" * _padding(len(MAGIC) + 4 + len(header))
    parts = [MAGIC, struct.pack("<I", len(header)), header]
    for _, _, raw in payloads:
        parts += [raw, bytes(_padding(len(raw)))]
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
    for kind, parameters, length in payloads:
        columns.append(decode_column(kind, parameters, body[position : position + length], count))
        position += length + _padding(length)
    if any(len(column) != count for column in columns):
        raise PageCorrupt(f"{what} is damaged: its columns do not hold {count} entries")
    times, *rest = columns
    if isinstance(layout, ColumnLayout):
        return times, tuple(rest)
    items = list(rest[0])
    return times, items if tier == 0 else [layout.monoid.unpack(item) for item in items]


def _columns(layout: Layout, tier: int, run: Run) -> list[Encoded]:
    if isinstance(layout, ColumnLayout):
        return [encode_column(column) for column in run]
    items = run if tier == 0 else [layout.monoid.pack(state) for state in run]
    return [("objects", [], packing.pack_entries(items))]


def _padding(length: int) -> int:
    """Bytes up to the next multiple of 8."""
    return -length % 8
