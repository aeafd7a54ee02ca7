"""Columns of results, some of which are of empty windows, or of windows with too few elements."""

from __future__ import annotations

from mta.core.frame import Frame
from mta.core.states import Layout, Lowered, as_results, result_column
from mta.kinds import Array, Results
from mta.monoids.columns import as_python, scattered
from mta.monoids.fields import Fields


def filled(frame: Frame, layout: Layout, answers: list[Lowered], counts: Array) -> Results:
    """The results of windows, of which some are empty or have too few elements."""
    held = counts > 0
    nothing = layout.monoid.lower(layout.monoid.identity)
    lowered = layout.lower_all(answers) if answers else None
    if not isinstance(layout.monoid, Fields):
        column = None if lowered is None else result_column(lowered)
        short = counts < max(frame.least.values())
        return as_results(withheld(scattered(column, held, nothing), short))
    results = {}
    for name, empty in nothing.items():
        column = scattered(None if lowered is None else lowered[name], held, empty)
        results[name] = withheld(column, counts < frame.least.get(name, frame.least.get(None, 0)))
    return results


def withheld(results: Array, short: Array) -> Array:
    """The results, with None for windows that are too short."""
    if not short.any():
        return results
    column = as_python(results)
    column[short] = None
    return column
