"""The two algorithms, as windows: they differ in their views alone."""

from __future__ import annotations

from mta.core.amortized_view import AmortizedView
from mta.core.logarithmic_view import LogarithmicView
from mta.core.view import View
from mta.monoids.base import Monoid
from mta.window import MonoidTreeAggregator


class LogMTA(MonoidTreeAggregator):
    """A sliding window whose insertions, evictions of any number and queries each take O(log n).

    >>> from mta import LogMTA, monoids, policies
    >>> window = LogMTA(monoids.Max(), policies.TimeWindow(60))
    >>> for time, value in ((0, 3), (30, 1), (61, 2)):
    ...     window.insert(value, time)
    >>> window.enforce(), window.query(), len(window)
    (1, 2, 2)
    >>> window.evict_until(30), window.oldest
    (1, 61)
    """

    @staticmethod
    def _view_kind(monoid: Monoid) -> type[View]:  # noqa: ARG004
        return LogarithmicView


class AmortizedMTA(MonoidTreeAggregator):
    """A sliding window with amortised O(1) insertion and eviction, and bulk eviction in O(log n).

    States that grow with the window are not kept for every coming eviction, but folded as LogMTA folds them.

    >>> from mta import AmortizedMTA, monoids, policies
    >>> window = AmortizedMTA(monoids.Sum(), policies.CountWindow(3))
    >>> [window.push(value) for value in (1, 2, 3, 4)]
    [1, 3, 6, 9]
    >>> window.slide([5, 6])
    array([12, 15])
    >>> window.range_query(3, 4)
    9

    With a store its elements are there, and a checkpoint can be restored, in this process or another:

    >>> from stores import open_store
    >>> store = open_store("memory:")
    >>> with AmortizedMTA(monoids.Max(), policies.CountWindow(100), store=store, name="sensor-7") as window:
    ...     window.extend(range(1000))
    ...     window.checkpoint(offset=1000)
    1
    >>> again = AmortizedMTA.restore(store, "sensor-7", monoids.Max(), policies.CountWindow(100))
    >>> again.query(), len(again), again.offset
    (999, 100, 1000)
    """

    @staticmethod
    def _view_kind(monoid: Monoid) -> type[View]:
        return LogarithmicView if monoid.grows else AmortizedView
