"""Monoids that keep the elements themselves: Concat, Collect, CollectDistinct and CountDistinct.

A state is as large as its elements, so a query costs time in the size of the window, also in AmortizedMTA.
Each of them takes the name of the field to read, or none.
"""

from __future__ import annotations

from mta.kinds import Packed, Result, Row, State, Value
from mta.monoids.values import ValueMonoid
from mta.owned import own_list


class _Elements(ValueMonoid):
    """A monoid whose states hold the elements and have the type of the identity."""

    grows = True

    def unpack(self, packed: Packed) -> State:
        kind = type(self.identity)
        if type(packed) is not kind:
            raise TypeError(f"{self!r} has a {kind.__name__} as its state, got {packed!r}")
        return packed


class Concat(_Elements):
    """The texts joined, the oldest first. TypeError for an element that is no str.

    >>> from mta import AmortizedMTA, monoids, policies
    >>> AmortizedMTA(monoids.Concat(), policies.CountWindow(3)).slide(list("window")).tolist()
    ['w', 'wi', 'win', 'ind', 'ndo', 'dow']
    """

    identity = ""
    invertible = True

    def check_row(self, row: Row) -> Row:
        if not isinstance(row, str):
            raise TypeError(f"{self!r} takes str, got {row!r} of type {type(row).__name__}")
        return str(row)

    def combine(self, older: State, younger: State) -> State:
        return older + younger

    def without(self, state: State, older: State) -> State:
        return state[len(older) :]


class Collect(_Elements):
    """A list of all elements, the oldest first. TypeError for a missing element, ValueError for NaN.

    >>> from mta import AmortizedMTA, monoids, policies
    >>> window = AmortizedMTA(monoids.Collect(), policies.CountWindow(2))
    >>> [window.push(value) for value in (1, "two", 3.0)]
    [[1], [1, 'two'], ['two', 3.0]]
    """

    identity = ()
    invertible = True

    def lift_row(self, row: Row) -> State:
        return (row,)

    def combine(self, older: State, younger: State) -> State:
        return older + younger

    def without(self, state: State, older: State) -> State:
        return state[len(older) :]

    def lower(self, state: State) -> Result:
        return own_list(state)


class CollectDistinct(_Elements):
    """The set of the different elements. TypeError for an element that cannot be hashed.

    >>> from mta import AmortizedMTA, monoids, policies
    >>> window = AmortizedMTA(monoids.CollectDistinct(), policies.CountWindow(2))
    >>> [sorted(window.push(user)) for user in ("ada", "ada", "bob")]
    [['ada'], ['ada'], ['ada', 'bob']]
    """

    identity: frozenset[Value] = frozenset()
    commutes = True

    def check_row(self, row: Row) -> Row:
        row = super().check_row(row)
        try:
            hash(row)
        except TypeError:
            raise TypeError(
                f"{self!r} got {row!r} of type {type(row).__name__}, which cannot be in a set; "
                "make it a tuple or a str, or use Collect"
            ) from None
        return row

    def lift_row(self, row: Row) -> State:
        return frozenset((row,))

    def combine(self, older: State, younger: State) -> State:
        return older | younger

    def lower(self, state: State) -> Result:
        return set(own_list(state))


class CountDistinct(CollectDistinct):
    """The number of different elements, exactly; see CollectDistinct. DistinctCount estimates it.

    >>> from mta import AmortizedMTA, monoids, policies
    >>> AmortizedMTA(monoids.CountDistinct(), policies.CountWindow(2)).slide(["ada", "ada", "bob"]).tolist()
    [1, 1, 2]
    """

    def lower(self, state: State) -> Result:
        return len(state)
