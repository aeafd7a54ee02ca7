"""FlatFAT without slicing: a leaf a tuple, in the order of times, and the tree kept up with each tuple."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mta.monoids.base import Monoid
from mta.slicing.aggregate_store import Eager
from mta.slicing.keyed import KeyedStreams
from mta.slicing.queries import Plan, checked_queries
from mta.slicing.settings import Settings
from mta.slicing.slice_manager import SliceManager
from mta.slicing.sliced_stream import Stream
from mta.slicing.slices import Slice
from mta.slicing.windows import Time, Window


class OneTupleSlices(SliceManager):
    """A slice for each tuple, and a tree that is written at once."""

    def add(self, stream: Stream, time: Time, state: Any, mark: Any = None) -> None:
        rows = [(time, stream.arrivals, state, mark)]
        self.put(stream, Slice(time, time, self.high(stream, time), 1, state, rows))
        assert isinstance(stream.store, Eager)
        stream.store.refresh(stream.book)

    def joining(
        self,
        stream: Stream,  # noqa: ARG002
        left: Slice | None,  # noqa: ARG002
        slices: list[Slice],  # noqa: ARG002
        place: int,
        new: Slice,  # noqa: ARG002
    ) -> tuple[int, int]:
        return place, place


class OneLeafTuples(Eager):
    """A tree with a leaf for each tuple, also where no query tells them apart."""

    joins = False


class TupleTree(KeyedStreams):
    """Windows over single tuples in a FlatFAT, with leaves inserted in the middle."""

    def __init__(
        self,
        monoid: Monoid,
        queries: Mapping[str, Window] | Iterable[tuple[str, Window]],
        *,
        lateness: float = 0,
    ) -> None:
        settings = Settings.checked(lateness, None, False, False, None, None)
        super().__init__(monoid, checked_queries(queries, lateness), settings, "tuple tree")

    def _planned(self, queries: Any) -> Plan:
        plan = super()._planned(queries)
        return plan._replace(manager=OneTupleSlices(self._monoid, plan.edges, keeps_rows=True, most=1))

    def _new_store(self) -> Eager:
        return OneLeafTuples(self._monoid)
