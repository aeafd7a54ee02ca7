"""The laws of a monoid, as properties for Hypothesis.

One line makes a test of a monoid:

    test_max = monoid_laws(Max(), st.floats(-1e6, 1e6))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import TypeAlias

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mta.kinds import Columns, Result, State, Value
from mta.monoids.base import ColumnarMonoid, Monoid

#: whether two states, or two results, are equal except for rounding
Close: TypeAlias = Callable[[State, State], bool]

#: stands for a result that `lower` refuses
REFUSED: Result = object()

#: The most elements of an example: enough for odd lengths at each level of a scan.
LONGEST = 70


def tolerant(relative: float = 1e-9, absolute: float = 1e-9) -> Close:
    """A comparison leaf by leaf: whole numbers, texts and sets exactly, floats within a tolerance."""

    def close(a: State, b: State) -> bool:
        if isinstance(a, Mapping):
            return isinstance(b, Mapping) and a.keys() == b.keys() and all(close(a[key], b[key]) for key in a)
        if isinstance(a, (list, tuple)):
            return isinstance(b, (list, tuple)) and len(a) == len(b) and all(map(close, a, b))
        if isinstance(a, float) or isinstance(b, float):
            if a is None or b is None:
                return a is b
            if math.isnan(a) or math.isnan(b):
                return math.isnan(a) and math.isnan(b)
            return math.isclose(a, b, rel_tol=relative, abs_tol=absolute)
        return bool(a == b)

    return close


exactly = tolerant(0.0, 0.0)


def associative(monoid: Monoid, values: Sequence[Value], close: Close) -> None:
    """Three adjacent states combine to the same state, in both orders of the two combines."""
    states = [monoid.lift(value) for value in values]
    third = (len(states) + 2) // 3
    older, middle, younger = (
        fold(monoid, states[start : start + third]) for start in range(0, 3 * third, third)
    )
    combine = monoid.combine
    left = combine(combine(older, middle), younger)
    right = combine(older, combine(middle, younger))
    _same(close, left, right, monoid, "is not associative")
    _same(close, fold(monoid, states), left, monoid, "depends on the order of combines")


def neutral_identity(monoid: Monoid, values: Sequence[Value], close: Close) -> None:
    """The identity before or after a state changes nothing."""
    state = fold(monoid, [monoid.lift(value) for value in values])
    identity = monoid.identity
    _same(close, monoid.combine(identity, state), state, monoid, "changes with its identity before it")
    _same(close, monoid.combine(state, identity), state, monoid, "changes with its identity behind it")
    _same(close, monoid.combine(identity, identity), identity, monoid, "makes something of nothing")
    monoid.lower(identity)


def rows_agree(monoid: Monoid, values: Sequence[Value], close: Close) -> None:
    """The state of an element's row is the state of the element."""
    for value in values:
        row = monoid.row(value)
        _same(close, monoid.lift_row(row), monoid.lift(value), monoid, "lifts rows otherwise than elements")


def packs(monoid: Monoid, values: Sequence[Value], close: Close) -> None:
    """A state and the identity are the same after pack, serialize, and back."""
    from mta.encoding.packing import pack, unpack

    states = [monoid.identity, fold(monoid, [monoid.lift(value) for value in values])]
    for state in states:
        back = monoid.unpack(unpack(pack(monoid.pack(state))))
        _same(close, back, state, monoid, "changes on its way to bytes and back")
        _same(close, _result(monoid, back), _result(monoid, state), monoid, "lowers otherwise after bytes")
        found, expected = monoid.combine(back, states[1]), monoid.combine(state, states[1])
        _same(close, found, expected, monoid, "breaks in bytes")


def columns_agree(monoid: Monoid, values: Sequence[Value], close: Close) -> None:
    """Lift, combine, fold, scan and lower give the same in columns as for plain states."""
    if not isinstance(monoid, ColumnarMonoid):
        return
    from mta.core.states import layout_of

    layout = layout_of(monoid)
    states = [monoid.lift(value) for value in values]
    columns: Columns = layout.lift(layout.elements(list(values)))
    rows = [monoid.row(value) for value in values]
    prefixes, suffixes = running(monoid, states), running(monoid, states, backwards=True)

    def same(found: Columns, expected: list[State], name: str) -> None:
        _same(close, monoid.state_list(found), expected, monoid, f"has other {name} in columns")

    same(columns, states, "states")
    same(layout.lift(layout.gather_rows(rows)), states, "states of rows")
    same(monoid.columns_of(states), states, "states gathered")
    same(monoid.prefix_columns(columns), prefixes, "prefixes")
    same(monoid.suffix_columns(columns), suffixes, "suffixes")
    same(monoid.fold_columns(columns), prefixes[-1:], "folds")
    early, late = monoid.columns_of(suffixes), monoid.columns_of(prefixes)
    same(monoid.prefix_columns(early), running(monoid, suffixes), "prefixes of states")
    same(monoid.suffix_columns(late), running(monoid, prefixes, backwards=True), "suffixes of states")
    same(monoid.fold_columns(early), [fold(monoid, suffixes)], "folds of states")
    combined = list(map(monoid.combine, suffixes, prefixes))
    same(monoid.combine_columns(early, late), combined, "combined states")
    one, state = tuple(column[:1] for column in columns), states[0]
    same(monoid.combine_columns(one, late), [monoid.combine(state, b) for b in prefixes], "states behind one")
    same(
        monoid.combine_columns(early, one), [monoid.combine(a, state) for a in suffixes], "states before one"
    )
    results = [_result(monoid, state) for state in prefixes]
    for index in range(len(states)):
        part = tuple(column[index : index + 1] for column in monoid.prefix_columns(columns))
        _same(close, _column_results(monoid, part), [results[index]], monoid, "has other results in columns")
        _same(close, monoid.state_at(part, 0), prefixes[index], monoid, "finds another state in columns")
    whole = _column_results(monoid, monoid.prefix_columns(columns))
    refused = any(result is REFUSED for result in results)
    _same(close, whole, [REFUSED] if refused else results, monoid, "has other results in whole columns")


#: The laws that every monoid must pass. Each takes the monoid, some elements, and a comparison.
LAWS: tuple[Callable[[Monoid, Sequence[Value], Close], None], ...] = (
    associative,
    neutral_identity,
    rows_agree,
    packs,
    columns_agree,
)


def monoid_laws(
    monoid: Monoid, elements: st.SearchStrategy[Value], *, close: Close | None = None
) -> Callable[[], None]:
    """A test function that checks all laws with lists of 1 to 70 elements.

    `elements` is a strategy for elements of the monoid. `close` compares states and results; the default
    allows a relative error of 1e-9. The test function raises AssertionError, with the law and the states.
    """
    compare = close or tolerant()

    @settings(deadline=None, max_examples=60, report_multiple_bugs=False)
    @given(st.integers(1, LONGEST).flatmap(lambda size: st.lists(elements, min_size=size, max_size=size)))
    def laws(values: list[Value]) -> None:
        for law in LAWS:
            law(monoid, values, compare)

    return laws


def fold(monoid: Monoid, states: Sequence[State]) -> State:
    """The aggregate of states, combined from left to right; the identity for no states."""
    return running(monoid, states)[-1] if states else monoid.identity


def running(monoid: Monoid, states: Sequence[State], *, backwards: bool = False) -> list[State]:
    """The aggregates of all prefixes, or of all suffixes."""
    if backwards:
        return list(accumulate(reversed(states), lambda younger, older: monoid.combine(older, younger)))[::-1]
    return list(accumulate(states, monoid.combine))


def _result(monoid: Monoid, state: State) -> State:
    try:
        return monoid.lower(state)
    except OverflowError:
        return REFUSED


def _column_results(monoid: ColumnarMonoid, columns: Columns) -> list[Result]:
    try:
        results = monoid.lower_columns(columns)
    except OverflowError:
        return [REFUSED]
    if not isinstance(results, Mapping):
        return np.asarray(results).tolist()  # type: ignore[no-any-return]
    parts = [np.asarray(part).tolist() for part in results.values()]
    return [dict(zip(results, row, strict=True)) for row in zip(*parts, strict=True)]


def _same(close: Close, found: State, expected: State, monoid: Monoid, fault: str) -> None:
    assert close(found, expected), f"{monoid!r} {fault}: {found!r} for {expected!r}"
