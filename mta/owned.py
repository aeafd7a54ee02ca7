"""Copies of mutable values, so that a window shares no memory with its user."""

from __future__ import annotations

import array
import collections
import copy
from collections.abc import Sequence

import numpy as np

from mta.kinds import Columns, Results, State, Value

#: immutable types without parts
_ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes})

#: mutable types, whose values are copied; so are tuples and frozen sets with such values in them
_MUTABLE = (list, dict, set, bytearray, np.ndarray, collections.deque, array.array)


def own(value: Value) -> Value:
    """The value, with a copy of everything mutable in it.

    Objects of other classes are not copied, so their owner must not change them. Raises ValueError for a
    masked array, and for a value that is nested too deeply to be copied.
    """
    kind = type(value)
    if kind in _ATOMS:
        return value
    if isinstance(value, (tuple, frozenset)):
        return value if all(type(part) in _ATOMS for part in value) else _copied(value)
    if isinstance(value, np.ndarray):
        return np.array(value) if value.dtype != object and not is_masked(value) else _copied(value)
    return _copied(value) if isinstance(value, _MUTABLE) else value


def _copied(value: Value) -> Value:
    try:
        copied = copy.deepcopy(value)
    except RecursionError:
        raise ValueError(
            "a value that is nested hundreds of levels deep cannot be kept; make it flat"
        ) from None
    _refuse_masked(copied)
    return copied


def _refuse_masked(value: Value) -> None:
    """Raises ValueError for an array with a mask, also inside a value: missing values are no elements."""
    if is_masked(value):
        raise ValueError(
            f"a masked array is no element, got {value!r}: take what is there by compressed() or filled()"
        )
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, (list, tuple, set, frozenset, collections.deque)):
        for part in value:
            if type(part) not in _ATOMS:
                _refuse_masked(part)


def is_masked(value: object) -> bool:
    return isinstance(value, np.ma.MaskedArray)


def guarded(state: State) -> State:
    """A state that a user's function may get: it cannot change the original.

    Arrays become read-only views; mappings, lists and sets are copied. Objects of other classes are the same.
    """
    kind = type(state)
    if kind in _ATOMS:
        return state
    if kind is tuple:
        return state if all(type(part) in _ATOMS for part in state) else tuple(map(guarded, state))
    if kind is dict:
        return {name: guarded(part) for name, part in state.items()}
    if isinstance(state, np.ndarray):
        view = state.view()
        view.flags.writeable = False
        return view
    return own(state)


def own_list(values: Sequence[Value]) -> list[Value]:
    """`own` of each value."""
    return list(values) if _ATOMS.issuperset(map(type, values)) else [own(value) for value in values]


def own_results(results: Results, states: Columns) -> Results:
    """Results of columns of states, copied if they share memory with the states."""
    if isinstance(results, dict):
        return {name: own_results(each, states) for name, each in results.items()}
    if not isinstance(results, np.ndarray):
        return results
    if results.dtype == object:
        return np.fromiter(own_list(results.tolist()), dtype=object, count=len(results))
    shared = results.base is not None or any(results is column for column in states)
    return np.array(results) if shared else results
