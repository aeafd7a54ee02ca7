"""FlatFAT without slicing: a leaf for each tuple, in the order of times; each tuple updates the tree."""

from __future__ import annotations

from typing import Any

from mta.kinds import State, Time
from mta.monoids.base import Monoid
from mta.slicing.aggregate_store import Eager
from mta.slicing.queries import Plan, Queries
from mta.slicing.slice_manager import SliceManager
from mta.slicing.sliced_stream import SlicedStream
from mta.slicing.slicer import Slicer
from mta.slicing.slices import Slice


class OneTupleSlices(SliceManager):
    """A slice for each tuple, which is written to the tree at once."""

    def add(self, stream: SlicedStream, time: Time, state: State, marks: Any = None) -> None:
        tuples = [(time, stream.arrivals, state, marks)]
        self.put(stream, Slice(time, time, self.edge(stream, time), 1, state, tuples))
        assert isinstance(stream.aggregates, Eager)
        stream.aggregates.write_changed(stream.slices)

    def joining(self, stream: Any, left: Any, items: Any, index: int, new: Any) -> tuple[int, int]:  # noqa: ARG002
        return index, index


class TupleTree(Slicer):
    """Windows over single tuples in a FlatFAT, with leaves inserted in the middle."""

    def __init__(self, monoid: Monoid, queries: Any, *, lateness: float = 0) -> None:
        super().__init__(monoid, queries, lateness=lateness, name="tuple tree")

    def _plan_of(self, queries: Queries) -> Plan:
        plan = super()._plan_of(queries)
        manager = OneTupleSlices(self._monoid, plan.edges, keeps_tuples=True, max_tuples=1)
        return plan._replace(manager=manager)

    def _new_aggregates(self) -> Eager:
        tree = Eager(self._monoid)
        tree.may_merge = False  # a leaf for each tuple, even where no query tells them apart
        return tree
