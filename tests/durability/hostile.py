"""What an adversary writes who can compute checksums: real pages and roots with one thing changed.

Run as a program it decodes them in little memory: `python hostile.py pages`.
"""

from __future__ import annotations

import math
import resource
import struct
import sys
from collections.abc import Iterator
from typing import Any

import msgpack
import xxhash

from mta import packing

#: What a field may be instead of itself: of every type, at every end of its range, and too deep or too long.
WRONG: list[Any] = [
    None, True, -1, 0, 1, 7, 2**31, 2**53, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), 0.5, math.nan, math.inf, 1e300,
    "", "x", "\x1b[31m", "x" * 5000, b"", b"\xff", b"x" * 5000, [], [[]], [None], [2**62] * 3, list(range(3000)), {},
    {"a": 1}, {1: {}}, msgpack.Timestamp(1), msgpack.ExtType(99, b"x"), msgpack.ExtType(2, b"\0" * 8 + b"\x40"),
    msgpack.ExtType(2, b"\x7f" * 4000), msgpack.ExtType(1, packing.pack([1, 2])),
    msgpack.ExtType(3, packing.pack([[1]])), msgpack.ExtType(5, packing.pack(["|O", [1], b"x" * 8])),
    msgpack.ExtType(5, packing.pack(["<f8", [-1], b"x" * 8])), msgpack.ExtType(6, packing.pack([1])),
]  # fmt: skip


def _deep(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def _deep_tuple(depth: int) -> Any:
    data = packing.pack([])
    for _ in range(depth):
        data = msgpack.packb([msgpack.ExtType(1, data)])
    return msgpack.ExtType(1, data)


WRONG += [_deep(400), _deep_tuple(60), _deep_tuple(5000)]


def changed(value: Any) -> Iterator[Any]:
    """The value with one of its parts replaced, left out or doubled."""
    yield from WRONG
    if isinstance(value, list):
        for place, part in enumerate(value):
            before, after = value[:place], value[place + 1 :]
            yield before + after
            yield [*before, part, part, *after]
            for other in changed(part):
                yield [*before, other, *after]
    elif isinstance(value, bool) or value is None:
        return
    elif isinstance(value, int):
        yield value + 1
        yield value - 1
        yield value + 2**40
        yield -value
    elif isinstance(value, (str, bytes)):
        yield value + value
        yield value[: len(value) // 2]


def packed(value: Any) -> bytes:
    return bytes(msgpack.packb(value))


def sealed(body: bytes) -> bytes:
    return body + xxhash.xxh3_64_digest(body)


def promises(count: int = 2**31, levels: int = 500, length: int = 20_000) -> bytes:
    """A list of lists of lists, each of which says that it is long, and no end."""
    start = (b"\xdd" + struct.pack(">I", count)) * levels
    return start + b"\0" * (length - len(start))


# -- pages ------------------------------------------------------------------------------------------------


def hostile_pages(data: bytes) -> Iterator[bytes]:
    """A page with one field of its header or one object changed, and its checksum right."""
    (length,) = struct.unpack_from("<I", data, 4)
    header, rest = data[8 : 8 + length], data[8 + length : -8]
    size = packing.first_length(header)
    content = msgpack.unpackb(header[:size])

    def page(header: bytes, rest: bytes, length: int | None = None) -> bytes:
        padded = header + b"\xc1" * (-(8 + len(header)) % 8)
        return sealed(b"MTA1" + struct.pack("<I", len(padded) if length is None else length) + padded + rest)

    for other in changed(content):
        yield page(packed(other), rest)
    yield page(promises(), rest)
    yield page(packed(content) + b"\0\0", rest)
    for wrong in (0, 1, 4, length - 1, length + 8, len(data), 2**32 - 1):
        yield page(header[:size], rest, wrong)
    yield page(header[:size], rest + bytes(8))
    yield page(header[:size], b"")
    # objects: what is inside a payload
    position, described = 0, content[-1]
    for place, (kind, _, length) in enumerate(described):
        if kind == "objects":
            inside = msgpack.unpackb(rest[position : position + length], strict_map_key=False)
            cut = inside[:2] if len(inside) > 8 else inside
            others = [
                packed([*other, *inside[len(cut) :]]) for other in changed(cut) if isinstance(other, list)
            ]
            for payload in [*others, *map(packed, WRONG), promises(), b""]:
                new = [*described]
                new[place] = [kind, [], len(payload)]
                before = rest[:position]
                after = rest[position + length + -length % 8 :]
                padded = payload + bytes(-len(payload) % 8)
                yield page(packed([*content[:-1], new]), before + padded + after)
        position += length + -length % 8


# -- limits -----------------------------------------------------------------------------------------------


def limit(megabytes: int, seconds: int) -> None:
    """From now on this process may take so much more address space, and so much time of its processor."""
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + (megabytes << 20), resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))


def try_pages(megabytes: int) -> int:
    """Decodes hostile pages of every monoid; only PageCorrupt may come out. How many there were."""
    import numpy as np
    from reference import SUBJECTS

    from mta import PageCorrupt
    from mta.codec import TimesOnly, decode_page, encode_page
    from mta.pages import Page
    from mta.states import layout_of

    cases = []
    for subject in SUBJECTS.values():
        layout = layout_of(subject.make())
        rows = layout.gather_rows([layout.monoid.row(subject.element(i, i)) for i in range(8)])
        for tier, run in ((0, rows), (1, layout.lift(rows))):
            page = Page(tier, np.arange(8), run)
            cases.append((layout, tier, encode_page(layout, "w", 3, page)))
    limit(megabytes, 300)
    tried = 0
    for layout, tier, data in cases:
        for hostile in hostile_pages(data):
            for known in (layout, TimesOnly()):
                tried += 1
                try:
                    page = decode_page(known, hostile, "w", tier, 3, 8)
                except PageCorrupt:
                    continue
                assert len(page.times) == 8
    return tried


if __name__ == "__main__":
    sys.path.append(f"{sys.path[0]}/../mta")
    print({"pages": try_pages}[sys.argv[1]](int(sys.argv[2])))
