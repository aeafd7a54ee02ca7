"""What a store returns was written by anybody: checking its fields, and showing them."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

LARGEST = 2**63 - 1


class Malformed(ValueError):
    """Bytes that this library has not written."""


def surely(read: Callable[[], T]) -> T:
    """What is made of bytes. Malformed if they are damaged, which they are when they are read again too.

    What somebody else raised while they were read, such as a handler of a signal, comes once.
    """
    try:
        return read()
    except Malformed as error:
        first: BaseException = error
    read()
    while isinstance(first, Malformed) and first.__context__ is not None:
        first = first.__context__
    raise first


def whole(value: Any, what: str, least: int = 0, most: int = LARGEST) -> int:
    if type(value) is not int or not least <= value <= most:
        raise Malformed(f"{what} is {shown(value)}, not a whole number from {least} to {most}")
    return value


def real(value: Any, what: str) -> float:
    """A number that has a place among the others, and a size."""
    if type(value) is int:
        return whole(value, what, -LARGEST)
    if type(value) is not float or math.isnan(value):
        raise Malformed(f"{what} is {shown(value)}, not a number")
    return value


def moment(value: Any) -> int | float:
    """A time of an element."""
    if not -LARGEST <= real(value, "a time") <= LARGEST:
        raise Malformed(f"a time is {shown(value)}")
    return value  # type: ignore[no-any-return]


def text(value: Any, what: str) -> str:
    if type(value) is not str:
        raise Malformed(f"{what} is {shown(value)}, not a text")
    return value


def raw(value: Any, what: str) -> bytes:
    if type(value) is not bytes:
        raise Malformed(f"{what} is {shown(value)}, not bytes")
    return value


def fields(value: Any, what: str, count: int | None = None) -> list[Any]:
    if type(value) is not list or count not in (None, len(value)):
        wanted = "a list" if count is None else f"a list of {count}"
        raise Malformed(f"{what} is {shown(value)}, not {wanted}")
    return value


class _Short(reprlib.Repr):
    def repr_int(self, value: int, level: int) -> str:
        if value.bit_length() > 256:  # whose digits Python may refuse to compute
            return f"<a whole number of {value.bit_length()} bits>"
        return super().repr_int(value, level)


_SHORT = _Short()
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = 12
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 80


def shown(value: Any) -> str:
    """A short text for a value of any type and size, for a message."""
    return printable(_SHORT.repr(value))


def printable(text: str) -> str:
    """The text without what moves a cursor, changes a colour or turns a line around: that is escaped."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _escaped(each) for each in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")
