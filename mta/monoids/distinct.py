"""DistinctCount: how many different elements there are, estimated by HyperLogLog, in columns.

A state has thousands of registers, and a column of them would take megabytes. So a column of states has one
entry each of three forms, which stand for the same states:

- the code of a single element, in columns that `lift_columns` makes: they are columns of whole numbers;
- bytes, as `mta.monoids.registers` has them: plain states are always these;
- a *span*: the state of codes[start:stop], in structured columns, whose entries mostly share one array of
  codes. A scan makes spans of one array, and costs nothing but their numbers. A combine of spans up to the
  end of one array with spans from the start of another one joins the two arrays. So the results of a batch
  are estimates of windows over one array of codes, which are computed for all rows together.

Where columns of several forms are joined, they become one of objects, with spans as tuples.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import Any, TypeAlias

import numpy as np

from mta.kinds import Array, Columns, Packed, Result, Results, Row, State
from mta.monoids.base import ColumnarMonoid
from mta.monoids.hashes import hash_of, hashes_of
from mta.monoids.registers import Registers
from mta.monoids.values import canonical, plain, plain_column, plain_parts
from mta.options import check_between

#: A span. The name tells its codes from those of other spans in the column; 0 in an entry for no element.
SPAN = np.dtype([("codes", object), ("start", np.int64), ("stop", np.int64), ("name", np.int64)])

Span: TypeAlias = tuple[Any, int, int, int]
Entry: TypeAlias = int | bytes | Span

#: the codes, the starts and the stops of spans over the same codes
Spans: TypeAlias = tuple[Array, Array, Array]

#: Types whose values have hashes without a look into them.
_HASHED = frozenset({str, bytes, int, float, bool})


class DistinctCount(ColumnarMonoid):
    """Estimates the number of different elements, which are str, bytes, numbers or tuples of them.

    A HyperLogLog sketch with 2**(lg_k + 1) registers of one byte. The standard error is 1.04 / sqrt(2**(lg_k
    + 1)): 1.15 % with the default of 12, and 0.6 % with 14, which takes four times the memory. Of few
    elements it is smaller. The estimate depends only on the elements, not on the order of combines.
    Equal numbers are the same element, as in a set of Python: 1, 1.0 and True.

    Takes the name of the field to read, or none. Raises ValueError for a lg_k that is not from 4 to 26 and
    for another sketch, and TypeError for an element of another type. `sketch` names the form of the states,
    for checkpoints.

    >>> from mta import AmortizedMTA, monoids
    >>> window = AmortizedMTA(monoids.DistinctCount())
    >>> window.extend([f"user {i % 3}" for i in range(100)])
    >>> round(window.query())
    3
    """

    identity = b""
    commutes = True

    def __init__(self, *fields: str, lg_k: int = 12, sketch: str = "hll") -> None:
        super().__init__(*fields)
        self.lg_k = check_between("DistinctCount", "lg_k", lg_k, 4, 26)
        if sketch != "hll":
            raise ValueError(
                f"DistinctCount(sketch=...) is 'hll', the only sketch that there is, got {sketch!r}"
            )
        self._registers = Registers(self.lg_k + 1)

    @property
    def state_bytes(self) -> int:
        return self._registers.count

    def fingerprint(self) -> str:
        options = [*map(repr, self.fields), f"lg_k={self.lg_k}", "sketch='hll'"]
        return f"DistinctCount({', '.join(options)})"

    # -- elements ---------------------------------------------------------------------------------------

    def check_row(self, row: Row) -> Row:
        row = plain_parts(plain(row, self), self)
        canonical(row, self)
        return row

    def check_columns(self, inputs: Columns) -> Columns:
        column = plain_column(inputs[0], self)
        if column.dtype == object:
            for row, value in enumerate(column.tolist()):
                if type(value) not in _HASHED:
                    column[row] = self._checked(row, value)
        return (column,)

    def _checked(self, row: int, value: Row) -> Row:
        try:
            return self.check_row(value)
        except (TypeError, ValueError) as error:
            raise type(error)(f"row {row}: {error}") from None

    def lift_row(self, row: Row) -> State:
        return self._plain(self._registers.code(hash_of(row, self)))

    def lift_columns(self, inputs: Columns) -> Columns:
        return (self._registers.codes(hashes_of(inputs[0], self)),)

    # -- single states ----------------------------------------------------------------------------------

    def combine(self, older: State, younger: State) -> State:
        return self._registers.combined(older, younger)

    def lower(self, state: State) -> Result:
        return self._registers.estimate(state)

    def unpack(self, packed: Packed) -> State:
        state = bytes(packed) if isinstance(packed, bytearray) else packed  # Spark gives a bytearray
        self._check_state(state)
        return state

    def check_states(self, states: Columns) -> None:
        for state in states[0].tolist():
            self._check_state(state)

    def _check_state(self, state: object) -> None:
        try:
            self._registers.check(state)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{self!r} has no such state: {error}") from None

    def _plain(self, entry: Entry) -> bytes:
        """The plain state of an entry of a column."""
        if isinstance(entry, bytes):
            return entry
        if isinstance(entry, int):
            return entry.to_bytes(4, "little") if entry else b""
        codes, start, stop, name = entry
        return self._registers.state(codes[start:stop]) if name else b""

    # -- columns ----------------------------------------------------------------------------------------

    def state_at(self, states: Columns, index: int) -> State:
        return self._plain(states[0][index : index + 1].tolist()[0])

    def state_list(self, states: Columns) -> list[State]:
        found: list[State] = []
        for part, spans in _parts(states[0]):
            found += self._plain_list(part, spans)
        return found

    def _plain_list(self, column: Array, spans: Spans | None) -> list[bytes]:
        if spans is not None:
            return list(self._registers.states_in(*spans))
        return list(map(self._plain, column.tolist()))

    def columns_of(self, states: Sequence[State]) -> Columns:
        return (np.fromiter(states, dtype=object, count=len(states)),)

    def lower_columns(self, states: Columns) -> Results:
        found = []
        for part, spans in _parts(states[0]):
            if spans is not None and all((bounds[1:] >= bounds[:-1]).all() for bounds in spans[1:]):
                found.append(self._registers.estimates_in(*spans))
            else:
                found.append(self._registers.estimates_of(self._plain_list(part, spans)))
        return np.concatenate(found) if found else np.zeros(0)

    def combine_columns(self, older: Columns, younger: Columns) -> Columns:
        if SPAN in (older[0].dtype, younger[0].dtype):  # states that are stored are combined of others
            front, back = self._up_to_the_end(older[0]), self._from_the_start(younger[0])
            if front is not None and back is not None:
                codes = np.concatenate([front[0], back[0]])
                starts, stops = front[1], back[1] + len(front[0])
                return (_spans(codes, *np.broadcast_arrays(starts, stops)),)
        pair = [self.state_list(each) for each in (older, younger)]
        length = max(map(len, pair))
        one, other = (each * length if len(each) == 1 else each for each in pair)
        return self.columns_of(self._registers.combined_pairs(one, other))

    def prefix_columns(self, states: Columns) -> Columns:
        codes, lengths = self._steps(states)
        ends = np.add.accumulate(lengths)
        return (_spans(codes, np.zeros_like(ends), ends),)

    def suffix_columns(self, states: Columns) -> Columns:
        codes, lengths = self._steps(tuple(column[::-1] for column in states))
        starts = len(codes) - np.add.accumulate(lengths)[::-1]
        return (_spans(codes[::-1], starts, np.full_like(starts, len(codes))),)

    def fold_columns(self, states: Columns) -> Columns:
        return self.columns_of([self._registers.state(self._steps(states)[0])])

    def _steps(self, states: Columns) -> tuple[Array, Array]:
        """The codes of all states, without those that change nothing, and how many are of each state."""
        if states[0].dtype.kind == "i":
            return states[0], np.ones(len(states[0]), dtype=np.int64)
        steps = self._registers.steps(self.state_list(states))
        return np.concatenate([*steps, _NO_CODES]), np.array(list(map(len, steps)), dtype=np.int64)

    def _up_to_the_end(self, column: Array) -> tuple[Array, Array] | None:
        """Codes and starts, where each entry is the span from its start to the end of the codes."""
        if len(column) == 1:
            return self._alone(column), np.zeros(1, dtype=np.int64)
        spans = _shared(column)
        if spans is None or (spans[2] != len(spans[0])).any():
            return None
        return spans[0], spans[1]

    def _from_the_start(self, column: Array) -> tuple[Array, Array] | None:
        """Codes and stops, where each entry is the span from the start of the codes to its stop."""
        if len(column) == 1:
            codes = self._alone(column)
            return codes, np.array([len(codes)])
        spans = _shared(column)
        return None if spans is None or spans[1].any() else (spans[0], spans[2])

    def _alone(self, column: Array) -> Array:
        """The codes of the only entry."""
        return self._registers.codes_in(self.state_at((column,), 0))


_NO_CODES = np.zeros(0, dtype=np.int64)


def _spans(codes: Array, starts: Array, stops: Array) -> Array:
    """A column of spans over the same codes."""
    column = np.zeros(len(starts), dtype=SPAN)  # `np.empty` takes longer where there are objects
    column["codes"].fill(codes)
    column["start"], column["stop"], column["name"] = starts, stops, id(codes)
    return column


def _shared(column: Array) -> Spans | None:
    """The codes, the starts and the stops of a column of spans over the same codes; None for others."""
    if column.dtype != SPAN or not len(column):
        return None
    names = column["name"]
    if not names[0] or (names != names[0]).any():
        return None
    return column["codes"][0], column["start"], column["stop"]


def _parts(column: Array) -> Iterator[tuple[Array, Spans | None]]:
    """A column, cut where the codes of its spans change, and the spans of each part if it has spans."""
    if column.dtype == SPAN:
        names = column["name"]
        edges = [0, *(np.flatnonzero(names[1:] != names[:-1]) + 1).tolist(), len(names)]
        for start, stop in pairwise(edges):
            yield column[start:stop], _shared(column[start:stop])
    elif column.dtype.kind == "i":
        yield column, None
    else:
        start = 0
        for name, entries in groupby(column.tolist(), lambda entry: entry[3] if type(entry) is tuple else 0):
            stop = start + sum(1 for _ in entries)
            part = column[start:stop]
            yield part, _shared(np.array(part.tolist(), dtype=SPAN)) if name else None
            start = stop
