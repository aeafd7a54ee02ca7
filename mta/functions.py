"""Texts that identify functions in the fingerprints of checkpoints, the same in every process.

A user should give a function a name. A function without one is identified by the name of its definition and a
hash of its code, with its constants, its defaults and the values that it closes over.
"""

from __future__ import annotations

import dataclasses
import datetime
import dis
import enum
import functools
import hashlib
import operator
import types
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

#: types of values that cannot change and that `repr` identifies
_PLAIN = (
    *(type(None), bool, int, float, complex, str, bytes, range, type(Ellipsis)),
    *(Decimal, Fraction, datetime.date, datetime.time, datetime.timedelta, enum.Enum),
)
_GETTERS = (operator.itemgetter, operator.attrgetter, operator.methodcaller)


def described(function: Any) -> str:
    """The module and the name of a function, and a #hash if its code is in Python."""
    definition = function if hasattr(function, "__qualname__") else type(function)
    if isinstance(function, np.ufunc):
        return f"numpy.{function.__name__}"
    module = getattr(definition, "__module__", None) or "builtins"
    if isinstance(function, types.BuiltinFunctionType):
        module = module.removeprefix("_")  # `_operator` is imported as `operator`
    name = definition.__qualname__ if module == "builtins" else f"{module}.{definition.__qualname__}"
    parts = "\n".join(_traits(function, set()))
    return f"{name} #{hashlib.blake2b(parts.encode(), digest_size=4).hexdigest()}" if parts else name


def _traits(value: Any, seen: set[int]) -> Iterator[str]:
    """Texts that identify a function: no addresses, and nothing that a call of it may change."""
    if id(value) in seen:
        return
    seen = seen | {id(value)}
    if isinstance(value, types.FunctionType):
        yield from _code(value.__code__)
        held = [*(value.__defaults__ or ()), *sorted((value.__kwdefaults__ or {}).items())]
        rebound = {
            each.argval for each in dis.get_instructions(value.__code__) if each.opname == "STORE_DEREF"
        }
        cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
        held += [_content(cell) for name, cell in cells if name not in rebound]
        for each in held:
            yield from _constant(each, seen)
    elif isinstance(value, functools.partial):
        yield "partial"
        for each in (value.func, *value.args, *sorted(value.keywords.items())):
            yield from _constant(each, seen)
    elif isinstance(value, types.MethodType):
        yield from _traits(value.__func__, seen)
        yield from _state(value.__self__, seen)
    elif isinstance(value, _GETTERS):
        yield repr(value)
    elif isinstance(value, np.vectorize):
        yield from _traits(value.pyfunc, seen)
    elif callable(getattr(value, "__wrapped__", None)):
        yield from _traits(value.__wrapped__, seen)
    elif not isinstance(value, (types.BuiltinFunctionType, type, np.ufunc)):
        call = type(value).__dict__.get("__call__")
        if isinstance(call, types.FunctionType):
            yield from _traits(call, seen)
            yield from _state(value, seen)


def _code(code: types.CodeType) -> Iterator[str]:
    yield code.co_code.hex()
    yield repr((code.co_names, code.co_varnames, code.co_freevars))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _code(constant)
        else:
            yield from _constant(constant, set())


def _state(owner: Any, seen: set[int]) -> Iterator[str]:
    """The fields of a frozen dataclass; other objects may change."""
    if dataclasses.is_dataclass(owner) and getattr(owner, "__dataclass_params__").frozen:  # noqa: B009
        for field in dataclasses.fields(owner):
            yield from _constant(getattr(owner, field.name), seen)


def _constant(value: Any, seen: set[int]) -> Iterator[str]:
    """A value that cannot change, or only the type of one that can."""
    if isinstance(value, (np.bool_, np.number)):
        yield repr(value.item())
    elif isinstance(value, _PLAIN):
        yield repr(value)
    elif isinstance(value, (tuple, frozenset)):
        yield type(value).__name__
        parts = ["\n".join(_constant(part, seen)) for part in value]
        yield from parts if isinstance(value, tuple) else sorted(parts)
    else:
        yield f"{type(value).__module__}.{type(value).__qualname__}"
        if callable(value):
            yield getattr(value, "__qualname__", "")
            yield from _traits(value, seen)


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None
