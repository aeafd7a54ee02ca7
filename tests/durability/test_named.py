"""What versions name, against plain sets of keys that are made without it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mta.durability.manifest import DOCUMENTS, PART, Extents, Named, Part, SavedTail, SavedView, Version
from mta.paging.ranges import union, without
from stores import page_key, page_prefix, parse_page_key

SHIFT = 1
RANGES = st.lists(
    st.builds(lambda start, size: range(start, start + size), st.integers(0, 30), st.integers(0, 9))
)


@st.composite
def versions(draw: Any) -> Version:
    tail = draw(st.integers(0, 70))
    head = draw(st.integers(0, tail))
    closed = sorted(draw(st.lists(st.integers(0, tail), max_size=3)))
    epochs = draw(st.lists(st.integers(1, 6), min_size=len(closed) + 1, max_size=len(closed) + 1))
    ends = (*zip(epochs, closed, strict=False), (epochs[-1], None))
    tiers = draw(st.integers(max(1, tail.bit_length()), 8))
    tails = []
    for tier in range(tiers):
        serials = draw(st.lists(st.integers(0, 12), max_size=3))
        parts = tuple(Part(tier, draw(st.integers(1, 3)), serial, 0, 1) for serial in serials)
        tails.append(SavedTail(0, parts))
    documents = tuple(
        (epoch, first, first + size)
        for epoch, first, size in draw(
            st.lists(st.tuples(st.integers(1, 3), st.integers(0, 9), st.integers(0, 4)), max_size=2)
        )
    )
    views = (SavedView(head, tail, None),)
    return Version(1, views, tail, None, b"", Extents(ends, SHIFT), tuple(tails), 0, documents)


def wanted(some: list[Version], name: str) -> set[str]:
    """Leaf by leaf: a page is named if it is full and has a leaf of the window in it."""
    keys = set()
    for version in some:
        for tier in range(len(version.tails)):
            size = 1 << SHIFT * (tier + 1)
            for leaf in range(version.head, version.tail):
                number = leaf // size
                if (number + 1) * size > version.tail:
                    continue
                epoch = next(
                    epoch for epoch, end in version.extents.ends if end is None or (number + 1) * size <= end
                )
                keys.add(page_key(page_prefix(name, epoch, tier), number))
        for tail in version.tails:
            keys |= {
                page_key(page_prefix(name, part.epoch, PART | part.tier), part.serial) for part in tail.parts
            }
        for epoch, first, last in version.documents:
            keys |= {page_key(page_prefix(name, epoch, DOCUMENTS), n) for n in range(first, last)}
    return keys


@given(st.lists(versions(), max_size=3), st.lists(versions(), max_size=2))
def test_named_is_what_versions_name(some: list[Version], others: list[Version]) -> None:
    named, rest = Named.by(some), Named.by(others)
    keys = list(named.keys("w"))
    assert len(keys) == len(set(keys))
    assert set(keys) == wanted(some, "w")
    assert bool(named) == bool(keys)
    for key in {*keys, *wanted(others, "w")}:
        assert (parse_page_key(key) in named) == (key in set(keys))
    assert set(named.less(rest).keys("w")) == wanted(some, "w") - wanted(others, "w")
    assert set(named.keys("w")) == set().union(*(version.keys("w") for version in some))


def test_nothing_is_named_by_ranges_of_nothing() -> None:
    views = (SavedView(3, 3, None),)
    empty = Version(1, views, 3, None, b"", Extents(((1, None),), SHIFT), (SavedTail(2),), 0, ((1, 5, 5),))
    assert not Named.by([empty])
    assert not list(empty.keys("w"))


@given(st.lists(versions(), max_size=3), st.integers(0, 3))
def test_some_tiers(some: list[Version], tier: int) -> None:
    found = set(Named.by(some, (tier,)).keys("w"))
    assert found == {key for key in wanted(some, "w") if parse_page_key(key).tier == tier}


@given(RANGES, RANGES)
def test_ranges(ranges: list[range], others: list[range]) -> None:
    numbers = {number for each in ranges for number in each}
    joined = union(ranges)
    assert [number for each in joined for number in each] == sorted(numbers)
    assert all(a.stop < b.start for a, b in pairwise(joined))
    left = without(joined, others)
    assert {n for each in left for n in each} == numbers - {n for each in others for n in each}
    assert all(left)
