"""Versions of several views: their bytes, old and new, and what they keep in the store."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import msgpack
import pytest
from hostile import hostile_roots, sealed

from mta import AmortizedMTA, ManifestCorrupt, monoids
from mta.durability.coding import decode_root, encode_root, pack_version, unpack_version
from mta.durability.invariants import check
from mta.durability.manifest import Named, Root, SavedView, Version
from mta.encoding.packing import pack
from stores import open_store

SHIFT = 1

#: Roots as they were written before versions named views: of one writer, with parts of two epochs, and of
#: attempts of which two have published.
BEFORE_VIEWS = {
    "w": (
        "TVRBUpsDoXfPAAZgrwbkZLcCpU1heCgprkNvdW50V2luZG93KDcpk6Rob3N0BwnABJKaAgYNBgzEB4GkbGluZQ2Rks8ABmCvBuRc"
        "JcCUlAyRk88ABmCvBuRcJQIBxAAAlAaQxAAAlAKRk88ABmCvBuRcJQMBxAAAlACRk88ABmCvBuRcJQEBxAAABJCaAwcOBw3EApEB"
        "kpLPAAZgrwbkXCUNks8ABmCvBuRkt8CUlA6QxAAAlAaQxEBNVEExIAAAAJahd6R0YWlsAQYBkpOjPGk4kAiTozxmOJAIwcHBwcHB"
        "DQAAAAAAAAAAAAAAAAAIQDiRWd1Qxbq1AZQCkZPPAAZgrwbkXCUDAcQAAJQAkZPPAAZgrwbkXCUBAcQAAASQkGI7rvful3mi"
    ),
    "shared": (
        "TVRBUpsDpnNoYXJlZM8ABmCvBuR/JAKlU3VtKCm9VGltZVdpbmRvdyg5LCBjbG9zZWQ9J3JpZ2h0JymToAAAwAGRmgAABQAExAEA"
        "kZLPAAZgrwbkdyTAk5QEkZPPAAZgrwbkdyQAAcQAAJQCkMQAAJQAkZPPAAZgrwbkdyQBAcQAAAKQkpewYzI3MmNhZmY0NTU1OGU0"
        "Zs8ABmCvBuR7JAGhcpOkaG9zdAcJy0Haw8lV3GIXmgEFCgoOxAEBkpLPAAZgrwbkdyQFks8ABmCvBuR7JMCUlAqQxAAAlASRk88A"
        "BmCvBuR7JAIBxAAAlAKQxAAAlACRk88ABmCvBuR7JAMBxAAABJCXsDZlZTFkMWI5YmU3M2Y3NWLPAAZgrwbkfyQBoXKTpGhvc3QH"
        "CctB2sPJVdxueJoBBQoKDsQBAZKSzwAGYK8G5HckBZLPAAZgrwbkfyTAlJQKkMQAAJQEkZPPAAZgrwbkfyQCAcQAAJQCkMQAAJQA"
        "kZPPAAZgrwbkfyQDAcQAAASQpy4qaiLtC+4="
    ),
}


def root_of_window(elements: int = 21) -> Root:
    store = open_store("memory:")
    with AmortizedMTA(monoids.Max(), store=store, name="w", page_size=1 << SHIFT) as window:
        window.extend(range(elements))
        window.checkpoint("here")
        found = store.read_root("w")
    assert found is not None
    return decode_root("w", found[0])


def with_views(root: Root, *views: tuple[int, int, Any]) -> Root:
    (version,) = root.versions
    return replace(root, versions=(replace(version, views=tuple(SavedView(*view) for view in views)),))


def test_one_view_up_to_the_tail_is_the_bytes_of_versions_before_there_were_views() -> None:
    (version,) = root_of_window().versions
    packed = pack_version(version)
    assert packed[:6] == [1, 0, 21, 0, 20, pack("here")]
    assert len(packed) == 10
    assert unpack_version(SHIFT, packed) == version
    assert version.views == (SavedView(0, 21, 0),)


@pytest.mark.parametrize("name", BEFORE_VIEWS)
def test_roots_of_before_are_read_and_written_as_they_were(name: str) -> None:
    data = base64.b64decode(BEFORE_VIEWS[name])
    root = decode_root(name, data)
    assert root.retained
    assert all(version.views == ((version.head, version.tail, version.oldest),) for version in root.retained)
    assert encode_root(name, root) == data
    check(name, root, ())


@pytest.mark.parametrize(
    "views",
    [
        [(3, 21, 3), (17, 21, 17)],
        [(17, 21, 17), (3, 21, 3)],
        [(5, 12, 5)],
        [(21, 21, None), (4, 4, None), (9, 10, 9)],
        [(0, 21, 0)] * 3,
    ],
)
def test_several_views_come_back(views: list[tuple[int, int, Any]]) -> None:
    root = with_views(root_of_window(), *views)
    again = decode_root("w", encode_root("w", root))
    assert again == root
    (version,) = again.versions
    oldest = min(views, key=lambda view: view[0])
    assert (version.head, version.oldest) == oldest[::2]
    assert again.first_needed() == oldest[0]
    assert [tuple(view) for view in version.views] == views


def test_pages_from_the_oldest_head_on_are_named() -> None:
    (version,) = with_views(root_of_window(), (13, 21, 13), (5, 9, 5)).versions
    alone = replace(version, views=(SavedView(5, 21, 5),))
    assert list(version.pages()) == list(alone.pages()) != []
    assert Named.by([version]) == Named.by([alone])


BAD_VIEWS: dict[str, tuple[Any, str]] = {
    "none": ([], "0 views"),
    "too many": ([[0, 20, 0]] * 5000, "5000 views"),
    "the only one": ([[0, 21, 0]], "1 views"),
    "behind the tail": ([[0, 22, 0]], r"a view of it is \[0, 22\), and its tail is 21"),
    "backwards": ([[0, 21, 0], [9, 8, None]], r"a view of it is \[9, 8\)"),
    "negative": ([[-1, 3, 0]], "the head of a view is -1"),
    "empty with a time": ([[0, 21, 0], [8, 8, 8]], "it holds 0 elements, of times from 8 to 20"),
    "without a time": ([[0, 21, 0], [8, 9, None]], "it holds 1 elements, of times from None to 20"),
    "younger than the youngest": ([[0, 21, 0], [8, 9, 30]], "of times from 30 to 20"),
    "of another head": ([[2, 21, 2], [8, 9, 8]], "its head is 0"),
    "of another time": ([[0, 21, 1], [8, 9, 8]], "its head is 0"),
    "no list": (7, "the views is 7"),
    "a short one": ([[1, 2]], "a view is"),
    "text": ([["x", 2, 3]], "the head of a view is 'x'"),
}


@pytest.mark.parametrize("bad", BAD_VIEWS)
def test_bad_views_are_refused_with_a_reason(bad: str) -> None:
    views, reason = BAD_VIEWS[bad]
    (version,) = root_of_window().versions
    with pytest.raises(ManifestCorrupt, match=reason):
        unpack_version(SHIFT, [*pack_version(version), views])


def test_hostile_roots_of_several_views_are_read_or_refused() -> None:
    root = with_views(root_of_window(), (3, 21, 3), (5, 9, 5))
    data = encode_root("w", root)
    content = msgpack.unpackb(data[4:-8], strict_map_key=False)
    assert sealed(b"MTAR" + msgpack.packb(content)) == data
    tried = refused = 0
    for hostile in hostile_roots(data):
        tried += 1
        try:
            found = decode_root("w", hostile)
        except ManifestCorrupt:
            refused += 1
            continue
        for version in found.retained:
            check_views(version)
    assert refused > tried * 0.9 > 1000


def check_views(version: Version) -> None:
    assert version.views
    assert all(0 <= view.head <= view.end <= version.tail for view in version.views)
