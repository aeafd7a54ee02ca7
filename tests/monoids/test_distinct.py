"""DistinctCount, against HyperLogLog in plain Python."""

from __future__ import annotations

import builtins
import math
import struct
import tracemalloc
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import pytest
import xxhash
from chance import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from monoids.through_windows import check_everywhere

from mta import AmortizedMTA, LogMTA, ManifestMismatch, policies
from mta import monoids as m
from mta.core.states import layout_of
from mta.monoids import sketches
from mta.monoids.hashes import hash_of, hashes_of
from mta.monoids.laws import fold, tolerant
from stores import open_store

ALL = 2**64 - 1


def mixed(bits: int) -> int:
    """SplitMix64."""
    bits = (bits + 0x9E3779B97F4A7C15) & ALL
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & ALL
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & ALL
    return bits ^ (bits >> 31)


def hashed(value: Any) -> int:
    if isinstance(value, str):
        return xxhash.xxh3_64_intdigest(value.encode("utf-8", "surrogatepass"), 1)
    if isinstance(value, bytes):
        return xxhash.xxh3_64_intdigest(value, 2)
    if isinstance(value, float) and not value.is_integer():
        bits = int.from_bytes(struct.pack("<d", value), "little")
        return mixed(mixed(bits) ^ 0xD1B54A32D192ED03)
    if isinstance(value, (int, float)) and -(2**63) <= value < 2**63:
        return mixed(int(value) & ALL)
    if isinstance(value, (int, float)):
        return xxhash.xxh3_64_intdigest(b"i%x" % int(value), 3)
    parts = []
    for part in value:
        text = b"s" + part.encode() if isinstance(part, str) else b"i%x" % part
        parts.append(b"%d:%b" % (len(text), text))
    return xxhash.xxh3_64_intdigest(b"t" + b"".join(parts), 3)


def estimated(values: Sequence[Any], lg_k: int = 12) -> float:
    """Algorithm 6 of Ertl's paper, without the correction for registers that are full."""
    bits = lg_k + 1
    ranks: dict[int, int] = {}
    for value in values:
        text = f"{hashed(value):064b}"
        register, rest = int(text[:bits], 2), text[bits : bits + 30]
        rank = 30 - len(rest.lstrip("0")) + 1
        ranks[register] = max(ranks.get(register, 0), rank)
    if not ranks:
        return 0.0
    count = 2**bits
    x = (count - len(ranks)) / count
    sigma, factor = x, 1.0
    while x:
        x *= x
        before, sigma, factor = sigma, sigma + x * factor, factor * 2
        if before == sigma:
            break
    shares = math.fsum(2.0**-rank for rank in ranks.values())
    return count * count / (2 * math.log(2)) / (count * sigma + shares)


def same(found: Any, wanted: Any) -> bool:
    return type(found) is float and math.isclose(found, wanted, rel_tol=1e-12)


whole = st.integers(-(2**63), 2**63 - 1)
reals = st.floats(allow_nan=False)
anything = st.one_of(
    st.integers(-9, 9),
    whole,
    reals,
    st.integers(-(2**70), 2**70),
    st.text(max_size=3),
    st.binary(max_size=3),
    st.tuples(st.integers(0, 3), st.text("ab", max_size=1)),
)


@settings(max_examples=examples(6))
@given(
    lg_k=st.sampled_from([4, 5, 12]),
    width=st.integers(1, 50),
    elements=st.one_of(
        st.lists(anything, min_size=1, max_size=100),
        st.lists(st.integers(0, 60), min_size=40, max_size=120),
        st.lists(st.text("abc", max_size=3), min_size=40, max_size=120),
        st.lists(st.floats(0, 9), min_size=40, max_size=120),
    ),
)
@example(lg_k=4, width=45, elements=list(range(150)))
@example(lg_k=4, width=3, elements=[7] * 30)
@example(lg_k=12, width=30, elements=[f"user {i % 40}" for i in range(120)])
def test_windows_of_different_elements(lg_k: int, width: int, elements: list[Any]) -> None:
    check_everywhere(
        lambda: m.DistinctCount(lg_k=lg_k), elements, lambda some: estimated(some, lg_k), same, width=width
    )


@settings(max_examples=examples(4))
@given(elements=st.lists(st.integers(0, 50), min_size=1, max_size=100))
def test_beside_other_fields(elements: list[int]) -> None:
    rows = [{"user": f"user {i}", "amount": i / 2} for i in elements]

    def make() -> m.Monoid:
        users, amounts = m.DistinctCount("user", lg_k=5), m.DistinctCount("amount", lg_k=4)
        return m.Fields(users=users, amounts=amounts, last=m.Last("user"), total=m.Sum("amount"))

    def expected(some: Sequence[dict[str, Any]]) -> dict[str, Any]:
        users, amounts = [each["user"] for each in some], [each["amount"] for each in some]
        return {
            "users": estimated(users, 5),
            "amounts": estimated(amounts, 4),
            "last": users[-1],
            "total": sum(amounts),
        }

    assert isinstance(make(), m.ColumnarMonoid)
    check_everywhere(make, rows, expected, tolerant(1e-12, 0.0), width=20)


def test_beside_fields_that_are_no_columns() -> None:
    both = m.Fields(n=m.DistinctCount(lg_k=4), all=m.Collect())
    with open_store("memory://") as store:
        window: Any = AmortizedMTA(both, policies.CountWindow(30), store=store, name="w", page_size=4)
        found = window.slide([i % 23 for i in range(90)])["n"].tolist()
        assert found == [
            pytest.approx(estimated([j % 23 for j in range(max(0, i - 29), i + 1)], 4)) for i in range(90)
        ]
        window.checkpoint()
        window.close()
        restored: Any = AmortizedMTA.restore(store, "w", both, policies.CountWindow(30))
        assert restored.query()["n"] == found[-1]
        restored.close()


@pytest.mark.parametrize("kind", [LogMTA, AmortizedMTA])
@pytest.mark.parametrize(
    "policy", [policies.CountWindow(5000), policies.TimeWindow(5000), policies.CountWindow(9)], ids=str
)
def test_large_batches(kind: Any, policy: Any) -> None:
    """The windows slide over several pages of the default size, and over batches."""
    rng = np.random.default_rng(5)
    window = kind(m.DistinctCount(lg_k=8), policy)
    values, times = rng.integers(0, 4000, 20_000), np.cumsum(rng.integers(0, 3, 20_000))
    found, start = [], 0
    for stop in (3000, 3001, 9000, 17_000, 20_000):
        found += window.slide(values[start:stop], times[start:stop]).tolist()
        start = stop
    for row in (0, 1, 10, 2999, 3000, 3001, 5000, 8999, 9000, 12_345, 16_999, 19_999):
        if isinstance(policy, policies.TimeWindow):
            first = int(times.searchsorted(times[row] - 5000, "right"))
        else:
            first = max(0, row + 1 - (policy.limits().count or 0))
        assert same(found[row], estimated(values[first : row + 1].tolist(), 8)), row
    assert window.query() == found[-1]
    pushed = kind(m.DistinctCount(lg_k=8), policy, page_size=256)
    pushed.extend(values[:10_000], times[:10_000])
    for row in range(10_000, 12_000):
        assert pushed.push(int(values[row]), int(times[row])) == found[row]


@pytest.mark.parametrize(("lg_k", "rounds"), [(4, 300), (8, 200), (12, 60)])
@pytest.mark.parametrize("load", [0.01, 0.3, 1, 3, 10, 50])
def test_the_error_is_as_promised(lg_k: int, rounds: int, load: float) -> None:
    monoid = m.DistinctCount(lg_k=lg_k)
    count = max(3, int(load * 2 ** (lg_k + 1)))
    promised = 1.04 / math.sqrt(2 ** (lg_k + 1))
    ratios = []
    for number in range(rounds):
        elements = np.arange(count) + number * count
        (state,) = monoid.fold_columns(monoid.lift_columns((elements,)))
        ratios.append(monoid.lower(state.tolist()[0]) / count)
    errors = np.array(ratios) - 1
    # of so many rounds, the root of the mean square is within 4 of its own standard errors
    assert math.sqrt((errors**2).mean()) < promised * (1 + 4 / math.sqrt(2 * rounds))
    assert abs(errors.mean()) < 4 * promised / math.sqrt(rounds) + promised**2


def test_few_elements_are_counted_almost_exactly() -> None:
    window = AmortizedMTA(m.DistinctCount())
    for count in range(1, 40):
        assert round(window.push(f"user {count}")) == count or count > 30
        window.push(f"user {count}")
    assert AmortizedMTA(m.DistinctCount()).query() == 0.0


@given(st.one_of(whole, st.integers(-5, 5)), st.one_of(reals, st.integers(-5, 5).map(float)))
@example(0, math.inf)
@example(0, -0.0)
@example(0, 2.0**63)
@example(0, -(2.0**63))
def test_a_column_has_the_hashes_of_its_values(number: int, real: float) -> None:
    assert hashes_of(np.array([number]), None).tolist() == [hash_of(number, None)] == [hashed(number)]
    assert hashes_of(np.array([real]), None).tolist() == [hash_of(real, None)] == [hashed(real)]


@given(st.lists(anything, min_size=1))
def test_a_column_of_objects_has_the_hashes_of_its_values(values: list[Any]) -> None:
    column = np.fromiter(values, dtype=object, count=len(values))
    assert hashes_of(column, None).tolist() == list(map(hashed, values))


def test_equal_numbers_are_one_element() -> None:
    for some in ((1, 1.0, True, np.int8(1)), (2**70, 2.0**70), (0.0, -0.0, 0, False), ("a", np.str_("a"))):
        window = AmortizedMTA(m.DistinctCount())
        assert {round(window.push(each)) for each in some} == {1}
    window = AmortizedMTA(m.DistinctCount())
    for count, each in enumerate(("1", 1, b"1", 1.5, ("1",), "s1"), 1):
        assert round(window.push(each)) == count


def test_text_that_is_no_utf_8() -> None:
    window = AmortizedMTA(m.DistinctCount())
    assert window.slide(["a", "\ud800", "\ud800", "\udc00"]).round().tolist() == [1, 2, 2, 3]
    assert round(window.push("\ud800")) == 3


def test_hashes_never_change() -> None:
    """Checkpoints have registers that were set by them."""
    assert [hash_of(each, None) for each in (0, -1, 0.5, "a", b"a", (1, "a"))] == HASHES


HASHES = [
    0xE220A8397B1DCDAF,
    0xE4D971771B652C20,
    0x4C9C8E5A17008009,
    0xD2F6D0996F37A720,
    0xAA71CEE2AADFD727,
    0x7BF098E1D14A8937,
]


def test_states_of_all_forms_in_one_column() -> None:
    """Columns that windows never join are right too."""
    monoid = m.DistinctCount(lg_k=4)
    layout = layout_of(monoid)
    values = list(range(40))
    states = layout.lift(layout.elements(values))
    parts = [
        (states, [[i] for i in values]),
        (layout.prefixes(states), [values[: i + 1] for i in values]),
        (layout.suffixes(states), [values[i:] for i in values]),
        (layout.halve(states), [values[i : i + 2] for i in range(0, 40, 2)]),
        (layout.gather([monoid.identity, layout.fold(states)]), [[], values]),
    ]
    mixture, elements = layout.concat([run for run, _ in parts]), list(chain(*(some for _, some in parts)))
    order = np.random.default_rng(1).permutation(len(elements))
    shuffled = [elements[i] for i in order.tolist()]
    plain = [fold(monoid, [monoid.lift(each) for each in some]) for some in shuffled]
    run = layout.take(mixture, order)
    assert layout.state_list(run) == plain
    assert layout.lower(run).tolist() == [pytest.approx(estimated(some, 4)) for some in shuffled]
    backwards = tuple(column[::-1] for column in run)
    together = [monoid.combine(a, b) for a, b in zip(plain, plain[::-1], strict=True)]
    assert layout.state_list(layout.combine(run, backwards)) == together
    for scanned, wanted in (
        (layout.prefixes(run), [list(chain(*shuffled[: i + 1])) for i in range(len(shuffled))]),
        (layout.suffixes(run), [list(chain(*shuffled[i:])) for i in range(len(shuffled))]),
    ):
        assert layout.lower(scanned).tolist() == [pytest.approx(estimated(some, 4)) for some in wanted]
        reverse = tuple(column[::-1] for column in scanned)
        assert layout.lower(reverse).tolist() == layout.lower(scanned).tolist()[::-1]
        assert layout.state_list(reverse) == layout.state_list(scanned)[::-1]
    assert layout.fold(run) == fold(monoid, plain)
    scans = {"prefixes": layout.prefixes(states), "suffixes": layout.suffixes(states), "elements": states}
    for older in scans.values():
        for younger in scans.values():
            pairs = zip(layout.state_list(older), layout.state_list(younger), strict=True)
            assert layout.state_list(layout.combine(older, younger)) == [
                monoid.combine(*pair) for pair in pairs
            ]
    two = layout.concat([layout.prefixes(states), layout.prefixes(states)])
    assert layout.lower(two).tolist() == layout.lower(layout.prefixes(states)).tolist() * 2


def test_memory_is_bounded() -> None:
    window = AmortizedMTA(m.DistinctCount(), policies.CountWindow(50_000))
    assert window.page_size * 2**13 == 1 << 24
    values = np.random.default_rng(1).integers(0, 10**6, 50_000)
    window.extend(values)
    tracemalloc.start()
    try:
        window.slide(values[:10_000])
        for value in values[:3000].tolist():
            window.push(value)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 64 << 20


def test_few_elements_take_little_memory_among_many_registers() -> None:
    window = AmortizedMTA(m.DistinctCount(lg_k=20), policies.CountWindow(300))
    values = np.random.default_rng(2).integers(0, 250, 2000)
    window.slide(values[:1000])
    tracemalloc.start()
    try:
        found = window.slide(values[1000:])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1 << 23  # of 2^21 registers
    for row in range(0, 1000, 99):
        assert same(float(found[row]), estimated(values[row + 701 : row + 1001].tolist(), 20))


def test_states_that_no_window_wrote() -> None:
    monoid = m.DistinctCount(lg_k=4)
    states = [fold(monoid, [monoid.lift(i) for i in range(n)]) for n in (0, 1, 5, 100)]
    assert list(map(len, states)) == [0, 4, 16, 32]  # two of five have one register
    for state in states:
        assert monoid.unpack(bytearray(state)) == state
    monoid.check_states(monoid.columns_of(states))
    low, other = sorted(monoid.lift(i) for i in range(2))
    bad = [
        None,
        5,
        "a",
        [1],
        b"abc",
        b"\0" * 4,
        b"\0" * 32,
        b"\x20" * 32,
        b"\xff" * 33,
        b"\xff\xff\xff\xff",
        other + other,
        states[2][4:] + states[2][:4],
    ]
    for state in bad:
        with pytest.raises((TypeError, ValueError), match=r"DistinctCount\(.* has no such state: a state"):
            monoid.unpack(state)
        with pytest.raises((TypeError, ValueError), match="has no such state: a state"):
            monoid.check_states((np.fromiter([low, state], dtype=object, count=2),))


def test_a_checkpoint_of_another_sketch_is_refused() -> None:
    class Former(m.Max):
        def fingerprint(self) -> str:
            return "DistinctCount(lg_k=12)"

    with open_store("memory://") as store:
        with AmortizedMTA(Former(), store=store, name="w") as window:
            window.push(1)
            window.checkpoint()
        with pytest.raises(ManifestMismatch, match=r"DistinctCount\(lg_k=12\), not .*sketch='hll'"):
            AmortizedMTA.restore(store, "w", m.DistinctCount())


def test_it_needs_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "datasketches":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    sketches._library.cache_clear()
    monkeypatch.setattr(builtins, "__import__", without)
    assert round(AmortizedMTA(m.DistinctCount()).push("a")) == 1
