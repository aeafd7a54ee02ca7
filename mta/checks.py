"""Times that a window accepts: whole or real numbers that are finite and fit in 64 bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from mta.errors import OutOfOrderError
from mta.monoids.base import Array, column_of

MAX_TIME = 2**63 - 1


def check_time(time: Any) -> int | float:
    """The time as a plain number."""
    if isinstance(time, (np.integer, np.floating)):
        time = time.item()
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
    if hasattr(times, "__array__"):
        column = np.array(times)
    elif isinstance(times, (list, tuple, range)):
        column = column_of(list(times))
        if any(isinstance(time, bool) for time in times):
            column = column.astype(object)  # which is checked one by one
            column[:] = list(times)
    else:
        raise TypeError(f"times is a sequence or an array of numbers, got {times!r}")
    if column.ndim != 1 or len(column) != count:
        raise ValueError(f"times must have one entry a row: {count} rows, times of shape {column.shape}")
    kind = column.dtype.kind
    if kind in "iu" and column.dtype != np.uint64:
        column = column.astype(np.int64, copy=False)
    elif kind == "f":
        column = column.astype(np.float64, copy=False)
    else:
        column = column_of([_row_time(row, time) for row, time in enumerate(column.tolist())])
    if kind == "f" and not (np.abs(column) <= MAX_TIME).all():
        row = int((~(np.abs(column) <= MAX_TIME)).argmax())
        raise ValueError(f"row {row}: a time is finite and fits in 64 bits, got {column[row]}")
    if kind == "i" and count and column[0] < -MAX_TIME:
        raise ValueError(f"row 0: a time is finite and fits in 64 bits, got {column[0]}")
    backwards = column[1:] < column[:-1]
    if backwards.any():
        row = int(backwards.argmax()) + 1
        raise OutOfOrderError(
            f"time {column[row].item()!r} in row {row} is before {column[row - 1].item()!r}, the time of "
            "the row before it; insert elements in the order of their times"
        )
    return column


def _row_time(row: int, time: Any) -> int | float:
    try:
        return check_time(time)
    except (TypeError, ValueError) as error:
        raise type(error)(f"row {row}: {error}") from None
