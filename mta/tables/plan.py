"""What a call of `rolling` computes: checked arguments, and aggregates put together by their frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from mta import monoids as catalogue
from mta.checks import Clock, unit_of
from mta.core.frame import frames_of
from mta.core.parts import part_of
from mta.core.states import ColumnLayout, Layout, Run, layout_of
from mta.frames.limits import Limits
from mta.frames.policies import Policy
from mta.kinds import Array
from mta.monoids.base import ColumnarMonoid, Monoid
from mta.monoids.fields import Fields, as_monoid
from mta.monoids.missing import there_in
from mta.monoids.nulls import Nulls, with_nulls
from mta.monoids.over import Over
from mta.monoids.ufuncs import Count
from mta.tables.spans import cuts_of
from mta.times.kinds import NUMBERS


class Shown(NamedTuple):
    """A new column: its name, the aggregate that it shows, and how few elements give None."""

    name: str
    aggregate: str
    least: int


class Frame(NamedTuple):
    """A frame, the layout of the aggregates under it, and the columns that show these."""

    limits: Limits
    layout: Layout
    shown: Sequence[Shown]


class Program:
    """The aggregates over NumPy columns, or those over Python objects.

    Aggregates that are the same but for their frames have their states only once.
    """

    def __init__(self, fields: Fields, policy: Policy | None, nulls: Nulls) -> None:
        #: with the frames as the user gave them
        self.fields, self.policy = _with_nulls(fields, nulls), policy
        distinct: dict[Any, str] = {}
        aggregates: dict[str, Monoid] = {}
        of_name: dict[str, str] = {}
        for name, monoid in fields.monoids.items():
            aggregate = of_name[name] = distinct.setdefault(_identity(monoid), name)
            aggregates.setdefault(aggregate, monoid)
        self.layout = layout_of(_with_nulls(Fields(**aggregates), nulls))
        self.frames: list[Frame] = []
        for each in frames_of(fields, policy):
            # the fields of a frame, or None for all fields
            least = each.least if None not in each.least else dict.fromkeys(fields.monoids, each.least[None])
            shown = [Shown(str(name), of_name[str(name)], count) for name, count in least.items()]
            names = [name for name in aggregates if any(name == one.aggregate for one in shown)]
            layout = part_of(self.layout, names)
            self.frames.append(Frame(replace(each.limits, min_count=0), layout, shown))

    def elements(self, columns: Mapping[str, Any], count: int) -> Run:
        """The checked elements of a batch of rows."""
        fields = self.fields.fields
        values = {name: columns[name] for name in fields} if fields else np.zeros(count, np.int64)
        return self.layout.elements(values)

    @property
    def state_bytes(self) -> int:
        """About how many bytes the states of a row take."""
        return sum(getattr(each, "state_bytes", 64) for each in self.fields.monoids.values())

    def values(self, elements: Run) -> Any:
        """Elements as a batch for a window of the program's own."""
        fields = self.fields
        if not isinstance(self.layout, ColumnLayout):
            return [fields.element(row) for row in elements]
        if not fields.fields:
            return elements[0]
        columns = map(_with_mask, elements) if fields.skips_nulls else elements
        return dict(zip(fields.fields, columns, strict=True))


def _with_mask(column: Array) -> Array:
    """A column of elements as users give one: a mask says which values are missing."""
    there = there_in(column)
    return column if there is None else np.ma.MaskedArray(column, ~there)


def _identity(monoid: Monoid) -> Any:
    """What equal aggregates have in common. Only those of the catalogue are known by their texts."""
    if getattr(catalogue, type(monoid).__name__, None) is type(monoid):
        return type(monoid), monoid.fingerprint()
    return id(monoid)


class Plan:
    """A checked call."""

    def __init__(self, on: Any, by: Any, aggregates: Any, policy: Any, nulls: Any) -> None:
        """Raises TypeError or ValueError for arguments that cannot be."""
        self.on, self.by = _name(on, "on"), _names(by)
        self._policy, self._nulls = policy, nulls
        self.fields = _fields_of(aggregates)
        whole = _with_nulls(self.fields, nulls)
        if policy is not None and not isinstance(policy, Policy):
            raise TypeError(f"policy is one of mta.policies or None, got {policy!r}")
        limits = [each.limits for each in frames_of(self.fields, policy)]
        if any(each.predicates for each in limits):
            raise ValueError(
                f"rolling takes frames of time and count, got the policy {policy!r}, which evicts by the "
                "aggregate of one window: use AmortizedMTA with it"
            )
        self.in_microseconds = unit_of(self.fields, policy, None)
        self.timed = any(each.spans() or each.lags() for each in limits)
        if self.timed and self.on is None:
            raise ValueError(
                "frames of time need the column of times: give on=, as in rolling(frame, on='ts', …)"
            )
        columnar = [name for name, each in self.fields.monoids.items() if isinstance(each, ColumnarMonoid)]
        others = [name for name in self.fields.monoids if name not in columnar]
        self.programs = [self._program(names) for names in (columnar, others) if names]
        #: the columns that aggregates read, and all columns that are read
        self.inputs = whole.fields
        self.columns = tuple(dict.fromkeys([*self.by, *([self.on] if self.on else []), *self.inputs]))
        #: the cuts of all frames
        self.cuts = cuts_of(frame.limits for program in self.programs for frame in program.frames)
        self.names = tuple(self.fields.monoids)
        #: decides of which kind the times are
        self.clock = Clock(self.in_microseconds)

    def _program(self, names: Sequence[str]) -> Program:
        return Program(_some(self.fields, names), _policy_of(self._policy, self.fields, names), self._nulls)

    def program_of(self, name: str) -> Program:
        """A program of one aggregate alone."""
        return self._program([name])

    def as_times(self, times: Array) -> Array:
        """Times that were checked, in the form in which a window takes them."""
        return times if self.clock.kind is NUMBERS else times.view("M8[us]")


def _with_nulls(fields: Fields, nulls: Nulls) -> Fields:
    found = with_nulls(fields, nulls)
    assert isinstance(found, Fields)
    return found


def _policy_of(policy: Policy | None, fields: Fields, names: Sequence[str]) -> Policy | None:
    """The policy of some of the fields; none if all of them have frames of their own."""
    return None if all(name in fields.frames for name in names) else policy


def _some(fields: Fields, names: Sequence[str]) -> Fields:
    def framed(name: str) -> Monoid | Over:
        monoid = fields.monoids[name]
        return Over(monoid, fields.frames[name]) if name in fields.frames else monoid

    return Fields(**{name: framed(name) for name in names})


def _fields_of(aggregates: Any) -> Fields:
    if isinstance(aggregates, Mapping):
        aggregates = as_monoid(aggregates)
    if not isinstance(aggregates, Fields):
        raise TypeError(
            "aggregates is a mapping of the names of new columns to monoids, as in "
            f"{{'peak': monoids.Max('amount')}}, or Fields, got {aggregates!r}"
        )
    for name, monoid in aggregates.monoids.items():
        if not monoid.fields and not isinstance(monoid, Count):
            raise TypeError(
                f"the aggregate {name!r} is to say which column it reads, as in Max('amount'), got {monoid!r}"
            )
    return aggregates


def _name(name: Any, what: str) -> str | None:
    if name is not None and not isinstance(name, str):
        raise TypeError(f"{what}= is the name of a column, got {name!r}")
    return name


def _names(by: Any) -> tuple[str, ...]:
    if by is None or isinstance(by, str):
        return () if by is None else (by,)
    if isinstance(by, (list, tuple)) and all(isinstance(name, str) for name in by):
        if len(set(by)) < len(by):
            raise ValueError(f"by= names a column twice: {list(by)}")
        return tuple(by)
    raise TypeError(f"by= is the name of a column or a list of names, got {by!r}")
