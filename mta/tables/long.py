"""Keys with more rows than fit in memory: each has windows of its own, whose elements are in a store."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from mta.core.states import join_results
from mta.durability.operations.remove import remove
from mta.errors import OutOfOrderError, WindowNotFound
from mta.kinds import Array
from mta.tables.keys import codes_of, hashes_of_keys
from mta.tables.plan import Plan
from mta.tables.rows import Rows, SortedRows
from mta.window import AmortizedMTA
from stores import Store, StoreError, open_store

#: Rows that a window takes in at once.
SLICE = 1 << 16


@dataclass(frozen=True)
class LongKey:
    """A key, and its windows as the last call that succeeded left them."""

    #: arrays with one entry
    key: Sequence[pa.Array]
    #: of each program the name of its window, and the version to go on from; None for a window not begun
    names: tuple[str, ...]
    versions: tuple[int | None, ...]


class WindowStore:
    """The store of windows of long keys: the user's, or an embedded one in a temporary directory."""

    def __init__(self, store: Store | None) -> None:
        self._given, self._store = store is not None, store
        #: closes the embedded store, and removes its directory
        self._end: weakref.finalize[Any, Any] | None = None
        self._prefix, self._count = f"rolling/{secrets.token_hex(8)}", 0
        self._names: list[str] = []

    @property
    def store(self) -> Store:
        if self._store is None:
            directory = tempfile.mkdtemp(prefix="mta-rolling-")
            opened: list[Store] = []
            self._end = weakref.finalize(self, _remove_directory, directory, opened, os.getpid())
            self._store = open_store(f"rocksdb://{directory}/windows")
            opened.append(self._store)
        return self._store

    def new_name(self) -> str:
        self._count += 1
        name = f"{self._prefix}/{self._count}"
        self._names.append(name)
        return name

    def close(self) -> None:
        """Removes the windows."""
        if self._given and self._store is not None:
            for name in self._names:
                with suppress(StoreError, WindowNotFound):
                    remove(self._store, name)
        if self._end is not None:
            self._end()
        self._names = []


def _remove_directory(directory: str, opened: list[Store], process: int) -> None:
    if os.getpid() != process:  # a fork of it
        return
    try:
        for store in opened:
            store.close()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@dataclass(frozen=True)
class LongKeys:
    """The keys of a node whose rows are too many: one, or those of one hash."""

    keys: tuple[LongKey, ...] = field(default=())

    def hashes(self) -> Array:
        """The hash of each key."""
        return np.concatenate([hashes_of_keys(each.key, 1) for each in self.keys])

    def split(self, routes: Array, children: int) -> list[LongKeys | None]:
        """The keys of each child, by the child that each key belongs to; None for a child without any."""
        found: list[LongKeys | None] = []
        for child in range(children):
            some = tuple(self.keys[number] for number in np.flatnonzero(routes == child).tolist())
            found.append(LongKeys(some) if some else None)
        return found


class LongWork:
    """Takes in the rows of one call."""

    def __init__(self, plan: Plan, before: LongKeys, windows: WindowStore) -> None:
        self._plan, self._windows = plan, windows
        self._keys = list(before.keys)
        #: the windows that are open, of each key
        self._open: dict[int, list[AmortizedMTA]] = {}

    def extend(self, rows: SortedRows) -> None:
        """Takes in rows that came before."""
        starts = rows.starts.tolist()
        for key, (start, length) in enumerate(zip(starts, rows.lengths.tolist(), strict=True)):
            if not length:
                continue
            windows = self._of([column.slice(key, 1) for column in rows.keys])
            for number, window in enumerate(windows):
                for values, times in self._slices(number, rows, np.arange(start, start + length)):
                    window.extend(values, times)

    def results(self, rows: Rows) -> dict[str, Array]:
        codes, size = codes_of(rows.keys, rows.count)
        parts, order = [], []
        for code in range(size):
            chosen = np.flatnonzero(codes == code)
            windows = self._of([column.slice(int(chosen[0]), 1) for column in rows.keys])
            found: dict[str, Any] = {}
            for number, window in enumerate(windows):
                slices = self._slices(number, rows, chosen)
                found.update(join_results([self._slid(window, *each) for each in slices]))
            parts.append(found)
            order.append(chosen)
        if size == 1:
            return parts[0]
        together = np.concatenate(order)
        back = np.empty(rows.count, np.int64)
        back[together] = np.arange(rows.count)
        joined: dict[str, Array] = join_results(parts)
        return {name: column[back] for name, column in joined.items()}

    def _slid(self, window: AmortizedMTA, values: Any, times: Any) -> Any:
        try:
            return window.slide(values, times)
        except OutOfOrderError as error:
            raise OutOfOrderError(
                f"a key has too many rows to sort them in memory, and these are not in the order of "
                f"{self._plan.on!r}: {error}. Sort the rows before they come"
            ) from error

    def _slices(self, number: int, rows: Rows | SortedRows, chosen: Array) -> Iterator[tuple[Any, Any]]:
        """Some rows as batches for the window of one program."""
        layout, elements, times = self._plan.programs[number].layout, rows.elements[number], rows.times
        for start in range(0, len(chosen), SLICE):
            some = chosen[start : start + SLICE]
            moments = None if times is None else self._plan.as_times(times[some])
            yield self._plan.programs[number].values(layout.take(elements, some)), moments

    def _of(self, key: Sequence[pa.Array]) -> list[AmortizedMTA]:
        """The windows of a key."""
        number = next((i for i, each in enumerate(self._keys) if _equal(each.key, key)), len(self._keys))
        if number == len(self._keys):
            names = tuple(self._windows.new_name() for _ in self._plan.programs)
            self._keys.append(LongKey(key, names, (None,) * len(names)))
        if number not in self._open:
            self._open[number] = list(self._windows_of(self._keys[number]))
        return self._open[number]

    def _windows_of(self, key: LongKey) -> Iterator[AmortizedMTA]:
        for program, name, version in zip(self._plan.programs, key.names, key.versions, strict=True):
            monoid, policy, store = program.fields, program.policy, self._windows.store
            if version is None:
                yield AmortizedMTA(monoid, policy, store=store, name=name)
            else:
                yield AmortizedMTA.restore(store, name, monoid, policy, version=version)

    def saved(self) -> LongKeys:
        """The keys to go on from."""
        keys = list(self._keys)
        for number, windows in self._open.items():
            versions = tuple(window.checkpoint() for window in windows)
            keys[number] = LongKey(keys[number].key, keys[number].names, versions)
        self.close()
        return LongKeys(tuple(keys))

    def close(self) -> None:
        for windows in self._open.values():
            for window in windows:
                with suppress(StoreError):
                    window.close()
        self._open = {}


def _equal(a: Iterable[pa.Array], b: Iterable[pa.Array]) -> bool:
    both = [pa.concat_arrays(pair) for pair in zip(a, b, strict=True)]
    return not both or codes_of(both, 2)[1] == 1
