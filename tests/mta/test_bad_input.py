"""What is refused says what was wrong and what to do, and changes nothing."""

from __future__ import annotations

import datetime
import math
import operator
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from chance import fresh
from reference import ALGORITHMS, Definition, check_window, four_fields, matrices, object_fields, same

from mta import (
    AmortizedMTA,
    EmptyWindowError,
    LogMTA,
    OutOfOrderError,
    WindowClosed,
    WindowError,
    monoids,
    policies,
)
from mta.policies import CountWindow, TimeWindow, While
from stores import Store, StoreClosed, StoreError, UnknownStore, open_store
from stores.testing import ODD_IDS, ODD_NAMES

HUGE = 10**400


def label(value: object) -> str:
    """Its repr without an address, so that a test has one name in every process."""
    return re.sub(r" at 0x\w+", "", repr(value))


@pytest.fixture(params=[2, 4, None], ids=lambda size: f"pages of {size}")
def page_size(request: Any) -> Any:
    return request.param


@pytest.fixture(params=ALGORITHMS.values(), ids=ALGORITHMS)
def kind(request: Any) -> Any:
    return request.param


@pytest.fixture(params=[False, True], ids=["local", "stored"])
def store(request: Any) -> Any:
    return open_store("memory:") if request.param else None


class Subject:
    """A window with a past, its model, and a check that a refused call left both equal."""

    def __init__(
        self, kind: Any, monoid: Any, values: list[Any], store: Any, page_size: Any, policy: Any = None
    ) -> None:
        self.window = kind(monoid, policy, store=store, page_size=page_size)
        self.model = Definition(monoid, policy)
        self.values = values
        for i, value in enumerate(values * 3):
            for one in (self.window, self.model):
                one.insert(value, 10 + i)
        for one in (self.window, self.model):
            one.evict(1)

    def refuses(self, error: Any, text: str, call: Callable[[Any], Any]) -> None:
        with pytest.raises(error, match=text or None):
            call(self.window)
        check_window(self.window, self.model)
        assert same(self.window.range_query(11, 13), self.model.range_query(11, 13))

    def goes_on(self) -> None:
        """The window takes what is right after what was wrong."""
        for i in range(5):
            value = self.values[i % len(self.values)]
            time = self.model.last_time + i
            assert same(self.window.push(value, time), self.model.push(value, time))
        check_window(self.window, self.model)
        self.window.close()


@pytest.fixture
def numbers(kind: Any, store: Any, page_size: Any) -> Any:
    subject = Subject(kind, monoids.Sum(), [3, 1, 2], store, page_size)
    yield subject
    subject.goes_on()


CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "insert": lambda window, value, time: window.insert(value, time),
    "push": lambda window, value, time: window.push(value, time),
    "extend": lambda window, value, time: window.extend([3, value], [100, time]),
    "slide": lambda window, value, time: window.slide([3, value], [100, time]),
}
TIMES = [
    (17, OutOfOrderError, r"time 17 .*before (18|100)"),
    (17.5, OutOfOrderError, r"time 17\.5 .*before (18|100)"),
    (-math.inf, (ValueError, OutOfOrderError), "-inf"),
    (math.nan, ValueError, "finite.*nan"),
    (math.inf, ValueError, "finite.*inf"),
    (2**63, ValueError, "64 bits.*9223372036854775808"),
    (-(2**63), (ValueError, OutOfOrderError), "-9223372036854775808"),
    (1e300, ValueError, r"64 bits.*1e\+300"),
    ("12", TypeError, "int or a float.*'12'.*str"),
    (1j, TypeError, "int or a float.*1j.*complex"),
    ([100], (TypeError, ValueError), r"\[100\]|times"),
    (datetime.date(2020, 1, 2), TypeError, "times (of this window )?are numbers.*, got .*2020, 1, 2.*date"),
    (np.datetime64("2020-01-02"), TypeError, "times (of this window )?are numbers.*, got .*2020"),
]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("time", "error", "text"), TIMES, ids=lambda x: repr(x)[:25] if not callable(x) else ""
)
def test_bad_times(numbers: Subject, call: str, time: Any, error: Any, text: str) -> None:
    numbers.refuses(error, text, lambda window: CALLS[call](window, 1, time))


@pytest.mark.parametrize("call", ["insert", "push"])
def test_a_truth_value_is_no_time(numbers: Subject, call: str) -> None:
    numbers.refuses(TypeError, "int or a float.*True.*bool", lambda window: CALLS[call](window, 1, True))


@pytest.mark.parametrize("call", ["extend", "slide"])
@pytest.mark.parametrize(
    ("times", "error", "text"),
    [
        (np.array([100.0, math.nan, 101.0]), ValueError, "row 1.*finite.*nan"),
        (np.array([100.0, 101.0, math.inf]), ValueError, "row 2.*finite.*inf"),
        (np.array([100.0, 101.0, 1e19]), ValueError, r"row 2.*64 bits.*1e\+19"),
        (np.array([100, 101, 2**63], dtype=np.uint64), ValueError, "row 2.*9223372036854775808"),
        ([100, None, 101], TypeError, "row 1.*None"),
        (np.array(["a", "b", "c"]), TypeError, "row 0.*'a'"),
        (np.array(["2020", "2021", "2022"], dtype="M8[Y]"), TypeError, "are numbers.*, got .*2020"),
        (np.array([100, 99, 101]), OutOfOrderError, "time 99 in row 1 is before 100"),
        ([100, 101, 100.5], OutOfOrderError, r"time 100\.5 in row 2 is before 101"),
        ([16, 100, 101], OutOfOrderError, r"time 16.* in row 0 is before 18"),
        ([100, 101], ValueError, "3 rows.*2"),
        ([100, 101, 102, 103], ValueError, "3 rows.*4"),
        (np.array([[100, 101, 102]]), ValueError, r"3 rows.*\(1, 3\)"),
        (100, TypeError, "sequence or an array.*100"),
        ("abc", TypeError, "sequence or an array.*'abc'"),
        (iter([100, 101, 102]), TypeError, "sequence or an array"),
    ],
    ids=label,
)
def test_bad_times_of_a_batch(numbers: Subject, call: str, times: Any, error: Any, text: str) -> None:
    numbers.refuses(error, text, lambda window: getattr(window, call)([1, 2, 3], times))


def test_equal_times_are_fine(numbers: Subject) -> None:
    for value in (1, 5):
        for one in (numbers.window, numbers.model):
            one.insert(value, 18)
    numbers.window.slide([7, 7], [18, 18])
    numbers.model.slide([7, 7], [18, 18])
    check_window(numbers.window, numbers.model)


@pytest.mark.parametrize(
    "time", [np.int64(20), np.float64(20.5), np.int8(20), np.float32(20.5), np.uint64(20)]
)
def test_times_of_numpy_are_plain_numbers(numbers: Subject, time: Any) -> None:
    numbers.window.insert(1, time)
    numbers.model.insert(1, time.item())
    check_window(numbers.window, numbers.model)
    assert type(numbers.window.youngest) in (int, float)


@pytest.mark.parametrize(
    "policy",
    [
        TimeWindow(10),
        TimeWindow(10, closed="both"),
        CountWindow(2),
        TimeWindow(0.5),
        TimeWindow(2.5, closed="both"),
        TimeWindow(2**62),
        TimeWindow(2**63),
    ],
    ids=str,
)
@pytest.mark.parametrize("start", [-(2**63) + 1, 2**63 - 8, 2**62, -5], ids=str)
def test_times_at_the_ends_of_64_bits(kind: Any, page_size: Any, policy: Any, start: int) -> None:
    times = [start + i for i in (0, 0, 1, 2, 3, 5, 7)]
    model = Definition(monoids.Sum(), policy)
    expected = model.slide([1] * 7, times)
    pushed, slid, parts = (kind(monoids.Sum(), policy, page_size=page_size) for _ in range(3))
    assert [pushed.push(1, time) for time in times] == expected
    assert slid.slide([1] * 7, times).tolist() == expected
    assert [*parts.slide([1] * 3, times[:3]), *parts.slide([1] * 4, np.array(times[3:]))] == expected
    for window in (pushed, slid, parts):
        check_window(window, model)


@pytest.mark.parametrize(
    "policy",
    [CountWindow(2**70), TimeWindow(HUGE), TimeWindow(math.inf), TimeWindow(2**64)],
    ids=lambda p: repr(p)[:20],
)
def test_limits_that_nothing_reaches(kind: Any, page_size: Any, policy: Any) -> None:
    window = kind(monoids.Sum(), policy, page_size=page_size)
    assert window.slide([1, 2, 3], [-(2**63) + 1, 0, 2**63 - 1]).tolist() == [1, 3, 6]
    assert window.push(4, 2**63 - 1) == 10
    assert window.slide([5], [2**63 - 1]).tolist() == [15]
    assert window.enforce() == 0


VALUES: dict[str, tuple[Callable[[], Any], list[Any], list[tuple[Any, Any, str]]]] = {
    "sum": (
        monoids.Sum,
        [1, 2],
        [
            (math.nan, ValueError, "NaN.*drop or replace"),
            (None, TypeError, "None"),
            ("7", TypeError, "'7'.*str"),
            (1j, TypeError, "1j"),
            (2**64, OverflowError, "18446744073709551616.*64 bits"),
            ({"a": 1}, TypeError, "'a': 1"),
        ],
    ),
    "stddev": (
        monoids.SampleStdDev,
        [1.5, 2.5],
        [(math.nan, ValueError, "NaN"), (None, TypeError, "None"), ("x", TypeError, "'x'")],
    ),
    "geometric mean": (
        monoids.GeometricMean,
        [1, 2],
        [(-1, ValueError, "no negative.*-1"), (None, TypeError, "None")],
    ),
    "argmax": (
        monoids.ArgMax,
        [(1, "a"), (2, "b")],
        [
            (5, TypeError, "pair.*5"),
            ((1, None), TypeError, "None.*drop or replace"),
            ((math.nan, "a"), ValueError, "NaN"),
            (("x", "a"), TypeError, "'x'"),
            ((1, 2, 3), TypeError, r"pair.*\(1, 2, 3\)"),
        ],
    ),
    "concat": (
        monoids.Concat,
        ["a", "b"],
        [(5, TypeError, "takes str.*5.*int"), (None, TypeError, "None"), (b"a", TypeError, "b'a'")],
    ),
    "runs": (
        monoids.LongestIncreasingRun,
        [1, 2],
        [(math.nan, ValueError, "NaN"), ("1", TypeError, "'1'"), ((1, 2, 3), TypeError, r"\(1, 2, 3\)")],
    ),
    "four fields": (
        four_fields,
        [{"a": 1, "b": 2, "label": "x"}, {"a": 3, "b": 1, "label": "y"}],
        [
            ({"a": 1, "b": 2}, KeyError, "'label'.*got only.*'a', 'b'"),
            ({"a": math.nan, "b": 2, "label": "x"}, ValueError, "NaN"),
            ({"a": 1, "b": 2, "label": None}, TypeError, "None"),
            ({"a": 1, "b": "2", "label": "x"}, TypeError, "'2'"),
            (5, TypeError, "mapping.*5"),
        ],
    ),
    "object fields": (
        object_fields,
        [{"a": 1, "b": 2, "label": "x"}, {"a": 3, "b": 1, "label": "y"}],
        [
            ({"a": 1, "label": "x"}, KeyError, "'b'.*got only.*'a', 'label'"),
            ({"a": 1, "b": 2, "label": 5}, TypeError, "takes str.*5"),
            ({"a": None, "b": 2, "label": "x"}, TypeError, "None"),
            (5, TypeError, "mapping.*5"),
        ],
    ),
    "distinct": (monoids.CollectDistinct, [1, 2], [([], TypeError, r"\[\].*set"), (None, TypeError, "None")]),
}


@pytest.mark.parametrize("name", VALUES)
def test_bad_values(name: str, kind: Any, store: Any, page_size: Any) -> None:
    make, good, bad = VALUES[name]
    subject = Subject(kind, make(), good, store, page_size)
    for value, error, text in bad:
        subject.refuses(error, text, lambda window, value=value: window.insert(value, 50))
        subject.refuses(error, text, lambda window, value=value: window.push(value, 50))
        if isinstance(value, dict) and subject.window.monoid.fields:
            fields = subject.window.monoid.fields
            batch = {key: [good[0].get(key), value[key]] for key in fields if key in value}
        else:
            batch = [good[0], value]
        for call in ("extend", "slide"):
            subject.refuses(
                error, "", lambda window, call=call, batch=batch: getattr(window, call)(batch, [50, 51])
            )
    subject.goes_on()


@pytest.mark.parametrize(
    ("batch", "error", "text"),
    [
        ("ab", TypeError, "'ab'.*insert or push"),
        (7, TypeError, "7.*insert or push"),
        (None, TypeError, "None"),
        (iter([1]), TypeError, "sequence or an array"),
        ({"a": [1, 2]}, TypeError, "no named fields"),
        (np.ones((2, 2)), TypeError, r"one column.*\(2, 2\)"),
        (np.array([1, 2], dtype="M8[s]"), TypeError, "row 0|M8|datetime"),
        (np.array(["a", "b"]), TypeError, "row 0.*'a'"),
        ([[1, 2], [3, 4]], TypeError, r"\[1, 2\]"),
    ],
    ids=label,
)
@pytest.mark.parametrize("call", ["extend", "slide"])
def test_bad_batches(numbers: Subject, call: str, batch: Any, error: Any, text: str) -> None:
    numbers.refuses(error, text, lambda window: getattr(window, call)(batch))
    numbers.refuses(error, text, lambda window: getattr(window, call)(batch, [50, 51]))


@pytest.mark.parametrize("make", [four_fields, object_fields])
@pytest.mark.parametrize(
    ("batch", "error", "text"),
    [
        ({"a": [1], "b": [1]}, KeyError, "'label'"),
        ({"a": [1], "b": [1, 2], "label": ["x"]}, ValueError, "one length.*2"),
        ({}, KeyError, "column"),
        ({"a": 1, "b": 1, "label": "x"}, TypeError, ""),
        (np.ones(3), (TypeError, KeyError), "mapping|fields|column"),
    ],
    ids=label,
)
@pytest.mark.parametrize("call", ["extend", "slide"])
def test_bad_tables(
    make: Any, call: str, batch: Any, error: Any, text: str, kind: Any, store: Any, page_size: Any
) -> None:
    subject = Subject(kind, make(), VALUES["four fields"][1], store, page_size)
    subject.refuses(error, text, lambda window: getattr(window, call)(batch))
    subject.goes_on()


@pytest.mark.parametrize(
    ("make", "empty"),
    [
        (monoids.Sum, []),
        (monoids.Sum, np.array([])),
        (monoids.Concat, []),
        (monoids.ArgMax, []),
        (monoids.ArgMax, ([], [])),
        (matrices, []),
        (four_fields, []),
        (object_fields, []),
        (four_fields, {"a": [], "b": [], "label": []}),
        (object_fields, {"a": [], "b": [], "label": []}),
    ],
    ids=label,
)
def test_empty_batches_change_nothing(make: Any, empty: Any, kind: Any, store: Any, page_size: Any) -> None:
    window = kind(make(), CountWindow(4), store=store, page_size=page_size)
    elements = {"Sum": 1, "Concat": "a", "ArgMax": (1, "a")}
    name = type(window.monoid).__name__
    element = elements.get(name, {"a": 1, "b": 2, "label": "x"} if window.monoid.fields else (1, 1, 1, 0))
    for round_ in range(2):
        before = (len(window), window.oldest, window.youngest, window.query())
        assert window.extend(empty) is None
        results = window.slide(empty)
        window.slide(empty, [])
        if window.monoid.fields:
            assert results.keys() == window.query().keys()
            assert all(isinstance(column, np.ndarray) and not len(column) for column in results.values())
        else:
            assert isinstance(results, np.ndarray)
            assert not len(results)
        assert same((len(window), window.oldest, window.youngest, window.query()), before)
        if not round_:
            for _ in range(6):
                window.push(element)
    window.close()


@pytest.mark.parametrize(
    ("k", "error", "text"),
    [
        (-1, ValueError, "0 or more elements, got -1"),
        (1.5, TypeError, "whole number.*1.5"),
        (1.0, TypeError, "whole number.*1.0"),
        ("1", TypeError, "'1'"),
        (None, TypeError, "None"),
        (True, TypeError, "True"),
        (9, EmptyWindowError, "cannot evict 9 .* holds 8"),
        (10**30, EmptyWindowError, "holds 8"),
    ],
)
def test_bad_evictions(numbers: Subject, k: Any, error: Any, text: str) -> None:
    numbers.refuses(error, text, lambda window: window.evict(k))


def test_eviction_takes_numpy_integers(numbers: Subject) -> None:
    numbers.window.evict(np.int64(3))
    numbers.model.evict(3)
    check_window(numbers.window, numbers.model)


@pytest.mark.parametrize(
    ("t", "error", "text"),
    [
        (math.nan, ValueError, "nan"),
        (math.inf, ValueError, "inf"),
        (None, TypeError, "None"),
        ("5", TypeError, "'5'"),
        (HUGE, ValueError, "64 bits"),
        (True, TypeError, "True"),
    ],
    ids=lambda x: repr(x)[:20],
)
def test_bad_bounds(numbers: Subject, t: Any, error: Any, text: str) -> None:
    numbers.refuses(error, text, lambda window: window.evict_until(t))
    numbers.refuses(error, text, lambda window: window.range_query(t, 50))
    numbers.refuses(error, text, lambda window: window.range_query(5, t))


def test_a_range_that_is_the_wrong_way_round(numbers: Subject) -> None:
    numbers.refuses(
        ValueError, "from the older to the younger.*14.*12", lambda window: window.range_query(14, 12)
    )


@pytest.mark.parametrize("size", [0, 1, 3, -2, 1000, "x", True, 4.0, np.float64(4)], ids=label)
def test_bad_page_sizes(kind: Any, size: Any) -> None:
    with pytest.raises(
        (ValueError, TypeError), match=f"page_size.*{size!r}".replace("(", r"\(").replace(")", r"\)")
    ):
        kind(monoids.Sum(), page_size=size)


@pytest.mark.parametrize("monoid", [None, monoids.Max, "Max", max], ids=label)
def test_bad_monoids(kind: Any, monoid: Any) -> None:
    with pytest.raises(TypeError, match="is a monoid such as"):
        kind(monoid)


@pytest.mark.parametrize("policy", [10, "1h", TimeWindow, max], ids=label)
def test_bad_policies(kind: Any, policy: Any) -> None:
    with pytest.raises(TypeError, match=r"policy is one of mta\.policies"):
        kind(monoids.Sum(), policy)


@pytest.mark.parametrize("store", ["memory:", "redis://localhost", {}, open_store], ids=label)
def test_bad_stores(kind: Any, store: Any) -> None:
    with pytest.raises(TypeError, match=r"open_store\(url\) returns"):
        kind(monoids.Sum(), store=store)


def test_unknown_schemes() -> None:
    with pytest.raises(UnknownStore, match=r"'mongodb'.*memory"):
        open_store("mongodb://host")
    with pytest.raises(TypeError, match="str"):
        open_store(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "n" * 201, "ü" * 101, "\ud800", 5, b"x"], ids=lambda x: ascii(x)[:12])
def test_bad_names_are_refused_before_anything(kind: Any, name: Any) -> None:
    with open_store("memory:") as store:
        with pytest.raises(ValueError, match="name must"):
            kind(monoids.Sum(), store=store, name=name)
        assert list(store.list_roots()) == []


@pytest.mark.parametrize("odd", ODD_NAMES, ids=ODD_IDS)
def test_odd_names_work_on_every_store(any_store: Store, odd: str) -> None:
    name = odd if len(odd) > 190 else f"{odd}{fresh()[-8:]}"
    with AmortizedMTA(monoids.Concat(), CountWindow(40), store=any_store, name=name, page_size=2) as window:
        results = window.slide([f"{i}." for i in range(100)])
        window._log.pages.flush(window._log.tail)
        window._log.pages._cache.clear()
        window.evict(7)
        assert window.query() == "".join(f"{i}." for i in range(67, 100))
        assert results[-1] == "".join(f"{i}." for i in range(60, 100))


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: CountWindow(0), ValueError, "at least 1.*0"),
        (lambda: CountWindow(-3), ValueError, "at least 1.*-3"),
        (lambda: CountWindow(1.5), TypeError, "whole number.*1.5"),
        (lambda: CountWindow(True), TypeError, "whole number.*True"),
        (lambda: CountWindow("3"), TypeError, "whole number.*'3'"),
        (lambda: TimeWindow(0), ValueError, "longer than 0.*0"),
        (lambda: TimeWindow(-1), ValueError, "longer than 0.*-1"),
        (lambda: TimeWindow(-1, closed="both"), ValueError, "-1"),
        (lambda: TimeWindow(math.nan), ValueError, "nan"),
        (lambda: TimeWindow("1 month"), ValueError, "fixed length.*'1 month'"),
        (lambda: TimeWindow("-1h"), ValueError, "longer than 0.*'-1h'"),
        (lambda: TimeWindow("60"), ValueError, "each with its unit.*'60'"),
        (lambda: TimeWindow(None), TypeError, "None"),
        (lambda: TimeWindow(True), TypeError, "True"),
        (lambda: TimeWindow(datetime.timedelta(0)), ValueError, "longer than 0.*timedelta"),
        (lambda: TimeWindow(np.timedelta64(1, "M")), ValueError, "fixed length"),
        (lambda: TimeWindow([1]), TypeError, r"TimeWindow takes a number .*90 days.*\[1\]"),
        (lambda: TimeWindow("1h") | TimeWindow(5), TypeError, "all have a unit.*'1 hour'.*TimeWindow.5"),
        (lambda: TimeWindow("1h", delay=5), TypeError, "both have a unit.*'1h'.*5"),
        (lambda: TimeWindow(5, closed="middle"), ValueError, "'middle'"),
        (lambda: TimeWindow(0, closed="left"), ValueError, "longer than 0"),
        (lambda: TimeWindow(5, delay=-1), ValueError, "into the past.*-1"),
        (lambda: TimeWindow(5, delay=math.nan), ValueError, "nan"),
        (lambda: TimeWindow(5, delay=None), TypeError, "None"),
        (lambda: TimeWindow(5, min_count=-1), ValueError, "-1"),
        (lambda: TimeWindow(5, min_count=1.5), TypeError, "1.5"),
        (lambda: CountWindow(5, min_count=-1), ValueError, "-1"),
        (lambda: While(5), TypeError, "5"),
        (lambda: TimeWindow(5) | 5, TypeError, "5"),
        (lambda: CountWindow(5) | None, TypeError, "None"),
    ],
)
def test_bad_limits(make: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        make()


def test_a_closed_window(kind: Any, store: Any, page_size: Any) -> None:
    with kind(monoids.Sum(), store=store, page_size=page_size, name="closed one") as window:
        window.extend([1, 2, 3])
    window.close()
    for call in (
        lambda: window.insert(1),
        lambda: window.push(1),
        lambda: window.slide([1]),
        lambda: window.slide([]),
        lambda: window.extend([1]),
        window.evict,
        lambda: window.evict(0),
        lambda: window.evict_until(1),
        window.enforce,
        window.query,
        lambda: window.range_query(0, 1),
    ):
        with pytest.raises(WindowClosed, match=r"'closed one' is closed.*new one"):
            call()
    assert (len(window), window.oldest, window.youngest) == (3, 0, 2)


def test_a_closed_store(kind: Any) -> None:
    store = open_store("memory:")
    with kind(monoids.Sum(), CountWindow(100), store=store, page_size=2) as window:
        window.slide([1] * 200)
        window._log.pages.flush(window._log.tail)
        window._log.pages._cache.clear()
        store.close()
        before = (len(window), window.oldest, window.youngest)
        with pytest.raises(StoreClosed, match=r"memory:.*closed"):
            window.evict(37)
        with pytest.raises(StoreClosed):
            window.range_query(window.oldest + 11, window.oldest + 12)
        assert (len(window), window.oldest, window.youngest) == before
        with pytest.raises(StoreClosed):
            push_often(window)
    with kind(monoids.Sum(), store=store, page_size=2) as window, pytest.raises(StoreError):
        push_often(window)


def push_often(window: Any) -> None:
    for _ in range(1000):
        window.push(1)


@pytest.mark.parametrize(
    ("make", "element", "bad"),
    [
        (monoids.First, 1, datetime.date(2020, 1, 1)),
        (monoids.Last, "x", object()),
        (monoids.ArgMax, (1, "a"), (2, datetime.date(2020, 1, 1))),
        (monoids.ArgMax, (1, "a"), (2, Fraction(1, 3))),
        (monoids.Collect, "x", datetime.date(2020, 1, 1)),
        (lambda: monoids.from_function(operator.add, ()), (1,), (object(),)),
        (
            lambda: monoids.Fields(a=monoids.First("a"), b=monoids.Max("b")),
            {"a": 1, "b": 1},
            {"a": object(), "b": 1},
        ),
        (
            lambda: monoids.Fields(a=monoids.Collect("a"), b=monoids.Max("b")),
            {"a": 1, "b": 1},
            {"a": object(), "b": 1},
        ),
    ],
)
def test_elements_that_a_store_cannot_hold(kind: Any, make: Any, element: Any, bad: Any) -> None:
    """Refused with the call that brings them, not when a page of them is written."""
    with open_store("memory:") as store:
        for size in (2, None):
            subject = Subject(kind, make(), [element], store, size)
            fields = subject.window.monoid.fields
            batch = {field: [element[field], bad[field]] for field in fields} if fields else [element, bad]
            subject.refuses(TypeError, "cannot be kept in a store", lambda window: window.insert(bad, 50))
            subject.refuses(TypeError, "cannot be kept in a store", lambda window: window.push(bad, 50))
            subject.refuses(
                TypeError,
                "cannot be kept in a store",
                lambda window, batch=batch: window.slide(batch, [50, 51]),
            )
            subject.refuses(
                TypeError,
                "cannot be kept in a store",
                lambda window, batch=batch: window.extend(batch, [50, 51]),
            )
            subject.goes_on()


@pytest.mark.parametrize("call", ["insert", "push", "extend", "slide"])
def test_states_that_a_store_cannot_hold(kind: Any, call: str) -> None:
    monoid = monoids.from_function(operator.add, Fraction(0), lift=Fraction)
    with open_store("memory:") as store, kind(monoid, store=store) as window:
        with pytest.raises(TypeError, match=r"Fraction.*cannot be kept in a store.*pack and unpack"):
            getattr(window, call)([1, 2] if call in ("extend", "slide") else 1)
        assert len(window) == 0
        assert window.query() == 0
    kept = monoids.from_function(
        operator.add,
        Fraction(0),
        lift=Fraction,
        pack=lambda state: [state.numerator, state.denominator],
        unpack=lambda packed: Fraction(*packed),
    )
    with open_store("memory:") as store, kind(kept, store=store, page_size=2) as window:
        window.extend([1, 2, 3] * 20)
        window._log.pages.flush(window._log.tail)
        window._log.pages._cache.clear()
        window.evict(7)
        assert window.query() == Fraction(sum([1, 2, 3] * 20) - sum([1, 2, 3, 1, 2, 3, 1]))


@pytest.mark.parametrize("call", ["push", "slide"])
def test_a_result_beyond_64_bits_is_refused_and_the_window_stays_usable(
    kind: Any, page_size: Any, call: str
) -> None:
    window = kind(monoids.Sum(), CountWindow(3), page_size=page_size)
    window.extend([2**62, 2**62 - 1, 1])
    with pytest.raises(OverflowError, match="does not fit in 64 bits"):
        window.push(2**63 - 1) if call == "push" else window.slide([2**63 - 1])
    for _ in range(5):
        window.insert(1)
        window.enforce()
    assert window.query() == 3
    assert window.slide([1, 2, 3]).tolist() == [3, 4, 6]


def test_errors_have_the_bases_they_promise() -> None:
    assert issubclass(OutOfOrderError, (WindowError, ValueError))
    assert issubclass(OutOfOrderError, ValueError)
    assert issubclass(EmptyWindowError, IndexError)
    assert issubclass(WindowClosed, WindowError)
    with pytest.raises(IndexError):
        LogMTA(monoids.Sum()).evict()
    assert policies.TimeWindow is TimeWindow
