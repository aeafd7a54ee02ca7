"""What goes into a store comes out the same, types included."""

from __future__ import annotations

import datetime
import decimal
import enum
import math
import subprocess
import sys
import threading
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta import AmortizedMTA, LogMTA, monoids
from mta.encoding.packing import DEEPEST, Unpackable, pack, unpack
from mta.encoding.untrusted import Malformed
from stores import open_store

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


@pytest.mark.parametrize("dtype", ["<,8", ",)", "(<,", "01", "a", "|O", "O", "<U1", "<M8", "f8,", "", "<f7"])
def test_arrays_of_what_is_no_number_are_refused(dtype: str) -> None:
    """Some of these NumPy takes for Python, and raises a SyntaxError."""
    hostile = msgpack.packb(msgpack.ExtType(5, pack([dtype, [1], b"x" * 8])))
    with pytest.raises(Malformed):
        unpack(hostile)


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
    with pytest.raises(ValueError, match="unknown extension type 99"):
        unpack(msgpack.packb(msgpack.ExtType(99, pack("os.system"))))
    with pytest.raises((ValueError, TypeError)):
        unpack(msgpack.packb(msgpack.ExtType(5, pack(["|O8", [1], bytes(8)]))))


WRAPPINGS = {
    "tuples": lambda inner: (inner,),
    "lists": lambda inner: [inner],
    "dicts": lambda inner: {"in": inner},
    "sets": lambda inner: frozenset([inner]),
    "pairs": lambda inner: (1, inner),
    "tuples in lists": lambda inner: ([(inner)],),
    "dicts of tuples": lambda inner: {"a": 1, "b": (inner,)},
    "lists of dicts of tuples": lambda inner: [{"a": ({"b": inner}, 2)}],
}


def nested(wrapping: str, levels: int) -> Any:
    """So many levels of containers around a number."""
    value: Any = 2**70
    while depth(value) < levels:
        value = WRAPPINGS[wrapping](value)
    return value


def depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()))
    if isinstance(value, (list, tuple, set, frozenset)):
        return 1 + max(map(depth, value))
    return 0


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_what_is_packed_can_be_read(wrapping: str) -> None:
    """At every depth: refused, or read again, in a thread too, whose stack may be small."""
    taken = []
    for levels in [*range(1, 70), 100, 190]:
        value = nested(wrapping, levels)
        if depth(value) <= DEEPEST:
            taken.append((value, pack(value)))
        else:
            with pytest.raises(Unpackable, match=f"nested more than {DEEPEST} levels deep cannot be kept"):
                pack(value)
    deeper: Any = 1
    for _ in range(600):
        deeper = WRAPPINGS[wrapping](deeper)
    with pytest.raises(Unpackable, match="nested more than"):
        pack(deeper)
    assert all(unpack(data) == value for value, data in taken)
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend(unpack(data) for _, data in taken))
    thread.start()
    thread.join()
    assert found == [value for value, _ in taken]


SMALL_STACK = """
import threading
from mta.encoding.packing import DEEPEST, pack, unpack

def wrapped(wrap):
    value = 1
    for _ in range(DEEPEST):
        value = wrap(value)
    return value

def run():
    for value in (wrapped(lambda each: (each,)), wrapped(lambda each: frozenset([each]))):
        assert unpack(pack(value)) == value
    print("read")

threading.stack_size(256 << 10)
thread = threading.Thread(target=run)
thread.start()
thread.join()
"""


def test_the_deepest_is_read_on_a_small_stack() -> None:
    """In a process of its own, since it is the process that would end."""
    done = subprocess.run(
        [sys.executable, "-c", SMALL_STACK], check=False, capture_output=True, text=True, timeout=600
    )
    assert (done.returncode, done.stdout) == (0, "read\n"), done.stderr


def test_what_holds_itself_is_refused() -> None:
    ring: list[Any] = [1]
    ring.append(ring)
    with pytest.raises(Unpackable, match="nested more than"):
        pack(ring)


def test_deep_bytes_do_not_end_the_process() -> None:
    """Bytes that somebody else wrote."""
    for code in (1, 3, 4):
        data = msgpack.packb([])
        for _ in range(1000):
            data = msgpack.packb([msgpack.ExtType(code, data)])
        with pytest.raises(ValueError, match="deep inside each other"):
            unpack(data)


@pytest.mark.parametrize("make", [monoids.Collect, monoids.Last, monoids.CollectDistinct, monoids.First])
@pytest.mark.parametrize("wrapping", ["tuples", "sets", "pairs", "tuples in lists"])
def test_deep_elements_in_a_window(make: Any, wrapping: str) -> None:
    if make is monoids.CollectDistinct and wrapping == "tuples in lists":
        pytest.skip("lists are in no set")
    deep, deepest = nested(wrapping, DEEPEST + 4), nested(wrapping, DEEPEST - 1)
    with open_store("memory:") as store:
        with AmortizedMTA(make(), store=store, name="deep", page_size=4) as window:
            with pytest.raises(Unpackable):
                window.push(deep)
            for _ in range(40):
                window.push(deepest)
            for call in (window.push, window.insert, lambda value: window.slide([1, value])):
                with pytest.raises(Unpackable, match="nested more than"):
                    call(deep)
            with pytest.raises(Unpackable, match="nested more than"):
                window.checkpoint(offset=deep)
            window.checkpoint(offset=deepest)
        with AmortizedMTA.restore(store, "deep", make()) as again:
            assert (again.offset, len(again)) == (deepest, 40)
            found = again.query()
            assert deepest in found if isinstance(found, (list, set)) else found == deepest


@pytest.mark.parametrize(
    "value",
    ["\ud800", "a\udfffb", ("x", "\ud800"), ["\ud800"], {"k": "\ud800"}, {"\ud800": 1}, ({"\udc00"},)],
    ids=ascii,
)
def test_half_of_a_surrogate_pair(value: Any) -> None:
    with pytest.raises(Unpackable, match="half of a surrogate pair cannot be kept in a store"):
        pack(value)
    with (
        open_store("memory:") as store,
        AmortizedMTA(monoids.Last(), store=store, name="text", page_size=4) as window,
    ):
        window.push("before")
        for call in (window.push, window.insert, lambda each: window.slide(["a", each])):
            with pytest.raises(Unpackable, match="surrogate"):
                call(value)
        assert [window.push(f"{n} \U0001f600") for n in range(9)][-1] == "8 \U0001f600"
        window.checkpoint()
        assert len(window) == 10


OBJECT = object()
UNPACKABLE: dict[str, tuple[Any, Any]] = {
    "text that is none": (lambda older, younger: older + younger, lambda i: "\ud800" if i == 9 else "x"),
    "ever deeper": (lambda older, younger: (older, younger), lambda i: i),
    "an object": (
        lambda older, younger: OBJECT if 9 in (older, younger) or older is OBJECT else younger,
        None,
    ),
}


@pytest.mark.parametrize("kind", [AmortizedMTA, LogMTA])
@pytest.mark.parametrize("label", UNPACKABLE)
@pytest.mark.parametrize("call", ["insert", "push", "extend", "slide"])
@pytest.mark.parametrize("page_size", [2, 4, 256])
def test_a_page_whose_aggregate_no_store_can_hold_is_not_filled(
    kind: Any, label: str, call: str, page_size: int
) -> None:
    """Else no checkpoint would ever succeed again."""
    combine, lift = UNPACKABLE[label]
    with open_store("memory:") as store:
        monoid = monoids.from_function(combine, None, lift=lift, lower=lambda _: 0, name="odd")
        window = kind(monoid, store=store, name="w", page_size=page_size)
        count = 0

        def fill() -> None:
            nonlocal count
            for _ in range(600):
                getattr(window, call)(count if call in ("insert", "push") else [count])
                count += 1

        if label == "ever deeper" and page_size < 256:
            fill()  # no deeper than its tiers
        else:
            with pytest.raises(Unpackable, match="cannot be kept in a store"):
                fill()
        assert len(window) == count
        window.checkpoint(count)
        window.close()
        with kind.restore(store, "w", monoid) as again:
            assert (len(again), again.offset) == (count, count)
