"""Ranges of page numbers."""

from __future__ import annotations

from collections.abc import Iterable


def without(ranges: Iterable[range], others: Iterable[range]) -> list[range]:
    """The ranges less what others cover, in order."""
    left = []
    others = sorted(others, key=lambda other: other.start)
    for pages in ranges:
        start = pages.start
        for other in others:
            if start < other.start < pages.stop:
                left.append(range(start, other.start))
            if other.start < pages.stop:
                start = max(start, other.stop)
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
