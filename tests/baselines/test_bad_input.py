"""What is refused, with which words, and that the window answers as before."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from baselines.tiny import ALGORITHMS, ArgMax, Baseline, Concat, Matrices, Max, SubtractOnEvict

from mta.baselines import DABA
from mta.errors import EmptyWindowError, MissingTime, OutOfOrderError
from mta.policies import CountWindow, TimeWindow

Refused = tuple[Callable[[Baseline], Any], type[Exception], str]

REFUSED: dict[str, Refused] = {
    "value of a wrong type": (lambda w: w.insert("4"), TypeError, "takes an int or a float, got '4'"),
    "value None": (lambda w: w.push(None), TypeError, "got None of type NoneType"),
    "value NaN": (lambda w: w.insert(math.nan), ValueError, "got NaN"),
    "value too large": (lambda w: w.insert(2**63), OverflowError, "does not fit in 64 bits"),
    "time going back": (
        lambda w: w.insert(1, 14),
        OutOfOrderError,
        "time 14 is before 15, the time of the you",
    ),
    "push going back": (lambda w: w.push(1, 14.5), OutOfOrderError, "time 14.5 is before 15"),
    "no time": (lambda w: w.insert(1), MissingTime, "policy of this window asks for times"),
    "batch without times": (lambda w: w.slide([1]), MissingTime, "policy of this window asks for times"),
    "time NaN": (
        lambda w: w.insert(1, math.nan),
        ValueError,
        "finite and fits in 64 bits, got nan",
    ),
    "time NaN of NumPy": (lambda w: w.push(1, np.float64("nan")), ValueError, "is finite .*, got nan"),
    "time infinite": (
        lambda w: w.insert(1, math.inf),
        ValueError,
        "finite and fits in 64 bits, got inf",
    ),
    "time a string": (
        lambda w: w.insert(1, "16"),
        TypeError,
        "a time is an int or a float, got '16' of type str",
    ),
    "time a bool": (lambda w: w.push(1, True), TypeError, "a time is an int or a float, got True"),
    "time too large": (lambda w: w.push(1, 2**63), ValueError, "fits in 64 bits, got 9223372036854775808"),
    "time too large, real": (lambda w: w.insert(1, 2.0**63), ValueError, "fits in 64 bits, got 9.22"),
    "time a fraction": (lambda w: w.insert(1, Fraction(33, 2)), TypeError, "a time is an int or a float"),
    "time a datetime": (
        lambda w: w.insert(1, datetime(2024, 1, 1)),
        TypeError,
        "so times are numbers too, got datetime",
    ),
    "time NaT": (lambda w: w.insert(1, np.datetime64("NaT")), ValueError, "a time is missing, got .*NaT"),
    "evict too many": (lambda w: w.evict(4), EmptyWindowError, r"cannot evict 4 .* a window that holds 3"),
    "evict negative": (lambda w: w.evict(-1), ValueError, "evict takes 0 or more elements, got -1"),
    "evict a float": (lambda w: w.evict(1.0), TypeError, "a whole number of elements, got 1.0 of type float"),
    "evict a bool": (lambda w: w.evict(True), TypeError, "a whole number of elements, got True"),
    "evict None": (lambda w: w.evict(None), TypeError, "a whole number of elements, got None"),
    "evict_until NaN": (lambda w: w.evict_until(math.nan), ValueError, "is finite .*, got nan"),
    "evict_until infinite": (lambda w: w.evict_until(math.inf), ValueError, "is finite .*, got inf"),
    "evict_until too large": (lambda w: w.evict_until(2**70), ValueError, "fits in 64 bits, got 1180591"),
    "batch with a large time": (lambda w: w.slide([1], [2**63]), ValueError, "^row 0: .*fits in 64 bits"),
    "batch with a large real": (
        lambda w: w.extend([1], np.array([2.0**63])),
        ValueError,
        "^row 0: .*fits in 64 bits",
    ),
    "evict_until None": (lambda w: w.evict_until(None), TypeError, "a time is an int or a float, got None"),
    "batch with a bad value": (lambda w: w.slide([1, 2, "x"], [15, 16, 17]), TypeError, "^row 2: .* got 'x'"),
    "batch with NaN": (lambda w: w.extend([1, math.nan], [15, 16]), ValueError, "^row 1: .* got NaN"),
    "batch too large": (lambda w: w.extend([2**63], [15]), OverflowError, "^row 0: .*64 bits"),
    "batch going back": (
        lambda w: w.extend([1, 2], [20, 19]),
        OutOfOrderError,
        "time 19 in row 1 is before 20",
    ),
    "batch before": (lambda w: w.slide([1], [14]), OutOfOrderError, "time 14 in row 0 is before 15"),
    "batch with a bad time": (
        lambda w: w.slide([1, 2], [15, None]),
        TypeError,
        "^row 1: a time is an int or a float",
    ),
    "batch with time NaN": (lambda w: w.extend([1], np.array([math.nan])), ValueError, "^row 0: .* got nan"),
    "too few times": (lambda w: w.slide([1, 2], [15]), ValueError, "2 rows, times of shape"),
    "too many times": (lambda w: w.extend([1], [15, 16]), ValueError, "1 rows, times of shape"),
    "times that are one time": (
        lambda w: w.extend([1], 15),
        TypeError,
        "sequence or an array of numbers or of dates, got 15",
    ),
    "batch that is one value": (lambda w: w.slide(1, [15]), TypeError, "use insert or push"),
    "batch that is a string": (lambda w: w.extend("12", [15, 16]), TypeError, "use insert or push"),
    "batch of names": (lambda w: w.extend({"x": [1]}, [15]), TypeError, "no named fields"),
}


def window_of_three(label: str) -> Baseline:
    policy = TimeWindow(100) | CountWindow(3)
    if label == "SubtractOnEvict":
        # Only refused calls use it: a maximum has no inverse.
        window: Baseline = SubtractOnEvict(Max(), policy, inverse=lambda state: state)
    else:
        window = ALGORITHMS[label](Max(), policy)
    window.extend([7, 5, 6], [10, 12, 15])
    return window


@pytest.mark.parametrize("label", [*ALGORITHMS, "SubtractOnEvict"])
@pytest.mark.parametrize("case", REFUSED)
def test_refused_and_unchanged(label: str, case: str) -> None:
    call, error, words = REFUSED[case]
    window = window_of_three(label)
    with pytest.raises(error, match=words):
        call(window)
    assert (window.query(), len(window), window.oldest, window.youngest) == (7, 3, 10, 15)
    if label != "SubtractOnEvict":
        assert [window.push(4, 15), window.push(2, 15), window.push(1, 15)] == [6, 6, 4]


@pytest.mark.parametrize("label", ALGORITHMS)
def test_numbers_of_other_kinds_are_times(label: str) -> None:
    window = ALGORITHMS[label](Max(), TimeWindow(2))
    for time in (np.int64(3), np.float32(3.5), np.float64(4.5), 5.25, 6):
        window.insert(1, time)
    assert [type(time) for time in window._times] == [int, float, float, float, int]
    window.enforce()
    assert (window.oldest, window.youngest) == (4.5, 6)
    assert window.evict_until(np.float64(5.25)) == 2
    assert window.evict_until(-(2**62)) == 0
    assert window.evict_until(2**62) == 1
    window.evict(np.int64(0))
    assert (len(window), window.oldest, window.youngest) == (0, None, None)
    assert window.query() == -math.inf
    assert window.enforce() == 0
    with pytest.raises(EmptyWindowError, match=r"cannot evict 1 element\(s\) from a window that holds 0"):
        window.evict()
    with pytest.raises(OutOfOrderError, match="time 1 is before 6, the time of the young"):
        window.insert(3, 1)  # which has left, but times go on
    window.insert(3, 6)
    assert window.query() == 3


@pytest.mark.parametrize("label", ALGORITHMS)
def test_times_count_insertions_by_default(label: str) -> None:
    window = ALGORITHMS[label](Concat(), None)
    window.insert(5)
    window.extend([6, 7])
    assert (window.oldest, window.youngest) == (0, 2)
    assert window.slide([8]).tolist() == ["<5.6.7.8.>"]
    assert window.push(9) == "<5.6.7.8.9.>"
    with pytest.raises(MissingTime, match=r"with a time cannot follow 5 element\(s\) without"):
        window.push(9, 6)
    window.evict(2)
    assert (window.oldest, window.youngest) == (2, 4)


@pytest.mark.parametrize("label", ALGORITHMS)
def test_batches(label: str) -> None:
    window = ALGORITHMS[label](Max(), CountWindow(2))
    results = window.slide(np.array([3, 1, 2, 0]), np.array([0.5, 0.5, 1.0, 7.0]))
    assert results.tolist() == [3, 3, 2, 2]
    assert results.dtype == np.int64
    assert window.slide([]).tolist() == []
    window.extend([])
    assert len(window) == 2
    named = ALGORITHMS[label](ArgMax(), CountWindow(2))
    assert named.slide({"key": np.array([1, 1, 0]), "label": ["a", "b", "c"]}).tolist() == ["a", "a", "b"]
    assert named.push({"key": 9, "label": "d"}) == "d"


@pytest.mark.parametrize("label", ALGORITHMS)
def test_bad_arguments_of_the_constructor(label: str) -> None:
    with pytest.raises(TypeError, match="takes a Monoid, got"):
        ALGORITHMS[label](max, None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="takes a Policy or None as its policy, got 5"):
        ALGORITHMS[label](Max(), 5)  # type: ignore[arg-type]


def test_subtracting_needs_an_inverse() -> None:
    with pytest.raises(TypeError, match=r"Max\(\) is not invertible"):
        SubtractOnEvict(Max())
    with pytest.raises(TypeError, match="is not invertible"):
        SubtractOnEvict(Max(), inverse=-1)  # type: ignore[arg-type]
    assert SubtractOnEvict(Matrices()).query() == Matrices.identity


def test_repr_tells_what_it_is() -> None:
    window = DABA(Max(), CountWindow(3))
    window.extend([1, 2])
    assert repr(window) == "<DABA Max() of 2 elements, policy CountWindow(3)>"
