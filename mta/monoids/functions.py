"""Monoids out of plain Python functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mta.functions import check_name, described
from mta.monoids.base import Monoid, required
from mta.monoids.values import own

_Function = Callable[[Any], Any]


class FunctionMonoid(Monoid):
    """What `from_function` makes."""

    def __init__(
        self,
        combine: Callable[[Any, Any], Any],
        identity: Any,
        *,
        lift: _Function | None = None,
        lower: _Function | None = None,
        pack: _Function | None = None,
        unpack: _Function | None = None,
        name: str | None = None,
        field: str | None = None,
        grows: bool = False,
    ) -> None:
        functions = {"combine": combine, "lift": lift, "lower": lower, "pack": pack, "unpack": unpack}
        for key, function in functions.items():
            if not callable(function) and (function is not None or key == "combine"):
                raise TypeError(f"from_function({key}=...) takes a function, got {function!r}")
        if (pack is None) != (unpack is None):
            raise TypeError("from_function takes both of pack and unpack, or neither")
        check_name("from_function", name)
        if field is not None and not isinstance(field, str):
            raise TypeError(f"from_function(field=...) takes a str, got {field!r}")
        self.identity = identity
        self.grows = bool(grows)
        self.fields = () if field is None else (field,)
        self._combine, self._lift, self._lower = combine, lift, lower
        self._pack, self._unpack = pack, unpack
        parts = [described(combine) if name is None else name]
        named = (("lift", lift), ("lower", lower)) if name is None else ()
        parts += [f"{key}={described(function)}" for key, function in named if function is not None]
        self._text = f"from_function({', '.join([*parts, *(f'field={each!r}' for each in self.fields)])})"
        # One call of the user's function a combine, with nothing around it.
        self.combine = combine  # type: ignore[method-assign, assignment]

    def row(self, value: Any) -> Any:
        return own(required(value, self.fields[0], self) if self.fields else value)

    def lift(self, value: Any) -> Any:
        return self.lift_row(self.row(value))

    def lift_row(self, row: Any) -> Any:
        return row if self._lift is None else self._lift(row)

    def combine(self, older: Any, younger: Any) -> Any:
        return self._combine(older, younger)

    def lower(self, state: Any) -> Any:
        return own(state if self._lower is None else self._lower(state))

    def pack(self, state: Any) -> Any:
        return state if self._pack is None else self._pack(state)

    def unpack(self, packed: Any) -> Any:
        return packed if self._unpack is None else self._unpack(packed)

    def fingerprint(self) -> str:
        return self._text


def from_function(
    combine: Callable[[Any, Any], Any],
    identity: Any,
    *,
    lift: _Function | None = None,
    lower: _Function | None = None,
    pack: _Function | None = None,
    unpack: _Function | None = None,
    name: str | None = None,
    field: str | None = None,
    grows: bool = False,
) -> FunctionMonoid:
    """A monoid out of an associative function of two states, which it must not change, and its identity.

    `lift` makes a state of an element and `lower` a result of a state; both default to leaving it as it is.
    `pack` and `unpack` turn a state into plain values and back, for stores. `name` stands for the functions
    in a checkpoint, which is restored with the same name only; without one they are told by where they are
    defined and by their code, which another version of Python compiles otherwise. `field` names the element's
    field where elements are mappings. `grows` says that a state takes as much as the elements in it, as a
    list of them does, so that a window does not keep many of them.
    """
    return FunctionMonoid(
        combine,
        identity,
        lift=lift,
        lower=lower,
        pack=pack,
        unpack=unpack,
        name=name,
        field=field,
        grows=grows,
    )
