"""What every baseline does alike: checking, times, the policy, batches. An algorithm adds three methods."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from numbers import Integral, Real
from typing import Any

from mta.errors import EmptyWindowError, OutOfOrderError
from mta.monoids.base import ColumnarMonoid, Monoid
from mta.policies import Limits, Policy
from mta.states import batch_rows, result_array


class Baseline(ABC):
    """A sliding window in memory, first in, first out.

    An algorithm keeps the states of the elements and answers `_insert`, `_evict`, `_head` and `_aggregate`.
    It never combines with the identity: an empty part of a window is left out, as the papers' helper
    functions do. If an operator raises, the operation that called it leaves the window as it was.
    """

    __slots__ = (
        "_closed_span",
        "_combine",
        "_count",
        "_holes",
        "_identity",
        "_inserted",
        "_lift",
        "_limited",
        "_limits",
        "_lower",
        "_only_count",
        "_only_open_span",
        "_open_span",
        "_predicates",
        "_row",
        "_times",
        "monoid",
        "policy",
    )

    def __init__(self, monoid: Monoid, policy: Policy | None = None) -> None:
        if not isinstance(monoid, Monoid):
            raise TypeError(f"{type(self).__name__} takes a Monoid, got {monoid!r}")
        if policy is not None and not isinstance(policy, Policy):
            raise TypeError(f"{type(self).__name__} takes a Policy or None as its policy, got {policy!r}")
        self.monoid = monoid
        self.policy = policy
        # Plain attributes, and None for what the monoid leaves as it is: an insertion touches all of these.
        self._combine = monoid.combine
        self._identity = monoid.identity
        self._row, self._lift, self._lower = _row(monoid), _lift(monoid), _lower(monoid)
        limits = Limits() if policy is None else policy.limits()
        self._limits = limits
        self._limited = limits != Limits()
        # The two common policies alone, for `push` and `slide`.
        self._only_open_span = limits.open_span if limits == Limits(open_span=limits.open_span) else None
        self._only_count = limits.count if limits == Limits(count=limits.count) else None
        self._count = limits.count
        self._open_span = limits.open_span
        self._closed_span = limits.closed_span
        self._predicates = limits.predicates
        self._times: deque[Any] = deque()
        self._inserted = 0
        #: entries of `_times` whose element has left out of turn; only ReactiveAggregator has any
        self._holes = 0

    # -- what an algorithm is -----------------------------------------------------------------------------

    @abstractmethod
    def _insert(self, state: Any) -> None:
        """Takes a state in behind the youngest."""

    @abstractmethod
    def _evict(self) -> None:
        """Lets go of the oldest state; there is one."""

    @abstractmethod
    def _head(self) -> Any:
        """The oldest state; there is one."""

    @abstractmethod
    def _aggregate(self) -> Any:
        """The aggregate of the window, the identity when it is empty."""

    # -- the common interface -----------------------------------------------------------------------------

    def insert(self, value: Any, time: float | None = None) -> int | None:
        """Adds an element; the policy is left for `enforce`. Returns a handle if the algorithm has any."""
        row, lift, times = self._row, self._lift, self._times
        state = value if row is None else row(value)
        if lift is not None:
            state = lift(state)
        if time is None:
            time = self._inserted
        elif type(time) is not int:
            time = checked_time(time)
        if times and time < times[-1]:
            raise _out_of_order(time, times[-1])
        self._insert(state)
        times.append(time)
        self._inserted += 1
        return None

    def evict(self, k: int = 1) -> None:
        """Lets go of the `k` oldest elements."""
        if k != 1 or type(k) is not int:
            k = _checked_count(k)
        times = self._times
        held = len(times) - self._holes
        if k > held:
            raise EmptyWindowError(f"cannot evict {k} element(s) from a window that holds {held}")
        for _ in range(k):
            self._evict()
            times.popleft()

    def evict_until(self, t: float) -> int:
        """Lets go of all elements with time <= t; returns how many."""
        bound = _checked_bound(t)
        times = self._times
        evicted = 0
        while times and times[0] <= bound:
            self._evict()
            times.popleft()
            evicted += 1
        return evicted

    def enforce(self) -> int:
        """Evicts what the policy rejects, one by one from the head; returns how many."""
        times = self._times
        if not times:
            return 0
        if self._predicates:
            return self._enforce_predicates()
        evicted = 0
        span = self._open_span
        if span is not None:
            bound = times[-1] - span
            while times and times[0] <= bound:
                self._evict()
                times.popleft()
                evicted += 1
        count = self._count
        if count is not None:
            for _ in range(len(times) - self._holes - count):
                self._evict()
                times.popleft()
                evicted += 1
        span = self._closed_span
        if span is not None and times:
            bound = times[-1] - span
            while times and times[0] < bound:
                self._evict()
                times.popleft()
                evicted += 1
        return evicted

    def _enforce_predicates(self) -> int:
        """`enforce`, with `old` gathered from the elements and `total` as it is at the time of the call."""
        times, limits, combine = self._times, self._limits, self._combine
        total = self._aggregate()
        youngest = times[-1]
        surplus = 0 if self._count is None else len(times) - self._holes - self._count
        old = None
        evicted = 0
        while times:
            head = self._head()
            old = combine(old, head) if evicted else head
            if not (evicted < surplus or limits.expired(times[0], youngest) or limits.rejects(total, old)):
                break
            self._evict()
            times.popleft()
            evicted += 1
        return evicted

    def query(self) -> Any:
        """The lowered aggregate of the window."""
        lower = self._lower
        return self._aggregate() if lower is None else lower(self._aggregate())

    def push(self, value: Any, time: float | None = None) -> Any:
        """Insert, enforce, query."""
        # `insert` and the two common cases of `enforce`, written out once more to save their calls.
        row, lift, times = self._row, self._lift, self._times
        state = value if row is None else row(value)
        if lift is not None:
            state = lift(state)
        if time is None:
            time = self._inserted
        elif type(time) is not int:
            time = checked_time(time)
        if times and time < times[-1]:
            raise _out_of_order(time, times[-1])
        self._insert(state)
        times.append(time)
        self._inserted += 1
        span = self._only_open_span
        if span is not None:
            bound = time - span
            while times and times[0] <= bound:
                self._evict()
                times.popleft()
        elif self._only_count is not None:
            while len(times) - self._holes > self._only_count:
                self._evict()
                times.popleft()
        elif self._limited:
            self.enforce()
        lower = self._lower
        return self._aggregate() if lower is None else lower(self._aggregate())

    def extend(self, values: Any, times: Any = None) -> None:
        """Inserts a batch, then enforces the policy once. A batch with a bad row changes nothing."""
        for state, time in self._batch(values, times):
            self._insert(state)
            self._times.append(time)
            self._inserted += 1
        self.enforce()

    def slide(self, values: Any, times: Any = None) -> Any:
        """`push` for each row of a batch: one result a row. A batch with a bad row changes nothing."""
        held, limited, lower = self._times, self._limited, self._lower
        insert, evict, aggregate = self._insert, self._evict, self._aggregate
        span = self._only_open_span
        results = []
        for state, time in self._batch(values, times):
            insert(state)
            held.append(time)
            self._inserted += 1
            if span is not None:
                bound = time - span
                while held and held[0] <= bound:
                    evict()
                    held.popleft()
            elif limited:
                self.enforce()
            results.append(aggregate() if lower is None else lower(aggregate()))
        return result_array(results)

    def __len__(self) -> int:
        return len(self._times) - self._holes

    @property
    def oldest(self) -> Any:
        """The time of the oldest element, None when there is none."""
        return self._times[0] if self._times else None

    @property
    def youngest(self) -> Any:
        """The time of the youngest element, None when there is none."""
        return self._times[-1] if self._times else None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.monoid!r} of {len(self)} elements, policy {self.policy!r}>"

    # -- batches ------------------------------------------------------------------------------------------

    def _batch(self, values: Any, times: Any) -> Iterable[tuple[Any, Any]]:
        """States and times of a batch, all of it checked before any of it is inserted."""
        rows = batch_rows(self.monoid, values)
        row, lift = self._row, self._lift
        states = []
        for number, value in enumerate(rows):
            try:
                state = value if row is None else row(value)
                states.append(state if lift is None else lift(state))
            except (TypeError, ValueError, OverflowError) as error:
                raise type(error)(f"row {number}: {error}") from error
        stamps = self._batch_times(times, len(states))
        return zip(states, stamps, strict=True)

    def _batch_times(self, times: Any, length: int) -> Sequence[Any]:
        youngest = self._times[-1] if self._times else -math.inf
        if times is None:
            if length and self._inserted < youngest:
                raise OutOfOrderError(f"row 0: {_out_of_order(self._inserted, youngest)}")
            return range(self._inserted, self._inserted + length)
        listed = times.tolist() if hasattr(times, "tolist") else times
        if isinstance(listed, (str, bytes)) or not hasattr(listed, "__iter__"):
            raise TypeError(f"the times of a batch are a sequence or an array, got {times!r}")
        stamps = list(listed)
        if len(stamps) != length:
            raise ValueError(f"a batch has one time a row, got {length} row(s) and {len(stamps)} time(s)")
        number = 0
        try:
            for number, time in enumerate(stamps):
                if type(time) is not int:
                    stamps[number] = time = checked_time(time)
                if time < youngest:
                    raise _out_of_order(time, youngest)
                youngest = time
        except (TypeError, ValueError) as error:
            raise type(error)(f"row {number}: {error}") from None
        return stamps


# What a monoid does to an element on its way in and out, None where it does nothing, and without the calls
# of a method that only calls another: in plain Python a call costs as much as a combine.


def _row(monoid: Monoid) -> Callable[[Any], Any] | None:
    if _is(monoid.row, Monoid.row):
        return None
    if isinstance(monoid, ColumnarMonoid) and not monoid.fields and _is(monoid.row, ColumnarMonoid.row):
        return monoid.check_row
    return monoid.row


def _lift(monoid: Monoid) -> Callable[[Any], Any] | None:
    if _is(monoid.lift_row, ColumnarMonoid.lift_row):
        return None
    return monoid.lift if _is(monoid.lift_row, Monoid.lift_row) else monoid.lift_row


def _lower(monoid: Monoid) -> Callable[[Any], Any] | None:
    return None if _is(monoid.lower, Monoid.lower) else monoid.lower


def _is(bound: Any, method: Any) -> bool:
    return getattr(bound, "__func__", None) is method


def checked_time(time: Any) -> int | float:
    """A time as a plain finite number."""
    kind = type(time)
    if kind is float:
        if math.isfinite(time):
            return float(time)
        raise ValueError(f"a time must be a finite number, got {time!r}")
    if kind is int:
        return int(time)
    if kind is not bool:
        if isinstance(time, Integral):
            return int(time)
        if isinstance(time, Real):
            return checked_time(float(time))
    raise TypeError(f"a time must be a number, got {time!r} of type {kind.__name__}")


def _checked_bound(t: Any) -> int | float:
    """A bound on times: a number, which may be infinite."""
    if isinstance(t, float) and math.isinf(t):
        return float(t)
    return checked_time(t)


def _checked_count(k: Any) -> int:
    if isinstance(k, bool) or not hasattr(k, "__index__"):
        raise TypeError(f"evict takes a whole number of elements, got {k!r} of type {type(k).__name__}")
    count = int(k.__index__())
    if count < 0:
        raise ValueError(f"evict takes 0 or more elements, got {count}")
    return count


def _out_of_order(time: Any, youngest: Any) -> OutOfOrderError:
    return OutOfOrderError(
        f"time {time!r} is before {youngest!r}, the time of the youngest element; times must not go backwards"
    )
