"""The layouts of some of the fields of a log, for a view that aggregates only these.

Elements and states of the log have all fields. A part picks its fields out of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mta.core.states import ColumnLayout, Layout, ObjectLayout, Run
from mta.kinds import Columns, State
from mta.monoids.fields import ColumnFields, Fields


class ColumnPart(ColumnLayout):
    """Some fields of `ColumnFields`."""

    is_part = True
    monoid: ColumnFields

    def __init__(self, whole: ColumnFields, names: Sequence[str]) -> None:
        some = Fields(**{name: whole.monoids[name] for name in names})
        assert isinstance(some, ColumnFields)
        super().__init__(some)
        self._names = tuple(names)
        self._inputs, self._columns = whole.inputs_of(some), whole.columns_of_fields(names)

    def lift(self, elements: Run) -> Columns:
        return self.monoid.lift_columns(tuple(elements[index] for index in self._inputs))

    def picked(self, states: Run) -> Columns:
        return tuple(states[index] for index in self._columns)

    def narrow(self, state: State) -> Any:
        return {name: state[name] for name in self._names}


class ObjectPart(ObjectLayout):
    """Some fields of `Fields` whose elements and states are Python objects."""

    is_part = True

    def __init__(self, whole: Fields, names: Sequence[str]) -> None:
        super().__init__(Fields(**{name: whole.monoids[name] for name in names}))
        self._whole, self._names = whole, tuple(names)

    def lift(self, elements: Run) -> list[Any]:
        element, lift = self._whole.element, self.monoid.lift
        return [lift(element(row)) for row in elements]

    def picked(self, states: Run) -> list[Any]:
        return [self.narrow(state) for state in states]

    def narrow(self, state: State) -> Any:
        return {name: state[name] for name in self._names}


def part_of(layout: Layout, names: Sequence[str]) -> Layout:
    """The layout of some fields of a log's; the log's own if these are all fields."""
    whole = layout.monoid
    assert isinstance(whole, Fields)
    if len(names) == len(whole.monoids):
        return layout
    return ColumnPart(whole, names) if isinstance(whole, ColumnFields) else ObjectPart(whole, names)
