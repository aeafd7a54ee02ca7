"""Windows that the tuples open: Delta, Punctuation, and those of a user.

Each window begins with a tuple and ends before the one that opens the next, in the order of times. A tuple
that comes late may open a window in the past, or move all that follow.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from mta.functions import described
from mta.monoids.base import required
from mta.monoids.columns import number as value_number
from mta.options import check_name
from mta.slicing.windows import Window, positive


class ContentWindow(Window):
    """Windows that begin at tuples of their own choice. Subclass it for windows of your own."""

    @abstractmethod
    def mark(self, value: Any) -> Any:
        """What `opens` has to know of a tuple: a plain value."""

    @abstractmethod
    def opens(self, first: Any, mark: Any) -> bool:
        """Whether a tuple opens a window, in view of the mark of the window's first tuple before it."""


class Delta(ContentWindow):
    """A window ends where `field` is more than `d` away from what it is in the window's first tuple."""

    def __init__(self, field: str | None, d: float) -> None:
        if field is not None and not isinstance(field, str):
            raise TypeError(f"Delta takes the name of a field, or None for plain elements, got {field!r}")
        self.field, self.d = field, positive("Delta", "d", d)

    def fingerprint(self) -> str:
        return f"Delta({self.field!r}, {self.d})"

    def mark(self, value: Any) -> Any:
        return value_number(value if self.field is None else required(value, self.field, self), self)

    def opens(self, first: Any, mark: Any) -> bool:
        return bool(abs(mark - first) > self.d)


class Punctuation(ContentWindow):
    """A window begins at each tuple of which `predicate(value)` is true.

    `name` stands for the predicate in a checkpoint; without one it is told by its code.
    """

    def __init__(self, predicate: Callable[[Any], Any], *, name: str | None = None) -> None:
        if not callable(predicate):
            raise TypeError(f"Punctuation takes a function of a tuple's value, got {predicate!r}")
        check_name("Punctuation", name)
        self.predicate = predicate
        self._text = f"Punctuation({described(predicate) if name is None else name})"

    def fingerprint(self) -> str:
        return self._text

    def mark(self, value: Any) -> bool:
        return bool(self.predicate(value))

    def opens(self, first: Any, mark: Any) -> bool:  # noqa: ARG002
        return bool(mark)
