"""Policies as values, and the limits that they come down to."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import ALGORITHMS, Definition, check_window, expired

from mta import monoids
from mta.policies import CountWindow, Limits, OlderThanLongestRun, OlderThanMaximum, TimeWindow, While


def always(total: int, old: int) -> bool:  # noqa: ARG001
    return True


def large(total: int, old: int) -> bool:
    return total - old >= 10


def test_equal_policies_are_equal() -> None:
    assert CountWindow(3) == CountWindow(3) != CountWindow(4)
    assert TimeWindow(3) == TimeWindow(3.0) != TimeWindow(3, closed="both")
    assert hash(TimeWindow(3)) == hash(TimeWindow(3.0))
    assert While(large) == While(large) != While(always)
    assert CountWindow(3) | TimeWindow(5) == TimeWindow(5) | CountWindow(3)
    assert OlderThanMaximum() == OlderThanMaximum() != OlderThanMaximum("peak")
    assert OlderThanLongestRun() != OlderThanMaximum()
    assert CountWindow(3) != 3
    assert len({CountWindow(3), CountWindow(3), TimeWindow(3)}) == 2


def test_a_union_keeps_the_strictest_of_each_kind() -> None:
    union = (
        CountWindow(5)
        | TimeWindow(10)
        | CountWindow(3)
        | TimeWindow(20)
        | TimeWindow(7, closed="both")
        | While(large)
    )
    assert union.limits() == Limits(count=3, open_span=10, closed_span=7, predicates=(large,))


def test_fingerprints_tell_policies_apart() -> None:
    some = [
        CountWindow(3),
        CountWindow(4),
        TimeWindow(3),
        TimeWindow(3, closed="both"),
        While(large),
        While(always),
        OlderThanMaximum(),
        OlderThanMaximum("peak"),
        OlderThanLongestRun(),
        CountWindow(3) | TimeWindow(3),
    ]
    assert len({policy.fingerprint() for policy in some}) == len(some)
    assert [repr(policy) for policy in some] == [policy.fingerprint() for policy in some]


@pytest.mark.parametrize(
    "policy",
    [CountWindow(3), TimeWindow(2.5), TimeWindow(0, closed="both") | While(large), OlderThanMaximum("peak")],
    ids=repr,
)
def test_policies_travel_to_other_processes(policy: object) -> None:
    assert pickle.loads(pickle.dumps(policy)) == policy


def test_numbers_of_numpy_are_numbers() -> None:
    assert CountWindow(np.int64(3)) == CountWindow(3)
    assert TimeWindow(np.float32(2.5)) == TimeWindow(2.5)
    assert TimeWindow(np.int8(2)) == TimeWindow(2)


@given(
    st.one_of(st.none(), st.floats(0, 50, exclude_min=True), st.integers(1, 50)),
    st.one_of(st.none(), st.floats(0, 50), st.integers(0, 50)),
    st.integers(-100, 100),
    st.integers(0, 100),
)
def test_expired(open_span: float | None, closed_span: float | None, youngest: int, age: int) -> None:
    limits = Limits(open_span=open_span, closed_span=closed_span)
    time = youngest - age
    wanted = (open_span is not None and age >= open_span) or (closed_span is not None and age > closed_span)
    assert limits.expired(time, youngest) == wanted
    assert expired(limits, time, youngest) == wanted


@pytest.mark.parametrize("kind", ALGORITHMS.values(), ids=ALGORITHMS)
@pytest.mark.parametrize("size", [2, 4, None])
class TestInWindows:
    def test_nanoseconds(self, kind: type, size: int | None) -> None:
        """Whole times beyond what a float can tell apart, and spans that are floats."""
        start = 1_700_000_000_000_000_000
        for policy in (
            TimeWindow(60e9),
            TimeWindow(60e9, closed="both"),
            TimeWindow(0.5),
            TimeWindow(1.5, closed="both"),
        ):
            times = [start + i for i in (0, 1, 2, 2, 3)]
            times += [start + 60 * 10**9 + i for i in (0, 0, 1, 2, 3, 4)]
            model = Definition(monoids.Sum(), policy)
            expected = model.slide([1] * len(times), times)
            pushed, slid, extended = (kind(monoids.Sum(), policy, page_size=size) for _ in range(3))
            assert [pushed.push(1, time) for time in times] == expected
            assert slid.slide([1] * len(times), times).tolist() == expected
            for at, time in enumerate(times):
                extended.extend([1], [time])
                assert extended.query() == expected[at]
            for window in (pushed, slid, extended):
                check_window(window, model)

    def test_the_two_closings(self, kind: type, size: int | None) -> None:
        times = [0, 1, 1, 2, 3, 3, 3, 7, 10]
        right = kind(monoids.Count(), TimeWindow(2), page_size=size).slide([0] * 9, times).tolist()
        both = (
            kind(monoids.Count(), TimeWindow(2, closed="both"), page_size=size).slide([0] * 9, times).tolist()
        )
        instant = (
            kind(monoids.Count(), TimeWindow(0, closed="both"), page_size=size).slide([0] * 9, times).tolist()
        )
        assert right == [1, 2, 3, 3, 2, 3, 4, 1, 1]
        assert both == [1, 2, 3, 4, 4, 5, 6, 1, 1]
        assert instant == [1, 1, 2, 1, 1, 2, 3, 1, 1]

    def test_a_predicate_may_empty_the_window(self, kind: type, size: int | None) -> None:
        window = kind(monoids.Sum(), While(always), page_size=size)
        for i in range(9):
            assert window.push(5) == 0
            assert (len(window), window.oldest, window.youngest) == (0, None, None)
            if i % 3 == 0:
                assert window.slide([1, 2, 3]).tolist() == [0, 0, 0]
        window.insert(3)
        assert window.query() == 3
        assert window.enforce() == 1

    def test_the_maximum_is_never_lost(self, kind: type, size: int | None) -> None:
        """Nothing older than the maximum is kept, and the first of equal maxima is."""
        values = [3, 1, 4, 1, 5, 5, 2, 5, 1, 0]
        window = kind(monoids.Max(), OlderThanMaximum(), page_size=size)
        lengths = []
        for value in values:
            window.push(value)
            lengths.append(len(window))
        assert lengths == [1, 2, 1, 2, 1, 2, 3, 4, 5, 6]
        assert window.query() == 5

    def test_predicates_see_states(self, kind: type, size: int | None) -> None:
        seen = set()

        def predicate(total: tuple[int, int], old: tuple[int, int]) -> bool:
            seen.add((type(total), type(old)))
            return total[0] - old[0] >= 5

        window = kind(monoids.Mean(), While(predicate), page_size=size)
        assert window.slide(list(range(20))).tolist()[-1] == pytest.approx(17.5, abs=1)
        assert seen == {(tuple, tuple)}
        assert len(window) == 5

    def test_a_predicate_that_raises_changes_nothing(self, kind: type, size: int | None) -> None:
        def predicate(total: int, old: int) -> bool:  # noqa: ARG001
            if total > 10:
                raise LookupError("no")
            return False

        window = kind(monoids.Sum(), While(predicate), page_size=size)
        for _ in range(10):
            window.push(1)
        for _ in range(3):
            with pytest.raises(LookupError):
                window.push(5)
            assert (len(window), window.query(), window.youngest) == (10, 10, 9)

    def test_infinite_spans(self, kind: type, size: int | None) -> None:
        window = kind(monoids.Count(), TimeWindow(math.inf), page_size=size)
        assert window.slide([0] * 5, [-1e18, 0, 1, 2, 1e18]).tolist() == [1, 2, 3, 4, 5]
        assert window.push(0, 2e18) == 6


@pytest.mark.parametrize("page_size", [2, 4, None])
@pytest.mark.parametrize("kind", ALGORITHMS.values())
@pytest.mark.parametrize("yes", [-1, -5, 0.5, 3, np.True_, np.int8(-1), np.array([-1])])
def test_whatever_is_true_evicts(yes: object, kind: type, page_size: int | None) -> None:
    """A predicate may say it with something else than True, which is no number of elements."""
    policy = While(lambda total, old: yes if total > 50 else 0)  # noqa: ARG005
    values = [20, 20, 20, 60, 5, 51, 3, 20, 20, 15]
    kept: list[int] = []
    expected = []
    for value in values:
        kept = [] if sum(kept) + value > 50 else [*kept, value]
        expected.append(sum(kept))
    pushed = kind(monoids.Sum(), policy, page_size=page_size)
    assert [pushed.push(value) for value in values] == expected
    slid = kind(monoids.Sum(), policy, page_size=page_size)
    assert slid.slide(values).tolist() == expected
    inserted = kind(monoids.Sum(), policy, page_size=page_size)
    for value, result in zip(values, expected, strict=True):
        inserted.insert(value)
        inserted.enforce()
        assert inserted.query() == result


@pytest.mark.parametrize("answer", [None, "", "1", b""])
@pytest.mark.parametrize("kind", ALGORITHMS.values())
def test_a_predicate_that_says_nothing_is_refused(kind: type, answer: object) -> None:
    """It would be taken for False, as of a function without a return."""
    window = kind(monoids.Sum(), While(lambda total, old: answer))  # noqa: ARG005
    for _ in range(2):
        with pytest.raises(TypeError, match=f"says True or False, but .* gave {answer!r}"):
            window.push(1)
        assert len(window) == 0
