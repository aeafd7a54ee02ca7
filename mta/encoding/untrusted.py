"""Checks of values that a store returned, which anybody may have written, and texts that show them safely."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable
from typing import Any, TypeVar

from mta.kinds import Time

T = TypeVar("T")

LARGEST = 2**63 - 1


class Malformed(ValueError):
    """The bytes are not the work of this library, or damaged."""


def surely(read: Callable[[], T]) -> T:
    """The result of `read`, which decodes bytes. Raises Malformed only if the bytes are damaged.

    Then a second `read` fails too. If it succeeds, another error came in between, such as one that a signal
    handler raised, and this error is raised.
    """
    try:
        return read()
    except Malformed as error:
        first: BaseException = error
    read()
    while isinstance(first, Malformed) and first.__context__ is not None:
        first = first.__context__
    raise first


def whole(value: object, name: str, least: int = 0, most: int = LARGEST) -> int:
    """A whole number from `least` to `most`. Raises Malformed, as the following functions do."""
    if type(value) is not int or not least <= value <= most:
        raise Malformed(f"{name} is {shown(value)}, not a whole number from {least} to {most}")
    return value


def real(value: object, name: str) -> float:
    """A number that is not NaN."""
    if type(value) is int:
        return whole(value, name, -LARGEST)
    if type(value) is not float or math.isnan(value):
        raise Malformed(f"{name} is {shown(value)}, not a number")
    return value


def moment(value: object) -> Time:
    """The time of an element."""
    time = real(value, "a time")
    if not -LARGEST <= time <= LARGEST:
        raise Malformed(f"a time is {shown(value)}")
    return time


def text(value: object, name: str) -> str:
    if type(value) is not str:
        raise Malformed(f"{name} is {shown(value)}, not a text")
    return value


def raw(value: object, name: str) -> bytes:
    if type(value) is not bytes:
        raise Malformed(f"{name} is {shown(value)}, not bytes")
    return value


def fields(value: object, name: str, count: int | None = None) -> list[Any]:
    """A list, of `count` entries if that is given."""
    if type(value) is not list or count not in (None, len(value)):
        wanted = "a list" if count is None else f"a list of {count}"
        raise Malformed(f"{name} is {shown(value)}, not {wanted}")
    return value


class _Short(reprlib.Repr):
    def repr_int(self, value: int, level: int) -> str:
        if value.bit_length() > 256:  # Python may refuse to compute so many digits
            return f"<a whole number of {value.bit_length()} bits>"
        return super().repr_int(value, level)


_SHORT = _Short()
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = 12
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 80


def shown(value: object) -> str:
    """A short text of a value of any type and size, for a message."""
    return printable(_SHORT.repr(value))


def printable(text: str) -> str:
    """The text with escapes for characters that move a cursor, change a colour or turn a line around."""
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape", "surrogatepass").decode("ascii")
        for each in text
    )
