"""Runs of elements or of states, as NumPy columns or as Python objects, behind one interface.

The algorithms are written once, over this interface. A *run* only holds entries that follow each other; a
*layout* knows the monoid and works on runs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from mta.encoding.columns import check_column
from mta.encoding.packing import pack, pack_entries
from mta.inputs import batch_columns, batch_rows
from mta.kinds import State
from mta.monoids.base import Array, ColumnarMonoid, Columns, Monoid, alike, column_of, joined, row_columns
from mta.monoids.columns import apart
from mta.owned import own_results

#: A run is a tuple of columns (ColumnLayout) or a list of objects (ObjectLayout).
Run: TypeAlias = Any

#: The aggregate of no element. The identity would do, but combining with it would cost a combine.
NOTHING: Any = type("Nothing", (), {"__repr__": lambda _: "NOTHING", "__slots__": ()})()

#: Below this length a scan in plain Python beats the fixed cost of NumPy's calls.
SHORT = 24


class Lowered(NamedTuple):
    """Results of a run, and the columns of states that the results may share memory with."""

    results: Any
    states: Columns


class Layout(ABC):
    """Works on runs of one monoid's elements and states."""

    #: whether it is the layout of some of the fields of a log (`mta.core.parts`), which picks their states
    is_part = False

    def __init__(self, monoid: Monoid) -> None:
        self.monoid = monoid

    def picked(self, states: Run) -> Run:
        """The states of this monoid in a run of the log's states."""
        return states

    def narrow(self, state: State) -> Any:
        """The state of this monoid in one of the log's states."""
        return state

    # -- runs -------------------------------------------------------------------------------------------

    @abstractmethod
    def length(self, run: Run) -> int: ...

    @abstractmethod
    def cut(self, run: Run, start: int, stop: int) -> Run:
        """A part of a run, without a copy where that is possible."""

    @abstractmethod
    def apart(self, run: Run) -> Run:
        """The run in memory of its own, and not in that of a longer run."""

    @abstractmethod
    def take(self, run: Run, indices: Array) -> Run: ...

    @abstractmethod
    def put(self, run: Run, indices: Array, others: Run) -> Run:
        """A run with other entries at some indices."""

    @abstractmethod
    def concat(self, runs: Sequence[Run]) -> Run: ...

    # -- elements ---------------------------------------------------------------------------------------

    @abstractmethod
    def elements(self, values: Any) -> Run:
        """A batch given by a user, checked and copied."""

    @abstractmethod
    def gather_rows(self, rows: list[Any]) -> Run:
        """A run of rows that were checked one by one."""

    @abstractmethod
    def lift(self, elements: Run) -> Run: ...

    @abstractmethod
    def row_list(self, elements: Run) -> list[Any]: ...

    @abstractmethod
    def check_storable(self, elements: Run) -> None:
        """Refuses elements that no store can hold, and a first element whose state no store can hold."""

    @abstractmethod
    def check_storable_states(self, states: Run) -> None:
        """Refuses states that no store can hold."""

    # -- states -----------------------------------------------------------------------------------------

    @abstractmethod
    def gather(self, states: Sequence[Any]) -> Run:
        """A run of some states."""

    @abstractmethod
    def at(self, states: Run, index: int) -> Any: ...

    @abstractmethod
    def state_list(self, states: Run) -> list[Any]: ...

    @abstractmethod
    def combine(self, older: Run, younger: Run) -> Run:
        """Combines entry by entry; a run of one entry is combined with every entry of the other run."""

    @abstractmethod
    def fold(self, states: Run) -> Any:
        """The state of a whole run, which is not empty."""

    @abstractmethod
    def halve(self, states: Run) -> Run:
        """Entries 0 and 1 combined, 2 and 3, and so on; an odd last entry is left out."""

    @abstractmethod
    def prefixes(self, states: Run) -> Run: ...

    @abstractmethod
    def suffixes(self, states: Run, seed: State = NOTHING) -> Run:
        """Suffix aggregates of the run followed by one state (or NOTHING)."""

    @abstractmethod
    def lowered(self, states: Run) -> Lowered:
        """One result for each entry, in arrays that may share memory with the states."""

    def lower_all(self, parts: Sequence[Lowered]) -> Any:
        """Results of consecutive runs: an array, or a mapping of arrays, in memory of its own."""
        return join_results([part.results for part in parts])

    def lower(self, states: Run) -> Any:
        return self.lower_all([self.lowered(states)])

    def join(self, older: State, younger: State) -> Any:
        """`combine` of two states, either of which may be NOTHING."""
        if older is NOTHING:
            return younger
        return older if younger is NOTHING else self.monoid.combine(older, younger)

    def followed_by(self, states: Run, younger: State) -> Run:
        """Each entry combined with one younger state (or NOTHING)."""
        return states if younger is NOTHING else self.combine(states, self.gather([younger]))

    def preceded_by(self, older: State, states: Run) -> Run:
        return states if older is NOTHING else self.combine(self.gather([older]), states)

    def stack(self, states: Run, seed: State) -> list[Any]:
        """Suffix aggregates of the run followed by `seed`, the longest last: pop() gives oldest first."""
        if self.length(states) > SHORT:
            reverse = self.state_list(self.suffixes(states, seed))
            reverse.reverse()
            return reverse
        combine = self.monoid.combine
        reverse = []
        for state in reversed(self.state_list(states)):
            seed = state if seed is NOTHING else combine(state, seed)
            reverse.append(seed)
        return reverse


class ColumnLayout(Layout):
    monoid: ColumnarMonoid

    def __init__(self, monoid: ColumnarMonoid) -> None:
        super().__init__(monoid)

    def length(self, run: Run) -> int:
        return len(run[0])

    def cut(self, run: Run, start: int, stop: int) -> Columns:
        return tuple(column[start:stop] for column in run)

    def apart(self, run: Run) -> Columns:
        return tuple(map(apart, run))

    def take(self, run: Run, indices: Array) -> Columns:
        return tuple(column.take(indices) for column in run)

    def concat(self, runs: Sequence[Run]) -> Columns:
        return runs[0] if len(runs) == 1 else tuple(joined(parts) for parts in zip(*runs, strict=True))

    def elements(self, values: Any) -> Columns:
        return self.monoid.check_columns(batch_columns(self.monoid, values))

    def gather_rows(self, rows: list[Any]) -> Columns:
        return row_columns(self.monoid, rows)

    def lift(self, elements: Run) -> Columns:
        return self.monoid.lift_columns(elements)

    def row_list(self, elements: Run) -> list[Any]:
        parts = [column.tolist() for column in elements]
        return parts[0] if self.monoid.arity == 1 else list(zip(*parts, strict=True))

    def check_storable(self, elements: Run) -> None:
        for column in elements:
            if column.dtype == object:
                for value in column.tolist():
                    pack(value)
            else:
                check_column(column)

    def check_storable_states(self, states: Run) -> None:
        for column in states:
            check_column(column)

    def gather(self, states: Sequence[Any]) -> Columns:
        return self.monoid.columns_of(states)

    def choose(self, first: Array, states: Run, others: Run) -> Columns:
        """Entries of `states` where `first` is true, and of `others` where it is false."""
        pairs = (alike(pair) for pair in zip(states, others, strict=True))
        return tuple(np.where(first, *pair) for pair in pairs)

    def put(self, run: Run, indices: Array, others: Run) -> Columns:
        columns = []
        for pair in zip(run, others, strict=True):
            column, other = alike(pair)
            column = column.copy()
            column[indices] = other
            columns.append(column)
        return tuple(columns)

    def at(self, states: Run, index: int) -> Any:
        return self.monoid.state_at(states, index)

    def state_list(self, states: Run) -> list[Any]:
        return self.monoid.state_list(states)

    def combine(self, older: Run, younger: Run) -> Columns:
        return self.monoid.combine_columns(older, younger)

    def fold(self, states: Run) -> Any:
        return self.monoid.state_at(self.monoid.fold_columns(states), 0)

    def halve(self, states: Run) -> Columns:
        whole = self.length(states) // 2 * 2
        return self.monoid.combine_columns(
            tuple(column[0:whole:2] for column in states), tuple(column[1:whole:2] for column in states)
        )

    def prefixes(self, states: Run) -> Columns:
        return self.monoid.prefix_columns(states)

    def suffixes(self, states: Run, seed: State = NOTHING) -> Run:
        return self.followed_by(self.monoid.suffix_columns(states), seed)

    def lowered(self, states: Run) -> Lowered:
        return Lowered(self.monoid.lower_columns(states), states)

    def lower_all(self, parts: Sequence[Lowered]) -> Any:
        # parts that were joined are in new arrays
        return own_results(super().lower_all(parts), parts[0].states if len(parts) == 1 else ())

    def of_part(self, columns: slice) -> ColumnLayout:
        """The layout of some columns of states: all columns, or the columns of one field."""
        return ColumnLayout(self.monoid.part(columns))

    def shaped(self, states: Run) -> Any:
        """A run in the shape of a state, with a column in place of each number."""
        return self.monoid.shaped(states)


class ObjectLayout(Layout):
    def length(self, run: Run) -> int:
        return len(run)

    def cut(self, run: Run, start: int, stop: int) -> list[Any]:
        part: list[Any] = run[start:stop]
        return part

    def apart(self, run: Run) -> list[Any]:
        return run  # type: ignore[no-any-return]  # which `cut` copies

    def take(self, run: Run, indices: Array) -> list[Any]:
        return [run[index] for index in indices.tolist()]

    def put(self, run: Run, indices: Array, others: Run) -> list[Any]:
        found = list(run)
        for index, other in zip(indices.tolist(), others, strict=True):
            found[index] = other
        return found

    def concat(self, runs: Sequence[Run]) -> list[Any]:
        return [item for run in runs for item in run]

    def elements(self, values: Any) -> list[Any]:
        rows = []
        for number, value in enumerate(batch_rows(self.monoid, values)):
            try:
                row = self.monoid.row(value)
                self.monoid.lift_row(row)
            except (TypeError, ValueError, OverflowError) as error:
                raise type(error)(f"row {number}: {error}") from error
            rows.append(row)
        return rows

    def gather_rows(self, rows: list[Any]) -> list[Any]:
        return rows

    def lift(self, elements: Run) -> list[Any]:
        lift = self.monoid.lift_row
        return [lift(row) for row in elements]

    def row_list(self, elements: Run) -> list[Any]:
        return list(elements)

    def check_storable(self, elements: Run) -> None:
        for row in elements:
            pack(row)
        pack_entries([self.monoid.pack(self.monoid.lift_row(elements[0]))])

    def check_storable_states(self, states: Run) -> None:
        pack_entries([self.monoid.pack(state) for state in states])

    def gather(self, states: Sequence[Any]) -> list[Any]:
        return list(states)

    def at(self, states: Run, index: int) -> Any:
        return states[index]

    def state_list(self, states: Run) -> list[Any]:
        return list(states)

    def combine(self, older: Run, younger: Run) -> list[Any]:
        combine = self.monoid.combine
        if len(older) == 1 and len(younger) != 1:
            return [combine(older[0], state) for state in younger]
        if len(younger) == 1 and len(older) != 1:
            return [combine(state, younger[0]) for state in older]
        return [combine(a, b) for a, b in zip(older, younger, strict=True)]

    def fold(self, states: Run) -> Any:
        return fold_states(self.monoid, states)

    def halve(self, states: Run) -> list[Any]:
        combine = self.monoid.combine
        return [combine(states[i], states[i + 1]) for i in range(0, len(states) // 2 * 2, 2)]

    def prefixes(self, states: Run) -> list[Any]:
        combine = self.monoid.combine
        out: list[Any] = states[:1]
        for state in states[1:]:
            out.append(combine(out[-1], state))
        return out

    def suffixes(self, states: Run, seed: State = NOTHING) -> list[Any]:
        return self.stack(states, seed)[::-1]

    def stack(self, states: Run, seed: State) -> list[Any]:
        combine = self.monoid.combine
        reverse = []
        for state in reversed(states):
            seed = state if seed is NOTHING else combine(state, seed)
            reverse.append(seed)
        return reverse

    def lowered(self, states: Run) -> Lowered:
        lower = self.monoid.lower
        if states:
            return Lowered(result_array([lower(state) for state in states]), ())
        nothing = lower(self.monoid.identity)
        empty = dict.fromkeys(nothing, column_of([])) if isinstance(nothing, dict) else column_of([])
        return Lowered(empty, ())


def layout_of(monoid: Monoid) -> Layout:
    return ColumnLayout(monoid) if isinstance(monoid, ColumnarMonoid) else ObjectLayout(monoid)


def result_array(results: Sequence[Any]) -> Any:
    """Results of single rows as `slide` gives them: an array, or a mapping of arrays for mappings."""
    if results and all(isinstance(result, dict) for result in results):
        keys = results[0].keys()
        if all(result.keys() == keys for result in results):
            return {key: column_of([result[key] for result in results]) for key in keys}
    return column_of(results)


def result_column(results: Any) -> Array:
    """Results of single rows as one array, of mappings if the results are these."""
    if not isinstance(results, dict):
        return results  # type: ignore[no-any-return]
    rows = zip(*(column.tolist() for column in results.values()), strict=True)
    return column_of([dict(zip(results, row, strict=True)) for row in rows])


def as_results(column: Array) -> Any:
    """A column of results as `result_array` gives them."""
    if column.dtype == object and len(column) and isinstance(column[0], dict):
        return result_array(column.tolist())
    return column


def join_results(parts: list[Any]) -> Any:
    """Results of consecutive rows as one array, or one mapping of arrays."""
    if len(parts) == 1:
        return parts[0]
    names = {tuple(part) if isinstance(part, dict) else None for part in parts}
    if len(names) > 1:  # of a monoid of its own, whose results are mappings of one kind or another
        return result_array([row for part in parts for row in result_column(part).tolist()])
    if isinstance(parts[0], dict):
        return {key: joined([part[key] for part in parts]) for key in parts[0]}
    return joined(parts)


def fold_states(monoid: Monoid, states: Sequence[State]) -> State:
    """The aggregate of at least one state, with one combine less than there are states.

    States that grow are folded by halves: one by one, each combine would copy the whole aggregate again.
    """
    if not monoid.grows:
        return reduce(monoid.combine, states)
    while len(states) > 1:
        halved = [monoid.combine(states[i], states[i + 1]) for i in range(0, len(states) - 1, 2)]
        states = [*halved, states[-1]] if len(states) % 2 else halved
    return states[0]
