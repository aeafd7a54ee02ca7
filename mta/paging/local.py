"""Pages of a log without a store: the paper's Mem. LMTA and Mem. AMTA."""

from __future__ import annotations

from collections.abc import Sequence

from mta.core.page import Page
from mta.core.states import Run


class NoFollower:
    """Reads nothing ahead: all pages are in the process."""

    def head_at(self, page: int) -> None:
        pass


class LocalPages:
    """Keeps pages as they are, in the process."""

    def __init__(self) -> None:
        self._pages: dict[tuple[int, int], Page] = {}
        self._dropped: dict[int, int] = {}

    def check(self, states: Run) -> None:
        pass

    def put(self, tier: int, number: int, page: Page) -> None:
        if number >= self._dropped.get(tier, 0):
            self._pages[tier, number] = page

    def settle(self, tail: int) -> None:
        pass

    def take_back(self, tail: int) -> None:
        pass  # the next page of the same number takes the place

    def fetch(self, wanted: Sequence[tuple[int, int]]) -> list[Page]:
        return [self._pages[key] for key in wanted]

    def follow(self) -> NoFollower:
        return NoFollower()

    def drop_below(self, tier: int, number: int) -> None:
        for gone in range(self._dropped.get(tier, 0), number):
            self._pages.pop((tier, gone), None)
        self._dropped[tier] = max(number, self._dropped.get(tier, 0))

    def reserve(self, pages: int) -> None:
        pass

    def admit(self, tail: int) -> None:
        pass

    def close(self) -> None:
        self._pages.clear()
