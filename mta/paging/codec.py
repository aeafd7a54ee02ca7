"""Pages as bytes: a msgpack header and columns, in a checksummed envelope.

    "MTA1" | length of header, 4 bytes | header | column of times | columns of the run | xxh3, 8 bytes

The header names window, tier, page number, count, and the kind and length of each column. So decoding refuses
a page that has too few entries, or that is another page than the one asked for. `mta.encoding.columns` writes
columns; object states are a packed list (`mta.encoding.packing`). Columns start on a multiple of 8 bytes.
"""

from __future__ import annotations

import struct
from typing import Any

import msgpack

from mta.core.page import LARGEST_PAGE, Page
from mta.core.states import ColumnLayout, Layout, Run
from mta.encoding import packing
from mta.encoding.columns import Encoded, decode_column, encode_column, encode_objects
from mta.encoding.envelope import seal, unseal
from mta.encoding.untrusted import Malformed, fields, moment, shown, surely, whole
from mta.errors import PageCorrupt
from mta.kinds import Array
from mta.monoids.ufuncs import Count

MAGIC = b"MTA1"

#: kind, parameters, and bytes
_Column = tuple[Any, Any, memoryview]


class TimesOnly(ColumnLayout):
    """For pages of an unknown monoid: only the times of their entries are read."""

    def __init__(self) -> None:
        super().__init__(Count())


def encode_page(layout: Layout, window: str, number: int, page: Page) -> bytes:
    return encode_run(layout, [window, page.tier, number], page.tier, page.times, page.run)


def decode_page(
    layout: Layout, data: bytes, window: str, tier: int, number: int, count: int | None = None
) -> Page:
    """The reverse of `encode_page`; the page has `count` entries, if that is known."""
    what = f"page {number} of tier {tier} of window {window!r}"
    times, run = decode_run(layout, data, [window, tier, number], tier, what, count)
    return Page(tier, times, run)


def encode_run(layout: Layout, identity: list[Any], tier: int, times: Array, run: Run) -> bytes:
    """The times and entries of a run of a tier, with an identity that decoding checks."""
    columns = [encode_column(times), *_columns(layout, tier, run)]
    described = [[kind, parameters, len(raw)] for kind, parameters, raw in columns]
    header = msgpack.packb([*identity, len(times), described])
    header += b"\xc1" * (-(len(MAGIC) + 4 + len(header)) % 8)
    parts: list[bytes | memoryview] = [struct.pack("<I", len(header)), header]
    for _, _, raw in columns:
        parts += [raw, bytes(-len(raw) % 8)]
    return seal(*parts, magic=MAGIC)


def decode_run(
    layout: Layout, data: bytes, identity: list[Any], tier: int, what: str, count: int | None = None
) -> tuple[Array, Run]:
    """The reverse of `encode_run`. PageCorrupt if anything is not what was written; `what` names the run."""
    try:
        payload = unseal(data, MAGIC)
    except Malformed as error:
        raise PageCorrupt(f"{what} is damaged: {error}; restore it from a copy of the store") from error

    def read() -> tuple[Array, Run]:
        found, held, columns = _read_header(payload)
        if found != identity:
            raise PageCorrupt(f"{what} is not itself: the store returned {shown(found)} under its key")
        if count not in (None, held):
            raise PageCorrupt(f"{what} holds {held} entries, not {count}")
        return _decoded(layout, tier, held, columns)

    try:
        return surely(read)
    except Malformed as error:
        raise PageCorrupt(f"{what} is damaged, though its checksum is right: {error}") from error


def _read_header(payload: memoryview) -> tuple[list[Any], int, list[_Column]]:
    """The identity of the run, the number of its entries, and its columns."""
    length = int.from_bytes(payload[:4], "little")
    position = 4 + length
    header = payload[4:position]
    end = packing.first_length(header)
    if len(header) != length or bytes(header[end:]).strip(b"\xc1"):
        raise Malformed("its header does not end where it says")
    content = fields(packing.unpack(header[:end]), "its header")
    if len(content) < 2:
        raise Malformed(f"its header is {shown(content)}")
    *found, count, described = content
    whole(count, "the number of its entries", 0, LARGEST_PAGE)
    columns = []
    for each in fields(described, "the list of its columns"):
        kind, parameters, size = fields(each, "a column", 3)
        columns.append((kind, parameters, payload[position : position + whole(size, "the size of a column")]))
        position += size + -size % 8
    if position != len(payload):
        raise Malformed(f"its columns end at {position}, and its payload at {len(payload)}")
    return found, count, columns


def _decoded(layout: Layout, tier: int, count: int, encoded: list[_Column]) -> tuple[Array, Run]:
    times_only = isinstance(layout, TimesOnly)
    expected = _width(layout, tier)
    if not encoded or not (times_only or len(encoded) == 1 + expected):
        raise Malformed(f"it has {len(encoded)} columns with the times, not {1 + expected}")
    times = decode_column(*encoded[0], count)
    if times.dtype == object:  # whole numbers that floats would round, beside floats
        for each in times.tolist():
            moment(each)
    if times_only:
        return times, ()
    columns = [decode_column(*each, count) for each in encoded[1:]]
    monoid = layout.monoid
    try:
        if not isinstance(layout, ColumnLayout):
            if columns[0].dtype != object:
                raise Malformed("its entries are numbers in a column")
            items = columns[0].tolist()
            return times, list(map(monoid.unpack if tier else monoid.check_row, items))
        if object in [column.dtype for column in columns]:
            (layout.monoid.check_states if tier else layout.monoid.check_columns)(tuple(columns))
    except MemoryError:
        raise
    except Exception as error:  # of any class: a user may have written the monoid
        raise Malformed(f"its entries are none of {monoid!r}: {error}") from error
    return times, tuple(columns)


def _width(layout: Layout, tier: int) -> int:
    """The number of columns of a run, beside its times."""
    if not isinstance(layout, ColumnLayout):
        return 1
    return layout.monoid.width if tier else layout.monoid.arity


def _columns(layout: Layout, tier: int, run: Run) -> list[Encoded]:
    if isinstance(layout, ColumnLayout):
        return [encode_column(column) for column in run]
    items = run if tier == 0 else [layout.monoid.pack(state) for state in run]
    return [encode_objects(items)]
