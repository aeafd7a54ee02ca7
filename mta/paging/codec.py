"""Pages as bytes: a msgpack header, columns, and a checksum over both.

    "MTA1" | length of header, 4 bytes | header | payload of times | payloads of the run | xxh3, 8 bytes

The header names format, window, tier, page number, count and each payload's kind and length, so that a page
which is short, damaged, or another page than the one asked for is found out. How a column is written is in
`mta.encoding.columns`; object states are a packed list (`mta.encoding.packing`). Payloads start on a
multiple of 8 bytes.
"""

from __future__ import annotations

import struct
from typing import Any

import msgpack
import xxhash

from mta.core.page import LARGEST_PAGE, Page
from mta.core.states import ColumnLayout, Layout, Run
from mta.encoding import packing
from mta.encoding.columns import Encoded, decode_column, encode_column, encode_objects
from mta.encoding.untrusted import Malformed, fields, moment, shown, surely, whole
from mta.errors import PageCorrupt
from mta.kinds import Array
from mta.monoids.ufuncs import Count

MAGIC = b"MTA1"

#: kind, parameters, and the bytes of a column
_Payload = tuple[Any, Any, memoryview]


class TimesOnly(ColumnLayout):
    """For pages of a monoid that is not known: of their entries only the times are read."""

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


def decode_run(
    layout: Layout, data: bytes, identity: list[Any], tier: int, what: str, count: int | None = None
) -> tuple[Array, Run]:
    """The reverse of `encode_run`; PageCorrupt where anything is not as it was written."""
    if len(data) < 16 or data[:4] != MAGIC:
        raise PageCorrupt(f"{what} is damaged: {len(data)} bytes that do not start as a page does")
    body = memoryview(data)[:-8]
    if xxhash.xxh3_64_digest(body) != data[-8:]:
        raise PageCorrupt(
            f"{what} is damaged: its checksum does not match; restore it from a copy of the store"
        )

    def read() -> tuple[Array, Run]:
        found, held, payloads = _read_header(body)
        if found != identity:
            raise PageCorrupt(f"{what} is not itself: the store returned {shown(found)} under its key")
        if count not in (None, held):
            raise PageCorrupt(f"{what} holds {held} entries, not {count}")
        return _decoded(layout, tier, held, payloads)

    try:
        return surely(read)
    except Malformed as error:
        raise PageCorrupt(f"{what} is damaged, though its checksum is right: {error}") from error


def _read_header(body: memoryview) -> tuple[list[Any], int, list[_Payload]]:
    """What the run is, how many entries it has, and kind, parameters and bytes of its columns."""
    (length,) = struct.unpack_from("<I", body, 4)
    position = 8 + length
    header = body[8:position]
    end = packing.first_length(header)
    if len(header) != length or bytes(header[end:]).strip(b"\xc1"):
        raise Malformed("its header does not end where it says")
    content = fields(packing.unpack(header[:end]), "its header")
    if len(content) < 2:
        raise Malformed(f"its header is {shown(content)}")
    *found, count, described = content
    whole(count, "the number of its entries", 0, LARGEST_PAGE)
    payloads = []
    for each in fields(described, "the list of its columns"):
        kind, parameters, size = fields(each, "a column", 3)
        payloads.append((kind, parameters, body[position : position + whole(size, "the size of a column")]))
        position += size + _padding(size)
    if position != len(body):
        raise Malformed(f"its columns take {position} bytes, and there are {len(body)}")
    return found, count, payloads


def _decoded(layout: Layout, tier: int, count: int, payloads: list[_Payload]) -> tuple[Array, Run]:
    expected = _columns_of(layout, tier)
    if not payloads or expected not in (None, len(payloads) - 1):
        raise Malformed(f"it has {len(payloads)} columns with the times, not {1 + (expected or 0)}")
    if isinstance(layout, TimesOnly):
        return _times(*payloads[0], count), ()
    times, *columns = _times(*payloads[0], count), *(decode_column(*each, count) for each in payloads[1:])
    monoid = layout.monoid
    try:
        if not isinstance(layout, ColumnLayout):
            if columns[0].dtype != object:
                raise Malformed("its entries are numbers in a column")
            items = columns[0].tolist()
            return times, list(map(monoid.unpack if tier else monoid.check_row, items))
        if any(column.dtype == object for column in columns):
            (layout.monoid.check_states if tier else layout.monoid.check_columns)(tuple(columns))
    except MemoryError:
        raise
    except Exception as error:  # of the monoid, which may be anybody's
        raise Malformed(f"its entries are none of {monoid!r}: {error}") from error
    return times, tuple(columns)


def _columns_of(layout: Layout, tier: int) -> int | None:
    """How many columns a run has beside its times."""
    if isinstance(layout, TimesOnly):
        return None
    if isinstance(layout, ColumnLayout):
        return layout.monoid.width if tier else layout.monoid.arity
    return 1


def _times(kind: Any, parameters: Any, raw: memoryview, count: int) -> Array:
    times = decode_column(kind, parameters, raw, count)
    if times.dtype == object:  # whole numbers beside real ones that floats would round
        for each in times.tolist():
            moment(each)
    return times


def _columns(layout: Layout, tier: int, run: Run) -> list[Encoded]:
    if isinstance(layout, ColumnLayout):
        return [encode_column(column) for column in run]
    items = run if tier == 0 else [layout.monoid.pack(state) for state in run]
    return [encode_objects(items)]


def _padding(length: int) -> int:
    """Bytes up to the next multiple of 8."""
    return -length % 8
