"""Ranges of page numbers."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable


def without(ranges: Iterable[range], others: Iterable[range]) -> list[range]:
    """The ranges less what others cover, in order."""
    left, others = [], union(others)
    for pages in ranges:
        start = pages.start
        for at in range(bisect_right(others, start, key=_stop), len(others)):
            other = others[at]
            if other.start >= pages.stop:
                break
            if start < other.start:
                left.append(range(start, other.start))
            start = other.stop
        if start < pages.stop:
            left.append(range(start, pages.stop))
    return left


def union(ranges: Iterable[range]) -> list[range]:
    """What the ranges cover, in order, without two that overlap or meet."""
    found: list[range] = []
    for each in sorted(ranges, key=lambda one: one.start):
        if found and each.start <= found[-1].stop:
            found[-1] = range(found[-1].start, max(found[-1].stop, each.stop))
        elif each:
            found.append(each)
    return found


def _stop(pages: range) -> int:
    return pages.stop
