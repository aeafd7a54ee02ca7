"""Columns of results, some of which are of empty windows, or of windows with too few elements."""

from __future__ import annotations

import numpy as np

from mta.core.frame import Frame
from mta.core.states import Layout, Lowered, as_results, result_column
from mta.kinds import Array, Result, Results
from mta.monoids.base import column_of
from mta.monoids.fields import Fields
from mta.owned import own


def filled(frame: Frame, layout: Layout, answers: list[Lowered], counts: Array) -> Results:
    """The results of windows, of which some are empty or have too few elements."""
    held = counts > 0
    nothing = layout.monoid.lower(layout.monoid.identity)
    lowered = layout.lower_all(answers) if answers else None
    if not isinstance(layout.monoid, Fields):
        column = None if lowered is None else result_column(lowered)
        short = counts < max(frame.least.values())
        return as_results(withheld(_scattered(column, held, nothing), short))
    results = {}
    for name, empty in nothing.items():
        column = _scattered(None if lowered is None else lowered[name], held, empty)
        results[name] = withheld(column, counts < frame.least.get(name, frame.least.get(None, 0)))
    return results


def _scattered(results: Array | None, held: Array, empty: Result) -> Array:
    """The results of the windows that hold elements, and among these the result of an empty one."""
    if results is None:
        return column_of([own(empty) for _ in held])
    if held.all():
        return results
    if type(empty) is (int if results.dtype.kind == "i" else float if results.dtype.kind == "f" else None):
        column = np.full(len(held), empty, results.dtype)
        column[held] = results
        return column
    column = np.fromiter((own(empty) for _ in held), object, len(held))
    column[held] = _objects(results)
    return column


def withheld(results: Array, short: Array) -> Array:
    """The results, with None for windows that are too short."""
    if not short.any():
        return results
    column = _objects(results)
    column[short] = None
    return column


def _objects(results: Array) -> Array:
    # `fromiter`, since an assignment would take lists of one length for a second dimension
    return np.fromiter(results.tolist(), object, len(results))
