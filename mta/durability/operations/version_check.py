"""One version of a window, read and compared with itself."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mta.core.page import Page
from mta.core.states import ColumnLayout, Layout, layout_of
from mta.core.tail import Tail
from mta.durability.coding import decode_root
from mta.durability.manifest import Root, Version
from mta.durability.operations.agreement import agree
from mta.durability.tails import load_tail
from mta.encoding.untrusted import Malformed, shown, surely
from mta.errors import ManifestCorrupt, PageError
from mta.monoids.base import Monoid
from mta.monoids.ufuncs import quiet
from mta.paging.codec import TimesOnly
from mta.paging.page_reader import PageReader
from stores import Store

#: Pages that are read in one call.
CHUNK = 8

#: After this many problems the rest is not checked: a manifest can name more pages than can be read.
MOST_PROBLEMS = 1000


@dataclass
class Report:
    """The result of `verify`: what was checked, and all problems."""

    name: str
    versions: list[int] = field(default_factory=list)
    pages: int = 0
    parts: int = 0
    recomputed: int = 0
    monoid: str | None = None
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    #: what was not checked, and why
    unchecked: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether no problem was found."""
        return not self.problems


class GivenUp(Exception):
    """The writer has given up the version since its root was read."""


class TooMany(Exception):
    """There are so many problems that the rest does not matter."""


class VersionCheck:
    """One version of a window."""

    def __init__(
        self, store: Store, name: str, root: Root, version: Version, monoid: Monoid | None, report: Report
    ) -> None:
        self._store, self._name, self._version, self._report = store, name, version, report
        self._size = root.page_size
        self._shift = root.page_size.bit_length() - 1
        self._monoid = monoid
        self._layout: Layout = TimesOnly() if monoid is None else layout_of(monoid)
        self._reader = PageReader(store, name, self._layout, self, self._shift)
        self._tails: list[Tail | None] = []
        self._parent: tuple[tuple[int, int], Page | None] | None = None

    def _problem(self, text: str) -> None:
        text = f"version {self._version.number}: {text}"
        if text not in self._report.problems:
            self._report.problems.append(text)
        if len(self._report.problems) >= MOST_PROBLEMS:
            raise TooMany

    def run(self) -> None:
        self._tails = [self._load_tail(tier) for tier in range(len(self._version.tails))]
        ranges = {tier: (start, stop) for tier, start, stop in self._version.pages()}
        for tier in reversed(range(len(self._tails))):
            start, stop = ranges.get(tier, (0, 0))
            self._check_tier(tier, start, stop)
        self._check_ends()

    # -- tails ------------------------------------------------------------------------------------------

    def _load_tail(self, tier: int) -> Tail | None:
        saved = self._version.tails[tier]
        keys = [part.key(self._name) for part in saved.parts]
        found = dict(zip(saved.parts, self._store.get_many(keys), strict=True)) if keys else {}
        if any(data is None for data in found.values()):
            self.check_hold()
        self._report.parts += len(keys)
        try:
            tail = load_tail(self._store, self._name, self._layout, found, tier, saved)
            _ascend(tail.page().times)
        except (PageError, Wrong) as error:
            self._problem(str(error))
            return None
        return tail

    def prefix(self, tier: int, number: int) -> str:
        return self._version.extents.prefix(self._name, tier, number)

    def check_hold(self) -> None:
        """Raises GivenUp if a page or part may be missing because the version was given up."""
        found = self._store.read_root(self._name)
        try:
            root = None if found is None else decode_root(self._name, found[0])
        except ManifestCorrupt as error:
            self._problem(str(error))
            return
        if root is None or root.readable(self._version.number) is None:
            raise GivenUp

    # -- pages ------------------------------------------------------------------------------------------

    def _check_tier(self, tier: int, start: int, stop: int) -> None:
        last: Any = None
        for number, page in self._pages(tier, start, stop):
            if page is None:
                last = None
                continue
            what = f"page {number} of tier {tier}"
            try:
                _ascend(page.times, last)
                last = page.times[-1]
                self._check_parent(tier, number, page)
            except Wrong as error:
                self._problem(f"{what}: {error}")
        tail = self._tails[tier]
        if tail is not None and len(tail) and last is not None and tail.page().times[0] < last:
            self._problem(f"the tail of tier {tier} begins at a time before the end of the page before it")

    def _pages(self, tier: int, start: int, stop: int) -> Iterator[tuple[int, Page | None]]:
        for first in range(start, stop, CHUNK):
            numbers = range(first, min(stop, first + CHUNK))
            self._report.pages += len(numbers)
            yield from zip(numbers, self._read(tier, numbers), strict=True)

    def _read(self, tier: int, numbers: range) -> list[Page | None]:
        pages: list[Page | None] = []
        for name, key, data in self._reader.stored([(tier, number) for number in numbers]):
            page = None
            if data is None:
                self.check_hold()
                self._problem(f"page {name[1]} of tier {tier} is not in the store (key {key!r})")
            else:
                try:
                    page = self._reader.decode(name, data)
                except PageError as error:
                    self._problem(str(error))
            pages.append(page)
        return pages

    # -- aggregates -------------------------------------------------------------------------------------

    def _check_parent(self, tier: int, number: int, page: Page) -> None:
        """The entry above a page has the page's last time, and its aggregate."""
        parent, start = self._parent_page(tier + 1, number)
        if parent is None:
            return  # which is a problem of its own
        at = number - start
        if at >= len(parent.times):
            return
        if parent.times[at] != page.times[-1]:
            raise Wrong(f"it ends at {page.times[-1]}, and the entry above it at {parent.times[at]}")
        if self._monoid is None:
            return
        try:
            expected, found, magnitude = surely(lambda: self._both(page, parent, at))
        except Malformed as error:
            raise Wrong(str(error)) from error
        self._report.recomputed += 1
        if not agree(self._monoid, expected, found, magnitude):
            raise Wrong(f"its aggregate is {shown(expected)}, and the entry above it says {shown(found)}")

    def _both(self, page: Page, parent: Page, at: int) -> tuple[Any, Any, float]:
        """The aggregate of a page, what the entry above it says, and how large the numbers are in it."""
        try:
            states = self._states(page)
            return self._layout.fold(states), self._layout.at(parent.run, at), self._magnitude(states)
        except MemoryError:
            raise
        except Exception as error:  # of the monoid, which may be anybody's
            raise Malformed(f"its aggregate cannot be computed: {error!r}") from error

    def _parent_page(self, tier: int, entry: int) -> tuple[Page | None, int]:
        number = entry >> self._shift
        start = number << self._shift
        tail = self._tails[tier] if tier < len(self._tails) else None
        if tier >= len(self._tails):
            return None, start
        if start == self._version.tails[tier].start:
            return (None if tail is None else tail.page()), start
        if self._parent is None or self._parent[0] != (tier, number):
            self._parent = (tier, number), self._read(tier, range(number, number + 1))[0]
        return self._parent[1], start

    def _states(self, page: Page) -> Any:
        """The states of a page; of objects one after the other where each may be large."""
        objects = page.tier == 0 and not isinstance(self._layout, ColumnLayout)
        if objects and not self._layout.monoid.grows:
            return map(self._layout.monoid.lift_row, page.run)
        return page.states(self._layout)

    def _magnitude(self, states: Any) -> float:
        """How large the numbers are that were added up."""
        if not isinstance(self._layout, ColumnLayout):
            return 0.0
        reals = [np.abs(column[np.isfinite(column)]) for column in states if column.dtype.kind == "f"]
        with quiet():
            return min(max((float(column.sum()) for column in reals), default=0.0), sys.float_info.max)

    # -- ends -------------------------------------------------------------------------------------------

    def _check_ends(self) -> None:
        """Checks the times of the oldest and the youngest element against those in the version."""
        version = self._version
        ends = [("oldest", view.head, view.oldest) for view in version.views if view.head < view.end]
        if version.head < version.tail:
            ends.append(("youngest", version.tail - 1, version.youngest))
        for what, position, time in ends:
            number = position >> self._shift
            tail = self._tails[0]
            if number << self._shift != version.tails[0].start:
                page = self._read(0, range(number, number + 1))[0]
            else:
                page = None if tail is None else tail.page()
            at = position & self._size - 1
            if page is not None and at < len(page.times) and page.times[at] != time:
                self._problem(f"its {what} element is of {time}, and element {position} of {page.times[at]}")


class Wrong(Exception):
    """What is wrong with a page."""


def _ascend(times: Any, last: Any = None) -> None:
    backwards = ~(times[1:] >= times[:-1])  # as NaN is too
    if backwards.any():
        row = int(backwards.argmax()) + 1
        raise Wrong(f"its times go backwards at entry {row}: {times[row]} after {times[row - 1]}")
    if last is not None and len(times) and times[0] < last:
        raise Wrong(f"it begins at {times[0]}, before the end {last} of the page before it")
