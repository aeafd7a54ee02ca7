"""Which pages there are, and what their keys are: what buffer, cache and reaper have in common."""

from __future__ import annotations

from typing import Protocol, TypeAlias

#: tier and number of a page
PageId: TypeAlias = tuple[int, int]


class Keys(Protocol):
    """Which keys the pages of a window have in its store, as its writer knows."""

    def claim(self) -> None:
        """Takes epochs to write under, unless this writer has some."""

    def prefix(self, tier: int, number: int) -> str: ...

    def can_withdraw(self) -> bool:
        """Whether there is an epoch left to withdraw to."""

    def withdraw(self, tail: int) -> None:
        """Pages that end behind `tail` have other keys from now on than they had."""

    def prefixes(self, tier: int, pages: range) -> list[tuple[str, range]]:
        """The prefixes that pages of a tier have, with the range of each."""

    def needed(self, tier: int) -> list[tuple[str, range]]:
        """The pages of a tier that versions name: those that are retained, and those that may be."""

    def check_hold(self) -> None:
        """Raises Fenced if another writer has taken the window over."""

    def knows_root(self) -> bool:
        """Whether the root is as this writer left it: nobody took over, and no commit is in doubt."""


class Behind:
    """The pages that are behind the head: those of a tier before a number, which only grows."""

    def __init__(self) -> None:
        self._first: dict[int, int] = {}

    def first(self, tier: int) -> int:
        """The first page of a tier that is not behind the head."""
        return self._first.get(tier, 0)

    def __contains__(self, name: PageId) -> bool:
        return name[1] < self._first.get(name[0], 0)

    def move(self, tier: int, number: int) -> bool:
        """Takes the pages of a tier before a number in; whether that was news."""
        if number <= self._first.get(tier, 0):
            return False
        self._first[tier] = number
        return True
