"""How often each algorithm combines: the bounds that make it worth having."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from mta import AmortizedMTA, LogMTA, monoids
from mta.policies import CountWindow, OlderThanLongestRun, OlderThanMaximum, SumWindow, TimeWindow, While

#: a push of Log MTA combines at most LOG · log2(n) times, on average
LOG = 2.0

#: a push of Amortized MTA combines at most so often, on average, whatever n is
CONSTANT = 5.0


class Counter:
    """Addition that counts its calls."""

    def __init__(self) -> None:
        self.calls = 0
        self.monoid = monoids.from_function(self.combine, 0)

    def combine(self, older: int, younger: int) -> int:
        self.calls += 1
        return older + younger

    def during(self, operation: Callable[[], Any]) -> int:
        before = self.calls
        operation()
        return self.calls - before


def average(kind: Any, n: int, policy: Any, page_size: int | None, pushes: int) -> tuple[float, int]:
    """Combines a push, on average and at most, in a window of n elements that slides on by `pushes`."""
    counter = Counter()
    window = kind(counter.monoid, policy, page_size=page_size)
    window.extend([1] * n, range(n))
    start = counter.calls
    most = 0
    for time in range(n, n + pushes):
        before = counter.calls
        result = window.push(1, time)
        most = max(most, counter.calls - before)
    assert result == len(window) == n
    return (counter.calls - start) / pushes, most


@pytest.mark.parametrize("page_size", [2, 4, 64, None])
@pytest.mark.parametrize("policy", [CountWindow, TimeWindow])
@pytest.mark.parametrize("n", [1 << 10, 1 << 13, 3000])
def test_amortized_is_constant(n: int, policy: Any, page_size: int | None) -> None:
    mean, _ = average(AmortizedMTA, n, policy(n), page_size, 3 * n)
    assert mean <= CONSTANT


@pytest.mark.parametrize("page_size", [2, None])
def test_amortized_is_flat(page_size: int | None) -> None:
    means = [
        average(AmortizedMTA, n, CountWindow(n), page_size, 2 * n)[0] for n in (1 << 10, 1 << 12, 1 << 15)
    ]
    assert max(means) <= CONSTANT
    assert max(means[1:]) <= means[0] + 0.1


def test_amortized_is_flat_up_to_a_million() -> None:
    n = 1 << 20
    mean, _ = average(AmortizedMTA, n, CountWindow(n), None, n)
    assert mean <= CONSTANT


@pytest.mark.parametrize("page_size", [2, 4, 64, None])
@pytest.mark.parametrize("policy", [CountWindow, TimeWindow])
@pytest.mark.parametrize("n", [1 << 10, 3000])
def test_log_is_logarithmic(n: int, policy: Any, page_size: int | None) -> None:
    mean, most = average(LogMTA, n, policy(n), page_size, 2 * n)
    assert mean <= LOG * math.log2(n)
    # a page is folded when it is full, and the levels inside it are made when the head enters it
    size = page_size or 1024
    assert most <= LOG * math.log2(n) + 2 * size * math.ceil(math.log(n, size))


@pytest.mark.parametrize("kind", [LogMTA, AmortizedMTA])
@pytest.mark.parametrize("page_size", [2, 4, None])
@pytest.mark.parametrize("n", [1 << 12, 5000])
def test_bulk_eviction(kind: Any, page_size: int | None, n: int) -> None:
    """Whatever is evicted at once: a page of combines a tier."""
    size = page_size or 1024
    tiers = math.ceil(math.log(n, size))
    for k in (1, 2, 3, size - 1, size, size + 1, n // 2, n - size - 1, n - 2, n - 1):
        counter = Counter()
        window = kind(counter.monoid, page_size=page_size)
        window.extend([1] * n)
        assert counter.during(lambda window=window, k=k: window.evict(k)) <= tiers * 2 * size
        counter.calls = 0
        assert window.query() == n - k
        assert counter.calls <= (1 if kind is AmortizedMTA else LOG * math.log2(n) + 2 * size * tiers)


@pytest.mark.parametrize("page_size", [2, 4, None])
def test_insertion_alone(page_size: int | None) -> None:
    """One for R1, and one for the forest."""
    counter = Counter()
    window = AmortizedMTA(counter.monoid, page_size=page_size)
    assert counter.during(lambda: [window.insert(1) for _ in range(10_000)]) <= 2 * 10_000
    assert counter.during(window.query) <= 1
    assert counter.during(window.query) <= 1


@pytest.mark.parametrize("page_size", [2, 4, None])
def test_growing_and_shrinking_at_random_is_constant_too(page_size: int | None) -> None:
    counter = Counter()
    window = AmortizedMTA(counter.monoid, page_size=page_size)
    operations = 0
    for burst in range(60):
        for _ in range(37 * (1 + burst % 7)):
            window.insert(1)
            operations += 1
        for _ in range(min(len(window), 41 * (1 + burst % 5))):
            window.evict()
            operations += 1
        assert window.query() == len(window)
    assert counter.calls <= CONSTANT * operations


@pytest.mark.parametrize("kind", [LogMTA, AmortizedMTA])
@pytest.mark.parametrize("page_size", [2, 4, None])
def test_slide_is_constant_a_row(kind: Any, page_size: int | None) -> None:
    counter = Counter()
    n = 1 << 13
    window = kind(counter.monoid, CountWindow(n), page_size=page_size)
    window.extend([1] * n)
    assert counter.during(lambda: window.slide([1] * 2 * n)) <= 8 * 2 * n


@pytest.mark.parametrize("kind", [LogMTA, AmortizedMTA])
@pytest.mark.parametrize("page_size", [2, 4, None])
def test_range_query_is_logarithmic(kind: Any, page_size: int | None) -> None:
    n = 1 << 12
    counter = Counter()
    window = kind(counter.monoid, page_size=page_size)
    window.extend([1] * n)
    for t0, t1 in ((0, n - 1), (1, n - 2), (5, 6), (n // 2 - 1, n // 2), (1000, 3000)):
        calls = counter.during(lambda t0=t0, t1=t1: window.range_query(t0, t1))
        assert calls <= 2 * (page_size or 1024) * math.ceil(math.log(n, page_size or 1024))


def remaining(most: int) -> While:
    """The paper's listing 3, over sums of ones."""
    return While(lambda total, old: total - old >= most, name=f"the last {most}")


@pytest.mark.parametrize("page_size", [2, 4, 64, None])
@pytest.mark.parametrize("n", [1 << 10, 1 << 13, 3000])
def test_amortized_is_constant_under_a_predicate(n: int, page_size: int | None) -> None:
    """Two more than under a limit: the window with the element, and the two oldest elements.

    Where a page ends the forest is searched, which is every other push where two make a page.
    """
    mean, _ = average(AmortizedMTA, n, remaining(n), page_size, 3 * n)
    assert mean <= CONSTANT + (5 if page_size in (2, 4) else 2.1)


@pytest.mark.parametrize("page_size", [2, 4, 64, 1024])
@pytest.mark.parametrize("n", [1 << 10, 1 << 13, 3000])
def test_a_window_by_its_sum_is_constant(n: int, page_size: int) -> None:
    """One for R1, two for what the next evictions leave, one for the total, one for the forest.

    Where a page ends the forest is searched, which is every other push in pages of two.
    """
    counter = Counter()
    window = AmortizedMTA(counter.monoid, SumWindow(n), page_size=page_size)
    window.extend([1] * n)
    window.push(1)
    calls = counter.during(lambda: [window.push(1) for _ in range(3 * n)])
    assert len(window) == n
    most = 2 * math.log2(n) if page_size < 64 else 5
    assert calls <= (CONSTANT + most) * 3 * n


@pytest.mark.parametrize("page_size", [2, 4, 64, 1024])
@pytest.mark.parametrize("n", [1 << 10, 3000])
def test_a_log_window_by_its_sum_is_logarithmic(n: int, page_size: int) -> None:
    counter = Counter()
    window = LogMTA(counter.monoid, SumWindow(n), page_size=page_size)
    window.extend([1] * n)
    window.push(1)
    calls = counter.during(lambda: [window.push(1) for _ in range(2 * n)])
    assert len(window) == n
    assert calls <= 2 * LOG * math.log2(n) * 2 * n + 2 * page_size * math.ceil(math.log(n, page_size))


@pytest.mark.parametrize("page_size", [2, 4, None])
@pytest.mark.parametrize("n", [1 << 10, 3000])
def test_log_is_logarithmic_under_a_predicate(n: int, page_size: int | None) -> None:
    mean, _ = average(LogMTA, n, remaining(n), page_size, 2 * n)
    assert mean <= LOG * math.log2(n) + 2


@pytest.mark.parametrize("kind", [LogMTA, AmortizedMTA])
@pytest.mark.parametrize("page_size", [2, 4, None])
def test_a_predicate_that_lets_nothing_go(kind: Any, page_size: int | None) -> None:
    """One combine for the total, one for R1 or the forest each, whatever is in the window."""
    counter = Counter()
    window = kind(counter.monoid, While(lambda *_: False, name="never"), page_size=page_size)
    window.extend([1] * 3000)
    window.query()
    assert counter.during(lambda: [window.push(1) for _ in range(3000)]) <= 3.1 * 3000


@pytest.mark.parametrize("page_size", [2, 4, None])
@pytest.mark.parametrize("n", [1 << 10, 1 << 13])
def test_bulk_eviction_by_predicate(n: int, page_size: int | None) -> None:
    """What is searched, in pages of two log2(n) nodes up and down, and what the stack is rebuilt from."""
    size = page_size or 1024
    tiers = math.ceil(math.log(n, size))
    for k in (1, 2, n // 2, n - 3, n - 1):
        counter, most = Counter(), [n + 1]
        policy = While(lambda total, old, most=most: total - old >= most[0], name="most")
        window = AmortizedMTA(counter.monoid, policy, page_size=page_size)
        window.extend([1] * n)
        window.query()
        most[0] = n - k
        assert counter.during(window.enforce) <= 5 * size * tiers
        assert window.query() == n - k


@pytest.mark.parametrize("kind", [LogMTA, AmortizedMTA])
@pytest.mark.parametrize("page_size", [2, 4, None])
def test_a_repeated_query_combines_nothing(kind: Any, page_size: int | None) -> None:
    """Section 5.2 of the paper: a result is kept until the window changes."""
    counter = Counter()
    window = kind(counter.monoid, CountWindow(2500), page_size=page_size)
    window.extend([1] * 2000)
    for change in (
        lambda: window.insert(1),
        window.evict,
        lambda: window.evict(100),
        lambda: window.push(1),
        lambda: window.extend([1] * 100),
        lambda: window.slide([1] * 10),
        lambda: window.slide([1] * 2000),
        lambda: window.evict(len(window)),
        lambda: window.insert(1),
    ):
        change()
        expected = len(window)
        assert window.query() == expected
        assert counter.during(lambda: [window.query() for _ in range(3)]) == 0
        window.range_query(0, 5)
        assert counter.during(window.enforce) == counter.during(window.query) == 0


@pytest.mark.parametrize("page_size", [2, 4, None])
def test_a_query_of_a_log_window_that_grows_is_constant(page_size: int | None) -> None:
    """One combine for the root, and amortised one for the forest; none for the query."""
    counter = Counter()
    window = LogMTA(counter.monoid, page_size=page_size)
    window.extend([1] * 1000)
    window.evict(7)
    window.query()
    calls = 0
    before = counter.calls
    for _ in range(5000):
        window.insert(1)
        calls += counter.during(window.query)
    assert calls == 0
    assert counter.calls - before <= 2 * 5000 + (page_size or 1024)


def test_the_policy_of_the_longest_run_asks_little() -> None:
    """A run in the middle stays the longest, and nothing goes: three combines a push."""
    counted = 0

    class Runs(monoids.LongestIncreasingRun):
        def combine(self, older: Any, younger: Any) -> Any:
            nonlocal counted
            counted += 1
            return super().combine(older, younger)

    for page_size in (2, 64, None):
        window = AmortizedMTA(Runs(), OlderThanLongestRun(), page_size=page_size)
        for value in range(100):
            window.push(value)
        counted = 0
        for value in range(5000):
            window.push(-value)
        assert counted <= 3.1 * 5000
        assert len(window) == 5100


@pytest.mark.parametrize("kind", [LogMTA, AmortizedMTA])
def test_a_predicate_is_asked_once_where_nothing_goes_and_twice_where_one_does(kind: Any) -> None:
    asked = 0

    def too_many(total: int, old: int) -> bool:
        nonlocal asked
        asked += 1
        return total - old >= 2000

    window = kind(monoids.Count(), While(too_many, name="too many"), page_size=1024)
    for pushes, most in ((2000, 1.01), (5000, 2.1)):
        asked = 0
        for _ in range(pushes):
            window.push(1)
        assert asked <= most * pushes
    assert len(window) == 2000


@pytest.mark.parametrize("kind", [LogMTA, AmortizedMTA])
def test_a_search_makes_no_columns_of_the_rest_of_a_page_that_is_not_full(kind: Any) -> None:
    gathered = searches = 0
    window = kind(monoids.Max(), CountWindow(3000) | OlderThanMaximum(), page_size=1024)
    layout = window._view.layout
    gather = layout.gather_rows

    def counting(rows: list[Any]) -> Any:
        nonlocal gathered
        gathered += len(rows)
        return gather(rows)

    layout.gather_rows = counting
    pushes = 10_000
    for number in range(pushes):
        before = len(window)
        window.push(-number - (number % 60) ** 2)
        searches += before - len(window) > 16
    assert searches > 100
    assert gathered <= 2 * pushes


@pytest.mark.parametrize("kind", [LogMTA, AmortizedMTA])
@pytest.mark.parametrize("page_size", [2, 4, None])
@pytest.mark.parametrize("rows", [1, 10, 600])
def test_a_query_after_a_batch_combines_nothing(kind: Any, page_size: int | None, rows: int) -> None:
    """The last row's result is that of the window."""
    counter = Counter()
    window = kind(counter.monoid, CountWindow(1000), page_size=page_size)
    window.extend([1] * 1000)
    last = window.slide([2] * rows)[-1]
    assert counter.during(window.query) == 0
    assert window.query() == last
