"""The laws catch monoids that break them."""

import operator

import numpy as np
import pytest
from hypothesis import strategies as st

from mta import monoids as m
from mta.monoids.laws import monoid_laws


class WrongSuffix(m.Max):
    def suffix_columns(self, states):
        return self.prefix_columns(states)


class WrongLower(m.Max):
    def lower_columns(self, states):
        return states[0] + 1


class WrongLift(m.Sum):
    def lift_columns(self, inputs):
        return (inputs[0] * 2,)


class WrongPack(m.Concat):
    def pack(self, state):
        return state[:1]


@pytest.mark.parametrize(
    ("monoid", "elements", "text"),
    [
        (m.from_function(operator.sub, 0), st.integers(1, 9), "is not associative|depends on|identity"),
        (m.from_function(operator.add, 1), st.integers(1, 9), "depends on|identity"),
        (m.from_ufunc(np.subtract, 0), st.integers(1, 9), "is not associative|depends on|identity"),
        (WrongSuffix(), st.integers(), "other suffixes in columns"),
        (WrongLower(), st.integers(0, 9), "other results in columns"),
        (WrongLift(), st.integers(1, 9), "other states in columns"),
        (WrongPack(), st.text(min_size=1), "on its way to bytes and back"),
    ],
    ids=str,
)
def test_a_broken_monoid_is_caught(monoid, elements, text):
    with pytest.raises(Exception, match=text):
        monoid_laws(monoid, elements)()
