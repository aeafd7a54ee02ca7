"""Checks of the options of a window, and of the times of its elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from mta.core.page import LARGEST_PAGE
from mta.errors import EmptyWindowError, MissingTime, OutOfOrderError
from mta.inputs import as_array
from mta.kinds import Array, Time
from mta.monoids.base import ColumnarMonoid, Monoid, column_of
from mta.monoids.columns import row_by_row
from mta.monoids.fields import ColumnFields
from mta.monoids.ufuncs import quiet
from mta.options import is_number, is_whole, whole_number
from mta.paging.bounds import Bounds
from mta.policies import Policy
from stores import Store

MAX_TIME = 2**63 - 1

#: Default entries of a page. A call of NumPy or of a store has a fixed cost, so pages of columns are large.
COLUMN_PAGE, OBJECT_PAGE = 1 << 14, 1 << 10

#: The most bytes that the states of a page take by default, unless a page has only `LEAST_PAGE` entries.
PAGE_BYTES, LEAST_PAGE = 1 << 24, 1 << 6

#: The most elements that a window may buffer or read ahead.
MOST_BOUNDED = 1 << 24


def check_parts(monoid: object, policy: object, store: object) -> None:
    """The parts of a new window. Raises TypeError, or ValueError if the policy cannot read the monoid."""
    if not isinstance(monoid, Monoid):
        raise TypeError(f"the first argument is a monoid such as monoids.Max(), got {monoid!r}")
    if policy is not None and not isinstance(policy, Policy):
        raise TypeError(f"policy is one of mta.policies or None, got {policy!r}")
    if policy is not None:
        policy.check(monoid)
    if store is not None and not isinstance(store, Store):
        raise TypeError(f"store is what stores.open_store(url) returns, got {store!r}")


def check_restored(monoid: object, policy: object, store: object, version: object) -> None:
    """The arguments of `restore`. Raises the same errors as `check_parts`."""
    check_parts(monoid, policy, store)
    if store is None:
        raise TypeError("restore takes the window's store, what stores.open_store(url) returns, got None")
    if version is not None and not is_whole(version):
        raise TypeError(f"version is the whole number of a checkpoint or None for the last, got {version!r}")


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
    """Decides whether the times of a window are given with its elements or counted.

    The first element decides it for the whole life of the window. It decides nothing if its insertion fails.
    """

    __slots__ = ("_asked_for", "_decided_at", "given")

    def __init__(self, asked_for: bool) -> None:
        """`asked_for` says that the policy needs given times."""
        self._asked_for = asked_for
        #: whether times are given; None while that is not known
        self.given: bool | None = None
        #: the number of elements before the one that decided: while it is the same, that one was not inserted
        self._decided_at = -1

    def _decide(self, given: bool, count: int) -> None:
        if self.given is None:
            self._decided_at = count
        self.given = given

    def _undo_failed_decision(self, count: int) -> None:
        if self._decided_at == count:
            self.given = None

    def counted(self, count: int) -> int:
        """The time of an element without a given one, after `count` others. Raises MissingTime."""
        if self.given is False:
            return count
        if self._asked_for:
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
        self._decide(False, count)
        return count

    def give(self, count: int) -> None:
        """Records that an element after `count` others has a given time. Raises MissingTime."""
        self._undo_failed_decision(count)
        if self.given is False and count:
            raise MissingTime(
                f"an element with a time cannot follow {count} element(s) without, whose times were counted; "
                "leave it out, or give times from the first element on"
            )
        self._decide(True, count)

    def resume(self, youngest: Time | None, count: int) -> None:
        """Continues after a checkpoint with `count` elements. Counted times are the positions of elements."""
        self.given = None if youngest == count - 1 else True


def check_time(time: object) -> Time:
    """The time as a plain number. Raises TypeError or ValueError."""
    if isinstance(time, (np.integer, np.floating)) and not isinstance(time, np.timedelta64):
        time = float(time) if isinstance(time, np.longdouble) else time.item()
    if isinstance(time, bool) or not isinstance(time, (int, float)):
        raise TypeError(
            f"a time is an int or a float, got {time!r} of type {type(time).__name__}; "
            "turn dates into a number of seconds or days first"
        )
    if not -MAX_TIME <= time <= MAX_TIME:
        raise ValueError(f"a time is finite and fits in 64 bits, got {time!r}")
    return time


def check_batch_times(times: Any, count: int) -> Array:
    """The times of a batch of `count` rows as a column that never goes backwards.

    Raises TypeError or ValueError for a bad time, OutOfOrderError for times that go backwards.
    """
    column = check_times(times, count)
    backwards = column[1:] < column[:-1]
    if backwards.any():
        row = int(backwards.argmax()) + 1
        earlier, time = column[row - 1 : row + 1].tolist()
        raise OutOfOrderError(
            f"time {time!r} in row {row} is before {earlier!r}, the time of "
            "the row before it; insert elements in the order of their times"
        )
    return column


def check_times(times: Any, count: int) -> Array:
    """The times of a batch of `count` rows, in any order, as a column. Raises TypeError or ValueError."""
    if hasattr(times, "__array__"):
        column = as_array(times)
    elif isinstance(times, (list, tuple, range)):
        column = column_of(list(times))
        if bool in set(map(type, times)):
            column = column.astype(object)  # the loop below refuses the bools
            column[:] = list(times)
    else:
        raise TypeError(f"times is a sequence or an array of numbers, got {times!r}")
    if column.ndim != 1 or len(column) != count:
        raise ValueError(f"times must have one entry a row: {count} rows, times of shape {column.shape}")
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
    number = number_option(owner, name, value)
    if number <= 0:
        raise ValueError(f"{owner}({name}=...) is greater than 0, got {number!r}")
    return number


def count_option(owner: str, name: str, value: Any) -> int:
    """The same for a number of tuples, at least 1."""
    plain = value.item() if isinstance(value, np.generic) else value
    if not is_whole(plain) and not (isinstance(plain, float) and plain.is_integer()):
        raise TypeError(f"{owner}({name}=...) is a whole number of tuples, got {value!r}")
    return int(positive_option(owner, name, plain))
