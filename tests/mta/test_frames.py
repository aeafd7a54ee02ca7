"""Several windows over one log, against plain recomputation of each field from all elements ever pushed."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from chance import examples, fresh
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from reference import rows_of, same

from mta import AmortizedMTA, LogMTA, Reader, monoids
from mta.durability.operations import verify
from mta.policies import CountWindow, Policy, TimeWindow
from stores import Store, open_store

PAGE_SIZES = (2, 4, None)
NUMBERS = st.integers(0, 99)
STEPS = st.sampled_from([0, 0, 0, 1, 1, 2, 5, 30])
ROWS = st.lists(st.tuples(NUMBERS, STEPS), max_size=40)


class Element(NamedTuple):
    number: int
    time: int

    @property
    def value(self) -> dict[str, Any]:
        return {"a": self.number % 7, "b": self.number % 5, "label": f"{self.number}."}


class Part(NamedTuple):
    """One limit, written down anew: it says which elements a frame holds."""

    count: int | None = None
    d: int | None = None
    closed: str = "right"
    delay: int = 0

    def policy(self, least: int) -> Policy:
        if self.count is not None:
            return CountWindow(self.count, min_count=least)
        return TimeWindow(self.d, self.closed, delay=self.delay, min_count=least)  # type: ignore[arg-type]

    def holds(self, index: int, time: int, tail: int, moment: int) -> bool:
        if self.count is not None:
            return index >= tail - self.count
        end = moment - self.delay
        start = end - self.d  # type: ignore[operator]
        return (start < time or (start == time and self.closed in ("both", "left"))) and (
            time < end or (time == end and self.closed in ("both", "right"))
        )


class Window(NamedTuple):
    """The frame of a field as its parts, all of which hold an element that is in the window."""

    parts: tuple[Part, ...]
    least: int

    def policy(self) -> Policy:
        first, *others = [part.policy(self.least) for part in self.parts]
        for other in others:
            first = first | other
        return first

    @property
    def lags(self) -> bool:
        return any(part.delay or part.closed in ("left", "neither") for part in self.parts)


PARTS = st.one_of(
    st.builds(lambda n: Part(count=n), st.sampled_from([1, 2, 3, 7, 30])),
    st.builds(
        lambda d, closed, delay: Part(None, d, closed, delay),
        st.sampled_from([1, 2, 5, 10, 60, 300]),
        st.sampled_from(["right", "right", "both", "left", "neither"]),
        st.sampled_from([0, 0, 0, 1, 3, 50]),
    ),
)
WINDOWS = st.builds(
    Window,
    st.one_of(st.tuples(PARTS), st.tuples(PARTS), st.tuples(PARTS, PARTS)),
    st.sampled_from([0, 0, 0, 2, 5]),
)


def mean(elements: list[Element]) -> float:
    values = [each.value["a"] for each in elements]
    return sum(values) / len(values) if values else math.nan


def of(field: str, fold: Callable[[list[Any]], Any]) -> Callable[[list[Element]], Any]:
    return lambda elements: fold([each.value[field] for each in elements])


def arg_max(elements: list[Element]) -> Any:
    return max(elements, key=lambda each: each.value["a"]).value["b"] if elements else None


#: a monoid, and the same written down for a list of elements
COLUMNS: dict[str, tuple[Callable[[], Any], Callable[[list[Element]], Any]]] = {
    "count": (monoids.Count, len),
    "sum": (lambda: monoids.Sum("a"), of("a", sum)),
    "max": (lambda: monoids.Max("b"), of("b", lambda values: max(values, default=None))),
    "mean": (lambda: monoids.Mean("a"), mean),
    "argmax": (lambda: monoids.ArgMax("a", "b"), arg_max),
}
OBJECTS = {
    **COLUMNS,
    "text": (lambda: monoids.Concat("label"), of("label", "".join)),
    "list": (lambda: monoids.Collect("b"), of("b", list)),
}


class Frames(RuleBasedStateMachine):
    """A window for each algorithm and page size, all of them given the same operations."""

    def __init__(self, store: Store | None = None, page_sizes: tuple[int | None, ...] = PAGE_SIZES) -> None:
        super().__init__()
        self.store, self.page_sizes = store, page_sizes
        self.windows: dict[Any, Any] = {}

    @initialize(data=st.data(), objects=st.booleans(), keep=st.sampled_from([None, None, 0, 3, 40]))
    def begin(self, data: Any, objects: bool, keep: int | None) -> None:
        kinds = OBJECTS if objects else COLUMNS
        self.keep = keep
        self.default = data.draw(st.one_of(st.none(), WINDOWS), label="policy")
        fields = data.draw(
            st.lists(
                st.tuples(st.sampled_from(sorted(kinds)), st.one_of(WINDOWS, WINDOWS, st.none())),
                min_size=1,
                max_size=8,
            ),
            label="fields",
        )
        if all(kind == "count" for kind, _ in fields):  # these read no column
            fields.append(("max", None))
        if all(window is not None for _, window in fields):
            self.default = None
        self.make = lambda: monoids.Fields(
            **{
                f"f{at}": kinds[kind][0]() if window is None else kinds[kind][0]().over(window.policy())
                for at, (kind, window) in enumerate(fields)
            }
        )
        #: of each field: the frame or None for all elements, and the function
        self.fields = [(window or self.default, kinds[kind][1]) for kind, window in fields]
        self.held: list[list[int]] = [[] for _ in self.fields]
        self.elements: list[Element] = []
        self.evicted = 0
        self.saved: Any = None
        for kind in (LogMTA, AmortizedMTA):
            for size in self.page_sizes:
                self.windows[kind, size] = kind(
                    self.make(),
                    self.policy,
                    store=self.store,
                    name=None if self.store is None else fresh("frames"),
                    page_size=size,
                    keep=keep,
                )

    def teardown(self) -> None:
        for window in self.windows.values():
            window.close()

    # -- the definition ---------------------------------------------------------------------------------

    @property
    def policy(self) -> Policy | None:
        return None if self.default is None else self.default.policy()

    @property
    def youngest(self) -> int:
        return self.elements[-1].time if self.elements else 0

    def holds(self, window: Window | None, moment: int, tail: int, first: int) -> list[int]:
        """The elements that a frame holds as of a moment, of those from `first` to `tail`."""
        parts = () if window is None else window.parts
        return [
            index
            for index in range(first, tail)
            if all(part.holds(index, self.elements[index].time, tail, moment) for part in parts)
        ]

    def enforce(self) -> None:
        self.held = [
            self.holds(window, self.youngest, len(self.elements), self.evicted) for window, _ in self.fields
        ]

    def results(self, held: list[list[int]]) -> dict[str, Any]:
        results = {}
        for at, ((window, function), indices) in enumerate(zip(self.fields, held, strict=True)):
            few = window is not None and len(indices) < window.least
            results[f"f{at}"] = None if few else function([self.elements[index] for index in indices])
        return results

    def results_at(self, moment: int, youngest: int | None = None) -> dict[str, Any]:
        """As of a moment in the past, elements that were evicted since were in the windows."""
        tail = sum(each.time <= moment for each in self.elements)
        first = self.evicted if moment >= (self.youngest if youngest is None else youngest) else 0
        return self.results([self.holds(window, moment, tail, first) for window, _ in self.fields])

    def promised(self, moment: int, youngest: int) -> bool:
        return moment >= youngest or (not self.evicted and moment >= youngest - (self.keep or 0))

    def coming(self, rows: list[tuple[int, int]]) -> list[Element]:
        elements, time = [], self.youngest
        for number, step in rows:
            time += step
            elements.append(Element(number, time))
        return elements

    # -- what is done to it -----------------------------------------------------------------------------

    @rule(rows=ROWS)
    def push(self, rows: list[tuple[int, int]]) -> None:
        for element in self.coming(rows[:12]):
            self.elements.append(element)
            self.enforce()
            expected = self.results(self.held)
            for label, window in self.windows.items():
                result = window.push(element.value, element.time)
                assert same(result, expected), (label, result, expected)

    @rule(number=NUMBERS, step=STEPS)
    def insert(self, number: int, step: int) -> None:
        (element,) = self.coming([(number, step)])
        self.elements.append(element)
        for (window, _), held in zip(self.fields, self.held, strict=True):
            if window is None or not window.lags:
                held.append(len(self.elements) - 1)
        for window in self.windows.values():
            window.insert(element.value, element.time)

    def batch(self, rows: list[tuple[int, int]]) -> tuple[dict[str, list[Any]], list[int], list[Element]]:
        elements = self.coming(rows)
        columns = {field: [each.value[field] for each in elements] for field in ("a", "b", "label")}
        return columns, [each.time for each in elements], elements

    @rule(rows=ROWS)
    def extend(self, rows: list[tuple[int, int]]) -> None:
        columns, times, elements = self.batch(rows)
        self.elements += elements
        self.enforce()
        for window in self.windows.values():
            window.extend(columns, times)

    @rule(rows=ROWS, times=st.integers(1, 5))
    def slide(self, rows: list[tuple[int, int]], times: int) -> None:
        columns, moments, elements = self.batch(rows * times)
        expected = []
        for element in elements:
            self.elements.append(element)
            self.enforce()
            expected.append(self.results(self.held))
        for label, window in self.windows.items():
            self.check_rows(window.slide(columns, moments), expected, label)

    def check_rows(self, results: Any, expected: list[Any], label: Any) -> None:
        rows = rows_of(results)
        assert len(rows) == len(expected), label
        for number, (row, wanted) in enumerate(zip(rows, expected, strict=True)):
            assert same(row, wanted), (label, number, row, wanted)

    @rule(rows=ROWS, ages=st.lists(st.integers(-60, 60), max_size=20), times=st.integers(1, 5))
    def slide_at(self, rows: list[tuple[int, int]], ages: list[int], times: int) -> None:
        columns, given, elements = self.batch(rows * times)
        before = self.youngest
        moments = sorted(before + age for age in ages)
        if moments and not self.promised(moments[0], before):
            for label, window in self.windows.items():
                self.refused_or_right(lambda m, w=window: w.at(m), moments[0], label)
            moments = [moment for moment in moments if self.promised(moment, before)]
        self.elements += elements
        expected = [self.results_at(moment, before) for moment in moments]
        if elements:
            self.enforce()
        for label, window in self.windows.items():
            self.check_rows(window.slide(columns, given, at=moments), expected, label)

    @rule(age=st.integers(-100, 100))
    def at(self, age: int) -> None:
        moment = self.youngest + age
        expected = self.results_at(moment)
        for label, window in self.windows.items():
            if self.promised(moment, self.youngest):
                result = window.at(moment)
                assert same(result, expected), (label, moment, result, expected)
            else:
                self.refused_or_right(window.at, moment, label)

    def refused_or_right(self, at: Callable[[int], Any], moment: int, label: Any) -> None:
        """Elements before the moment may be gone, so that there may be no answer, but none that is wrong."""
        try:
            result = at(moment)
        except ValueError as error:
            assert "gone" in str(error)  # noqa: PT017
            assert self.elements, label
        else:
            expected = self.results_at(moment)
            assert same(result, expected), (label, moment, result, expected)

    @rule(k=st.integers(0, 20))
    def evict(self, k: int) -> None:
        held = [each for each in self.held if each]
        if not held:
            return
        first, stop = min(each[0] for each in held), max(each[-1] for each in held) + 1
        k = min(k, stop - first)
        if k:
            self.evict_before(first + k)
        for window in self.windows.values():
            window.evict(k)

    def evict_before(self, position: int) -> None:
        self.evicted = max(self.evicted, position)
        self.held = [[index for index in each if index >= position] for each in self.held]

    @rule(age=st.integers(0, 60))
    def evict_until(self, age: int) -> None:
        time = self.youngest - age
        if self.elements:
            self.evict_before(sum(each.time <= time for each in self.elements))
        counts = {window.evict_until(time) for window in self.windows.values()}
        assert len(counts) == 1

    @rule()
    def enforce_now(self) -> None:
        if self.elements:
            self.enforce()
        assert len({window.enforce() for window in self.windows.values()}) == 1

    @rule(low=st.integers(1, 60), high=st.integers(0, 60))
    def range_query(self, low: int, high: int) -> None:
        oldest = next(iter(self.windows.values())).oldest
        if oldest is None:
            return
        found = [
            each
            for at, each in enumerate(self.elements)
            if at >= self.evicted and oldest + low <= each.time <= oldest + low + high
        ]
        expected = {f"f{at}": function(found) for at, (_, function) in enumerate(self.fields)}
        for label, window in self.windows.items():
            result = window.range_query(oldest + low, oldest + low + high)
            assert same(result, expected), (label, result, expected)

    @rule()
    def checkpoint(self) -> None:
        if self.store is None:
            return
        for window in self.windows.values():
            window.checkpoint(len(self.elements))
            assert verify(self.store, window.name).problems == []
        self.saved = (list(self.elements), [list(each) for each in self.held], self.evicted)

    @rule(age=st.integers(-60, 60))
    def read(self, age: int) -> None:
        """A reader has what the checkpoint left."""
        if self.saved is None:
            return
        now = self.elements, self.held, self.evicted
        self.elements, held, self.evicted = self.saved
        moment = self.youngest + age
        expected, expected_then = self.results(held), self.results_at(moment)
        for label, window in self.windows.items():
            with Reader.open(self.store, window.name, self.make(), self.policy) as reader:
                result = reader.query()
                assert same(result, expected), (label, result, expected)
                if self.promised(moment, self.youngest):
                    result = reader.at(moment)
                    assert same(result, expected_then), (label, moment, result, expected_then)
                else:
                    self.refused_or_right(reader.at, moment, label)
        self.elements, self.held, self.evicted = now

    @rule(closed=st.booleans())
    def restore(self, closed: bool) -> None:
        if self.saved is None:
            return
        elements, held, self.evicted = self.saved
        self.elements, self.held = list(elements), [list(each) for each in held]
        for (kind, size), window in self.windows.items():
            if closed:
                window.close()
            again = kind.restore(self.store, window.name, self.make(), self.policy, keep=self.keep)
            self.windows[kind, size] = again
            assert again.offset == len(self.elements)

    @invariant()
    def all_is_as_defined(self) -> None:
        if not self.windows:
            return
        expected = self.results(self.held)
        held = [each for each in self.held if each]
        first = min((each[0] for each in held), default=None)
        count = 0 if first is None else max(each[-1] for each in held) + 1 - first
        for label, window in self.windows.items():
            result = window.query()
            assert same(result, expected), (label, result, expected)
            assert len(window) == count, label
            assert window.oldest == (None if first is None else self.elements[first].time), label


def machine(machine: Any, share: float, steps: int = 30) -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        machine,
        settings=settings(
            max_examples=examples(share),
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_each_field_is_as_recomputed() -> None:
    machine(Frames, 100)


def test_each_field_is_as_recomputed_in_memory_as_a_store() -> None:
    with open_store("memory:") as store:
        machine(lambda: Frames(store), 80)


def test_each_field_is_as_recomputed_in_rocksdb(tmp_path: Path) -> None:
    with open_store(f"rocksdb://{tmp_path}/db") as store:
        machine(lambda: Frames(store), 15)


@pytest.mark.redis
def test_each_field_is_as_recomputed_in_redis(redis_url: str) -> None:
    with open_store(redis_url) as store:
        machine(lambda: Frames(store), 15)


@pytest.mark.couchbase
def test_each_field_is_as_recomputed_in_couchbase(couchbase_url: str) -> None:
    with open_store(couchbase_url) as store:
        machine(lambda: Frames(store, (2, None)), 8)
