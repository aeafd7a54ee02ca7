"""The names that pages have in a window, and the keys that they have in its store."""

from __future__ import annotations

from typing import Protocol, TypeAlias

#: tier and number of a page
PageId: TypeAlias = tuple[int, int]

#: for each tier the number of the first page that is not behind every head; 0 for tiers that are not in it
FirstPages: TypeAlias = dict[int, int]


class PageKeys(Protocol):
    """The keys of a window's pages: of one version, or of all that a writer has written."""

    def prefix(self, tier: int, number: int) -> str:
        """The prefix of a page's key, which names the window, the epoch that wrote the page, and the tier."""

    def check_hold(self) -> None:
        """Raises an error if a page may be missing because another writer took the window over."""


class WriterKeys(PageKeys, Protocol):
    """The keys that a writer gives to pages, and the keys that must stay."""

    def claim(self) -> None:
        """Takes epochs to write under, unless this writer has some."""

    def can_withdraw(self) -> bool:
        """Whether there is an epoch left to withdraw to."""

    def withdraw(self, tail: int) -> None:
        """Gives other keys to the pages that end behind `tail`: the keys that they had may be in use."""

    def prefixes(self, tier: int, pages: range) -> list[tuple[str, range]]:
        """The prefixes of the keys of some pages of a tier, each with its range of pages."""

    def needed(self, tier: int) -> list[tuple[str, range]]:
        """The pages of a tier that versions name: the retained versions, and those that may be committed."""

    def knows_root(self) -> bool:
        """Whether the root is the last one that this writer left, and no commit of it is in doubt."""
