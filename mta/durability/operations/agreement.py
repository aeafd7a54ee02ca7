"""Comparison of two states of a monoid, up to rounding."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mta.monoids import Fields
from mta.monoids.base import Monoid
from mta.monoids.sketches import Sketch

#: Sums of the same numbers in another order differ by their rounding: by these parts of the sum, and of the
#: magnitude of the numbers.
RELATIVE, OF_MAGNITUDE = 1e-6, 1e-9


def holds_sketches(monoid: Monoid) -> bool:
    """Whether a monoid has states that `agree` does not compare."""
    monoid = _inner(monoid)
    parts = monoid.monoids.values() if isinstance(monoid, Fields) else ()
    return isinstance(monoid, Sketch) or any(map(holds_sketches, parts))


def _inner(monoid: Monoid) -> Monoid:
    """The monoid of the states, where another monoid wraps it, as in a slicer's slices."""
    inner = getattr(monoid, "inner", None)
    return inner if isinstance(inner, Monoid) and not isinstance(monoid, Fields) else monoid


def agree(monoid: Monoid, a: Any, b: Any, magnitude: float) -> bool:
    """Whether two states agree up to rounding, where numbers of a magnitude were added up."""
    monoid = _inner(monoid)
    if isinstance(monoid, Sketch):
        return True  # a sketch depends on the order of its merges, and on chance
    if isinstance(monoid, Fields) and isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        return all(agree(each, a[name], b[name], magnitude) for name, each in monoid.monoids.items())
    return _close(a, b, magnitude)


def _close(a: Any, b: Any, magnitude: float) -> bool:
    if isinstance(a, float) and isinstance(b, (float, int)):
        if math.isnan(a) or math.isnan(b):
            return math.isnan(a) and math.isnan(b)
        return math.isclose(a, b, rel_tol=RELATIVE, abs_tol=OF_MAGNITUDE * magnitude)
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(_close(x, y, magnitude) for x, y in zip(a, b, strict=True))
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return bool(np.array_equal(a, b))
    return bool(a == b)
