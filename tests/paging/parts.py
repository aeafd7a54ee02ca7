"""What the parts of a window's pages are made of, for tests of one part alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from mta import monoids
from mta.core.page import Page
from mta.core.states import layout_of
from mta.paging.background import Lane, pool_of
from mta.paging.page_writer import PageWriter
from stores import Store
from stores.base import page_prefix

SHIFT = 2
SIZE = 1 << SHIFT
LAYOUT = layout_of(monoids.Sum())


class OneWriter:
    """Keys of a writer without a rival: an epoch for each time that pages were withdrawn."""

    def __init__(self, epochs: int = 1000) -> None:
        self.ends: list[tuple[int, int | None]] = [(1, None)]
        self.left = epochs
        self.claims = 0
        #: pages that a version names, by tier
        self.named: dict[int, range] = {}
        self.is_known = True

    def claim(self) -> None:
        self.claims += 1

    def prefix(self, tier: int, number: int) -> str:
        end_of_page = (number + 1) << SHIFT * (tier + 1)
        epoch = next(epoch for epoch, end in self.ends if end is None or end_of_page <= end)
        return page_prefix("w", epoch, tier)

    def can_withdraw(self) -> bool:
        return self.left > 0

    def withdraw(self, tail: int) -> None:
        epoch = self.ends.pop()[0]
        self.ends += [(epoch, tail), (epoch + 1, None)]
        self.left -= 1

    def prefixes(self, tier: int, pages: range) -> list[tuple[str, range]]:
        found: dict[str, list[int]] = {}
        for number in pages:
            found.setdefault(self.prefix(tier, number), []).append(number)
        return [(prefix, range(numbers[0], numbers[-1] + 1)) for prefix, numbers in found.items()]

    def needed(self, tier: int) -> list[tuple[str, range]]:
        return self.prefixes(tier, self.named.get(tier, range(0)))

    def check_hold(self) -> None:
        pass

    def knows_root(self) -> bool:
        return self.is_known


class Recorder:
    """In the place of a cache and of a reaper: notes its calls."""

    def __init__(self) -> None:
        self.noted: list[tuple[str, Any]] = []

    def offer(self, name: Any, page: Page) -> None:  # noqa: ARG002
        self.noted.append(("offer", name))

    def forget(self, names: Any) -> None:
        self.noted.append(("forget", sorted(names)))

    def expect(self, name: Any) -> None:
        self.noted.append(("expect", name))

    def give_up(self, keys: Any) -> None:
        self.noted.append(("give up", list(keys)))

    def of(self, what: str) -> list[Any]:
        return [each for kind, each in self.noted if kind == what]


def page(tier: int, number: int, mark: int = 0) -> Page:
    """A full page of a tier, which no other number or mark has."""
    times = np.arange(number * SIZE, (number + 1) * SIZE)
    return Page(tier, times, (times * 1000 + mark,))


def same(a: Page, b: Page) -> bool:
    return (
        a.tier == b.tier and a.times.tolist() == b.times.tolist() and a.run[0].tolist() == b.run[0].tolist()
    )


def writer_of(store: Store, keys: OneWriter | None = None) -> PageWriter:
    return PageWriter(store, "w", LAYOUT, keys or OneWriter(), SHIFT)


def lane_of(store: Store) -> Lane:
    return Lane(pool_of(store))
