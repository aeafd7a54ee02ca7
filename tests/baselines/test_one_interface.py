"""Any algorithm runs where another one did: only the name changes."""

import pytest

from mta import AmortizedMTA, LogMTA, baselines, monoids, policies

NAMES = (
    "Recalculate",
    "SubtractOnEvict",
    "TwoStacks",
    "FunctionalOkasaki",
    "ImperativeOkasaki",
    "DABA",
    "ReactiveAggregator",
    "BaseIntervals",
)
ALGORITHMS = [getattr(baselines, name) for name in NAMES] + [AmortizedMTA, LogMTA]
VALUES = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda algorithm: algorithm.__name__)
@pytest.mark.parametrize("monoid", [monoids.Sum(), monoids.Count(), monoids.Mean()], ids=repr)
def test_by_swapping_one_name(algorithm, monoid):
    window = algorithm(monoid, policy=policies.TimeWindow(4) | policies.CountWindow(3))
    results = [window.push(value, time=2 * time) for time, value in enumerate(VALUES)]
    assert results == [monoid.lower(fold(monoid, VALUES[max(0, i - 1) : i + 1])) for i in range(len(VALUES))]
    window.insert(10, time=21)
    window.evict()
    assert len(window) == 2
    assert window.query() == monoid.lower(fold(monoid, [VALUES[-1], 10]))


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda algorithm: algorithm.__name__)
def test_only_subtraction_needs_an_inverse(algorithm):
    if algorithm is baselines.SubtractOnEvict:
        with pytest.raises(TypeError, match=r"Max\(\) is not invertible"):
            algorithm(monoids.Max())
    else:
        window = algorithm(monoids.Max())
        assert [window.push(value) for value in VALUES] == [3, 3, 4, 4, 5, 9, 9, 9, 9, 9, 9]


def fold(monoid, values):
    state = monoid.identity
    for value in values:
        state = monoid.combine(state, monoid.lift(value))
    return state
