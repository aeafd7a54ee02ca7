"""All algorithms at once against recomputation from the definition."""

from __future__ import annotations

import random
from typing import Any

import pytest
from baselines.tiny import ALGORITHMS, ArgMax, Brittle, Concat, Matrices, fold
from chance import examples, seeds
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mta.baselines import DABA, FunctionalOkasaki, ImperativeOkasaki, ReactiveAggregator, SubtractOnEvict
from mta.errors import EmptyWindowError, MissingTime, OutOfOrderError
from mta.monoids.base import Monoid
from mta.policies import CountWindow, Policy, TimeWindow, While

#: a monoid, an element out of a whole number, a monotone predicate
SUBJECTS = {
    "concat": (Concat, lambda i: i, lambda total, old: total.count(".") - old.count(".") >= 5),
    "argmax": (ArgMax, lambda i: {"key": i % 5, "label": i}, lambda total, old: total[0] > old[0]),
    "matrices": (Matrices, lambda i: i, lambda total, old: total[4] - old[4] >= 6),
}

NUMBERS = st.integers(0, 342)
STEPS = st.integers(0, 3)


def policies_for(predicate: Any) -> st.SearchStrategy[Policy | None]:
    single = st.one_of(
        st.integers(1, 12).map(CountWindow),
        st.integers(1, 12).map(TimeWindow),
        st.integers(0, 12).map(lambda d: TimeWindow(d, closed="both")),
        st.just(While(predicate)),
    )
    union = st.lists(single, min_size=2, max_size=3).map(lambda some: some[0] | some[1] | some[-1])
    return st.one_of(st.none(), single, union)


class Definition:
    """A window as the definitions have it: a list, all of it folded when asked."""

    def __init__(self, monoid: Monoid, policy: Policy | None) -> None:
        self.monoid, self.policy = monoid, policy
        self.held: list[tuple[Any, Any]] = []
        self.inserted = self.last = 0

    def insert(self, value: Any, time: Any) -> None:
        self.last = self.inserted if time is None else time
        self.held.append((self.monoid.lift_row(self.monoid.row(value)), self.last))
        self.inserted += 1

    def enforce(self) -> int:
        if self.policy is None or not self.held:
            return 0
        limits = self.policy.limits()
        states = [state for state, _ in self.held]
        total, youngest = fold(self.monoid, states), self.held[-1][1]
        cut = 0
        while cut < len(states) and (
            (limits.count is not None and len(states) - cut > limits.count)
            or (limits.open_span is not None and self.held[cut][1] <= youngest - limits.open_span)
            or (limits.closed_span is not None and self.held[cut][1] < youngest - limits.closed_span)
            or limits.rejects(total, fold(self.monoid, states[: cut + 1]))
        ):
            cut += 1
        del self.held[:cut]
        return cut

    def query(self) -> Any:
        return self.monoid.lower(fold(self.monoid, [state for state, _ in self.held]))


class Windows(RuleBasedStateMachine):
    @initialize(name=st.sampled_from(sorted(SUBJECTS)), data=st.data())
    def start(self, name: str, data: Any) -> None:
        kind, self.element, predicate = SUBJECTS[name]
        policy = data.draw(policies_for(predicate))
        self.model = Definition(kind(), policy)
        self.windows = {label: make(kind(), policy) for label, make in ALGORITHMS.items()}
        if kind is Matrices:
            self.windows["SubtractOnEvict"] = SubtractOnEvict(kind(), policy)
        timed = policy is not None and policy.limits().spans()
        self.counted = not timed and data.draw(st.booleans())

    def next_time(self, step: int) -> int | None:
        return None if self.counted else self.model.last + step

    @rule(i=NUMBERS, step=STEPS)
    def insert(self, i: int, step: int) -> None:
        time = self.next_time(step)
        self.model.insert(self.element(i), time)
        for window in self.windows.values():
            window.insert(self.element(i), time)

    @rule(i=NUMBERS, step=STEPS)
    def push(self, i: int, step: int) -> None:
        time = self.next_time(step)
        self.model.insert(self.element(i), time)
        self.model.enforce()
        for label, window in self.windows.items():
            assert window.push(self.element(i), time) == self.model.query(), label

    @rule(k=st.integers(0, 4))
    def evict(self, k: int) -> None:
        if k > len(self.model.held):
            for window in self.windows.values():
                with pytest.raises(EmptyWindowError, match=f"{k} .* {len(self.model.held)}"):
                    window.evict(k)
        else:
            del self.model.held[:k]
            for window in self.windows.values():
                window.evict(k)

    @precondition(lambda self: self.model.held)
    @rule()
    def evict_one(self) -> None:
        del self.model.held[0]
        for window in self.windows.values():
            window.evict()

    @precondition(lambda self: self.model.held)
    @rule(data=st.data())
    def evict_until(self, data: Any) -> None:
        times = [time for _, time in self.model.held]
        bound = data.draw(st.integers(times[0] - 1, times[-1]))
        self.model.held = [(state, time) for state, time in self.model.held if time > bound]
        for label, window in self.windows.items():
            assert window.evict_until(bound) == len(times) - len(self.model.held), label

    @rule()
    def enforce(self) -> None:
        evicted = self.model.enforce()
        for label, window in self.windows.items():
            assert window.enforce() == evicted, label

    @rule(batch=st.lists(st.tuples(NUMBERS, STEPS), max_size=20))
    def extend(self, batch: list[tuple[int, int]]) -> None:
        times = []
        for i, step in batch:
            times.append(self.next_time(step))
            self.model.insert(self.element(i), times[-1])
        self.model.enforce()
        for window in self.windows.values():
            window.extend(self.columns(batch), None if self.counted else times)

    @rule(batch=st.lists(st.tuples(NUMBERS, STEPS), max_size=20))
    def slide(self, batch: list[tuple[int, int]]) -> None:
        times, results = [], []
        for i, step in batch:
            times.append(self.next_time(step))
            self.model.insert(self.element(i), times[-1])
            self.model.enforce()
            results.append(self.model.query())
        for label, window in self.windows.items():
            found = window.slide(self.columns(batch), None if self.counted else times)
            assert found.tolist() == results, label

    def columns(self, batch: list[tuple[int, int]]) -> Any:
        rows = [self.element(i) for i, _ in batch]
        if not self.model.monoid.fields:
            return rows
        return {field: [row[field] for row in rows] for field in self.model.monoid.fields}

    @precondition(lambda self: self.model.inserted and not self.counted)
    @rule(i=NUMBERS)
    def refuse_the_past(self, i: int) -> None:
        last = self.model.last
        for window in self.windows.values():
            with pytest.raises(OutOfOrderError, match=rf"time {last - 1} is before {last}\b"):
                window.push(self.element(i), last - 1)

    @precondition(lambda self: self.model.inserted)
    @rule(i=NUMBERS)
    def refuse_times_of_the_other_kind(self, i: int) -> None:
        time = self.model.last + 1 if self.counted else None
        for window in self.windows.values():
            with pytest.raises(MissingTime):
                window.push(self.element(i), time)
            with pytest.raises(MissingTime):
                window.slide(self.columns([(i, 0)]), None if time is None else [time])

    @invariant()
    def all_agree(self) -> None:
        expected = self.model.query()
        for label, window in self.windows.items():
            assert window.query() == expected, label
            assert len(window) == len(self.model.held), label
            assert window.oldest == (self.model.held[0][1] if self.model.held else None), label
            assert window.youngest == (self.model.held[-1][1] if self.model.held else None), label

    @invariant()
    def papers_invariants(self) -> None:
        check_daba(self.windows["DABA"])
        check_daba(self.windows["DABA(cached)"])
        check_okasaki(self.windows["FunctionalOkasaki"])
        check_okasaki(self.windows["ImperativeOkasaki"])


def check_daba(window: DABA) -> None:
    """The size invariants (lemma 4.1) and the aggs invariants (section 4.2)."""
    f, l_, r, a, b, e = window.pointers.values()
    assert 0 == f <= l_ <= r <= a <= b <= e == len(window)
    assert e == 0 or (l_ - f >= 1 and r - l_ == a - r and (r - l_) + (a - r) + (b - a) + 1 == b - (e - b))
    vals, aggs = list(window.vals), list(window.aggs)
    for p in range(e):
        span = (
            vals[p:b] if p < l_ else vals[p:r] if p < r else vals[r : p + 1] if p < a else vals[p:b]
        ) or vals[b : p + 1]
        assert aggs[p] == fold(window.monoid, span)


def check_okasaki(window: Any) -> None:
    """Okasaki's invariant: |B| <= |F| and |N| = |F| - |B|, and at most one suspension, in F (lemma 3.1)."""
    if isinstance(window, FunctionalOkasaki):
        front, waiting, back = window.queue
    else:
        front, waiting, back = window.front, window.next, window.back
    behind = length(back)
    ahead, rotating = len(window) - behind, 0 if waiting is None else distance(front, waiting)
    assert behind <= ahead
    assert (waiting is None) == (ahead == behind)
    if waiting is not None:
        assert ahead - rotating == ahead - behind


def forced_tail(cell: Any) -> Any:
    """The tail of a cell, or None where it is suspended."""
    if isinstance(cell, tuple):
        rest = cell[2]
        return rest if rest is None or isinstance(rest, tuple) else rest._list if rest.forced else None
    return None if cell.tail is None or cell.tail.delayed else cell.tail


def length(cell: Any) -> int:
    steps = 0
    while cell is not None:
        cell = forced_tail(cell)
        steps += 1
    return steps


def distance(cell: Any, other: Any) -> int:
    steps = 0
    while cell is not other:
        cell = forced_tail(cell)
        assert cell is not None
        steps += 1
    return steps


TestWindows = Windows.TestCase
TestWindows.settings = settings(max_examples=examples(80), stateful_step_count=50)


class OutOfTurn(RuleBasedStateMachine):
    """ReactiveAggregator with evictions anywhere."""

    @initialize(policy=policies_for(SUBJECTS["concat"][2]))
    def start(self, policy: Policy | None) -> None:
        self.window = ReactiveAggregator(Concat(), policy)
        self.model = Definition(Concat(), policy)
        self.handles: list[int] = []
        self.gone: list[int] = []

    @rule(i=NUMBERS, step=STEPS)
    def insert(self, i: int, step: int) -> None:
        time = self.model.last + step
        self.model.insert(i, time)
        self.handles.append(self.window.insert(i, time))

    @rule(batch=st.lists(NUMBERS, min_size=4, max_size=24))
    def insert_many(self, batch: list[int]) -> None:
        for i in batch:
            self.insert(i, 0)

    @precondition(lambda self: self.handles)
    @rule(data=st.data())
    def evict_anywhere(self, data: Any) -> None:
        index = data.draw(st.integers(0, len(self.handles) - 1))
        self.gone.append(self.handles.pop(index))
        del self.model.held[index]
        self.window.evict_handle(self.gone[-1])

    @precondition(lambda self: len(self.handles) > 6)
    @rule(data=st.data())
    def evict_most(self, data: Any) -> None:
        kept = set(data.draw(st.lists(st.sampled_from(self.handles), max_size=6)))
        for index in range(len(self.handles) - 1, -1, -1):
            if self.handles[index] not in kept:
                self.window.evict_handle(self.handles[index])
                self.gone.append(self.handles.pop(index))
                del self.model.held[index]

    @precondition(lambda self: self.gone)
    @rule(data=st.data())
    def refuse_what_has_left(self, data: Any) -> None:
        handle = data.draw(st.sampled_from(self.gone))
        with pytest.raises(KeyError, match=f"handle {handle}"):
            self.window.evict_handle(handle)

    @rule(k=st.integers(0, 5))
    def evict(self, k: int) -> None:
        k = min(k, len(self.handles))
        self.window.evict(k)
        self.leave(k)

    @rule()
    def enforce(self) -> None:
        evicted = self.model.enforce()
        assert self.window.enforce() == evicted
        self.gone += self.handles[:evicted]
        del self.handles[:evicted]

    def leave(self, k: int) -> None:
        self.gone += self.handles[:k]
        del self.handles[:k], self.model.held[:k]

    @rule()
    def query(self) -> None:
        assert self.window.query() == self.model.query()

    @invariant()
    def agree(self) -> None:
        assert len(self.window) == len(self.model.held)
        assert self.window.oldest == (self.model.held[0][1] if self.model.held else None)
        assert self.window.youngest == (self.model.held[-1][1] if self.model.held else None)
        assert self.window.capacity <= max(4, 4 * len(self.window))


TestOutOfTurn = OutOfTurn.TestCase
TestOutOfTurn.settings = settings(max_examples=examples(80), stateful_step_count=50)


@pytest.mark.parametrize("label", [*ALGORITHMS, "SubtractOnEvict"])
@pytest.mark.parametrize("seed", seeds(3))
def test_long_windows_that_grow_and_shrink(label: str, seed: int) -> None:
    """Over many chunks, against a prefix product: the window from i on is inverse(prefix i) ⊕ all."""
    chance = random.Random(seed)
    monoid = Matrices()
    window = ALGORITHMS.get(label, SubtractOnEvict)(monoid, None)
    prefixes = [monoid.identity]
    head = 0
    while len(prefixes) < (2000 if label == "Recalculate" else 9000):
        for _ in range(chance.choice([1, 40, 700])):
            value = chance.randrange(343)
            window.insert(value)
            prefixes.append(monoid.combine(prefixes[-1], monoid.lift(value)))
        for _ in range(min(len(window), chance.choice([1, 30, 500, 10**6]))):
            window.evict()
            head += 1
            if chance.random() < 0.1:
                assert window.query() == monoid.combine(monoid.inverse(prefixes[head]), prefixes[-1])
        assert window.query() == monoid.combine(monoid.inverse(prefixes[head]), prefixes[-1])
        assert len(window) == len(prefixes) - 1 - head
        if isinstance(window, DABA):
            assert len(window.vals.chunks) == len(window.aggs.chunks) <= len(window) // 256 + 2


@pytest.mark.parametrize("label", ALGORITHMS)
@pytest.mark.parametrize("chunk_boundary", [False, True])
def test_an_operator_that_fails_leaves_the_window_as_it_was(label: str, chunk_boundary: bool) -> None:
    chance = random.Random(label)
    monoid = Brittle()
    window = ALGORITHMS[label](monoid, None)
    held: list[int] = []
    if chunk_boundary:
        for _ in range(250):
            window.insert(0)
        window.evict(248)
        held = [0, 0]
    failures = 0
    for i in range(3000):
        monoid.fuse = chance.choice([-1, -1, 1, 2, 3, 4, 5])
        try:
            if len(held) < 3 or (len(held) < 30 and chance.random() < 0.52):
                window.insert(i)
                held.append(i)
            else:
                window.evict()
                del held[0]
        except OverflowError:
            failures += 1
        monoid.fuse = chance.choice([-1, 1])
        try:
            assert window.query() == f"<{''.join(f'{value}.' for value in held)}>"
        except OverflowError:
            monoid.fuse = -1
            assert window.query() == f"<{''.join(f'{value}.' for value in held)}>"
        assert len(window) == len(held)
        if isinstance(window, DABA):
            monoid.fuse = -1
            check_daba(window)
    assert failures > 100 or label in ("Recalculate", "ReactiveAggregator")


@pytest.mark.parametrize("make", [FunctionalOkasaki, ImperativeOkasaki])
def test_chains_of_cells_are_freed_without_recursion(make: Any) -> None:
    window = make(Matrices())
    for i in range(200_000):
        window.insert(i)
    window.evict(100_000)
    del window


def test_a_full_buffer_with_holes_is_compacted_and_one_without_grows() -> None:
    window = ReactiveAggregator(Concat())
    handles = [window.insert(i) for i in range(8)]
    for i in (2, 5):
        window.evict_handle(handles[i])
    handles.append(window.insert(8))  # six of eight slots in use: three quarters
    assert window.capacity == 8
    assert window.query() == "<0.1.3.4.6.7.8.>"
    handles.append(window.insert(9))
    window.evict_handle(handles[4])
    assert window.capacity == 8
    handles.append(window.insert(10))  # seven of eight
    assert window.capacity == 16
    for i in (0, 10, 7):
        window.evict_handle(handles[i])
    assert window.query() == "<1.3.6.8.9.>"
    assert (len(window), window.oldest, window.youngest) == (5, 1, 9)
