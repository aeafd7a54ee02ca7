"""The longest increasing run, by brute force."""

import random

import pytest
from chance import seeds

from mta.monoids import LongestIncreasingRun, LongestRun
from mta.monoids.laws import fold, running


def brute(values):
    best = (0, 0)
    start = 0
    for i in range(len(values)):
        if i and not values[i - 1] < values[i]:
            start = i
        if i - start + 1 > best[1]:
            best = (start, i - start + 1)
    return best


def test_example():
    run = LongestIncreasingRun()
    state = fold(run, [run.lift(value) for value in [5, 1, 2, 2, 3, 4, 1, 2, 3]])
    assert run.lower(state) == LongestRun(start=3, end=5, interval=2, count=3)
    timed = LongestIncreasingRun("mem", time="ts")
    rows = [{"mem": value, "ts": 10 * i} for i, value in enumerate([5, 1, 2, 2, 3, 4, 1, 2, 3])]
    assert timed.lower(fold(timed, [timed.lift(row) for row in rows])) == LongestRun(30, 50, 20, 3)
    assert run.lower(run.lift(9)) == LongestRun(0, 0, 0, 1)


@pytest.mark.parametrize("seed", seeds(20))
@pytest.mark.parametrize("timed", [False, True])
def test_against_brute_force(seed, timed):
    rng = random.Random(seed)
    run = LongestIncreasingRun()
    values = [rng.randrange(6) for _ in range(40)]
    times = sorted(rng.randrange(100) for _ in values)
    elements = list(zip(times, values, strict=True)) if timed else values
    states = [run.lift(element) for element in elements]
    for start in range(0, 40, 7):
        for stop in range(start + 1, 41):
            at, count = brute(values[start:stop])
            first, last = (
                (times[start + at], times[start + at + count - 1]) if timed else (at, at + count - 1)
            )
            expected = LongestRun(first, last, last - first, count)
            assert run.lower(fold(run, states[start:stop])) == expected


@pytest.mark.parametrize("timed", [False, True])
def test_starts_after_is_monotone_and_exact(timed):
    rng = random.Random(7)
    run = LongestIncreasingRun()
    for _ in range(50):
        values = [rng.randrange(8) for _ in range(30)]
        states = [run.lift((i // 3, value) if timed else value) for i, value in enumerate(values)]
        total = fold(run, states)
        at, _ = brute(values)
        evicted = [LongestIncreasingRun.starts_after(total, old) for old in running(run, states)]
        assert evicted == [i + 1 <= at for i in range(30)]


def test_nothing_never_starts():
    run = LongestIncreasingRun()
    assert not LongestIncreasingRun.starts_after(run.identity, run.identity)


@pytest.mark.parametrize("index", [1, 2, 7, 8, 9, 10])
def test_states_with_something_missing_are_refused(index):
    """As a damaged page may have them: they cannot be combined with any other."""
    run = LongestIncreasingRun()
    state = run.combine(run.lift((10, 1.5)), run.lift((20, 2.5)))
    assert run.unpack(state) == state
    assert run.unpack(run.identity) == run.identity
    assert run.unpack(run.lift(3)) == run.lift(3)
    with pytest.raises(TypeError, match="takes an int or a float, got None"):
        run.unpack((*state[:index], None, *state[index + 1 :]))
