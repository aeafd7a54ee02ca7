"""Several aggregates over one structure."""

import operator

import numpy as np
import pytest

from mta import monoids as m
from mta.core.states import layout_of
from mta.monoids.base import ColumnarMonoid

ROWS = [
    {"temp": 20.5, "load": 3, "user": "ann", "note": None},
    {"temp": 22.5, "load": 1, "user": "bob", "note": None},
    {"temp": 21.5, "load": 2, "user": "cid", "note": None},
]
TABLE = {key: [row[key] for row in ROWS] for key in ("temp", "load", "user")}
SENSORS = m.Fields(
    peak=m.Max("temp"), load=m.Sum("load"), mean=m.Mean("temp"), who=m.ArgMin("load", "user"), n=m.Count()
)


def test_fields_are_stored_once_in_order_of_first_use():
    assert isinstance(SENSORS, ColumnarMonoid)
    assert SENSORS.fields == ("temp", "load", "user")
    assert (SENSORS.arity, SENSORS.width) == (3, 1 + 1 + 2 + 2 + 1)
    assert SENSORS.row(ROWS[0]) == (20.5, 3, "ann")


@pytest.mark.parametrize("batch", [ROWS, TABLE], ids=["rows", "columns"])
def test_results_are_dicts(batch):
    layout = layout_of(SENSORS)
    states = layout.lift(layout.elements(batch))
    expected = {"peak": 22.5, "load": 6, "mean": 21.5, "who": "bob", "n": 3}
    assert SENSORS.lower(layout.fold(states)) == expected
    results = layout.lower(layout.prefixes(states))
    assert {name: column.tolist() for name, column in results.items()} == {
        "peak": [20.5, 22.5, 22.5],
        "load": [3, 4, 6],
        "mean": [20.5, 21.5, 21.5],
        "who": ["ann", "bob", "bob"],
        "n": [1, 2, 3],
    }


def test_states_are_dicts():
    state = SENSORS.combine(SENSORS.lift(ROWS[0]), SENSORS.lift(ROWS[1]))
    assert state == {"peak": 22.5, "load": 4, "mean": (2, 43.0), "who": (1, "bob"), "n": 2}


def test_plain_elements():
    both = m.Fields(low=m.Min(), high=m.Max(), n=m.Count())
    layout = layout_of(both)
    assert both.fields == ()
    assert both.lower(layout.fold(layout.lift(layout.elements([3, 1, 2])))) == {"low": 1, "high": 3, "n": 3}


def test_counting_alone_keeps_nothing_of_an_element():
    counts = m.Fields(n=m.Count())
    assert counts.row({"a": "thing"}) == 1
    assert layout_of(counts).elements(["x", "y"])[0].tolist() == [1, 1]


def test_objects_among_them():
    mixed = m.Fields(names=m.Concat("user"), peak=m.Max("temp"), n=m.Count())
    assert isinstance(mixed, m.Fields)
    assert not isinstance(mixed, ColumnarMonoid)
    assert mixed.fields == ("user", "temp")
    assert mixed.row(ROWS[0]) == ("ann", 20.5)
    layout = layout_of(mixed)
    for batch in (ROWS, TABLE):
        states = layout.lift(layout.elements(batch))
        assert mixed.lower(layout.fold(states)) == {"names": "annbobcid", "peak": 22.5, "n": 3}
    assert layout.lower(layout.prefixes(states))["names"].tolist() == ["ann", "annbob", "annbobcid"]


def test_one_column_read_as_any_value_and_as_a_number():
    both = m.Fields(last=m.Last("x"), total=m.Sum("x"))
    layout = layout_of(both)
    states = layout.lift(layout.elements({"x": np.array([1, 2], dtype=object)}))
    assert both.lower(layout.fold(states)) == {"last": 2, "total": 3}
    with pytest.raises(TypeError, match=r"row 1: Sum\('x'\) takes an int or a float, got 'b'"):
        layout.elements({"x": [1, "b"]})
    with pytest.raises(TypeError, match=r"Sum\('x'\) takes an int or a float, got 'b'"):
        both.row({"x": "b"})


def test_an_element_that_one_aggregate_refuses():
    with pytest.raises(ValueError, match=r"GeometricMean\('x'\) takes no negative numbers, got -1"):
        m.Fields(a=m.Max("x"), b=m.GeometricMean("x")).row({"x": -1})


def test_a_missing_field_is_named():
    with pytest.raises(KeyError, match="needs the field 'load'"):
        SENSORS.row({"temp": 1.0, "user": "x"})
    with pytest.raises(KeyError, match="load"):
        layout_of(SENSORS).elements({"temp": [1.0], "user": ["x"]})


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (m.Fields, "at least one monoid by name"),
        (
            lambda: m.Fields(a=m.Fields(b=m.Max())),
            "cannot hold other Fields; put the aggregates of 'a' beside the rest",
        ),
        (lambda: m.Fields(a=5), r"Fields\(a=...\) takes a monoid, such as Max\(\), got 5"),
        (lambda: m.Fields(a=m.Max), r"Fields\(a=...\) takes a monoid, such as Max\(\), got <class"),
        (lambda: m.Fields(a=m.Max("x"), b=m.Min()), r"name their fields or none does, but \['b'\] name none"),
        (lambda: m.Fields(a=m.Max(), b=m.ArgMax()), "different numbers of inputs: {'a': 1, 'b': 2}"),
    ],
)
def test_what_cannot_be_together(make, text):
    with pytest.raises(TypeError, match=text):
        make()


def test_functions_beside_others():
    monoid = m.Fields(a=m.Max("x"), b=m.from_function(operator.add, 0, field="x"))
    assert monoid.lower(monoid.combine(monoid.lift({"x": 1}), monoid.lift({"x": 2}))) == {"a": 2, "b": 3}
