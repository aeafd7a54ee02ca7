"""Bad input is refused with a clear error, and changes nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from window_kinds import is_mark

from mta import OutOfOrderError, monoids
from mta.errors import MissingTime
from mta.slicing import Delta, FixedBand, Punctuation, Session, Slicer, Sliding, Tumbling
from stores import open_store

KINDS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: Session(0), ValueError, r"Session\(gap=...\) is greater than 0, got 0"),
    (lambda: Session(-3), ValueError, r"greater than 0, got -3"),
    (lambda: Session("3"), ValueError, r"Session\(gap=...\) takes a duration .* got '3'"),
    (lambda: Session(math.nan), ValueError, r"is finite and fits in 64 bits, got nan"),
    (lambda: Tumbling(0), ValueError, r"Tumbling\(length=...\) is greater than 0"),
    (lambda: Tumbling(True), TypeError, r"got True"),
    (lambda: Sliding(10, 0), ValueError, r"Sliding\(slide=...\) is greater than 0"),
    (lambda: Sliding(10, math.inf), ValueError, r"finite"),
    (lambda: Sliding(10, 5, measure="rows"), ValueError, r'"time" or "count", got \'rows\''),
    (lambda: Sliding(2.5, 1, measure="count"), TypeError, r"whole number of tuples"),
    (lambda: Tumbling("7d", offset=5), TypeError, r"with their unit, got length='7 days', offset=5$"),
    (lambda: Sliding(5, "1d"), TypeError, r"got length=5, slide='1 day'$"),
    (lambda: FixedBand(5, "1d"), TypeError, r"got length='1 day', start=5$"),
    (lambda: Tumbling(3, measure="count", offset=1), ValueError, r'goes with measure="time" only'),
    (lambda: Delta("x", 0), ValueError, r"Delta\(d=...\) is greater than 0"),
    (lambda: Delta(3, 1), TypeError, r"the name of a field"),
    (lambda: Punctuation("x"), TypeError, r"takes a function"),
]


@pytest.mark.parametrize(("make", "error", "text"), KINDS)
def test_kinds_of_windows(make: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        make()


SLICERS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"lateness": -1}, ValueError, r"lateness=...\) is 0 or more, got -1"),
    ({"lateness": math.inf}, ValueError, r"finite"),
    ({"lateness": 3, "in_order": True}, ValueError, r"in_order=True goes with lateness=0"),
    ({"store": "disk"}, ValueError, r'store is "lazy", "eager" or what .* got \'disk\''),
    ({"by": 3}, TypeError, r"by is the name of a field"),
    ({"every_tuples": 0}, ValueError, r"every_tuples=...\) is greater than 0"),
    ({"every_tuples": 2.5}, TypeError, r"whole number"),
    ({"every_time": -1}, ValueError, r"every_time=...\) is greater than 0"),
    ({"queries": [("a", Tumbling(1)), ("a", Tumbling(2))]}, ValueError, r"there is a query 'a' already"),
    ({"queries": {"": Tumbling(1)}}, TypeError, r"a query has a name"),
    ({"queries": {"a": 60}}, TypeError, r"is a kind of windows such as Tumbling\(60\), got 60"),
]


@pytest.mark.parametrize(("options", "error", "text"), SLICERS)
def test_slicers(options: dict[str, Any], error: Any, text: str) -> None:
    options = {"queries": {"q": Tumbling(5)}, **options}
    with pytest.raises(error, match=text):
        Slicer(monoids.Sum(), **options)


@pytest.mark.parametrize("kind", [Tumbling(3, measure="count"), Delta(None, 3), Punctuation(is_mark)])
def test_a_store_that_cannot_shift(kind: Any) -> None:
    with open_store("memory:") as store:
        with pytest.raises(ValueError, match="whose windows a late tuple shifts"):
            Slicer(monoids.Sum(), {"q": kind}, store=store)
        with pytest.raises(ValueError, match="a stream in a store has no keys"):
            Slicer(monoids.Sum(), {"q": Tumbling(3)}, store=store, by="user")
        with pytest.raises(TypeError, match="local is a whole number"):
            Slicer(monoids.Sum(), {"q": Tumbling(3)}, store=store, local="all")


def test_no_monoid() -> None:
    with pytest.raises(TypeError, match="a monoid such as"):
        Slicer(sum, {"q": Tumbling(3)})  # type: ignore[arg-type]


CALLS: list[tuple[Callable[[Slicer], Any], type[Exception], str]] = [
    (lambda s: s.insert(math.nan, time=20), ValueError, "NaN"),
    (lambda s: s.insert("x", time=20), TypeError, "'x'"),
    (lambda s: s.insert(1, time=math.nan), ValueError, "finite"),
    (lambda s: s.insert(1, time=None), MissingTime, "a tuple has a time"),
    (lambda s: s.insert(1, time="20"), TypeError, "'20'"),
    (lambda s: s.insert(1, time=True), TypeError, "True"),
    (lambda s: s.insert(math.nan, time=-100), ValueError, "NaN"),
    (lambda s: s.extend([1, 2], [20]), ValueError, "one entry a row"),
    (lambda s: s.extend([1, math.nan], [20, 21]), ValueError, "NaN in row 1"),
    (lambda s: s.extend([1, 2], [20, math.nan]), ValueError, "row 1"),
    (lambda s: s.extend([1, 2], None), MissingTime, "tuples have times"),
    (lambda s: s.extend([1], np.array(["2020-01-01"], dtype="datetime64[s]")), TypeError, "dates"),
    (lambda s: s.extend(5, [20]), TypeError, "a sequence or an array"),
    (lambda s: s.watermark(4), OutOfOrderError, "watermark 4 is before 5"),
    (lambda s: s.watermark(-math.inf), ValueError, "finite"),
    (lambda s: s.watermark("now"), TypeError, "'now'"),
    (lambda s: s.add("ten", Tumbling(5)), ValueError, "there is a query 'ten' already"),
    (lambda s: s.add("more", 5), TypeError, "a kind of windows"),
    (lambda s: s.add("d", Delta(None, 5), history=True), ValueError, "no history"),
    (lambda s: s.remove("eleven"), KeyError, "there is no query 'eleven'"),
]


@pytest.mark.parametrize(("call", "error", "text"), CALLS)
@pytest.mark.parametrize("store", ["lazy", "eager"])
def test_a_call_that_is_refused_changes_nothing(store: str, call: Any, error: Any, text: str) -> None:
    slicer = Slicer(
        monoids.Sum(),
        {"ten": Tumbling(10), "visit": Session(4), "c": Tumbling(3, measure="count")},
        lateness=30,
        store=store,
    )
    slicer.extend([1, 2, 3], [1, 7, 12])
    slicer.watermark(5)
    before = slicer.dump()
    with pytest.raises(error, match=text):
        call(slicer)
    assert slicer.dump() == before


def test_out_of_order_where_order_was_promised() -> None:
    slicer = Slicer(monoids.Sum(), {"ten": Tumbling(10)}, in_order=True)
    slicer.extend([1, 2], [3, 15])
    before = slicer.dump()
    for call in (
        lambda: slicer.insert(1, time=14),
        lambda: slicer.extend([1, 1], [14, 20]),
        lambda: slicer.extend([1, 1, 1], [16, 30, 29]),
    ):
        with pytest.raises(OutOfOrderError, match="leave out in_order=True"):
            call()
    assert slicer.dump() == before


def test_a_slide_too_small_for_the_times() -> None:
    slicer = Slicer(monoids.Sum(), {"q": Tumbling(1e-12)})
    with pytest.raises(ValueError, match="too many windows up to the time"):
        slicer.insert(1, time=1e9)
    assert slicer.slices == 0


def test_field_names() -> None:
    slicer = Slicer(monoids.Sum("x"), {"d": Delta("y", 3)})
    with pytest.raises(KeyError, match="needs the field 'y'"):
        slicer.insert({"x": 1}, time=1)
    with pytest.raises(KeyError, match="needs the field 'y'"):
        slicer.extend({"x": [1]}, [1])
    slicer.extend({"x": [1, 2], "y": [1, 9]}, [1, 2])
    assert [(r.start, r.value) for r in slicer.watermark(5)] == [(1, 1)]


@pytest.mark.parametrize("key", [date(2020, 1, 1), (1, date(2020, 1, 1)), Decimal(1), "\ud800"], ids=repr)
def test_keys_that_no_dump_could_hold_are_refused_when_they_come(key: Any) -> None:
    slicer = Slicer(monoids.Sum("n"), {"q": Tumbling(5)}, by="key")
    slicer.insert({"n": 1, "key": "a"}, time=1)
    for call in (
        lambda: slicer.insert({"n": 1, "key": key}, time=2),
        lambda: slicer.extend([{"n": 1, "key": "b"}, {"n": 1, "key": key}], [2, 3]),
    ):
        with pytest.raises(TypeError, match=r"could not be dumped; make text or a number of it"):
            call()
    assert (slicer.keys, slicer.slices) == (["a"], 1)
    Slicer.load(slicer.dump(), monoids.Sum("n"), by="key")
    assert [r.key for r in slicer.watermark(10)] == ["a"]


@pytest.mark.parametrize("every", [1e-9, 1e-300, 5e-324])
@pytest.mark.parametrize("by", [{}, {"by": int}], ids=str)
def test_triggers_that_cannot_be_told_apart_are_refused(every: float, by: Any) -> None:
    slicer = Slicer(monoids.Sum(), {"q": Tumbling(5)}, every_time=every, **by)
    for times in ([1_700_000_000.5], [1_700_000_000], [0, 1_700_000_000]):
        with pytest.raises(ValueError, match="too short to tell triggers at the time"):
            slicer.extend([1] * len(times), times)
        with pytest.raises(ValueError, match="too short to tell triggers at the time"):
            slicer.insert(1, time=times[-1])
    assert slicer.slices == 0
    slicer.insert(1, time=0)


@pytest.mark.parametrize("every", [1, 7, 0.1, 0.3, 2.5])
def test_a_trigger_comes_once_in_each_span_of_time(every: float) -> None:
    times = [n / 8 for n in range(200)]
    slicer = Slicer(monoids.Sum(), {"q": Tumbling(1000)}, every_time=every)
    triggered = [time for time in times if slicer.insert(1, time)]
    spans = [math.floor(Fraction(time) / Fraction(every)) for time in times]
    assert triggered == [t for t, a, b in zip(times[1:], spans, spans[1:], strict=False) if a < b]


def test_a_batch_that_goes_backwards_is_told_with_plain_times() -> None:
    slicer = Slicer(monoids.Sum(), {"ten": Tumbling(10)}, in_order=True)
    with pytest.raises(OutOfOrderError, match="time 3 in row 1 is before 4, the time of the tuple"):
        slicer.extend([1, 2], [4, 3])
