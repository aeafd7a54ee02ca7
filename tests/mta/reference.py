"""A window as the definitions have it: a list, folded when asked. And the monoids it is tried with."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from mta import AmortizedMTA, LogMTA, monoids, policies
from mta.monoids import Monoid
from mta.policies import CountWindow, Limits, Policy, TimeWindow, While

ALGORITHMS = {"LogMTA": LogMTA, "AmortizedMTA": AmortizedMTA}


def fold(monoid: Monoid, states: Sequence[Any]) -> Any:
    return reduce(monoid.combine, states) if states else monoid.identity


def expired(limits: Limits, time: Any, youngest: Any) -> bool:
    """Exact where both times are whole numbers, whatever the span."""

    def cut(span: Any) -> Any:
        whole = isinstance(time, int) and isinstance(youngest, int) and math.isfinite(span)
        return Fraction(youngest) - Fraction(span) if whole else youngest - span

    return (limits.open_span is not None and time <= cut(limits.open_span)) or (
        limits.closed_span is not None and time < cut(limits.closed_span)
    )


class Definition:
    def __init__(self, monoid: Monoid, policy: Policy | None = None) -> None:
        self.monoid, self.policy = monoid, policy
        self.states: list[Any] = []
        self.times: list[Any] = []
        self.inserted = 0
        self.last_time: Any = -math.inf

    def __len__(self) -> int:
        return len(self.times)

    @property
    def head(self) -> int:
        """The absolute number of the oldest element."""
        return self.inserted - len(self.times)

    @property
    def oldest(self) -> Any:
        return self.times[0] if self.times else None

    @property
    def youngest(self) -> Any:
        return self.times[-1] if self.times else None

    def insert(self, value: Any, time: Any = None) -> None:
        time = self.inserted if time is None else time
        self.states.append(self.monoid.lift(value))
        self.times.append(time)
        self.inserted += 1
        self.last_time = time

    def enforce(self) -> int:
        if self.policy is None or not self.times:
            return 0
        limits, cut, old = self.policy.limits(), 0, None
        total = fold(self.monoid, self.states) if limits.predicates else None
        while cut < len(self.times):
            if limits.predicates:
                state = self.states[cut]
                old = self.monoid.combine(old, state) if cut else state
            over = limits.count is not None and len(self.times) - cut > limits.count
            if not (over or expired(limits, self.times[cut], self.times[-1]) or limits.rejects(total, old)):
                break
            cut += 1
        self.evict(cut)
        return cut

    def push(self, value: Any, time: Any = None) -> Any:
        self.insert(value, time)
        self.enforce()
        return self.query()

    def extend(self, values: Sequence[Any], times: Sequence[Any]) -> None:
        for value, time in zip(values, times, strict=True):
            self.insert(value, time)
        self.enforce()

    def slide(self, values: Sequence[Any], times: Sequence[Any]) -> list[Any]:
        return [self.push(value, time) for value, time in zip(values, times, strict=True)]

    def evict(self, k: int) -> None:
        del self.times[:k], self.states[:k]

    def evict_until(self, t: Any) -> int:
        k = bisect.bisect_right(self.times, t)
        self.evict(k)
        return k

    def query(self) -> Any:
        return self.monoid.lower(fold(self.monoid, self.states))

    def range_query(self, t0: Any, t1: Any) -> Any:
        start, stop = bisect.bisect_left(self.times, t0), bisect.bisect_right(self.times, t1)
        return self.monoid.lower(fold(self.monoid, self.states[start:stop]))


def same(a: Any, b: Any) -> bool:
    """Equal, floats up to rounding, NaN equal to itself."""
    if isinstance(a, dict) or isinstance(b, dict):
        return (
            isinstance(a, dict)
            and isinstance(b, dict)
            and a.keys() == b.keys()
            and all(same(a[key], b[key]) for key in a)
        )
    if isinstance(a, (tuple, list)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, (float, np.floating)) and isinstance(b, (int, float, np.number)):
        return bool(
            a == b or (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
        )
    return bool(a == b)


def rows_of(results: Any) -> list[Any]:
    """What `slide` returned, one result a row."""
    if isinstance(results, dict):
        columns = {key: column.tolist() for key, column in results.items()}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return list(results.tolist() if results.dtype != object else results)


def check_rows(results: Any, expected: list[Any]) -> None:
    rows = rows_of(results)
    assert len(rows) == len(expected)
    for number, (row, wanted) in enumerate(zip(rows, expected, strict=True)):
        assert same(row, wanted), (number, row, wanted)


def check_window(window: Any, model: Definition, label: Any = "") -> None:
    """Everything that can be asked of a window at once."""
    assert len(window) == len(model), label
    assert window.oldest == model.oldest, label
    assert window.youngest == model.youngest, label
    result, expected = window.query(), model.query()
    assert same(result, expected), (label, result, expected)


def matrices() -> Monoid:
    """Products of 2 × 2 integer matrices: they do not commute, and soon leave 64 bits."""

    def product(p: Any, q: Any) -> Any:
        a, b, c, d = p
        e, f, g, h = q
        return (a * e + b * g, a * f + b * h, c * e + d * g, c * f + d * h)

    return monoids.from_function(product, (1, 0, 0, 1), name="matrices")


def four_fields() -> Monoid:
    return monoids.Fields(
        peak=monoids.Max("a"),
        low=monoids.ArgMin("b", "label"),
        spread=monoids.SampleStdDev("b"),
        first=monoids.First("label"),
    )


def object_fields() -> Monoid:
    return monoids.Fields(
        text=monoids.Concat("label"),
        peak=monoids.Max("a"),
        where=monoids.ArgMax("b", "label"),
        n=monoids.Count(),
    )


class Subject(NamedTuple):
    make: Callable[[], Monoid]
    #: an element out of a small whole number and its time
    element: Callable[[int, Any], Any]
    #: monotone policies that look at aggregates
    predicates: tuple[Policy, ...] = ()


def _record(i: int, _time: Any) -> dict[str, Any]:
    return {"a": i % 5, "b": i % 7, "label": f"{i}."}


SUBJECTS = {
    "concat": Subject(
        monoids.Concat, lambda i, _: f"{i}.", (While(lambda total, old: len(total) - len(old) >= 30),)
    ),
    "argmax": Subject(monoids.ArgMax, lambda i, _: (i % 5, f"arg {i}"), (policies.OlderThanMaximum(),)),
    "matrices": Subject(
        matrices, lambda i, _: (1 + i % 3, 1, 1, 0), (While(lambda total, old: total[0] >= 1000 * old[0]),)
    ),
    "runs": Subject(monoids.LongestIncreasingRun, lambda i, _: i % 11, (policies.OlderThanLongestRun(),)),
    "timed runs": Subject(
        monoids.LongestIncreasingRun, lambda i, time: (time, i % 11), (policies.OlderThanLongestRun(),)
    ),
    "four fields": Subject(four_fields, _record, (policies.OlderThanMaximum("peak"),)),
    "object fields": Subject(
        object_fields,
        _record,
        (policies.OlderThanMaximum("where"), While(lambda total, old: total["n"] - old["n"] >= 9)),
    ),
    "sum": Subject(
        monoids.Sum,
        lambda i, _: i,
        (
            While(lambda total, old: total - old >= 300),
            While(lambda total, old: total - old >= 300, columns=True, name="columns"),
            policies.SumWindow(45),
        ),
    ),
    "max": Subject(monoids.Max, lambda i, _: i % 5 - 2.5, (policies.OlderThanMaximum(),)),
    "stddev": Subject(monoids.SampleStdDev, lambda i, _: 1e3 + i % 9),
}


def policies_for(subject: Subject) -> st.SearchStrategy[Policy | None]:
    kinds: list[st.SearchStrategy[Policy]] = [
        st.integers(1, 20).map(CountWindow),
        st.one_of(st.integers(1, 20), st.sampled_from([0.5, 2.25, 100, 1e6])).map(TimeWindow),
        st.one_of(st.integers(0, 20), st.just(0.5)).map(lambda d: TimeWindow(d, closed="both")),
    ]
    if subject.predicates:
        kinds.append(st.sampled_from(subject.predicates))
    single = st.one_of(kinds)
    union = st.lists(single, min_size=2, max_size=3).map(lambda some: reduce(lambda a, b: a | b, some))
    return st.one_of(st.none(), single, union)


def columns(monoid: Monoid, values: Sequence[Any]) -> Any:
    """A batch in the form that `extend` and `slide` take."""
    if monoid.fields:
        return {field: [value[field] for value in values] for field in monoid.fields}
    return list(values)
