"""Checks of single options. A bool never counts as a number."""

from __future__ import annotations

from typing import Any, TypeGuard


def is_whole(value: object) -> TypeGuard[int]:
    """Whether the value is an int of Python."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether the value is an int or a float of Python."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def whole_number(value: Any, rule: str) -> int:
    """The value of an int of any library. Raises TypeError for others, with the rule and the value."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{rule}, got {value!r} of type {type(value).__name__}")
    return int(value.__index__())


def check_between(owner: str, name: str, value: object, least: int, most: int | None = None) -> int:
    """An option of a constructor, as an int of Python.

    Raises ValueError unless it is an int of any library from `least` to `most`.
    """
    limits = f"of at least {least}" if most is None else f"from {least} to {most}"
    rule = f"{owner}({name}=...) is a whole number {limits}"
    try:
        whole = whole_number(value, rule)
    except TypeError:
        raise ValueError(f"{rule}, got {value!r}") from None
    if whole < least or (most is not None and whole > most):
        raise ValueError(f"{rule}, got {value!r}")
    return whole


def check_name(owner: str, name: object) -> None:
    """The name that stands for functions in a fingerprint. Raises TypeError unless it is a text or None."""
    if name is not None and (not isinstance(name, str) or not name):
        raise TypeError(f"{owner}(name=...) takes a str that is not empty, got {name!r}")
