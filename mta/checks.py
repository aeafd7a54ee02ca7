"""What a window accepts as times, which are numbers that are finite and fit in 64 bits, and as options."""

from __future__ import annotations

from typing import Any

import numpy as np

from mta.core.page import LARGEST_PAGE
from mta.errors import EmptyWindowError, MissingTime, OutOfOrderError
from mta.inputs import as_array
from mta.monoids.base import Array, ColumnarMonoid, Monoid, column_of
from mta.monoids.ufuncs import quiet
from mta.paging.bounds import Bounds
from mta.policies import Policy
from stores import Store

MAX_TIME = 2**63 - 1

#: Entries a page. A call to NumPy or to a store has a fixed cost, so pages of columns are large.
COLUMN_PAGE, OBJECT_PAGE = 1 << 14, 1 << 10

#: Elements that may be asked to wait in the process, or to be read ahead.
MOST_BOUNDED = 1 << 24


def check_parts(monoid: Any, policy: Any, store: Any) -> None:
    if not isinstance(monoid, Monoid):
        raise TypeError(f"the first argument is a monoid such as monoids.Max(), got {monoid!r}")
    if policy is not None and not isinstance(policy, Policy):
        raise TypeError(f"policy is one of mta.policies or None, got {policy!r}")
    if policy is not None:
        policy.check(monoid)
    if store is not None and not isinstance(store, Store):
        raise TypeError(f"store is what stores.open_store(url) returns, got {store!r}")


def check_restored(monoid: Any, policy: Any, store: Any, version: Any) -> None:
    check_parts(monoid, policy, store)
    if store is None:
        raise TypeError("restore takes the window's store, what stores.open_store(url) returns, got None")
    if version is not None:
        check_whole("version is the whole number of a checkpoint or None for the last", version)


def check_page_size(monoid: Monoid, page_size: Any) -> int:
    if page_size is None:
        return COLUMN_PAGE if isinstance(monoid, ColumnarMonoid) else OBJECT_PAGE
    size = check_whole("page_size is a whole number", page_size)
    if size < 2 or size & (size - 1):
        raise ValueError(f"page_size is a power of two and at least 2, got {size}")
    if size > LARGEST_PAGE:
        raise ValueError(f"page_size is at most {LARGEST_PAGE:,}, got {size:,}")
    return size


def check_kept(retain: Any, lease: Any, buffered: Any, cached: Any, refill_below: Any) -> Bounds:
    """How a window is to be kept in its store."""
    _check_retain(retain)
    _check_lease(lease)
    return _checked_bounds(buffered, cached, refill_below)


def _check_retain(retain: Any) -> None:
    check_whole("retain is a whole number of checkpoints that stay readable", retain)
    if retain < 1:
        raise ValueError(f"retain is at least 1, since the last checkpoint stays readable, got {retain}")


def _check_lease(lease: Any) -> None:
    if lease is None:
        return
    if isinstance(lease, bool) or not isinstance(lease, (int, float)):
        raise TypeError(f"lease is a number of seconds or None, got {lease!r}")
    if not 0 < lease < MAX_TIME:
        raise ValueError(f"lease is a finite number of seconds above 0, got {lease!r}")


def _checked_bounds(buffered: Any, cached: Any, refill_below: Any) -> Bounds:
    given = {"buffered": buffered, "cached": cached, "refill_below": refill_below}
    for name, value in given.items():
        if value is None:
            continue
        check_whole(f"{name} is a whole number of elements or None", value)
        if not 0 <= value <= MOST_BOUNDED:
            raise ValueError(f"{name} is a number of elements from 0 to {MOST_BOUNDED:,}, got {value:,}")
    if refill_below is not None and (cached is None or not 1 <= refill_below <= cached):
        raise ValueError(
            f"refill_below goes with cached, which it may not exceed, and is at least 1: got "
            f"refill_below={refill_below!r} and cached={cached!r}"
        )
    return Bounds(**given)


def check_count(k: Any, window: Any) -> int:
    """How many elements of a window are to go."""
    if isinstance(k, bool) or not hasattr(k, "__index__"):
        raise TypeError(f"evict takes a whole number of elements, got {k!r}")
    count = int(k.__index__())
    if count < 0:
        raise ValueError(f"evict takes a number of elements that is not negative, got {count}")
    if count > len(window):
        raise EmptyWindowError(
            f"cannot evict {count} element(s): the window {window.name!r} holds {len(window)}"
        )
    return count


class Clock:
    """Whether the times of a window are given with its elements or counted: one or the other, for good."""

    __slots__ = ("_asked_for", "_told", "given")

    def __init__(self, asked_for: bool) -> None:
        self._asked_for = asked_for
        #: None where nobody can tell, or nothing is in yet
        self.given: bool | None = None
        #: how many elements there were when an element told; if it did not come in, nothing was told
        self._told = -1

    def _tell(self, given: bool, count: int) -> None:
        if self.given is None:
            self._told = count
        self.given = given

    def _forget(self, count: int) -> None:
        if self._told == count:
            self.given = None

    def counted(self, count: int) -> int:
        """The time of an element that comes without one, behind so many others."""
        if self.given is False:  # as it has been, and stays
            return count
        if self._asked_for:
            raise MissingTime(
                "the policy of this window asks for times: give one with each element, as in "
                "push(value, time=...) or slide(values, times)"
            )
        self._forget(count)
        if self.given and count:
            raise MissingTime(
                f"an element without a time cannot follow {count} element(s) whose times were given; give it "
                "one, or leave the times out from the first element on"
            )
        self._tell(False, count)
        return count

    def give(self, count: int) -> None:
        """An element comes with a time, behind so many others."""
        self._forget(count)
        if self.given is False and count:
            raise MissingTime(
                f"an element with a time cannot follow {count} element(s) without, whose times were counted; "
                "leave it out, or give times from the first element on"
            )
        self._tell(True, count)

    def resume(self, youngest: Any, count: int) -> None:
        """A window goes on from a checkpoint, where counted times are the numbers of the elements."""
        self.given = None if youngest == count - 1 else True


def check_time(time: Any) -> int | float:
    """The time as a plain number."""
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
    """The times of a batch as a column that never goes backwards."""
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
    """Times of a batch in any order, as a column."""
    if hasattr(times, "__array__"):
        column = as_array(times)
    elif isinstance(times, (list, tuple, range)):
        column = column_of(list(times))
        if bool in set(map(type, times)):
            column = column.astype(object)  # which is checked one by one
            column[:] = list(times)
    else:
        raise TypeError(f"times is a sequence or an array of numbers, got {times!r}")
    if column.ndim != 1 or len(column) != count:
        raise ValueError(f"times must have one entry a row: {count} rows, times of shape {column.shape}")
    kind = column.dtype.kind
    if kind in "mM" and count:
        _row_time(0, column[0])
    if kind in "iu" and column.dtype != np.uint64:
        column = column.astype(np.int64, copy=False)
    elif kind == "f":
        with quiet():  # of long floats beyond the range of these
            column = column.astype(np.float64, copy=False)
    else:
        column = column_of([_row_time(row, time) for row, time in enumerate(column.tolist())])
    if kind == "f" and not (np.abs(column) < 2.0**63).all():
        row = int((~(np.abs(column) < 2.0**63)).argmax())
        raise ValueError(f"row {row}: a time is finite and fits in 64 bits, got {column[row]}")
    if kind == "i" and count and column.min() < -MAX_TIME:
        row = int(column.argmin())
        raise ValueError(f"row {row}: a time is finite and fits in 64 bits, got {column[row]}")
    return column


def _row_time(row: int, time: Any) -> int | float:
    try:
        return check_time(time)
    except (TypeError, ValueError) as error:
        raise type(error)(f"row {row}: {error}") from None


# -- options --------------------------------------------------------------------------------------------


def check_whole(what: str, value: Any) -> int:
    """The value, if it is a whole number; `what` begins the error: "page_size is a whole number"."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what}, got {value!r}")
    return value


def check_flag(name: str, value: Any) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} is True or False, got {value!r}")
    return bool(value)


def number_option(owner: str, name: str, value: Any) -> int | float:
    """An option of a class that is a finite number, as a plain one; whole numbers become int."""
    value = value.item() if isinstance(value, np.generic) or getattr(value, "ndim", 1) == 0 else value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{owner}({name}=...) is a number in the unit of the times, got {value!r}")
    if not abs(value) <= MAX_TIME:
        raise ValueError(f"{owner}({name}=...) is finite and fits in 64 bits, got {value!r}")
    return int(value) if isinstance(value, float) and value.is_integer() else value


def positive_option(owner: str, name: str, value: Any) -> int | float:
    number = number_option(owner, name, value)
    if number <= 0:
        raise ValueError(f"{owner}({name}=...) is greater than 0, got {number!r}")
    return number


def count_option(owner: str, name: str, value: Any) -> int:
    """An option of a class that is a number of tuples, at least 1."""
    plain = value.item() if isinstance(value, np.generic) else value
    whole = isinstance(plain, int) or (isinstance(plain, float) and plain.is_integer())
    if isinstance(plain, bool) or not whole:
        raise TypeError(f"{owner}({name}=...) is a whole number of tuples, got {value!r}")
    return int(positive_option(owner, name, plain))
