"""Sums in two words are Python's whole numbers."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta import monoids
from mta.encoding.columns import decode_column, encode_column
from mta.monoids.columns import alike, joined
from mta.numbers import wide

WORD = 2**63
WORDS = st.one_of(
    st.integers(-WORD, WORD - 1),
    st.sampled_from(
        [-WORD, WORD - 1, -1, 0, 1, 2**53, 2**53 + 1, -(2**53) - 1, 2**62, 1_700_000_000_000_000_000]
    ),
)
#: sums of fewer than 2^55 words
SUMS = st.one_of(
    WORDS, st.integers(-(2**118), 2**118), st.sampled_from([-WORD - 1, WORD, 2**64, -(2**64), 2**96])
)


def one_word(values: list[int]) -> Any:
    return np.array(values, dtype=np.int64)


def two_words(values: list[int]) -> Any:
    found = wide.widened(np.fromiter(values, dtype=object, count=len(values)))
    assert found is not None
    return found


def column(values: list[int]) -> Any:
    return one_word(values) if all(-WORD <= value < WORD for value in values) else two_words(values)


@given(st.lists(SUMS))
def test_there_and_back(values: list[int]) -> None:
    words = two_words(values)
    assert wide.plain_list(words) == wide.as_objects(words).tolist() == values
    assert wide.plain_list(wide.narrowed(words)) == values
    assert wide.is_wide(wide.narrowed(words)) == any(not -WORD <= value < WORD for value in values)


def test_what_has_more_bits_or_is_not_whole() -> None:
    for values in ([2**127], [-(2**127) - 1], [1, 2.0], [True, 2]):
        assert wide.widened(np.fromiter(values, dtype=object, count=len(values))) is None
    assert wide.widened(np.array([1.5])) is None
    most = [2**127 - 1, -(2**127)]
    assert wide.plain_list(two_words(most)) == most
    assert wide.added(two_words(most), one_word([1, -1])).tolist() == [2**127, -(2**127) - 1]
    assert wide.running(two_words([2**126] * 3)).tolist() == [2**126, 2**127, 3 * 2**126]


@given(st.lists(st.tuples(SUMS, SUMS), min_size=1), st.booleans())
def test_addition(pairs: list[tuple[int, int]], one: bool) -> None:
    older, younger = map(list, zip(*pairs, strict=True))
    if one:
        younger = younger[:1]
    sums = wide.added(column(older), column(younger))
    assert wide.plain_list(sums) == [
        a + b for a, b in zip(older, younger * (len(older) if one else 1), strict=True)
    ]
    assert wide.is_wide(sums) == any(not -WORD <= value < WORD for value in wide.plain_list(sums))


@given(st.lists(SUMS, min_size=1))
def test_running_sums_and_the_whole(values: list[int]) -> None:
    some = column(values)
    assert wide.plain_list(wide.running(some)) == list(accumulate(values))
    assert wide.plain_list(wide.running(some[::-1])) == list(accumulate(values[::-1]))
    assert wide.total(some) == sum(values)


@given(st.lists(st.tuples(SUMS, st.integers(1, 2**26 + 5)), min_size=1))
def test_division_is_rounded_as_in_python(pairs: list[tuple[int, int]]) -> None:
    totals, counts = map(list, zip(*pairs, strict=True))
    found = wide.ratios(column(totals), one_word(counts)).tolist()
    assert found == [a / b for a, b in pairs]


@given(st.lists(WORDS, min_size=1, max_size=40), st.integers(1, 2**26 - 1), st.integers(-3, 3))
def test_division_of_sums(values: list[int], count: int, off: int) -> None:
    """What means are of: also right between two floats, and beside."""
    totals = [value * count + off for value in values]
    counts = [count] * len(values)
    assert wide.ratios(column(totals), one_word(counts)).tolist() == [total / count for total in totals]


@given(
    st.lists(st.one_of(WORDS, SUMS), min_size=1),
    st.lists(st.one_of(WORDS, SUMS, st.floats(-9, 9)), min_size=1),
)
def test_columns_of_several_kinds_end_to_end(first: list[Any], second: list[Any]) -> None:
    parts = [column(first), np.fromiter(second, dtype=object, count=len(second))]
    assert wide.plain_list(joined(parts)) == first + second
    assert len({part.dtype for part in alike(parts)}) == 1


LIFTED: dict[str, Any] = {
    "sum": (monoids.Sum, lambda value: value),
    "mean": (monoids.Mean, lambda value: (1, value)),
    "ufunc": (lambda: monoids.from_ufunc(np.add, 0), lambda value: value),
}


@pytest.mark.parametrize("label", LIFTED)
@given(values=st.lists(WORDS, min_size=1, max_size=80))
def test_columns_of_a_monoid(label: str, values: list[int]) -> None:
    make, lift = LIFTED[label]
    monoid = make()
    states = monoid.lift_columns((one_word(values),))
    plain = [lift(value) for value in values]
    prefixes = list(accumulate(plain, monoid.combine))
    suffixes = list(accumulate(plain[::-1], lambda a, b: monoid.combine(b, a)))[::-1]
    found = monoid.prefix_columns(states)
    assert monoid.state_list(found) == prefixes
    assert monoid.state_list(monoid.suffix_columns(states)) == suffixes
    assert monoid.state_list(monoid.fold_columns(states)) == prefixes[-1:]
    assert monoid.state_at(found, len(values) - 1) == prefixes[-1]
    again = monoid.combine_columns(found, monoid.suffix_columns(states))
    assert monoid.state_list(again) == list(map(monoid.combine, prefixes, suffixes))
    assert monoid.state_list(monoid.prefix_columns(found)) == list(accumulate(prefixes, monoid.combine))
    assert (
        monoid.state_list(monoid.fold_columns(again))
        == list(accumulate(monoid.state_list(again), monoid.combine))[-1:]
    )
    if label == "mean":
        assert monoid.lower_columns(found).tolist() == [total / count for count, total in prefixes]
    elif all(-WORD <= value < WORD for value in prefixes):
        assert monoid.lower_columns(found).tolist() == prefixes
    else:
        row = next(row for row, value in enumerate(prefixes) if not -WORD <= value < WORD)
        with pytest.raises(OverflowError, match=rf"in row {row} is {prefixes[row]},"):
            monoid.lower_columns(found)


@given(st.lists(SUMS))
def test_in_a_page_they_are_what_objects_are(values: list[int]) -> None:
    """So that pages that were written before there were two words are read, and the other way round."""
    objects = np.fromiter(values, dtype=object, count=len(values))
    encoded = encode_column(two_words(values))
    assert encoded == encode_column(objects)
    kind, parameters, raw = encoded
    assert decode_column(kind, parameters, memoryview(raw), len(values)).tolist() == values


def test_a_predicate_sees_plain_numbers() -> None:
    words = two_words([2**70, 1])
    assert monoids.Sum().shaped((words,)).tolist() == [2**70, 1]
    shaped = monoids.Fields(a=monoids.Mean()).shaped((one_word([1, 1]), words))
    assert [part.tolist() for part in shaped["a"]] == [[1, 1], [2**70, 1]]
