"""Showing what others wrote: names, offsets and fields from a store, which may be anything."""

from __future__ import annotations

import reprlib
from typing import Any


class _Short(reprlib.Repr):
    def repr_int(self, value: int, level: int) -> str:
        if value.bit_length() > 256:  # whose digits Python may refuse to compute
            return f"<a whole number of {value.bit_length()} bits>"
        return super().repr_int(value, level)


_SHORT = _Short()
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
