"""Any algorithm runs where another one did: only the name changes."""

import copy
import pickle

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


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda algorithm: algorithm.__name__)
def test_what_a_window_is_made_of_stays(algorithm):
    window = algorithm(monoids.Sum(), policies.CountWindow(2))
    window.extend(VALUES)
    with pytest.raises(AttributeError):
        window.policy = policies.CountWindow(9)
    with pytest.raises(AttributeError):
        window.monoid = monoids.Max()
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="neither copied nor pickled"):
            copied(window)
    assert window.push(1) == VALUES[-1] + 1


BAD = {
    "value": lambda w: w.insert("4", 99),
    "no value": lambda w: w.push(None, 99),
    "NaN": lambda w: w.insert(float("nan"), 99),
    "value beyond 64 bits": lambda w: w.push(2**63, 99),
    "time going back": lambda w: w.insert(1, 3),
    "no time": lambda w: w.push(1),
    "time of a wrong type": lambda w: w.insert(1, "5"),
    "time NaN": lambda w: w.push(1, float("nan")),
    "evict too many": lambda w: w.evict(100),
    "evict negative": lambda w: w.evict(-1),
    "evict a real number": lambda w: w.evict(1.0),
    "evict a truth": lambda w: w.evict(True),
    "evict nothing said": lambda w: w.evict(None),
    "evict_until nothing said": lambda w: w.evict_until(None),
    "evict_until NaN": lambda w: w.evict_until(float("nan")),
    "batch with a bad row": lambda w: w.slide([1, "x"], [99, 100]),
    "batch with a bad time": lambda w: w.extend([1, 2], [99, None]),
    "batch going back": lambda w: w.slide([1, 2], [100, 99]),
    "batch before the window": lambda w: w.extend([1], [3]),
    "batch with fewer times": lambda w: w.extend([1, 2], [99]),
    "batch that is no batch": lambda w: w.slide(3, [99]),
    "batch without times": lambda w: w.extend([1, 2]),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_alike_and_changes_nothing(case):
    raised = {}
    for algorithm in ALGORITHMS:
        window = algorithm(monoids.Sum(), policies.TimeWindow(10))
        window.extend([5, 6, 7], [20, 21, 22])
        with pytest.raises(Exception) as failure:  # noqa: PT011
            BAD[case](window)
        raised[algorithm.__name__] = failure.type
        assert (len(window), window.query(), window.oldest, window.youngest) == (3, 18, 20, 22)
        assert window.push(1, 31) == 8
    assert len(set(raised.values())) == 1, raised
