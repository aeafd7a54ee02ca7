"""What an aggregate is in SQL, as one record of a monoid.

Those of the catalogue are in `catalogue`. A monoid of your own has its record as an attribute `sql_traits`.
Without one, nulls are skipped, the result of nothing is null, and the monoid checks what it gets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from pyspark.sql import types as sql

from mta.monoids.base import Monoid
from spark_integration.aggregates.inputs import Input

#: What an input has to be: of any type that a window can keep, of one kept as a number, a number, or text.
Kind: TypeAlias = Literal["any", "numeric", "number", "text"]

#: A type or its name, or a function of a monoid and its inputs that finds it, None where it cannot be known.
ResultType: TypeAlias = sql.DataType | str | Callable[[Any, Sequence[Input]], sql.DataType | str | None]


class Extreme:
    """Less than anything, or greater than anything: the extremum of nothing, for predicates that compare."""

    def __init__(self, *, greatest: bool) -> None:
        self._greatest = greatest

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Extreme) and other._greatest == self._greatest

    def __hash__(self) -> int:
        return hash(self._greatest)

    def __lt__(self, other: object) -> bool:
        return self != other and not self._greatest

    def __gt__(self, other: object) -> bool:
        return self != other and self._greatest


LOWEST, HIGHEST = Extreme(greatest=False), Extreme(greatest=True)


@dataclass(frozen=True, kw_only=True)
class SqlTraits:
    """What `rolling` has to know of a monoid; each has a default that is right for most.

    >>> from pyspark.sql import types
    >>> SqlTraits(result="double").nullable, SqlTraits(result=types.LongType(), nothing=0).nullable
    (True, False)
    """

    #: of the result; without it a call has to say it, in `types=`
    result: ResultType | None = None
    #: of the inputs, in their order; the last one is that of all further inputs too
    takes: tuple[Kind, ...] = ("any",)
    #: the result where there is no value; None for null
    nothing: Any = None
    #: how many inputs, from the first on, must not be null for an element to count; None for all of them
    needs: int | None = None
    #: only whether inputs are null is looked at, so that they may be of any type
    presence: bool = False
    #: may be without an input, and is of rows then
    of_rows: bool = False
    #: NaN is a value like any other, so the monoid need not check columns that Arrow has typed
    takes_nan: bool = False
    #: values that are refused nevertheless: what they are called, and which of an array, or a value, they are
    refuses: tuple[str, Callable[[Any], Any]] | None = None
    #: the monoid over values as Spark orders them, NaN above all others; None for the monoid itself
    ordered: Callable[[Monoid], Monoid] | None = None
    #: states of `ordered` have whole numbers for values, which predicates must not see
    coded: bool = False
    #: whether a state, or each of columns of states, has a result that is not null
    defined: Callable[[Any, Any], Any] | None = None
    #: the result that a state stands for, where it is not that of the monoid's `lower`
    lower: Callable[[Any, Any], Any] | None = None
    #: the state that predicates see where there is no value; by default the monoid's identity
    unseen: Any = field(default=None)

    @property
    def nullable(self) -> bool:
        return self.nothing is None

    def kind_of(self, number: int) -> Kind:
        """The type of an input, by its index."""
        return self.takes[min(number, len(self.takes) - 1)]
