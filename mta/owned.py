"""Values that nobody else can change: copied on their way in and out, where they could be."""

from __future__ import annotations

import array
import collections
import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

#: what nobody can change
_ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes})

#: what somebody can, and is copied: so are tuples and frozen sets that hold such
_MUTABLE = (list, dict, set, bytearray, np.ndarray, collections.deque, array.array)


def own(value: Any) -> Any:
    """The value, with all in it that can be changed copied: a window shares no memory with its user.

    Objects of other classes are taken as they are, so nobody may change them.
    """
    kind = type(value)
    if kind in _ATOMS:
        return value
    if isinstance(value, (tuple, frozenset)):
        return value if all(type(part) in _ATOMS for part in value) else _copied(value)
    if isinstance(value, np.ndarray):
        return np.array(value) if value.dtype != object and not is_masked(value) else _copied(value)
    return _copied(value) if isinstance(value, _MUTABLE) else value


def _copied(value: Any) -> Any:
    try:
        copied = copy.deepcopy(value)
    except RecursionError:
        raise ValueError(
            "a value that is nested hundreds of levels deep cannot be kept; make it flat"
        ) from None
    _refuse_masked(copied)
    return copied


def _refuse_masked(value: Any) -> None:
    """Refuses arrays with a mask, also inside a value: what is missing is no element."""
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


def is_masked(value: Any) -> bool:
    return isinstance(value, np.ma.MaskedArray)


def shown(state: Any) -> Any:
    """A state for a function of the user's to look at: what it changes there is changed nowhere else.

    Arrays are views that cannot be written; mappings, lists and sets are copies. Objects of other classes are
    shown as they are.
    """
    kind = type(state)
    if kind in _ATOMS:
        return state
    if kind is tuple:
        return state if all(type(part) in _ATOMS for part in state) else tuple(map(shown, state))
    if kind is dict:
        return {name: shown(part) for name, part in state.items()}
    if isinstance(state, np.ndarray):
        view = state.view()
        view.flags.writeable = False
        return view
    return own(state)


def own_list(values: Sequence[Any]) -> list[Any]:
    """`own`, of each."""
    return list(values) if _ATOMS.issuperset(map(type, values)) else [own(value) for value in values]


def own_results(results: Any, states: Sequence[Any]) -> Any:
    """Results of a run of states in arrays that are not those of the states."""
    if isinstance(results, dict):
        return {name: own_results(each, states) for name, each in results.items()}
    if not isinstance(results, np.ndarray):
        return results
    if results.dtype == object:
        return np.fromiter(own_list(results.tolist()), dtype=object, count=len(results))
    shared = results.base is not None or any(results is column for column in states)
    return np.array(results) if shared else results
