"""Monoids that keep the elements themselves: Concat, Collect, CollectDistinct and CountDistinct.

A state takes what its elements take, so a result costs the size of the window, with AmortizedMTA too.
"""

from __future__ import annotations

from typing import Any

from mta.monoids.values import ValueMonoid, own_list


class Concat(ValueMonoid):
    """Texts end to end, the oldest first."""

    identity = ""
    grows = True

    def check_row(self, row: Any) -> Any:
        if not isinstance(row, str):
            raise TypeError(f"{self!r} takes str, got {row!r} of type {type(row).__name__}")
        return str(row)

    def combine(self, older: Any, younger: Any) -> Any:
        return older + younger


class Collect(ValueMonoid):
    """All elements as a list, the oldest first."""

    identity = ()
    grows = True

    def lift_row(self, row: Any) -> Any:
        return (row,)

    def combine(self, older: Any, younger: Any) -> Any:
        return older + younger

    def lower(self, state: Any) -> Any:
        return own_list(state)


class CollectDistinct(ValueMonoid):
    """All different elements as a set."""

    identity: frozenset[Any] = frozenset()
    grows = True

    def check_row(self, row: Any) -> Any:
        row = super().check_row(row)
        try:
            hash(row)
        except TypeError:
            raise TypeError(
                f"{self!r} got {row!r} of type {type(row).__name__}, which cannot be in a set; "
                "make it a tuple or a str, or use Collect"
            ) from None
        return row

    def lift_row(self, row: Any) -> Any:
        return frozenset((row,))

    def combine(self, older: Any, younger: Any) -> Any:
        return older | younger

    def lower(self, state: Any) -> Any:
        return set(own_list(state))


class CountDistinct(CollectDistinct):
    """How many different elements there are, exactly: keeps all of them, where DistinctCount estimates."""

    def lower(self, state: Any) -> Any:
        return len(state)
