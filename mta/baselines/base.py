"""The common part of all baselines: checks, times, the policy, batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from mta.checks import MAX_TIME, Clock, check_evicted, check_time
from mta.core.frame import check_one_window
from mta.core.states import result_array
from mta.errors import EmptyWindowError, OutOfOrderError
from mta.frames.limits import Limits
from mta.inputs import batch_rows, lift_of, lower_of, row_of
from mta.kinds import UNKNOWN, Result, Results, State, Time, Value
from mta.monoids.base import Monoid
from mta.monoids.fields import as_monoid
from mta.monoids.nulls import Nulls, seeing_values, with_nulls
from mta.policies import Policy
from mta.times.kinds import NUMBERS


class Baseline(ABC):
    """A sliding window in memory, first in, first out.

    An algorithm stores the states of the elements and has four methods: `_insert`, `_evict`, `_head` and
    `_aggregate`. It never combines with the identity: it leaves out an empty part of a window, as the papers
    do. If the monoid raises in `insert`, `evict` of one element or `query`, the window is unchanged. The
    other methods make several of these calls, and the calls before the error stay.

    A second query of the same window combines nothing, because the aggregate is kept until the window changes
    (section 5.2 of the MTA paper).

    With `nulls="skip"` missing values are in the window and not in its aggregate, as in `AmortizedMTA`.

    Raises TypeError unless `monoid` is a Monoid and `policy` a Policy or None, and ValueError if the policy
    cannot read the monoid's states, and for other `nulls`.
    """

    __slots__ = (
        "_clock",
        "_combine",
        "_holes",
        "_identity",
        "_inserted",
        "_kept",
        "_lift",
        "_limited",
        "_limits",
        "_lower",
        "_monoid",
        "_only_count",
        "_only_whole_span",
        "_policy",
        "_row",
        "_times",
        "_youngest",
    )

    def __init__(self, monoid: Monoid, policy: Policy | None = None, *, nulls: Nulls = "refuse") -> None:
        monoid = as_monoid(monoid)
        if not isinstance(monoid, Monoid):
            raise TypeError(f"{type(self).__name__} takes a Monoid, got {monoid!r}")
        if policy is not None and not isinstance(policy, Policy):
            raise TypeError(f"{type(self).__name__} takes a Policy or None as its policy, got {policy!r}")
        if policy is not None:
            policy.check(monoid)
        check_one_window(type(self).__name__, monoid, policy)
        monoid = with_nulls(monoid, nulls)
        self._monoid, self._policy = monoid, policy
        # Plain attributes are faster: an insertion reads all of them. None is a method that changes nothing.
        self._combine = monoid.combine
        self._identity = monoid.identity
        self._row, self._lift, self._lower = row_of(monoid), lift_of(monoid), lower_of(monoid)
        limits = Limits() if policy is None else seeing_values(policy.limits(), monoid)
        self._limits = limits
        self._limited = limits != Limits()
        # `push` and `slide` have short cuts for the two common policies.
        whole = type(limits.open_span) is int and limits == Limits(open_span=limits.open_span)
        self._only_whole_span = limits.open_span if whole else None
        self._only_count = limits.count if limits == Limits(count=limits.count) else None
        self._times: deque[Time] = deque()
        self._inserted = 0
        self._clock = Clock(None if policy is None else policy.in_microseconds)
        #: the time of the last inserted element, also if it has been evicted
        self._youngest: Time = -MAX_TIME
        #: the aggregate of the window, if it has been computed since the last change
        self._kept: State = UNKNOWN
        #: entries of `_times` whose element is no longer held; only ReactiveAggregator has such entries
        self._holes = 0

    @property
    def monoid(self) -> Monoid:
        return self._monoid

    @property
    def policy(self) -> Policy | None:
        return self._policy

    @abstractmethod
    def _insert(self, state: State) -> None:
        """Adds a state after the youngest."""

    @abstractmethod
    def _evict(self) -> None:
        """Drops the oldest state. The window is not empty."""

    @abstractmethod
    def _head(self) -> State:
        """The oldest state. The window is not empty."""

    @abstractmethod
    def _aggregate(self) -> State:
        """The aggregate of the window, the identity when it is empty."""

    def insert(self, value: Value, time: Any = None) -> int | None:
        """Adds an element and does not enforce the policy. Returns a handle if the algorithm has handles.

        Times may be left out if the policy needs none. Then all of them are left out, and they are counted.
        Raises the errors of the monoid's `lift` for a bad value, TypeError or ValueError for a bad time,
        OutOfOrderError for a time before the last one, and MissingTime if a time is missing or unexpected.
        """
        row, lift, times = self._row, self._lift, self._times
        state = value if row is None else row(value)
        if lift is not None:
            state = lift(state)
        if time is None:
            time = self._clock.counted(self._inserted)
        else:
            if type(time) is not int and type(time) is not float:
                time = self._clock.take(time, self._inserted)
            elif not self._clock.numbers:
                self._clock.give(time, NUMBERS, self._inserted)
        if not self._youngest <= time <= MAX_TIME:
            raise self._refused(time)
        self._kept = UNKNOWN
        self._insert(state)
        times.append(time)
        self._inserted += 1
        self._youngest = time
        return None

    def evict(self, k: int = 1) -> None:
        """Evicts the `k` oldest elements, one by one.

        Raises TypeError or ValueError unless `k` is a whole number of at least 0, and EmptyWindowError,
        without an eviction, if the window holds fewer elements.
        """
        if k != 1 or type(k) is not int:
            k = check_evicted(k)
        times = self._times
        held = len(times) - self._holes
        if k > held:
            raise EmptyWindowError(f"cannot evict {k} element(s) from a window that holds {held}")
        if k:
            self._kept = UNKNOWN
        for _ in range(k):
            self._evict()
            times.popleft()

    def evict_until(self, t: Any) -> int:
        """Evicts the elements with time <= t and returns their number. Raises TypeError or ValueError."""
        bound = self._clock.asked(t, self._inserted)
        times = self._times
        evicted = 0
        while times and times[0] <= bound:
            self._kept = UNKNOWN
            self._evict()
            times.popleft()
            evicted += 1
        return evicted

    def enforce(self) -> int:
        """Evicts the elements that the policy evicts, one by one, and returns their number."""
        times = self._times
        if not times:
            return 0
        limits = self._limits
        if limits.predicates:
            return self._enforce_predicates()
        evicted, count = 0, limits.count
        if count is not None:
            for _ in range(len(times) - self._holes - count):
                self._kept = UNKNOWN
                self._evict()
                times.popleft()
                evicted += 1
        for cut, side in limits.cuts(times[-1]):
            while times[0] < cut or (side == "right" and times[0] == cut):  # the youngest always stays
                self._kept = UNKNOWN
                self._evict()
                times.popleft()
                evicted += 1
        return evicted

    def _enforce_predicates(self) -> int:
        """`enforce` for predicates: one combine for each evicted element. `total` is the aggregate before."""
        times, limits, combine = self._times, self._limits, self._combine
        total = self._total()
        youngest = times[-1]
        surplus = 0 if limits.count is None else len(times) - self._holes - limits.count
        old = None
        evicted = 0
        while times:
            head = self._head()
            old = combine(old, head) if evicted else head
            if not (evicted < surplus or limits.expired(times[0], youngest) or limits.rejects(total, old)):
                break
            self._kept = UNKNOWN
            self._evict()
            times.popleft()
            evicted += 1
        return evicted

    def query(self) -> Result:
        """The result of the window. OverflowError if it needs more than 64 bits in some monoids."""
        lower = self._lower
        return self._total() if lower is None else lower(self._total())

    def _total(self) -> State:
        total = self._kept
        if total is UNKNOWN:
            total = self._kept = self._aggregate()
        return total

    def push(self, value: Value, time: Any = None) -> Result:
        """`insert`, `enforce` and `query` in one call. Raises their errors."""
        # `insert` and two common cases of `enforce` are repeated here to save their calls.
        row, lift, times = self._row, self._lift, self._times
        state = value if row is None else row(value)
        if lift is not None:
            state = lift(state)
        if time is None:
            time = self._clock.counted(self._inserted)
        else:
            if type(time) is not int and type(time) is not float:
                time = self._clock.take(time, self._inserted)
            elif not self._clock.numbers:
                self._clock.give(time, NUMBERS, self._inserted)
        if not self._youngest <= time <= MAX_TIME:
            raise self._refused(time)
        self._kept = UNKNOWN
        self._insert(state)
        times.append(time)
        self._inserted += 1
        self._youngest = time
        span = self._only_whole_span
        if span is not None and type(time) is int:
            bound = time - span
            while times[0] <= bound:
                self._evict()
                times.popleft()
        elif self._only_count is not None:
            while len(times) - self._holes > self._only_count:
                self._evict()
                times.popleft()
        elif self._limited:
            self.enforce()
        lower, total = self._lower, self._kept
        if total is UNKNOWN:
            total = self._kept = self._aggregate()
        return total if lower is None else lower(total)

    def extend(self, values: Value, times: Value = None) -> None:
        """Inserts a batch, then enforces the policy once.

        Raises the errors of `insert`, with the number of the row. A batch with a bad row changes nothing.
        """
        for state, time in self._batch(values, times):
            self._kept = UNKNOWN
            self._insert(state)
            self._times.append(time)
            self._inserted += 1
            self._youngest = time
        self.enforce()

    def slide(self, values: Value, times: Value = None) -> Results:
        """`push` for each row of a batch: an array of results, or a mapping of arrays for Fields.

        Raises the errors of `insert`, with the number of the row. A batch with a bad row changes nothing.
        """
        held, limited, lower = self._times, self._limited, self._lower
        insert, evict, aggregate = self._insert, self._evict, self._aggregate
        span = self._only_whole_span
        results = []
        for state, time in self._batch(values, times):
            self._kept = UNKNOWN
            insert(state)
            held.append(time)
            self._inserted += 1
            self._youngest = time
            if span is not None and type(time) is int:
                bound = time - span
                while held[0] <= bound:
                    evict()
                    held.popleft()
            elif limited:
                self.enforce()
            total = self._kept
            if total is UNKNOWN:
                total = self._kept = aggregate()
            results.append(total if lower is None else lower(total))
        return result_array(results)

    def __len__(self) -> int:
        return len(self._times) - self._holes

    @property
    def oldest(self) -> Any:
        """The time of the oldest element, None for an empty window."""
        return self._clock.shown(self._times[0]) if self._times else None

    @property
    def youngest(self) -> Any:
        """The time of the youngest element, None for an empty window."""
        return self._clock.shown(self._times[-1]) if self._times else None

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} can be neither copied nor pickled: make a second one")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.monoid!r} of {len(self)} elements, policy {self.policy!r}>"

    def _batch(self, values: Value, times: Value) -> Iterable[tuple[State, Time]]:
        """The states and the times of a batch. All rows are checked before the first one is inserted."""
        rows = batch_rows(self.monoid, values)
        row, lift = self._row, self._lift
        states = []
        for number, value in enumerate(rows):
            try:
                state = value if row is None else row(value)
                states.append(state if lift is None else lift(state))
            except (TypeError, ValueError, OverflowError) as error:
                raise type(error)(f"row {number}: {error}") from error
        return zip(states, self._batch_times(times, len(states)), strict=True)

    def _batch_times(self, times: Value, length: int) -> Sequence[Time]:
        if times is None:
            first = self._clock.counted(self._inserted) if length else self._inserted
            return range(first, first + length)
        stamps: list[Time] = self._clock.take_all(times, length, self._inserted).tolist()
        if stamps and stamps[0] < self._youngest:
            raise self._refused(stamps[0], " in row 0")
        return stamps

    def _refused(self, time: Time, where: str = "") -> Exception:
        """The error for a time before the youngest. Raises TypeError or ValueError if it is no time."""
        check_time(time)
        time, youngest = map(self._clock.shown, (time, self._youngest))
        return OutOfOrderError(
            f"time {time!r}{where} is before {youngest!r}, the time of the youngest element inserted; insert "
            "elements in the order of their times"
        )
