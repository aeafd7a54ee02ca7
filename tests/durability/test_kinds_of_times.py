"""A version says the kind of its times; one without this field, as before there were kinds, has numbers."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgpack
import pytest
from hostile import hostile_roots, sealed

from mta import AmortizedMTA, monoids
from mta.durability.coding import decode_root, encode_root, pack_version, unpack_version
from mta.durability.invariants import check
from mta.durability.manifest import Root, SavedView
from mta.durability.operations import inspect, verify
from mta.errors import ManifestCorrupt
from mta.times.kinds import FIRST, INSTANTS, LAST, LOCAL, NUMBERS, TimeKind
from stores import Store, open_store

SHIFT, HOUR = 2, 3600 * 10**6
FIRSTS = {INSTANTS: datetime(1970, 1, 1, tzinfo=UTC), LOCAL: datetime(1970, 1, 1)}


def window_of(kind: TimeKind, elements: int = 21) -> tuple[Store, Root]:
    store = open_store("memory:")
    with AmortizedMTA(monoids.Max(), store=store, name="w", page_size=1 << SHIFT) as window:
        for row in range(elements):
            window.push(row, row * HOUR if kind is NUMBERS else FIRSTS[kind] + timedelta(hours=row))
        window.checkpoint("here")
        found = store.read_root("w")
    assert found is not None
    return store, decode_root("w", found[0])


@pytest.mark.parametrize(("kind", "name"), [(INSTANTS, "instants"), (LOCAL, "local")])
def test_two_fields_more_say_the_kind(kind: TimeKind, name: str) -> None:
    _, root = window_of(kind)
    _, plain = window_of(NUMBERS)
    (version,) = root.versions
    assert pack_version(version) == [*pack_version(replace(version, kind=NUMBERS)), None, name]
    assert pack_version(version)[1:5] == pack_version(plain.versions[0])[1:5] == [0, 21, 0, 20 * HOUR]
    assert unpack_version(SHIFT, pack_version(version)) == version
    assert version.kind is kind
    assert plain.versions[0].kind is NUMBERS
    check("w", root, ())
    views = (SavedView(3, 21, 3 * HOUR), SavedView(5, 9, 5 * HOUR))
    several = replace(version, views=views)
    assert pack_version(several)[10:] == [[list(view) for view in views], name]
    assert unpack_version(SHIFT, pack_version(several)) == several


@pytest.mark.parametrize("kind", [INSTANTS, LOCAL])
def test_operators_see_dates(kind: TimeKind) -> None:
    store, _ = window_of(kind)
    (seen,) = inspect(store, "w").versions
    assert (seen.oldest, seen.youngest) == (FIRSTS[kind], FIRSTS[kind] + timedelta(hours=20))
    assert verify(store, "w").ok


BAD: dict[str, tuple[Any, str]] = {
    "no kind": (lambda fields: [*fields[:11]], "the views is None, not a list"),
    "numbers": (lambda fields: [*fields[:11], "numbers"], "the kind of times is 'numbers', not one of"),
    "unknown": (lambda fields: [*fields[:11], "sundials"], "the kind of times is 'sundials', not one of"),
    "no text": (lambda fields: [*fields[:11], 1], "the kind of times is 1, not a text"),
    "unhashable": (lambda fields: [*fields[:11], [1]], "the kind of times is .*, not a text"),
    "more": (lambda fields: [*fields, None], "not a list of 12"),
    "views that need no field": (lambda fields: [*fields[:10], [[0, 21, 0]], "local"], "need no field"),
    "a real time": (
        lambda fields: [*fields[:4], 0.5 + 20 * HOUR, *fields[5:]],
        "one of them is 72000000000.5",
    ),
    "a real oldest": (lambda fields: [*fields[:3], 0.0, *fields[4:]], "one of them is 0.0"),
    "after all dates": (lambda fields: [*fields[:4], LAST + 1, *fields[5:]], f"one of them is {LAST + 1}"),
    "before all dates": (lambda fields: [*fields[:3], FIRST - 1, *fields[4:]], f"one of them is {FIRST - 1}"),
}


@pytest.mark.parametrize("bad", BAD)
def test_bad_kinds_are_refused_with_a_reason(bad: str) -> None:
    change, reason = BAD[bad]
    _, root = window_of(INSTANTS)
    with pytest.raises(ManifestCorrupt, match=reason):
        unpack_version(SHIFT, change(pack_version(root.versions[0])))


def test_hostile_roots_of_dates_are_read_or_refused() -> None:
    store, root = window_of(INSTANTS)
    data = encode_root("w", root)
    content = msgpack.unpackb(data[4:-8], strict_map_key=False)
    assert sealed(b"MTAR" + msgpack.packb(content)) == data
    tried = read = 0
    for hostile in hostile_roots(data):
        tried += 1
        try:
            found = decode_root("w", hostile)
        except ManifestCorrupt:
            continue
        read += 1
        assert all(version.kind in TimeKind for version in found.versions)
        for version in found.versions:
            assert version.kind is NUMBERS or FIRST <= version.youngest <= LAST
    assert tried > 2000
    assert 0 < read < tried / 2
    assert verify(store, "w").ok
