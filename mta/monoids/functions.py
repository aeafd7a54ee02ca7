"""Monoids of a user's functions: of functions of Python (`from_function`), and of ufuncs (`from_ufunc`)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from mta.functions import described
from mta.kinds import Columns, Packed, Result, Results, Row, State, Value
from mta.monoids.base import Monoid, required
from mta.monoids.ufuncs import SCALAR, UfuncMonoid, call_ufunc, quiet, settled
from mta.monoids.values import unwrapped
from mta.options import check_name
from mta.owned import own

#: lift, lower, pack or unpack
_Function: TypeAlias = Callable[[Any], Any]

_Combine: TypeAlias = Callable[[State, State], State]


class FunctionMonoid(Monoid):
    """The class of the monoids of `from_function`."""

    def __init__(self, text: str, functions: Mapping[str, Any], identity: State, *fields: str) -> None:
        self.identity, self.fields, self._text = identity, fields, text
        self._combine = functions["combine"]
        self._lift, self._lower = functions["lift"], functions["lower"]
        self._pack, self._unpack = functions["pack"], functions["unpack"]
        # So that a combine costs one call, of the user's function.
        self.combine = self._combine  # type: ignore[method-assign]

    def row(self, value: Value) -> Row:
        value = required(value, self.fields[0], self) if self.fields else value
        return own(unwrapped(value, self))

    def lift(self, value: Value) -> State:
        return self.lift_row(self.row(value))

    def lift_row(self, row: Row) -> State:
        return row if self._lift is None else self._lift(row)

    def combine(self, older: State, younger: State) -> State:
        return self._combine(older, younger)

    def lower(self, state: State) -> Result:
        return own(state if self._lower is None else self._lower(state))

    def pack(self, state: State) -> Packed:
        return state if self._pack is None else self._pack(state)

    def unpack(self, packed: Packed) -> State:
        return packed if self._unpack is None else self._unpack(packed)

    def fingerprint(self) -> str:
        return self._text


def from_function(
    combine: _Combine,
    identity: State,
    *,
    lift: _Function | None = None,
    lower: _Function | None = None,
    pack: _Function | None = None,
    unpack: _Function | None = None,
    name: str | None = None,
    field: str | None = None,
    grows: bool = False,
    commutes: bool = False,
) -> FunctionMonoid:
    """A monoid from an associative function of two states and its identity.

    - `combine(older, younger)` returns a state and must not change its arguments. A combine of the monoid is
      one call of it.
    - `lift` makes a state of an element, and `lower` a result of a state. The default is no change.
    - `pack` and `unpack` turn a state into plain values and back, for stores. Give both or neither.
    - `name` stands for the functions in a checkpoint, which only a monoid of the same name can restore.
      Without a name, the names of their definitions and their code stand for them, and another version of
      Python compiles other code.
    - `field` is the field to read if elements are mappings.
    - `grows` says that a state is as large as its elements, as a list is. The window then keeps few states.
    - `commutes` says that the order of the arguments of `combine` does not matter.

    Raises TypeError for an argument of a wrong type, and for `pack` without `unpack`.

    >>> from mta import AmortizedMTA, monoids, policies
    >>> one = lambda word: frozenset([word])
    >>> different = monoids.from_function(frozenset.union, frozenset(), lift=one, lower=len)
    >>> window = AmortizedMTA(different, policies.CountWindow(3))
    >>> [window.push(word) for word in ("to", "be", "or", "or", "to", "be")]
    [1, 2, 3, 2, 2, 3]
    """
    functions = {"combine": combine, "lift": lift, "lower": lower, "pack": pack, "unpack": unpack}
    for key, function in functions.items():
        if not callable(function) and (function is not None or key == "combine"):
            raise TypeError(f"from_function({key}=...) takes a function, got {function!r}")
    if (pack is None) != (unpack is None):
        raise TypeError("from_function takes both of pack and unpack, or neither")
    check_name("from_function", name)
    if field is not None and not isinstance(field, str):
        raise TypeError(f"from_function(field=...) takes a str, got {field!r}")
    parts = [described(combine) if name is None else name]
    named = (("lift", lift), ("lower", lower)) if name is None else ()
    parts += [f"{key}={described(function)}" for key, function in named if function is not None]
    parts += [] if field is None else [f"field={field!r}"]
    fields = () if field is None else (field,)
    monoid = FunctionMonoid(f"from_function({', '.join(parts)})", functions, identity, *fields)
    monoid.grows, monoid.commutes = bool(grows), bool(commutes)
    return monoid


class FromUfunc(UfuncMonoid):
    """The class of the monoids of `from_ufunc`."""

    def __init__(
        self,
        ufunc: np.ufunc,
        identity: State,
        *fields: str,
        lift: _Function | None = None,
        lower: _Function | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(*fields)
        check_name("from_ufunc", name)
        if not isinstance(ufunc, np.ufunc) or ufunc.nin != 2 or ufunc.nout != 1:
            raise TypeError(f"from_ufunc takes a ufunc of two inputs and one output, got {ufunc!r}")
        self.ufunc = ufunc
        self.commutes = ufunc in SCALAR or ufunc in (np.logaddexp, np.logaddexp2, np.hypot)
        self.identity, self._lift, self._lower = identity, lift, lower
        parts = [ufunc.__name__ if name is None else name, repr(identity), *map(repr, self.fields)]
        named = (("lift", lift), ("lower", lower)) if name is None else ()
        parts += [f"{key}={described(function)}" for key, function in named if function is not None]
        self._text = f"from_ufunc({', '.join(parts)})"
        self._whole_only = lift is None and not _takes_floats(ufunc)
        if identity is not None:
            combine = SCALAR.get(ufunc) or functools.partial(call_ufunc, ufunc)
            self.combine = combine  # type: ignore[method-assign, assignment]

    def check_row(self, row: Row) -> Row:
        row = super().check_row(row)
        if self._lift is not None:
            self._lift(row)
        elif self._whole_only and isinstance(row, float):
            raise TypeError(f"{self!r} takes whole numbers only, got {row!r}")
        return row

    def lift_row(self, row: Row) -> State:
        if self._lift is None:
            return row
        state = self._lift(row)
        state = state.item() if hasattr(state, "item") else state
        return int(state) if isinstance(state, bool) else state

    def lower(self, state: State) -> Result:
        state = super().lower(state)
        if self._lower is None:
            return state
        result = self._lower(state)
        return result.item() if isinstance(result, np.generic) else result

    def check_columns(self, inputs: Columns) -> Columns:
        checked = super().check_columns(inputs)
        if self._lift is not None:
            self._lift(np.array(checked[0]))
        elif self._whole_only and checked[0].dtype.kind == "f" and len(checked[0]):
            raise TypeError(f"{self!r} takes whole numbers only, got {checked[0].tolist()[0]!r} in row 0")
        return checked

    def lift_columns(self, inputs: Columns) -> Columns:
        if self._lift is None:
            return inputs
        return (settled(np.array(self._lift(np.array(inputs[0])))),)

    def lower_columns(self, states: Columns) -> Results:
        column = super().lower_columns(states)
        return column if self._lower is None else self._lower(np.array(column))

    def fingerprint(self) -> str:
        return self._text


def from_ufunc(
    ufunc: np.ufunc,
    identity: State,
    *,
    lift: _Function | None = None,
    lower: _Function | None = None,
    field: str | None = None,
    name: str | None = None,
) -> FromUfunc:
    """A monoid over numbers from an associative ufunc, such as `np.maximum`, `np.gcd` or `np.logaddexp`.

    - `identity` is the aggregate of no elements, None if the ufunc has no identity.
    - `lift` and `lower` get a plain value or a whole column, so write them with arithmetic or NumPy.
    - `field` is the field to read if elements are mappings.
    - `name` stands for the functions in a checkpoint, as in `from_function`. A ufunc of `np.frompyfunc`
      tells nothing about its function, so give it a name.

    Raises TypeError unless the ufunc has two inputs and one output. A batch costs a few calls of NumPy.

    >>> import numpy as np
    >>> from mta import AmortizedMTA, monoids, policies
    >>> AmortizedMTA(monoids.from_ufunc(np.gcd, 0), policies.CountWindow(2)).slide([12, 18, 27, 5]).tolist()
    [12, 6, 9, 1]
    """
    fields = () if field is None else (field,)
    return FromUfunc(ufunc, identity, *fields, lift=lift, lower=lower, name=name)


def _takes_floats(ufunc: np.ufunc) -> bool:
    try:
        with quiet():
            ufunc(1.0, 1.0)
    except TypeError:
        return False
    return True
