"""Columns come back as they were, whole numbers in fewer bytes where they are close together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta.encoding.columns import decode_column, encode_column

WORD = 2**63


def round_trip(column: np.ndarray) -> tuple[np.ndarray, int]:
    kind, parameters, raw = encode_column(column)
    assert all(-WORD <= parameter < WORD for parameter in parameters)
    return decode_column(kind, parameters, memoryview(bytes(raw)), len(column)), len(raw)


def same(column: np.ndarray) -> int:
    back, size = round_trip(column)
    assert back.dtype == column.dtype
    assert back.tolist() == column.tolist()
    return size


@given(st.lists(st.integers(-WORD, WORD - 1), max_size=80))
def test_whole_numbers(values: list[int]) -> None:
    same(np.array(values, dtype=np.int64))


@given(
    st.integers(-WORD, WORD - 1),
    st.lists(st.integers(0, 300), min_size=32, max_size=80),
    st.sampled_from([1, 1 << 8, 1 << 24, 1 << 40]),
)
def test_whole_numbers_that_are_close(least: int, offsets: list[int], scale: int) -> None:
    same(np.array([min(least + offset * scale, WORD - 1) for offset in offsets], dtype=np.int64))


@given(st.lists(st.floats(allow_nan=False), max_size=80))
def test_real_numbers(values: list[float]) -> None:
    same(np.array(values, dtype=np.float64))


@pytest.mark.parametrize("values", [[], ["a", None, 3, (1, 2), 2**80] * 20])
def test_objects(values: list[object]) -> None:
    column = np.empty(len(values), dtype=object)
    column[:] = values
    same(column)


@pytest.mark.parametrize(
    ("column", "size"),
    [
        (np.arange(1000) * 7 - 5, 0),
        (np.full(1000, 3), 0),
        (np.array([-WORD, WORD - 1] * 50), 800),
        (np.array([*range(99), 150]), 100),
        (np.array([*range(99), 99 + 255 - 98]), 200),
        (np.array([*range(99), 65536]), 400),
        (np.array([*range(99), 2**32 - 1]), 400),
        (np.array([*range(99), 2**32]), 800),
        (np.array([2**40 + i * i for i in range(100)]), 200),
        (np.arange(20), 160),
        # the ends are a steady rate apart, what is between is not
        (np.array([0, 1, *[5] * 96, 98, 99]), 100),
    ],
    ids=str,
)
def test_sizes(column: np.ndarray, size: int) -> None:
    assert same(column) == size


def test_steps_do_not_wrap() -> None:
    column = np.array([-WORD + i * (2**57) for i in range(128)], dtype=np.int64)
    same(column)
    same(column[::-1].copy())


def test_views_with_strides() -> None:
    values = np.arange(400) % 90
    same(values[::2])
    same(np.broadcast_to(np.array([2.5]), (100,)))
