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
