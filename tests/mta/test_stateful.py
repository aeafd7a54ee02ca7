"""Every operation of both algorithms against recomputation from the definition."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import numpy as np
import pytest
from chance import examples, fresh
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from reference import (
    ALGORITHMS,
    SUBJECTS,
    Definition,
    check_rows,
    check_window,
    columns,
    fold,
    policies_for,
    rows_of,
    same,
)

from mta import AmortizedMTA, EmptyWindowError, LogMTA, OutOfOrderError, monoids
from mta.policies import CountWindow, TimeWindow
from stores import Store, open_store

NUMBERS = st.integers(0, 99)
SOME_STEPS = [0, 0, 0, 1, 1, 2, 5, 0.5]
STEPS = st.sampled_from(SOME_STEPS)
ROWS = st.tuples(NUMBERS, STEPS)


def random_rows(count: int, seed: int) -> list[tuple[int, float]]:
    chance = random.Random(seed)
    return [(chance.randrange(100), chance.choice(SOME_STEPS)) for _ in range(count)]


LONG = st.builds(random_rows, st.integers(5, 80), st.integers(0, 10**6))
BATCHES = st.one_of(st.lists(ROWS, max_size=6), LONG, LONG)
PAGE_SIZES = (2, 4, None)


class Windows(RuleBasedStateMachine):
    """A window for each algorithm and page size, all of them given the same operations."""

    def __init__(self, store: Store | None = None, page_sizes: tuple[int | None, ...] = PAGE_SIZES) -> None:
        super().__init__()
        self.store, self.page_sizes = store, page_sizes
        self.windows: dict[Any, Any] = {}

    @initialize(
        name=st.sampled_from(sorted(SUBJECTS)), start=st.sampled_from([0, -30, 7.25, 2**60]), data=st.data()
    )
    def begin(self, name: str, start: float, data: Any) -> None:
        self.subject = SUBJECTS[name]
        self.start = start
        policy = data.draw(policies_for(self.subject), label="policy")
        self.model = Definition(self.subject.make(), policy)
        for kind in (LogMTA, AmortizedMTA):
            for size in self.page_sizes:
                self.windows[kind.__name__, size] = kind(
                    self.subject.make(),
                    policy,
                    store=self.store,
                    name=None if self.store is None else fresh("stateful"),
                    page_size=size,
                )

    def teardown(self) -> None:
        for window in self.windows.values():
            window.close()

    def next_time(self, step: float) -> Any:
        last = self.model.last_time if self.model.inserted else self.start
        return last + (int(step) if abs(last) > 2**50 else step)

    def batch(self, rows: list[tuple[int, float]]) -> tuple[list[Any], list[Any]]:
        values, times = [], []
        time = self.next_time(0)
        for i, step in rows:
            time += int(step) if abs(time) > 2**50 else step
            times.append(time)
            values.append(self.subject.element(i, time))
        return values, times

    @rule(i=NUMBERS, step=STEPS)
    def insert(self, i: int, step: float) -> None:
        time = self.next_time(step)
        value = self.subject.element(i, time)
        self.model.insert(value, time)
        for window in self.windows.values():
            window.insert(value, time)

    @rule(i=NUMBERS, step=STEPS)
    def push(self, i: int, step: float) -> None:
        time = self.next_time(step)
        value = self.subject.element(i, time)
        expected = self.model.push(value, time)
        for label, window in self.windows.items():
            assert same(window.push(value, time), expected), label

    @rule(rows=st.one_of(st.lists(ROWS, max_size=6), LONG))
    def push_several(self, rows: list[tuple[int, float]]) -> None:
        for i, step in rows:
            self.push(i, step)

    @rule(rows=BATCHES)
    def extend(self, rows: list[tuple[int, float]]) -> None:
        values, times = self.batch(rows)
        self.model.extend(values, times)
        for window in self.windows.values():
            window.extend(columns(window.monoid, values), times)

    @rule(rows=BATCHES, as_array=st.booleans())
    def slide(self, rows: list[tuple[int, float]], as_array: bool) -> None:
        values, times = self.batch(rows)
        expected = self.model.slide(values, times)
        for window in self.windows.values():
            check_rows(
                window.slide(columns(window.monoid, values), np.array(times) if as_array else times), expected
            )

    @rule()
    def evict_one(self) -> None:
        if not self.model.times:
            for window in self.windows.values():
                with pytest.raises(EmptyWindowError, match=r"cannot evict 1 .* holds 0"):
                    window.evict()
            return
        self.model.evict(1)
        for window in self.windows.values():
            window.evict()

    @rule(data=st.data())
    def evict(self, data: Any) -> None:
        """Any number, and those that bring the head to the end of a page of some tier, or one off it."""
        head, size = self.model.head, len(self.model)
        edges = {
            edge - head + off
            for shift in range(1, 7)
            for edge in (((head >> shift) + 1) << shift, ((head >> shift) + 2) << shift)
            for off in (-1, 0, 1)
        }
        likely = sorted({k for k in {0, 1, size - 1, size} | edges if 0 <= k <= size})
        k = data.draw(st.one_of(st.sampled_from(likely), st.integers(0, size)), label="k")
        self.model.evict(k)
        for window in self.windows.values():
            window.evict(k)

    @rule(excess=st.integers(1, 5))
    def refuse_to_evict_too_many(self, excess: int) -> None:
        size = len(self.model)
        for window in self.windows.values():
            with pytest.raises(EmptyWindowError, match=f"cannot evict {size + excess} .* holds {size}"):
                window.evict(size + excess)

    def moment(self, data: Any, label: str) -> Any:
        times = self.model.times or [self.next_time(0)]
        off = st.just(0) if abs(times[0]) > 2**50 else st.sampled_from([0, 0, -1, 1, 0.25])
        return data.draw(st.sampled_from(times), label=label) + data.draw(off)

    @rule(data=st.data())
    def evict_until(self, data: Any) -> None:
        bound = self.moment(data, "bound")
        evicted = self.model.evict_until(bound)
        for label, window in self.windows.items():
            assert window.evict_until(bound) == evicted, label

    @rule()
    def enforce(self) -> None:
        evicted = self.model.enforce()
        for label, window in self.windows.items():
            assert window.enforce() == evicted, label

    @rule(data=st.data())
    def range_query(self, data: Any) -> None:
        t0, t1 = sorted([self.moment(data, "from"), self.moment(data, "to")])
        expected = self.model.range_query(t0, t1)
        for label, window in self.windows.items():
            result = window.range_query(t0, t1)
            assert same(result, expected), (label, result, expected)

    @precondition(lambda self: self.model.inserted and abs(self.model.last_time) < 2**50)
    @rule(i=NUMBERS)
    def refuse_the_past(self, i: int) -> None:
        value, time = self.subject.element(i, 0), self.model.last_time - 0.5
        for window in self.windows.values():
            for call in (
                partial(window.insert, value, time),
                partial(window.push, value, time),
                partial(window.slide, columns(window.monoid, [value]), [time]),
                partial(window.extend, columns(window.monoid, [value]), [time]),
            ):
                with pytest.raises(OutOfOrderError, match=f"{time!r}.* is before {self.model.last_time!r}"):
                    call()

    @precondition(lambda self: self.store is not None)
    @rule()
    def forget_cached_pages(self) -> None:
        """From here on pages have to come from the store."""
        for window in self.windows.values():
            window._log.pages.flush(window._log.tail)
            window._log.pages._cache.clear()

    @invariant()
    def all_agree(self) -> None:
        for label, window in self.windows.items():
            check_window(window, self.model, label)


def run(machine: Any, times: int, steps: int = 50) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=times,
            stateful_step_count=steps,
            suppress_health_check=list(HealthCheck),
            deadline=None,
        ),
    )


@pytest.mark.random
def test_windows_in_memory() -> None:
    run(Windows, 3 * settings().max_examples)


@pytest.mark.random
@pytest.mark.parametrize("page_sizes", [(2,), (4, None)], ids=str)
def test_windows_in_a_store(any_store: Store, page_sizes: tuple[int | None, ...]) -> None:
    usual = settings().max_examples
    local = any_store.url.startswith("memory:")
    run(partial(Windows, any_store, page_sizes), usual if local else usual // 3)


@pytest.mark.parametrize("size", PAGE_SIZES)
@pytest.mark.parametrize("kind", ALGORITHMS.values(), ids=ALGORITHMS)
@pytest.mark.parametrize("name", SUBJECTS)
@settings(max_examples=examples(8))
@given(data=st.data())
def test_push_equals_slide_equals_extend_and_query(name: str, kind: Any, size: int | None, data: Any) -> None:
    subject = SUBJECTS[name]
    policy = data.draw(policies_for(subject))
    steps = data.draw(st.one_of(st.lists(ROWS, min_size=1, max_size=9), LONG))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(steps)), max_size=4)))
    values, times, time = [], [], 0
    for i, step in steps:
        time += step
        times.append(time)
        values.append(subject.element(i, time))
    pushed, slid = (kind(subject.make(), policy, page_size=size) for _ in range(2))
    model = Definition(subject.make(), policy)
    expected = model.slide(values, times)
    results = [pushed.push(value, at) for value, at in zip(values, times, strict=True)]
    assert all(map(same, results, expected))
    results = []
    for start, stop in zip([0, *cuts], [*cuts, len(steps)], strict=True):
        part = slid.slide(columns(slid.monoid, values[start:stop]), times[start:stop])
        results += rows_of(part)
    assert all(map(same, results, expected))
    check_window(slid, model)
    check_window(pushed, model)
    if policy is None or not policy.limits().predicates:
        # what a limit on count or time rejects stays rejected, so enforcing late comes to the same
        extended = kind(subject.make(), policy, page_size=size)
        for start, stop in zip([0, *cuts], [*cuts, len(steps)], strict=True):
            extended.extend(columns(extended.monoid, values[start:stop]), times[start:stop])
            if stop:
                assert same(extended.query(), expected[stop - 1])
        check_window(extended, model)


#: monoid, elements out of random whole numbers, the aggregate of some of them, by NumPy
BULK = {
    "max": (monoids.Max, lambda x: x * 0.5, lambda part: part.max()),
    "sum": (monoids.Sum, lambda x: x, lambda part: part.sum()),
    "stddev": (
        monoids.SampleStdDev,
        lambda x: 1e6 + x,
        lambda part: np.std(part, ddof=1) if len(part) > 1 else np.nan,
    ),
    "first": (monoids.First, lambda x: x, lambda part: part[0]),
    "last": (monoids.Last, lambda x: x, lambda part: part[-1]),
}


@pytest.mark.parametrize("stored", [False, True], ids=["local", "stored"])
@pytest.mark.parametrize("kind", ALGORITHMS.values(), ids=ALGORITHMS)
@pytest.mark.parametrize("name", BULK)
@settings(max_examples=examples(4))
@given(seed=st.integers(0, 2**32), dense=st.booleans(), data=st.data())
def test_large_pages_in_bulk(name: str, kind: Any, stored: bool, seed: int, dense: bool, data: Any) -> None:
    """Tens of thousands of elements through pages of the default size."""
    make, convert, aggregate = BULK[name]
    chance = np.random.default_rng(seed)
    count = 100_000
    values = convert(chance.integers(0, 1000, count))
    times = np.cumsum(chance.integers(0, 3, count)) if dense else np.cumsum(chance.exponential(2.0, count))
    closed = data.draw(st.sampled_from(["right", "both"]))
    policy = data.draw(
        st.one_of(
            st.sampled_from([1, 3, 100, 16_383, 16_384, 16_385, 40_000]).map(CountWindow),
            st.sampled_from([0.5, 30, 5_000, 33_000, 60_000]).map(lambda d: TimeWindow(d, closed=closed)),
            st.just(TimeWindow(20_000) | CountWindow(17_000)),
        )
    )
    limits = policy.limits()
    heads = np.zeros(count, dtype=int)
    if limits.count is not None:
        heads = np.maximum(heads, np.arange(count) + 1 - limits.count)
    if limits.open_span is not None:
        heads = np.maximum(heads, np.searchsorted(times, times - limits.open_span, "right"))
    if limits.closed_span is not None:
        heads = np.maximum(heads, np.searchsorted(times, times - limits.closed_span, "left"))
    sizes = data.draw(st.lists(st.sampled_from([1, 7, 1000, 16_384, 20_000, 50_000]), min_size=1, max_size=8))
    store = open_store("memory:") if stored else None
    with kind(make(), policy, store=store) as window:
        start = 0
        for number, size in enumerate([*sizes, count]):
            stop = min(count, start + size)
            if start == stop:
                break
            if number % 3 == 1:
                window.extend(values[start:stop], times[start:stop])
            elif size <= 1000:
                for row in range(start, stop):
                    result = window.push(values[row], times[row])
                assert same(float(result), float(aggregate(values[heads[stop - 1] : stop])))
            else:
                results = window.slide(values[start:stop], times[start:stop])
                assert len(results) == stop - start
                for row in {start, stop - 1, *chance.integers(start, stop, 40).tolist()}:
                    wanted = aggregate(values[heads[row] : row + 1])
                    assert same(float(results[row - start]), float(wanted)), (row, heads[row])
            head = heads[stop - 1]
            assert (len(window), window.oldest, window.youngest) == (
                stop - head,
                times[head],
                times[stop - 1],
            )
            assert same(float(window.query()), float(aggregate(values[head:stop])))
            start = stop
        head = heads[-1]
        t0, t1 = sorted(chance.choice(times[head:], 2).tolist())
        inside = values[head:][(times[head:] >= t0) & (times[head:] <= t1)]
        assert same(float(window.range_query(t0, t1)), float(aggregate(inside)))
        while len(window) > 1:
            k = int(chance.integers(1, len(window)))
            window.evict(k)
            head += k
            assert same(float(window.query()), float(aggregate(values[head:])))


@pytest.mark.parametrize("kind", ALGORITHMS.values(), ids=ALGORITHMS)
@pytest.mark.parametrize(
    "name", ["concat", "argmax", "matrices", "timed runs", "four fields", "object fields"]
)
def test_large_pages_of_each_monoid(name: str, kind: Any) -> None:
    """The default page size over a store, with windows that begin and end in several pages of it."""
    subject = SUBJECTS[name]
    monoid = subject.make()
    chance = np.random.default_rng(7)
    page = kind(monoid).page_size
    count, length = 3 * page + 77, page + page // 3
    if name == "matrices":
        length, page = 300, 1024
    times = np.cumsum(chance.integers(0, 3, count)).tolist()
    values = [
        subject.element(i, time)
        for i, time in zip(chance.integers(0, 99, count).tolist(), times, strict=True)
    ]
    states = [monoid.lift(value) for value in values]
    with open_store("memory:") as store, kind(subject.make(), CountWindow(length), store=store) as window:
        results: list[Any] = []
        for start in range(0, count, 2 * page // 3):
            stop = min(count, start + 2 * page // 3)
            results += rows_of(window.slide(columns(monoid, values[start:stop]), times[start:stop]))
            window._log.pages.flush(window._log.tail)
            window._log.pages._cache.clear()
        for row in [0, 1, page - 1, page, length, count - 1, *chance.integers(0, count, 4).tolist()]:
            assert same(
                results[row], monoid.lower(fold(monoid, states[max(0, row + 1 - length) : row + 1]))
            ), row
        head = count - length
        for k in (1, page - head % page, 5, length // 2):
            if k < len(window):
                window.evict(k)
                head += k
                assert window.oldest == times[head]
                assert same(window.query(), monoid.lower(fold(monoid, states[head:])))
