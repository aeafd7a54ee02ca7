"""What an adversary writes who can compute checksums: real pages and roots with one thing changed.

Run as a program it reads them in little memory: `python hostile.py pages 200 1` in 200 MB, every one of them.
"""

from __future__ import annotations

import importlib.util
import math
import resource
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

import msgpack
import xxhash

from mta.encoding import packing

#: What a field may be instead of itself: of every type, at every end of its range, and too deep or too long.
WRONG: list[Any] = [
    None, True, -1, 0, 1, 7, 2**31, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), 0.5, math.nan,
    math.inf, 1e300, "", "x", "\x1b[31m", "x" * 5000, b"", b"\xff", b"x" * 5000, [], [[]], [None],
    [2**62] * 3, list(range(3000)), {}, {"a": 1}, {1: {}}, msgpack.Timestamp(1), msgpack.ExtType(99, b"x"),
    msgpack.ExtType(2, b"\0" * 8 + b"\x40"), msgpack.ExtType(2, b"\x7f" * 4000),
    msgpack.ExtType(1, packing.pack([1, 2])),
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
        if kind in ("objects", "tuples"):
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


# -- roots ------------------------------------------------------------------------------------------------


def hostile_roots(data: bytes) -> Iterator[bytes]:
    """A root with one field changed, and its checksum right."""
    content = msgpack.unpackb(data[4:-8], strict_map_key=False)
    for other in changed(content):
        yield sealed(b"MTAR" + packed(other))
    yield sealed(b"MTAR" + promises())
    yield sealed(b"MTAR" + data[4:-8] + b"\0")
    yield sealed(b"MTAR")


# -- limits -----------------------------------------------------------------------------------------------


def limit(megabytes: int, seconds: int) -> None:
    """From now on this process may take so much more address space, and so much time of its processor."""
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + (megabytes << 20), resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))


def try_pages(megabytes: int, step: int) -> int:
    """Decodes hostile pages of every monoid; only PageCorrupt may come out. How many there were."""
    import numpy as np
    from reference import SUBJECTS

    from mta import PageCorrupt, monoids
    from mta.core.page import Page
    from mta.core.states import layout_of
    from mta.paging.codec import TimesOnly, decode_page, encode_page

    kinds = [(subject.make(), [subject.element(i, i) for i in range(8)]) for subject in SUBJECTS.values()]
    kinds += [
        (monoids.Sum(), [2**62] * 8),
        (monoids.First(), [(1, "a", [2.5, {3}])] * 8),
        (monoids.Collect(), [{"a": (1, 2**70)}, {4, 5}, b"x", "y", 1j, np.arange(3), [], 1.5]),
        (monoids.CollectDistinct(), list("abcdefgh")),
        (monoids.BloomFilter(), list(range(8))),
        (monoids.CountMin(width=16), list("abcdabca")),
        (monoids.DistinctCount(lg_k=4), list("abcdefgh")),
    ]
    if importlib.util.find_spec("datasketches"):
        kinds += [
            (monoids.Quantiles(), list(range(8))),
            (monoids.HeavyHitters(), list("abcdabca")),
        ]
    cases = []
    for monoid, elements in kinds:
        layout = layout_of(monoid)
        rows = layout.gather_rows([monoid.row(element) for element in elements])
        for tier, run in ((0, rows), (1, layout.lift(rows))):
            page = Page(tier, np.arange(8), run)
            cases.append((layout, tier, encode_page(layout, "w", 3, page)))
    limit(megabytes, 300)
    tried = 0
    for layout, tier, data in cases:
        for hostile in islice(hostile_pages(data), 0, None, step):
            for known in (layout, TimesOnly()):
                tried += 1
                try:
                    page = decode_page(known, hostile, "w", tier, 3, 8)
                except PageCorrupt:
                    continue
                assert len(page.times) == 8
    return tried


def _windows(store: Any) -> None:
    """Windows of columns, of objects, of dates, and one that attempts share, all `bad-…`; and a good one."""
    from datetime import UTC, datetime, timedelta

    from mta import AmortizedMTA, monoids, policies
    from mta.durability.attempts import AttemptHold
    from mta.window import open_version, save_version

    policy = policies.CountWindow(30)
    kinds = {"bad-columns": monoids.Max(), "bad-objects": monoids.Collect(), "good": monoids.Sum()}
    for name, monoid in kinds.items():
        with AmortizedMTA(monoid, policy, store=store, name=name, page_size=4, lease=1e6) as window:
            for start in range(0, 50, 25):
                window.extend(range(start, start + 25))
                window._stored.checkpoints._inline = 0  # so that there are parts
                window.checkpoint(offset={"line": start})
    with AmortizedMTA(monoids.Max(), policy, store=store, name="bad-dates", page_size=4) as window:
        first = datetime(2024, 1, 1, tzinfo=UTC)
        window.extend(range(50), [first + timedelta(hours=row) for row in range(50)])
        window.checkpoint()
    for batch in range(2):
        hold = AttemptHold(store, "bad-shared", 4, None, batch=batch, run="r", lease=1e6)
        window = open_version(
            AmortizedMTA, monoids.Max(), policy, hold, store=store, name="bad-shared", page_size=4, base=None,
            inline=0,
        )  # fmt: skip
        window.extend(range(50))
        save_version(window, batch)


def try_roots(megabytes: int, step: int) -> int:
    """Every command on a store with one hostile root; the other window stays as it is."""
    from mta import AmortizedMTA, ManifestCorrupt, monoids, policies
    from mta.durability.coding import decode_root
    from mta.durability.operations import collect, inspect, remove, survey, verify
    from mta.errors import WindowError
    from stores.memory import MemoryStore

    store = MemoryStore()
    _windows(store)
    pages, roots = dict(store._contents.pages), dict(store._contents.roots)
    names = [name for name in roots if name.startswith("bad")]
    good = inspect(store, "good")
    limit(megabytes, 500)

    def restore() -> None:
        monoid = monoids.Collect() if name == "bad-objects" else monoids.Max()
        with AmortizedMTA.restore(store, name, monoid, policies.CountWindow(30)) as window:
            assert window.youngest is not None or not len(window)
            assert window.oldest is not None or not len(window)
            window.query()

    tried = 0
    for name in names:
        for number, data in enumerate(islice(hostile_roots(roots[name][0]), 0, None, step)):
            tried += 1
            store._contents.roots[name] = data, roots[name][1]
            try:
                decode_root(name, data)
            except ManifestCorrupt:
                if number % 10:  # with which every command begins
                    continue
            assert {each.name for each in survey(store)} == set(roots)
            assert verify(store, name).name == name
            for action in (lambda: inspect(store, name), restore):  # noqa: B023
                with suppress(WindowError):
                    action()
            collect(store, dry_run=True)
            collect(store)
            if name in store._contents.roots:
                remove(store, name)
            assert inspect(store, "good").tiers == good.tiers
            store._contents.pages, store._contents.roots = dict(pages), dict(roots)
    return tried


def try_stored(megabytes: int, step: int) -> int:
    """Verifies and restores windows with one hostile page or part."""
    from mta import AmortizedMTA, ManifestCorrupt, PageCorrupt, monoids, policies
    from mta.durability.operations import verify
    from stores import parse_page_key
    from stores.memory import MemoryStore

    store = MemoryStore()
    kinds = {"columns": monoids.Mean(), "objects": monoids.LongestIncreasingRun(), "any": monoids.ArgMax()}
    for name, monoid in kinds.items():
        with AmortizedMTA(monoid, policies.CountWindow(30), store=store, name=name, page_size=4) as window:
            window._stored.checkpoints._inline = 0
            window.extend([(i, f"x{i}") for i in range(47)] if name == "any" else range(47))
            window.checkpoint()
    pages = store._contents.pages
    places = {parse_page_key(key)[::2]: key for key in sorted(pages)}  # one of each window and tier
    limit(megabytes, 500)
    tried = 0
    for (name, _), key in places.items():
        whole = pages[key]
        for data in islice(hostile_pages(whole), 0, None, step):
            tried += 1
            pages[key] = data
            verify(store, name)
            try:
                AmortizedMTA.restore(store, name, kinds[name], policies.CountWindow(30)).close()
            except (PageCorrupt, ManifestCorrupt):
                continue
        pages[key] = whole
        assert verify(store, name).ok
    return tried


def try_used(megabytes: int, step: int) -> int:
    """Goes on with windows of objects of which one page or part is hostile; no error is the operator's."""
    from datetime import datetime, timedelta

    from mta import AmortizedMTA, LogMTA, monoids, policies
    from mta.errors import WindowError
    from stores.memory import MemoryStore

    some = {
        "Concat": (monoids.Concat(), str),
        "Collect": (monoids.Collect(), int),
        "CollectDistinct": (monoids.CollectDistinct(), int),
        "BloomFilter": (monoids.BloomFilter(), str),
        "Fields": (monoids.Fields(a=monoids.Collect("x"), b=monoids.Max("x")), lambda i: {"x": i}),
        "dates": (monoids.Collect(), int),
    }
    limit(megabytes, 500)
    tried = 0
    for what, (monoid, element) in some.items():
        moment = (lambda row: datetime(2024, 1, 1) + timedelta(hours=row)) if what == "dates" else int
        store = MemoryStore()
        policy = policies.CountWindow(30)
        with AmortizedMTA(monoid, policy, store=store, name="w", page_size=4) as window:
            window._stored.checkpoints._inline = 0
            for number in range(47):
                window.push(element(number), moment(number))
            window.checkpoint()
        pages, roots = dict(store._contents.pages), dict(store._contents.roots)
        for key in sorted(pages):
            for number, data in enumerate(islice(hostile_pages(pages[key]), 0, None, step)):
                tried += 1
                store._contents.pages, store._contents.roots = {**pages, key: data}, dict(roots)
                kind = (AmortizedMTA, LogMTA)[number % 2]
                with suppress(WindowError), kind.restore(store, "w", monoid, policy) as window:
                    for call in (
                        window.query,
                        lambda: window.range_query(moment(20), moment(40)),  # noqa: B023
                        lambda: (window.oldest, window.youngest),
                        lambda: window.push(element(99), moment(99)),  # noqa: B023
                        lambda: window.evict(9),
                        window.query,
                        window.checkpoint,
                    ):
                        with suppress(WindowError):
                            call()
    return tried


if __name__ == "__main__":
    sys.path.append(f"{sys.path[0]}/../mta")
    tries = {"pages": try_pages, "roots": try_roots, "stored": try_stored, "used": try_used}
    print(tries[sys.argv[1]](int(sys.argv[2]), int(sys.argv[3])))
