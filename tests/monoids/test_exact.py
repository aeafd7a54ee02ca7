"""Whole numbers are exact, and a result that leaves 64 bits is refused and never wrapped."""

import numpy as np
import pytest

from mta import monoids as m
from mta.core.states import layout_of
from mta.monoids.laws import fold
from mta.numbers.wide import is_wide

BIG = 2**62


def columns(monoid, values):
    layout = layout_of(monoid)
    return layout, layout.lift(layout.elements(values))


@pytest.mark.parametrize(
    ("monoid", "values"),
    [
        (m.Sum(), [BIG, BIG]),
        (m.Sum(), [-BIG, -BIG, -1]),
        (m.Product(), [BIG, 2]),
        (m.Product(), [2] * 63),
        (m.Product(), [3] * 1000),
        (m.from_ufunc(np.add, 0), [BIG, BIG]),
        (m.from_ufunc(np.lcm, 1), [2**40 - 1, 2**40 - 3]),
    ],
    ids=str,
)
def test_overflow_is_refused(monoid, values):
    layout, states = columns(monoid, values)
    aggregates = {
        "scalar": fold(monoid, [monoid.lift(value) for value in values]),
        "fold": layout.fold(states),
        "prefix": layout.at(layout.prefixes(states), len(values) - 1),
        "suffix": layout.at(layout.suffixes(states), 0),
    }
    for state in aggregates.values():
        assert abs(state) >= 2**63
        with pytest.raises(OverflowError, match="does not fit in 64 bits; the window itself is intact"):
            monoid.lower(state)
    for scanned in (layout.prefixes(states), layout.suffixes(states), layout.combine(states, states)):
        if any(not -(2**63) <= state < 2**63 for state in layout.state_list(scanned)):
            with pytest.raises(OverflowError, match="in row"):
                layout.lower(scanned)


def test_the_message_says_what_and_where():
    layout, states = columns(m.Sum("bytes"), [{"bytes": BIG}, {"bytes": BIG}])
    with pytest.raises(
        OverflowError, match=r"the result of Sum\('bytes'\) in row 1 is 9223372036854775808, which"
    ):
        layout.lower(layout.prefixes(states))


def test_a_window_goes_on_after_an_overflow():
    layout, states = columns(m.Sum(), [BIG, BIG, BIG, -BIG, -BIG, -BIG, 5])
    prefixes = layout.prefixes(states)
    assert layout.state_list(prefixes)[-1] == 5
    assert layout.lower(layout.cut(prefixes, 4, 7)).tolist() == [BIG, 0, 5]
    assert layout.lower(layout.suffixes(layout.cut(states, 5, 7))).tolist() == [5 - BIG, 5]


def test_states_shrink_back_to_64_bits():
    layout, states = columns(m.Sum(), [BIG, BIG, -BIG, -BIG])
    assert is_wide(layout.prefixes(states)[0])
    zero = layout.combine(layout.prefixes(states), layout.gather([-BIG]))
    assert zero[0].dtype == np.int64
    assert zero[0].tolist() == [0, BIG, 0, -BIG]


def test_a_product_stays_small_and_zero_ends_it():
    product = m.Product()
    layout, states = columns(product, [10**18] * 5000)
    assert layout.fold(states).bit_length() <= 1025
    assert product.combine(layout.fold(states), 0) == 0
    assert product.combine(0, layout.fold(states)) == 0
    assert product.combine(layout.fold(states), -1) < 0
    layout, states = columns(product, [10**18] * 10 + [0, 7])
    assert layout.lower(layout.suffixes(states))[-1] == 7
    assert layout.lower(layout.cut(layout.prefixes(states), 10, 12)).tolist() == [0, 0]


def test_whole_and_real_factors_meet_as_reals():
    product = m.Product()
    assert product.combine(product.combine(10**18, 10**18), 1e-36) == pytest.approx(1.0)
    assert product.combine(10**18, product.combine(10**18, 1e-36)) == pytest.approx(1.0)


def test_the_mean_of_large_numbers_is_exact():
    layout, states = columns(m.Mean(), [2**63 - 1] * 3)
    assert layout.fold(states) == (3, 3 * (2**63 - 1))
    assert layout.lower(layout.prefixes(states)).tolist() == [2.0**63] * 3


@pytest.mark.parametrize("value", [-(2**63), 2**63 - 1])
def test_the_ends_of_64_bits_are_inside(value):
    for monoid in (m.Sum(), m.Product(), m.Max(), m.Last()):
        layout, states = columns(monoid, [value])
        assert monoid.lower(layout.fold(states)) == value
        assert layout.lower(layout.prefixes(states)).tolist() == [value]
