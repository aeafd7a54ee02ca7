"""Checks of the options of a window, and of the times of its elements."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from datetime import datetime
from typing import Any

import numpy as np

from mta.core.page import LARGEST_PAGE
from mta.errors import EmptyWindowError, MissingTime, OutOfOrderError, PageCorrupt
from mta.inputs import as_array
from mta.kinds import Array, Time
from mta.monoids.base import ColumnarMonoid, Monoid, column_of
from mta.monoids.columns import row_by_row
from mta.monoids.fields import ColumnFields, Fields, as_monoid
from mta.monoids.nulls import with_nulls
from mta.monoids.over import Over
from mta.monoids.ufuncs import quiet
from mta.options import is_number, is_whole, whole_number
from mta.paging.bounds import Bounds
from mta.policies import Policy
from mta.times.durations import Duration, check_duration, real_duration
from mta.times.kinds import (
    ANY,
    FIRST,
    INSTANTS,
    LAST,
    LOCAL,
    NUMBERS,
    TimeKind,
    as_people_have_it,
    column_of_dates,
    is_date,
    number_of,
    other_kind,
)
from stores import Store

MAX_TIME = 2**63 - 1

#: Default entries of a page. A call of NumPy or of a store has a fixed cost, so pages of columns are large.
COLUMN_PAGE, OBJECT_PAGE = 1 << 14, 1 << 10

#: The most bytes that the states of a page take by default, unless a page has only `LEAST_PAGE` entries.
PAGE_BYTES, LEAST_PAGE = 1 << 24, 1 << 6

#: The most elements that a window may buffer or read ahead.
MOST_BOUNDED = 1 << 24


def check_parts(monoid: Any, policy: object, store: object, nulls: object = "refuse") -> Monoid:
    """The parts of a new window. Raises TypeError, or ValueError if the policy cannot read the monoid.

    Returns the monoid: `Fields` for a mapping, and one that skips missing values if `nulls` is "skip".
    """
    if isinstance(monoid, Mapping):
        monoid = as_monoid(monoid)
    if isinstance(monoid, Over):
        raise TypeError(
            f"{monoid!r} is a field with a frame of its own: write Fields(name={monoid!r}), or give the "
            "frame as the policy"
        )
    if not isinstance(monoid, Monoid):
        raise TypeError(f"the first argument is a monoid such as monoids.Max(), got {monoid!r}")
    if policy is not None and not isinstance(policy, Policy):
        raise TypeError(f"policy is one of mta.policies or None, got {policy!r}")
    if policy is not None:
        policy.check(monoid)
    if store is not None and not isinstance(store, Store):
        raise TypeError(f"store is what stores.open_store(url) returns, got {store!r}")
    return monoid if nulls == "refuse" else with_nulls(monoid, nulls)


def check_keep(keep: Any, policy: Policy | None) -> Duration:
    """How much longer than its frames a window keeps elements. Raises TypeError or ValueError."""
    duration = check_duration(keep, "keep")
    if not 0 <= duration.amount <= MAX_TIME:
        raise ValueError(f"keep is finite and not negative, got {keep!r}")
    if policy is not None and policy.limits().predicates:
        raise ValueError(
            f"keep={keep!r} is for questions about moments in the past, which {policy!r} cannot answer: "
            "leave keep out, or use a policy of time and count"
        )
    return duration


def unit_of(monoid: Monoid, policy: Policy | None, keep: Duration | None) -> bool | None:
    """Whether the durations of a window are in microseconds; None without durations.

    Raises TypeError if only some of them have a unit.
    """
    unit = None if policy is None else policy.in_microseconds
    frames = monoid.frames if isinstance(monoid, Fields) else {}
    if not frames and keep is None:
        return unit
    units = {unit, *(frame.in_microseconds for frame in frames.values())} - {None}
    if keep is not None and keep.amount:
        units.add(keep.real)
    if len(units) > 1:
        kept = "" if keep is None else f" and keep={keep!r}"
        raise TypeError(
            "durations of one window all have a unit, or are all numbers in the unit of its times, got "
            f"{monoid!r} with the policy {policy!r}{kept}"
        )
    return units.pop() if units else None


def check_restored(monoid: object, policy: object, store: object, version: object, nulls: object) -> Monoid:
    """The arguments of `restore`, as `check_parts`."""
    monoid = check_parts(monoid, policy, store, nulls)
    if store is None:
        raise TypeError("restore takes the window's store, what stores.open_store(url) returns, got None")
    if version is not None and not is_whole(version):
        raise TypeError(f"version is the whole number of a checkpoint or None for the last, got {version!r}")
    return monoid


def check_page_size(monoid: Monoid, page_size: object) -> int:
    """The number of entries of a page, the default for None. Raises TypeError or ValueError."""
    if page_size is None:
        return _column_page(monoid) if isinstance(monoid, ColumnarMonoid) else OBJECT_PAGE
    if not is_whole(page_size):
        raise TypeError(f"page_size is a whole number, got {page_size!r}")
    if page_size < 2 or page_size & (page_size - 1):
        raise ValueError(f"page_size is a power of two and at least 2, got {page_size}")
    if page_size > LARGEST_PAGE:
        raise ValueError(f"page_size is at most {LARGEST_PAGE:,}, got {page_size:,}")
    return page_size


def _column_page(monoid: ColumnarMonoid) -> int:
    """The default for columns: the states of a page take no more than `PAGE_BYTES`."""
    parts = monoid.monoids.values() if isinstance(monoid, ColumnFields) else (monoid,)
    size, state = COLUMN_PAGE, sum(part.state_bytes for part in parts)
    while size > LEAST_PAGE and size * state > PAGE_BYTES:
        size >>= 1
    return size


def check_kept(retain: object, lease: object, buffered: Any, cached: Any, refill_below: Any) -> Bounds:
    """The options of a window with a store. Raises TypeError or ValueError; returns the bounds on memory."""
    if not is_whole(retain):
        raise TypeError(f"retain is a whole number of checkpoints that stay readable, got {retain!r}")
    if retain < 1:
        raise ValueError(f"retain is at least 1, since the last checkpoint stays readable, got {retain}")
    if lease is not None and not is_number(lease):
        raise TypeError(f"lease is a number of seconds or None, got {lease!r}")
    if lease is not None and not 0 < lease < MAX_TIME:
        raise ValueError(f"lease is a finite number of seconds above 0, got {lease!r}")
    given = {"buffered": buffered, "cached": cached, "refill_below": refill_below}
    for name, value in given.items():
        if value is not None and not is_whole(value):
            raise TypeError(f"{name} is a whole number of elements or None, got {value!r}")
        if value is not None and not 0 <= value <= MOST_BOUNDED:
            raise ValueError(f"{name} is a number of elements from 0 to {MOST_BOUNDED:,}, got {value:,}")
    if refill_below is not None and (cached is None or not 1 <= refill_below <= cached):
        raise ValueError(
            f"refill_below goes with cached, is at least 1 and at most cached: got "
            f"refill_below={refill_below!r} and cached={cached!r}"
        )
    return Bounds(**given)


def check_evicted(k: object) -> int:
    """The argument of `evict`. Raises TypeError or ValueError."""
    count = whole_number(k, "evict takes a whole number of elements")
    if count < 0:
        raise ValueError(f"evict takes 0 or more elements, got {count}")
    return count


def check_count(k: object, window: Any) -> int:
    """The argument of `evict`. Raises EmptyWindowError too, if the window holds fewer elements."""
    count = k if type(k) is int and k >= 0 else check_evicted(k)
    if count > len(window):
        raise EmptyWindowError(
            f"cannot evict {count} element(s): the window {window.name!r} holds {len(window)}"
        )
    return count


class Clock:
    """Decides whether the times of a window are given with its elements or counted, and their kind.

    The first element decides both for the whole life of the window. It decides nothing if its insertion
    fails. The policy may decide the kind before it, and so may a question about a time. Counted times are
    numbers.
    """

    __slots__ = ("_decided_at", "_fixed", "_in_microseconds", "given", "kind", "numbers")

    def __init__(self, in_microseconds: bool | None) -> None:
        """`in_microseconds` is the policy's: None if it has no durations, and then times may be counted."""
        self._in_microseconds = in_microseconds
        #: whether times are given; None while that is not known
        self.given: bool | None = None
        #: the kind of the times that was decided otherwise than by an element; None while that is open
        self._fixed = NUMBERS if in_microseconds is False else None
        #: the kind of the times; None while that is not known
        self.kind: TimeKind | None = self._fixed
        #: whether times are given and numbers: then such a time needs no more checks of its kind
        self.numbers = False
        #: the number of elements before the one that decided: while it is the same, that one was not inserted
        self._decided_at = -1

    def _decide(self, given: bool, kind: TimeKind, count: int) -> None:
        if self.given is None:
            self._decided_at = count
        self.given, self.kind, self.numbers = given, kind, given and kind is NUMBERS

    def _undo_failed_decision(self, count: int) -> None:
        if self._decided_at == count:
            self.given, self.kind, self.numbers = None, self._fixed, False

    def counted(self, count: int) -> int:
        """The time of an element without a given one, after `count` others. Raises MissingTime."""
        if self.given is False:
            return count
        if self._in_microseconds is not None:
            raise MissingTime(
                "the policy of this window asks for times: give one with each element, as in "
                "push(value, time=...) or slide(values, times)"
            )
        self._undo_failed_decision(count)
        if self.given and count:
            raise MissingTime(
                f"an element without a time cannot follow {count} element(s) whose times were given; give it "
                "one, or leave the times out from the first element on"
            )
        if self.kind not in (None, NUMBERS):
            raise MissingTime(f"the times of this window are {self.kind.value}: give one with each element")
        self._decide(False, NUMBERS, count)
        return count

    def give(self, time: object, kind: TimeKind, count: int) -> None:
        """Records that an element after `count` others has a given time of a kind.

        Raises MissingTime or TypeError.
        """
        self._undo_failed_decision(count)
        if self.given is False and count:
            raise MissingTime(
                f"an element with a time cannot follow {count} element(s) without, whose times were counted; "
                "leave it out, or give times from the first element on"
            )
        if kind is not self.kind:
            self._check_kind(time, kind)
        self._decide(True, kind, count)

    def take(self, time: Any, count: int) -> Time:
        """A given time of any type as the window keeps it, for an element after `count` others.

        Raises TypeError or ValueError for what is no time, and the errors of `give`.
        """
        number, kind = number_of(time) if type(time) is datetime else as_number(time)
        if kind is not self.kind or not self.given:
            self.give(time, kind, count)
        return number

    def take_all(self, times: Any, rows: int, count: int, *, ordered: bool = True) -> Array:
        """The given times of a batch of `rows` elements after `count` others, as the window keeps them.

        They never go backwards if they are `ordered`. Raises the errors of `check_times` and of `give`, and
        OutOfOrderError.
        """
        column, kind = check_times(times, rows)
        if rows and (kind is not self.kind or not self.given):
            self.give(as_people_have_it(column[:1].tolist()[0], kind), kind, count)
        if ordered:
            check_order(column, kind)
        return column

    def asked(self, time: Any, count: int) -> Time:
        """The time of a question as the window, which has had `count` elements, keeps times.

        Raises TypeError or ValueError.
        """
        number, kind = as_number(time)
        self._check_question(time, kind, count)
        self._fix(kind)
        return number

    def asked_all(self, times: Any, count: int) -> tuple[Array, TimeKind | None]:
        """The times of questions, which do not go backwards, as a column, and their kind, which stays open.

        Raises TypeError or ValueError, and OutOfOrderError for times that go backwards.
        """
        if not hasattr(times, "__len__") or getattr(times, "ndim", 1) == 0:
            raise TypeError(f"at= takes moments, as a sequence or an array, got {times!r}")
        column, kind = check_times(times, len(times))
        if not len(column):
            return column, None
        self._check_question(as_people_have_it(column[:1].tolist()[0], kind), kind, count)
        check_order(column, kind, "ask for moments in their order")
        return column, kind

    def check_asked(self, moments: Array, kind: TimeKind | None) -> None:
        """Raises TypeError if moments that were asked for are not of the kind of a batch that came after."""
        if kind is not None and self.kind is not None and kind is not self.kind:
            raise TypeError(other_kind(self.kind, as_people_have_it(moments[:1].tolist()[0], kind)))

    def asked_range(self, t0: Any, t1: Any, count: int) -> tuple[Time, Time]:
        """The same for a range, which does not go backwards."""
        (start, kind), (stop, its_kind) = as_number(t0), as_number(t1)
        self._check_question(t0, kind, count)
        if its_kind is not kind:
            raise TypeError(other_kind(kind, t1))
        if start > stop:
            raise ValueError(f"range_query goes from the older to the younger time, got {t0} and {t1}")
        self._fix(kind)
        return start, stop

    def _check_question(self, time: object, kind: TimeKind, count: int) -> None:
        if self._decided_at == count:
            self._undo_failed_decision(count)
        if kind is not self.kind:
            self._check_kind(time, kind)

    def _fix(self, kind: TimeKind) -> None:
        if self.kind is None:
            self.kind = self._fixed = kind

    def agreeing(self, kinds: frozenset[TimeKind], what: str, count: int) -> Clock:
        """The clock, after `count` elements, with `what`, which goes with some kinds of times only.

        Raises TypeError if it does not go with the times and durations so far.
        """
        clock = copy(self)
        clock._undo_failed_decision(count)
        real = None if kinds == ANY else NUMBERS not in kinds
        clash = clock.kind is not None and clock.kind not in kinds
        if clash or (real is not None and clock._in_microseconds is (not real)):
            names = " or ".join(kind.value for kind in TimeKind if kind in kinds)
            so_far = "others" if clock.kind is None else clock.kind.value
            raise TypeError(
                f"{what} goes with times that are {names}, and the times are {so_far}; write all durations "
                "with their unit, or all as numbers in the unit of the times"
            )
        clock._in_microseconds = real if clock._in_microseconds is None else clock._in_microseconds
        if len(kinds) == 1:
            clock._fix(*kinds)
        return clock

    @property
    def in_microseconds(self) -> bool:
        """Whether durations have a unit."""
        return bool(self._in_microseconds)

    def shown(self, number: Time) -> Any:
        """A time of the window as users have it. Raises PageCorrupt for what no date can be."""
        if self.kind is None or self.kind is NUMBERS:
            return number
        if type(number) is not int or not FIRST <= number <= LAST:
            raise PageCorrupt(
                f"the times of this window are {self.kind.value}, and one of its pages has {number!r}; "
                "restore it from a copy of the store"
            )
        return as_people_have_it(number, self.kind)

    def kind_of(self, count: int) -> TimeKind:
        """The kind of the times of a window that has had `count` elements, for a checkpoint."""
        self._undo_failed_decision(count)
        return self.kind or NUMBERS

    def resume(self, youngest: Time | None, count: int, kind: TimeKind) -> None:
        """Continues after a checkpoint with `count` elements. Counted times are the positions of elements."""
        if count or kind is not NUMBERS:
            self.kind = self._fixed = kind
        maybe_counted = not count or (youngest == count - 1 and kind is NUMBERS)
        self.given = None if maybe_counted else True
        self.numbers = self.given is True and kind is NUMBERS

    def _check_kind(self, time: object, kind: TimeKind) -> None:
        """Raises TypeError unless the window, whose times have been of no kind or another, may have these."""
        if self.kind is NUMBERS and self._in_microseconds is False:
            raise TypeError(
                f"durations were given here as numbers, so times are numbers too, got {time!r} of type "
                f'{type(time).__name__}; write durations with their unit, such as "30 days", to give dates'
            )
        if self.kind is not None:
            raise TypeError(other_kind(self.kind, time))
        if self._in_microseconds and kind is NUMBERS:
            raise TypeError(
                f"durations were given here with their unit, so times are {INSTANTS.value} or {LOCAL.value}, "
                f"got {time!r} of type {type(time).__name__}; give dates, or write durations as numbers in "
                "the unit of your times"
            )


def as_number(time: Any) -> tuple[Time, TimeKind]:
    """A time as a plain number, and its kind. Raises TypeError or ValueError."""
    return number_of(time) if is_date(time) else (check_time(time), NUMBERS)


def check_time(time: object) -> Time:
    """A time that is a number, as a plain one. Raises TypeError or ValueError."""
    if isinstance(time, (np.integer, np.floating)) and not isinstance(time, np.timedelta64):
        time = float(time) if isinstance(time, np.longdouble) else time.item()
    if isinstance(time, bool) or not isinstance(time, (int, float)):
        if is_date(time):
            raise TypeError(other_kind(NUMBERS, time))
        raise TypeError(
            f"a time is an int or a float, got {time!r} of type {type(time).__name__}; a date is a datetime, "
            "np.datetime64 or a Timestamp of pandas"
        )
    if not -MAX_TIME <= time <= MAX_TIME:
        raise ValueError(f"a time is finite and fits in 64 bits, got {time!r}")
    return time


def check_order(
    column: Array, kind: TimeKind, do: str = "insert elements in the order of their times"
) -> None:
    """Raises OutOfOrderError, which says what to `do`, if the times of a batch go backwards."""
    backwards = column[1:] < column[:-1]
    if backwards.any():
        row = int(backwards.argmax()) + 1
        earlier, time = (as_people_have_it(each, kind) for each in column[row - 1 : row + 1].tolist())
        raise OutOfOrderError(
            f"time {time!r} in row {row} is before {earlier!r}, the time of the row before it; {do}"
        )


def check_times(times: Any, count: int) -> tuple[Array, TimeKind]:
    """The times of a batch of `count` rows, in any order, as a column, and their kind.

    Raises TypeError or ValueError.
    """
    if (dates := column_of_dates(times)) is not None:
        _check_rows(dates[0], count)
        return dates
    return check_numbers(times, count), NUMBERS


def _check_rows(column: Array, count: int) -> None:
    if column.ndim != 1 or len(column) != count:
        raise ValueError(f"times must have one entry a row: {count} rows, times of shape {column.shape}")


def check_numbers(times: Any, count: int) -> Array:
    if hasattr(times, "__array__"):
        column = as_array(times)
    elif isinstance(times, (list, tuple, range)):
        column = column_of(list(times))
        if bool in set(map(type, times)):
            column = column.astype(object)  # the loop below refuses the bools
            column[:] = list(times)
    else:
        raise TypeError(f"times is a sequence or an array of numbers or of dates, got {times!r}")
    _check_rows(column, count)
    kind = column.dtype.kind
    if kind in "mM" and count:
        row_by_row(check_time, column[:1])
    if kind in "iu" and column.dtype != np.uint64:
        column = column.astype(np.int64, copy=False)
    elif kind == "f":
        with quiet():  # a long float may be beyond the range of a float
            column = column.astype(np.float64, copy=False)
    else:
        column = column_of(row_by_row(check_time, column.tolist()))
    if kind == "f" and not (np.abs(column) < 2.0**63).all():
        row = int((~(np.abs(column) < 2.0**63)).argmax())
        raise ValueError(f"row {row}: a time is finite and fits in 64 bits, got {column[row]}")
    if kind == "i" and count and column.min() < -MAX_TIME:
        row = int(column.argmin())
        raise ValueError(f"row {row}: a time is finite and fits in 64 bits, got {column[row]}")
    return column


def check_flag(name: str, value: object) -> bool:
    """Raises TypeError unless the value is a bool of Python or NumPy."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} is True or False, got {value!r}")
    return bool(value)


def number_option(owner: str, name: str, value: Any) -> Time:
    """An option of a constructor that is a finite number; 3.0 becomes 3. Raises TypeError or ValueError."""
    value = value.item() if isinstance(value, np.generic) or getattr(value, "ndim", 1) == 0 else value
    if not is_number(value):
        raise TypeError(f"{owner}({name}=...) is a number in the unit of the times, got {value!r}")
    if not abs(value) <= MAX_TIME:
        raise ValueError(f"{owner}({name}=...) is finite and fits in 64 bits, got {value!r}")
    return int(value) if isinstance(value, float) and value.is_integer() else value


def positive_option(owner: str, name: str, value: Any) -> Time:
    """The same for a number above 0."""
    return _above_0(owner, name, number_option(owner, name, value))


def duration_option(owner: str, name: str, value: Any) -> Duration:
    """An option of a constructor that is a duration: a finite number, or one with its unit."""
    microseconds = real_duration(value, f"{owner}({name}=...)")
    if microseconds is not None:
        return Duration(microseconds, real=True)
    return Duration(number_option(owner, name, value), real=False)


def positive_duration(owner: str, name: str, value: Any) -> Duration:
    """The same for a duration above 0."""
    duration = duration_option(owner, name, value)
    _above_0(owner, name, duration.amount)
    return duration


def _above_0(owner: str, name: str, number: Time) -> Time:
    if number <= 0:
        raise ValueError(f"{owner}({name}=...) is greater than 0, got {number!r}")
    return number


def count_option(owner: str, name: str, value: Any) -> int:
    """The same for a number of tuples, at least 1."""
    plain = value.item() if isinstance(value, np.generic) else value
    if not is_whole(plain) and not (isinstance(plain, float) and plain.is_integer()):
        raise TypeError(f"{owner}({name}=...) is a whole number of tuples, got {value!r}")
    return int(positive_option(owner, name, plain))
