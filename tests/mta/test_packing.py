"""What goes into a store comes out the same, types included."""

from __future__ import annotations

import datetime
import decimal
import enum
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta.packing import Unpackable, pack, unpack

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(10**60), 10**60),
    st.floats(allow_nan=False),
    st.complex_numbers(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.binary(),
)
KEYS = st.one_of(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), st.integers(), st.booleans())
HASHABLE = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3).map(tuple), st.frozensets(inner, max_size=3)),
    max_leaves=8,
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(KEYS, inner, max_size=4),
        st.sets(HASHABLE, max_size=3),
        st.frozensets(HASHABLE, max_size=3),
    ),
    max_leaves=20,
)


def identical(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(identical, a, b))
    if isinstance(a, dict):
        return (
            list(map(type, a)) == list(map(type, b))
            and a.keys() == b.keys()
            and all(identical(a[k], b[k]) for k in a)
        )
    if isinstance(a, float):
        return a == b and math.copysign(1, a) == math.copysign(1, b)
    return bool(a == b)


@given(VALUES)
def test_round_trip(value: Any) -> None:
    assert identical(unpack(pack(value)), value)


@given(st.integers(-70, 70), st.integers(0, 600))
def test_whole_numbers_of_any_size(offset: int, power: int) -> None:
    for value in (2**power + offset, -(2**power) + offset):
        assert unpack(pack(value)) == value


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6).reshape(2, 3),
        np.array([1.5, np.nan, np.inf]),
        np.array([], dtype=np.float32),
        np.array(3.5),
        np.arange(10)[::-2],
        np.arange(6).reshape(2, 3).T,
        np.array([True, False]),
        np.array([1 + 2j]),
        np.arange(4, dtype=">i4"),
        np.arange(4, dtype=np.uint8),
    ],
    ids=repr,
)
def test_arrays(array: Any) -> None:
    back = unpack(pack([array, (array,)]))
    for found in (back[0], back[1][0]):
        assert found.shape == array.shape
        assert found.dtype == array.dtype.newbyteorder("<")
        np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize("value", [math.nan, -0.0, math.inf, -math.inf, 5e-324])
def test_odd_floats(value: float) -> None:
    assert repr(unpack(pack(value))) == repr(value)


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (np.int8(5), 5),
        (np.float32(0.5), 0.5),
        (np.float64(0.1), 0.1),
        (np.bool_(True), True),
        (np.uint64(2**63), 2**63),
    ],
)
def test_scalars_of_numpy_become_plain(value: Any, plain: Any) -> None:
    back = unpack(pack([value]))[0]
    assert back == plain
    assert type(back) is type(plain)


class Colour(enum.IntEnum):
    RED = 1


class Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    "value",
    [
        object(),
        datetime.date(2020, 1, 1),
        datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC),
        decimal.Decimal("1.5"),
        Colour.RED,
        Text("a"),
        len,
        range(3),
        bytearray(b"x"),
        np.array(["a"]),
        np.array([object()]),
        np.array(["2020"], dtype="M8[Y]"),
        {"a": [object()]},
        ({object()},),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_what_cannot_be_kept_is_refused(value: Any) -> None:
    with pytest.raises(
        Unpackable, match=r"cannot be kept in a store; use plain Python values .* pack and unpack"
    ):
        pack(value)
    assert issubclass(Unpackable, TypeError)


def test_no_code_comes_out_of_bytes() -> None:
    """Extension types that were never written are refused."""
    import msgpack

    with pytest.raises(ValueError, match="unknown extension type 99"):
        unpack(msgpack.packb(msgpack.ExtType(99, pack("os.system"))))
    with pytest.raises((ValueError, TypeError)):
        unpack(msgpack.packb(msgpack.ExtType(5, pack(["|O8", [1], bytes(8)]))))
