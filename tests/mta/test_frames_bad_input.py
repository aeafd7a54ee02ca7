"""Frames, moments and `keep` that cannot be: one clear error each, and the window stays as it was."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from chance import fresh

from mta import AmortizedMTA, LogMTA, ManifestMismatch, OutOfOrderError, monoids
from mta.baselines import DABA
from mta.policies import OlderThanMaximum, SumWindow, TimeWindow, While
from mta.slicing import Slicer, Tumbling
from stores import open_store

T, Fields, Sum, Max = TimeWindow, monoids.Fields, monoids.Sum, monoids.Max
DAY = datetime.timedelta(days=1)
SINCE = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: AmortizedMTA(Sum().over(5)), TypeError, r"Sum\(\).over.*frame of its own.*Fields"),
        (lambda: Sum().over(5).over(6), TypeError, "has its frame already.*once"),
        (lambda: Sum().over(), TypeError, "takes a frame"),
        (lambda: Sum().over(None, min_count=3), TypeError, "takes a frame"),
        (lambda: Sum().over("1 month"), ValueError, "fixed length"),
        (lambda: Sum().over("an hour"), ValueError, "'an hour'"),
        (lambda: Sum().over([5]), TypeError, r"\[5\]"),
        (lambda: Sum().over(0), ValueError, "longer than 0"),
        (lambda: Sum().over(rows=0), ValueError, "at least 1.*0"),
        (lambda: Sum().over(rows=2.5), TypeError, "whole number.*2.5"),
        (lambda: Sum().over(5, min_count=-1), ValueError, "-1"),
        (lambda: Sum().over(T(5), rows=3), TypeError, "say them in the frame"),
        (lambda: Sum().over(T(5), min_count=3), TypeError, "say them in the frame"),
        (lambda: Sum().over(T(5, delay="soon")), ValueError, "'soon'"),
        (lambda: Sum().over(T(5, delay=-1)), ValueError, "into the past.*-1"),
        (lambda: Sum().over(SumWindow(5)), ValueError, "predicate.*window of its own"),
        (lambda: Sum().over(T(5) | OlderThanMaximum()), ValueError, "predicate.*window of its own"),
        (lambda: AmortizedMTA(Fields(a=Sum().over(5)), T(5)), ValueError, "no field is left for the policy"),
        (
            lambda: AmortizedMTA(Fields(a=Sum().over(5), b=Max()), While(lambda total, old: total < old)),
            ValueError,
            "several windows",
        ),
        (
            lambda: AmortizedMTA(Sum(), SumWindow(5) | T(5, closed="left")),
            ValueError,
            "cannot be united with a frame that ends before",
        ),
        (lambda: AmortizedMTA(Sum(), SumWindow(5) | T(5, min_count=2)), ValueError, "min_count"),
        (lambda: AmortizedMTA(Fields(a=Sum().over(5), b=Max().over("1h"))), TypeError, "all have a unit"),
        (lambda: AmortizedMTA(Fields(a=Sum().over(5), b=Max()), T("1h")), TypeError, "all have a unit"),
        (lambda: AmortizedMTA(Sum(), T(5), keep="1h"), TypeError, "all have a unit.*'1 hour'"),
        (lambda: AmortizedMTA(Sum(), keep=-1), ValueError, "keep.*-1"),
        (lambda: AmortizedMTA(Sum(), keep="long"), ValueError, "keep.*'long'"),
        (lambda: AmortizedMTA(Sum(), keep=True), TypeError, "keep.*True"),
        (lambda: AmortizedMTA(Sum(), SumWindow(3), keep=5), ValueError, "keep=5.*cannot answer"),
        (lambda: AmortizedMTA({"a": 5}), TypeError, "takes a monoid.*5"),
        (lambda: AmortizedMTA({5: Sum()}), TypeError, "texts for names.*5"),
        (lambda: AmortizedMTA({}), TypeError, "at least one monoid"),
        (
            lambda: DABA(Fields(a=Sum().over(5), b=Max().over(6))),
            ValueError,
            "DABA has one window.*AmortizedMTA",
        ),
        (lambda: DABA(Sum(), T(5, delay=1)), ValueError, "DABA has a window that ends with the last"),
        (
            lambda: Slicer(Fields(a=Sum().over(5)), {"all": Tumbling(5)}),
            ValueError,
            "a slicer has one window",
        ),
    ],
)
def test_frames_that_cannot_be(make: Callable[[], Any], error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        make()


def numbers(kind: Any = AmortizedMTA, **options: Any) -> Any:
    window = kind(Fields(a=Sum().over(5), b=Max().over(T(9, delay=2))), page_size=2, **options)
    window.extend(range(30), range(30))
    return window


def dates() -> Any:
    window = AmortizedMTA(
        Fields(a=Sum().over("1 day"), b=Max().over(T("9 days", delay="1 day"))), page_size=2
    )
    window.extend(range(30), [SINCE + each * DAY for each in range(30)])
    return window


@pytest.mark.parametrize("kind", [AmortizedMTA, LogMTA])
@pytest.mark.parametrize(
    ("ask", "error", "text"),
    [
        (lambda w: w.slide([1, 2], [30, 31], at=[31, 30]), OutOfOrderError, "30 in row 1 .*moments"),
        (lambda w: w.slide([1, 2], [30, 31], at=31), (TypeError, ValueError), "31"),
        (lambda w: w.slide([1, 2], [30, 31], at=["now"]), TypeError, "'now'"),
        (lambda w: w.slide([1, 2], [30, 31], at=[SINCE]), TypeError, "numbers.*2026"),
        (lambda w: w.slide([1, 2], [30, 31], at=[float("nan")]), ValueError, "nan"),
        (lambda w: w.slide([1, 2], [30, 31], at=[3, 40]), ValueError, "as of 3 .*gone.*29.*keep="),
        (lambda w: w.slide([1, "x"], [30, 31], at=[40]), TypeError, "'x'"),
        (lambda w: w.slide([1, 2], [30, 1], at=[40]), OutOfOrderError, "1 in row 1"),
        (lambda w: w.at(3), ValueError, "as of 3 .*gone.*29.*keep="),
        (lambda w: w.at(None), TypeError, "None"),
        (lambda w: w.at("now"), TypeError, "'now'"),
        (lambda w: w.at(SINCE), TypeError, "numbers.*2026"),
        (lambda w: w.push(1, SINCE), TypeError, "numbers.*2026"),
        (lambda w: w.push(1, 3), OutOfOrderError, "3 is before 29"),
        (lambda w: w.push(1), Exception, "asks for times"),
    ],
)
def test_moments_that_cannot_be(kind: Any, ask: Any, error: Any, text: str) -> None:
    window, twin = numbers(kind), numbers(kind)
    with pytest.raises(error, match=text):
        ask(window)
    assert window.query() == twin.query()
    assert (len(window), window.oldest, window.youngest) == (len(twin), twin.oldest, twin.youngest)
    assert window.push(7, 30) == twin.push(7, 30)


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (lambda w: w.at(3), "instants in UTC, got 3"),
        (lambda w: w.at(datetime.datetime(2026, 3, 1)), "instants in UTC.*2026, 3, 1"),
        (lambda w: w.slide([1], [SINCE + 30 * DAY], at=[5]), "instants in UTC, got 5"),
        (lambda w: w.push(1, 1e9), "instants in UTC, got 1000000000.0"),
        (lambda w: w.slide([1], np.array([SINCE.timestamp() * 1e9])), "instants in UTC"),
    ],
)
def test_times_of_another_kind(ask: Any, text: str) -> None:
    window, twin = dates(), dates()
    with pytest.raises(TypeError, match=text):
        ask(window)
    assert window.query() == twin.query()
    assert window.at(SINCE + 40 * DAY) == twin.at(SINCE + 40 * DAY)


def test_a_moment_that_is_gone_is_told_as_a_date() -> None:
    with pytest.raises(ValueError, match=r"as of datetime.datetime\(2026, 1, 5.*gone.*2026, 1, 30"):
        dates().at(SINCE + 4 * DAY)


def test_a_predicate_has_no_window_as_of_a_moment() -> None:
    window = AmortizedMTA(Sum(), SumWindow(5))
    window.extend(range(9))
    for ask in (lambda: window.at(9), lambda: window.slide([1], [9], at=[9])):
        with pytest.raises(ValueError, match=r"SumWindow.5.*evicts by aggregates.*no window as of a moment"):
            ask()
    assert window.query() == 8


@pytest.mark.parametrize(
    ("features", "options"),
    [
        (Fields(a=Sum().over(6), b=Max().over(T(9, delay=2))), {}),
        (Fields(a=Sum().over(5), b=Max().over(T(9, delay=3))), {}),
        (Fields(a=Sum().over(5), b=Max().over(T(9, delay=2, min_count=2))), {}),
        (Fields(a=Sum().over(5), b=Max().over(T(9))), {}),
        (Fields(a=Sum().over(5), b=Max().over(5)), {}),
        (Fields(a=Sum(), b=Max()), {"policy": T(5)}),
        (Fields(a=Sum().over(5), b=Max().over(T(9, delay=2))), {"keep": 3}),
        (Fields(a=Sum().over("5 us"), b=Max().over(T("9 us", delay="2 us"))), {}),
    ],
    ids=repr,
)
def test_a_checkpoint_is_restored_with_its_frames(features: Any, options: Any) -> None:
    with open_store("memory:") as store:
        name = fresh("frames")
        window = numbers(store=store, name=name)
        window.checkpoint()
        with pytest.raises(ManifestMismatch, match=r"checkpointed with the (monoid|policy)"):
            AmortizedMTA.restore(store, name, features, **options)
        assert window.push(7, 30) == numbers().push(7, 30)  # not fenced
        window.close()
