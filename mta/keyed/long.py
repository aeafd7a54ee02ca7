"""A key whose window is long: it has windows of its own, whose pages are in the store.

A window that becomes short again is not read back. Its new rows are noted as they come, until the noted rows
are all that it holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import msgpack
import numpy as np

from mta.durability.attempts import AttemptHold
from mta.durability.coding import pack_version, unpack_version
from mta.durability.manifest import Version
from mta.encoding import packing
from mta.encoding.untrusted import Malformed, fields, text, whole
from mta.keyed.codec import Column
from mta.keyed.group import SHORT_WINDOW, Group, KeyedPlan, Rows
from mta.window import MonoidTreeAggregator, open_version, save_version
from stores import Store, StoreError

#: A window with at most this number of rows is short again.
SHORT_AGAIN = 256

#: Bytes of a window's rows among those of other keys, and of the tails of a window that has pages.
INLINE_ROWS, INLINE_TAILS = 12 << 10, 12 << 10

#: More rows than a window in memory has.
_MOST_ROWS = 1 << 24


class SavedRows(NamedTuple):
    """A window without pages, as msgpack has it: a list of these fields."""

    kind: str
    length: int
    times: Column | None
    #: by the names of fields; empty for a program that reads none
    columns: Mapping[str, Column]

    @staticmethod
    def encode(rows: Rows) -> SavedRows:
        values, times, count = rows
        columns = values if isinstance(values, dict) else {}
        packed = {name: Column.encode(column) for name, column in columns.items()}
        return SavedRows("rows", count, None if times is None else Column.encode(times), packed)

    @staticmethod
    def decode(packed: Any) -> Rows:
        _, count, times, columns = fields(packed, "the rows of a window", 4)
        whole(count, "the number of rows", 0, _MOST_ROWS)
        if type(columns) is not dict:
            raise Malformed("the columns of a window are no mapping")
        values: Any = {name: Column.decode(each, count) for name, each in columns.items()}
        if not columns:
            values = np.ones(count, dtype=np.int64)
        return Rows(values, None if times is None else Column.decode(times, count), count)

    def size(self) -> int:
        return len(msgpack.packb(self))


class SavedPages(NamedTuple):
    """A window with pages in the store, as msgpack has it: a list of these fields."""

    kind: str
    page_size: int
    #: as `mta.durability.coding.pack_version` writes it
    version: list[Any]


class SavedKey(NamedTuple):
    """The windows of a key that has windows of its own, as msgpack has it: a list of these fields."""

    #: how the names of the windows begin: `/` and the number of the program follow
    name: str
    #: of each program
    windows: list[SavedRows | SavedPages]
    #: the names of those windows that have something in the store
    stored: list[str]
    #: of each program the noted rows, None while its window is long
    noted: list[SavedRows | None]

    @staticmethod
    def decode(data: bytes, programs: int) -> SavedKey:
        """The fields. The windows and noted rows are lists still, of which only the kind is checked."""
        name, windows, stored, noted = fields(packing.unpack(data), "the windows of a key", 4)
        for window in fields(windows, "the windows of a key", programs):
            kind = fields(window, "a window")[:1]
            if kind == ["window"]:
                _, size, _ = fields(window, "a window", 3)
                if whole(size, "the size of pages", 2, 1 << 24).bit_count() != 1:
                    raise Malformed(f"the size of pages is {size}, which is no power of two")
            elif kind != ["rows"]:
                raise Malformed("a window is neither rows nor a version")
        for each in fields(stored, "the windows of a key"):
            text(each, "the name of a window")
        fields(noted, "the rows that were noted", programs)
        return SavedKey(text(name, "the name of windows"), windows, stored, noted)


class LongKey:
    """The windows of one key, one for each program.

    `saved` is from the save before, or the rows of windows that were short. `name` is for new windows.
    """

    def __init__(
        self,
        plan: KeyedPlan,
        name: str,
        store: Store,
        make_hold: Callable[[str, int, Version | None], AttemptHold],
        saved: bytes | list[Rows] | None,
    ) -> None:
        self._plan, self._name, self._store, self._make_hold = plan, name, store, make_hold
        self._holds: dict[str, AttemptHold] = {}
        #: names of windows in the store
        self.stored: list[str] = []
        #: the time of the youngest row, and the clock when it came
        self.youngest: Any = None
        self.seen = 0
        #: pages that were asked for, and found in the cache
        self.asked = self.hits = 0
        #: of each program the youngest rows, noted since its window is short; None while it is long
        self._noted: list[Rows | None] = [None] * len(plan.programs)
        windows: list[Any] = [None] * len(plan.programs)
        if isinstance(saved, bytes):
            self._name, windows, self.stored, noted = SavedKey.decode(saved, len(plan.programs))
            self._noted = [None if each is None else SavedRows.decode(each) for each in noted]
        #: of each program
        self.groups = [self._group(number, window) for number, window in enumerate(windows)]
        if isinstance(saved, list):
            for group, rows in zip(self.groups, saved, strict=True):
                group.rows = rows

    def _group(self, number: int, saved: Any) -> Group:
        plan, page_size = self._plan, self._plan.page_sizes[number]
        make_window = partial(self._window, number, page_size, None)
        group = Group(plan.programs[number], plan.policies[number], make_window, min(SHORT_WINDOW, page_size))
        if saved is not None and saved[0] == "rows":
            group.rows = SavedRows.decode(saved)
        elif saved is not None:
            _, size, version = saved
            group.window = self._window(number, size, unpack_version(size.bit_length() - 1, version))
        return group

    def _window(self, number: int, page_size: int, base: Version | None) -> MonoidTreeAggregator:
        plan, name = self._plan, f"{self._name}/{number}"
        hold = self._holds[name] = self._make_hold(name, page_size, base)
        # all tails together are small at any page size
        tiers = math.ceil(40 / (page_size.bit_length() - 1))
        return open_version(
            plan.algorithm,
            plan.programs[number].monoid,
            plan.policies[number],
            hold,
            store=self._store,
            name=name,
            page_size=page_size,
            base=base,
            inline=INLINE_TAILS // tiers,
        )

    def note(self, number: int, new: Rows) -> None:
        """Notes the rows that a group took in, as far as a short window holds them."""
        group, program, before = self.groups[number], self._plan.programs[number], self._noted[number]
        held = len(group)
        if group.window is None or held > SHORT_AGAIN or self._plan.limits.predicates:
            self._noted[number] = None
            return
        if before is not None and new.length < held:
            new = before.followed_by(new, program)
        self._noted[number] = new.last(min(held, new.length), program)

    def short(self) -> list[Rows] | None:
        """The rows of the windows, if all of them are short; the windows are then closed."""
        if self._plan.limits.predicates:
            return None
        found = []
        for group, noted in zip(self.groups, self._noted, strict=True):
            rows = noted if group.window is not None else group.rows
            if rows is None or rows.length < len(group) or not self._fits(SavedRows.encode(rows)):
                return None
            found.append(rows)
        for group in self.groups:
            group.close()
        return found

    def _fits(self, saved: SavedRows) -> bool:
        return saved.length <= self._plan.most_rows and saved.size() <= INLINE_ROWS

    def save(self, number: int) -> bytes:
        """The windows under the number of a version; the pages that they name are in the store."""
        windows, noted = [], []
        for program, (group, rows) in enumerate(zip(self.groups, self._noted, strict=True)):
            windows.append(self._saved(group, f"{self._name}/{program}", number))
            noted.append(None if rows is None else SavedRows.encode(rows))
        for name, hold in self._holds.items():
            clear_up_after_others(self._store, name, hold)
        return bytes(msgpack.packb(SavedKey(self._name, windows, self.stored, noted)))

    def _saved(self, group: Group, name: str, number: int) -> SavedRows | SavedPages:
        if group.window is None:
            saved = SavedRows.encode(group.rows)
            if self._fits(saved):
                return saved
            group.move()
        window = group.window
        asked, hits = window.pages_read
        self.asked, self.hits = self.asked + asked, self.hits + hits
        version = save_version(window, number)
        if self._holds[name].claimed and name not in self.stored:
            self.stored.append(name)
        return SavedPages("window", window.page_size, pack_version(version))

    def give_up(self) -> None:
        """Removes the pages that were written, where that is possible; the rest is left for `mta gc`."""
        for group in self.groups:
            with suppress(Exception):
                group.close()


def clear_up_after_others(store: Store, name: str, hold: AttemptHold) -> None:
    """Removes the pages of attempts at a window that are surely gone."""
    if hold.beside_gone:
        from mta.durability.operations import collect_window  # which few tasks need

        with suppress(StoreError):
            collect_window(store, name)
