"""Several aggregates of the same elements."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from mta.frames.policies import Policy
from mta.kinds import Array, Columns, Packed, Result, Results, Row, State, Value
from mta.monoids.base import LOST, ColumnarMonoid, Monoid, all_required
from mta.monoids.over import Over
from mta.monoids.ufuncs import Count
from mta.monoids.values import unwrapped
from mta.owned import own

_UNREAD: State = object()


def _bare(field: Any) -> Any:
    """The monoid of a field, without its frame."""
    return field.monoid if isinstance(field, Over) else field


def as_monoid(value: Any) -> Any:
    """A mapping of names to monoids as `Fields`, and anything else as it is.

    Raises TypeError for names that are no texts.
    """
    if not isinstance(value, Mapping):
        return value
    for name in value:
        if not isinstance(name, str):
            raise TypeError(f"a mapping of aggregates has texts for names, got {name!r}")
    return Fields(**value)


class Fields(Monoid):
    """Named aggregates of the same elements: `Fields(peak=Max("temp"), mean=Mean("load"))`.

    Either each monoid names the fields that it reads, and an element is a mapping, or none does, and all of
    them read the same plain element. Count may be with either. States and results are dicts under the given
    names. A combine costs one combine of each monoid. If all monoids are columnar, so is this one, and a
    field that several monoids read is stored once.

    Raises TypeError without monoids, for something else than a monoid, for Fields in Fields, and if only
    some of the monoids name fields.

    >>> from mta import AmortizedMTA, monoids, policies
    >>> both = monoids.Fields(peak=monoids.Max("temp"), mean=monoids.Mean("load"), n=monoids.Count())
    >>> window = AmortizedMTA(both, policies.CountWindow(2))
    >>> window.push({"temp": 21.5, "load": 3})
    {'peak': 21.5, 'mean': 3.0, 'n': 1}
    >>> window.slide({"temp": [19, 25], "load": [5, 6]})["mean"].tolist()
    [4.0, 5.5]
    """

    def __new__(cls, /, **monoids: Monoid | Over) -> Fields:
        # Unpickling calls this without monoids, with the right class.
        columnar = bool(monoids) and all(isinstance(_bare(each), ColumnarMonoid) for each in monoids.values())
        return super().__new__(ColumnFields if cls is Fields and columnar else cls)

    def __init__(self, /, **fields: Monoid | Over) -> None:
        if not fields:
            raise TypeError(
                "Fields takes at least one monoid by name, as in Fields(peak=Max('temp')), got none"
            )
        monoids = {name: _bare(each) for name, each in fields.items()}
        for name, monoid in monoids.items():
            if isinstance(monoid, Fields):
                raise TypeError(
                    f"Fields cannot hold other Fields; put the aggregates of {name!r} beside the rest"
                )
            if not isinstance(monoid, Monoid):
                raise TypeError(f"Fields({name}=...) takes a monoid, such as Max(), got {monoid!r}")
        self.monoids: Mapping[str, Monoid] = monoids
        #: the frames of the fields that have their own
        self.frames: Mapping[str, Policy] = {
            name: each.frame for name, each in fields.items() if isinstance(each, Over)
        }
        readers = {name: monoid for name, monoid in monoids.items() if not isinstance(monoid, Count)}
        unnamed = [name for name, monoid in readers.items() if not monoid.fields]
        if unnamed and len(unnamed) < len(readers):
            raise TypeError(
                f"either all aggregates of Fields name their fields or none does, but {unnamed} name none: "
                f"write for example Max('temp'), or from_function(..., field='temp')"
            )
        self.fields = tuple(dict.fromkeys(field for monoid in readers.values() for field in monoid.fields))
        self.grows = any(monoid.grows for monoid in monoids.values())
        self.commutes = all(monoid.commutes for monoid in monoids.values())
        self.invertible = all(monoid.invertible for monoid in monoids.values())
        self.identity = {name: monoid.identity for name, monoid in monoids.items()}
        self._combines = tuple((name, monoid.combine) for name, monoid in monoids.items())
        self._lowers = tuple((name, monoid.lower) for name, monoid in monoids.items())

    def row(self, value: Value) -> Row:
        for monoid in self.monoids.values():
            monoid.row(value)
        if not self.fields:
            return own(unwrapped(value, self))
        inputs = tuple(own(unwrapped(each, self)) for each in all_required(value, self.fields, self))
        return inputs[0] if len(inputs) == 1 else inputs

    def check_row(self, row: Row) -> Row:
        self.row(self.element(row))
        return row

    def lift(self, value: Value) -> State:
        return {name: monoid.lift(value) for name, monoid in self.monoids.items()}

    def lift_row(self, row: Row) -> State:
        return self.lift(self.element(row))

    def element(self, row: Row) -> Value:
        """The element that has this row."""
        if not self.fields:
            return row
        return dict(zip(self.fields, row if len(self.fields) > 1 else (row,), strict=True))

    def combine(self, older: State, younger: State) -> State:
        return {name: combine(older[name], younger[name]) for name, combine in self._combines}

    def without(self, state: State, older: State) -> State:
        left = {name: monoid.without(state[name], older[name]) for name, monoid in self.monoids.items()}
        return LOST if any(part is LOST for part in left.values()) else left

    def lower(self, state: State) -> Result:
        return {name: lower(state[name]) for name, lower in self._lowers}

    def pack(self, state: State) -> Packed:
        return {name: monoid.pack(state[name]) for name, monoid in self.monoids.items()}

    def unpack(self, packed: Packed) -> State:
        return {name: monoid.unpack(packed[name]) for name, monoid in self.monoids.items()}

    def fingerprint(self) -> str:
        return f"Fields({', '.join(map(self._text_of, self.monoids))})"

    def _text_of(self, name: str) -> str:
        over = f".over({self.frames[name].fingerprint()})" if name in self.frames else ""
        return f"{name}={self.monoids[name].fingerprint()}{over}"


class _Shaped(UserDict[str, State]):
    """Columns of states by field. A predicate reads few of the fields, so each is made at its first read."""

    def __init__(self, parts: dict[str, tuple[ColumnarMonoid, slice]], states: Columns) -> None:
        self._parts, self._states = parts, states
        self.data = dict.fromkeys(parts, _UNREAD)

    def __getitem__(self, name: str) -> State:
        state = self.data[name]
        if state is _UNREAD:
            monoid, part = self._parts[name]
            state = self.data[name] = monoid.shaped(self._states[part])
        return state


class ColumnFields(Fields, ColumnarMonoid):
    """`Fields` of columnar monoids. Its columns are the columns of the first monoid, then the second, …"""

    monoids: Mapping[str, ColumnarMonoid]

    def __init__(self, /, **fields: Monoid | Over) -> None:
        Fields.__init__(self, **fields)
        self.arity = len(self.fields) or self._plain_arity()
        self.reads_nothing = all(isinstance(monoid, Count) for monoid in self.monoids.values())
        self.width = sum(monoid.width for monoid in self.monoids.values())
        stop = 0
        parts = []
        for name, monoid in self.monoids.items():
            start, stop = stop, stop + monoid.width
            parts.append((name, monoid, slice(start, stop), self.inputs_of(monoid)))
        #: of each field: name, monoid, slice of the columns of a state, indices of the inputs
        self._parts = tuple(parts)
        #: of each field: name, its lift_row, and a function that picks its inputs of a row
        self._lifts = tuple(
            (name, monoid.lift_row, itemgetter(*indices)) for name, monoid, _, indices in self._parts
        )
        #: of each field: its check_row, a function that picks its inputs of a row, and their indices
        self._checks = tuple(
            (monoid.check_row, itemgetter(*indices), indices)
            for _, monoid, _, indices in self._parts
            if not isinstance(monoid, Count)
        )

    row, lift = ColumnarMonoid.row, ColumnarMonoid.lift

    def check_row(self, row: Row) -> Row:
        if self.reads_nothing:
            return 1
        inputs = self._split(row)
        for check, read, indices in self._checks:
            checked = check(read(inputs))
            if len(indices) == 1:
                inputs[indices[0]] = checked
                continue
            for index, value in zip(indices, checked, strict=True):
                inputs[index] = value
        return inputs[0] if self.arity == 1 else tuple(inputs)

    def lift_row(self, row: Row) -> State:
        inputs = self._split(row)
        return {name: lift(read(inputs)) for name, lift, read in self._lifts}

    def check_columns(self, inputs: Columns) -> Columns:
        if self.reads_nothing:
            return Count().check_columns(inputs)
        columns = list(inputs)
        for _, monoid, _, indices in self._parts:
            if isinstance(monoid, Count):
                continue
            checked = monoid.check_columns(tuple(map(columns.__getitem__, indices)))
            for index, column in zip(indices, checked, strict=True):
                columns[index] = column
        return tuple(columns)

    def check_states(self, states: Columns) -> None:
        for _, monoid, part, _ in self._parts:
            monoid.check_states(states[part])

    def lift_columns(self, inputs: Columns) -> Columns:
        lifted: list[Array] = []
        for _, monoid, _, indices in self._parts:
            lifted += monoid.lift_columns(tuple(map(inputs.__getitem__, indices)))
        return tuple(lifted)

    def combine_columns(self, older: Columns, younger: Columns) -> Columns:
        both: list[Array] = []
        for _, monoid, part, _ in self._parts:
            both += monoid.combine_columns(older[part], younger[part])
        return tuple(both)

    def prefix_columns(self, states: Columns) -> Columns:
        return self._of_each("prefix_columns", states)

    def suffix_columns(self, states: Columns) -> Columns:
        return self._of_each("suffix_columns", states)

    def fold_columns(self, states: Columns) -> Columns:
        return self._of_each("fold_columns", states)

    def _of_each(self, method: str, states: Columns) -> Columns:
        """The columns that one method of all monoids gives."""
        columns: list[Array] = []
        for _, monoid, part, _ in self._parts:
            columns += getattr(monoid, method)(states[part])
        return tuple(columns)

    def lower_columns(self, states: Columns) -> Results:
        return {name: monoid.lower_columns(states[part]) for name, monoid, part, _ in self._parts}

    def state_at(self, states: Columns, index: int) -> State:
        return {name: monoid.state_at(states[part], index) for name, monoid, part, _ in self._parts}

    def shaped(self, states: Columns) -> State:
        return _Shaped({name: (monoid, part) for name, monoid, part, _ in self._parts}, states)

    def part(self, columns: slice) -> ColumnarMonoid:
        return next(monoid for _, monoid, part, _ in self._parts if part == columns)

    def state_list(self, states: Columns) -> list[State]:
        names = tuple(self.monoids)
        lists = [monoid.state_list(states[part]) for _, monoid, part, _ in self._parts]
        return [dict(zip(names, parts, strict=True)) for parts in zip(*lists, strict=True)]

    def columns_of(self, states: Sequence[State]) -> Columns:
        columns: list[Array] = []
        for name, monoid, _, _ in self._parts:
            columns += monoid.columns_of([state[name] for state in states])
        return tuple(columns)

    def _plain_arity(self) -> int:
        arities = {name: m.arity for name, m in self.monoids.items() if not isinstance(m, Count)}
        if len(set(arities.values())) > 1:
            raise TypeError(
                f"aggregates of Fields that name no fields must read the same elements, "
                f"but these take different numbers of inputs: {arities}"
            )
        return next(iter(arities.values()), 1)

    def columns_of_fields(self, names: Sequence[str]) -> tuple[int, ...]:
        """The indices of the columns of a state that belong to some fields, in the order of these."""
        parts = {name: part for name, _, part, _ in self._parts}
        return tuple(index for name in names for index in range(parts[name].start, parts[name].stop))

    def inputs_of(self, monoid: ColumnarMonoid) -> tuple[int, ...]:
        """The indices of the inputs of an element that a field's monoid reads, or some of the fields."""
        if isinstance(monoid, Count) or (not monoid.fields and (self.fields or monoid.arity != self.arity)):
            return (0,)
        return tuple(map(self.fields.index, monoid.fields)) if self.fields else tuple(range(self.arity))

    def _split(self, row: Row) -> list[Value]:
        """The inputs of a row as a list."""
        if self.arity == 1:
            return [row]
        if not isinstance(row, (tuple, list)) or len(row) != self.arity:
            raise TypeError(f"{self!r} takes a tuple of {self.arity} inputs, got {row!r}")
        return list(row)
