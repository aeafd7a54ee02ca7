"""States that are as large as what they aggregate: right results, and no memory for suffixes of them."""

from __future__ import annotations

import inspect
import random
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from reference import rows_of

from mta import AmortizedMTA, LogMTA, monoids
from mta.policies import CountWindow, Policy, TimeWindow, While
from stores import open_store

KINDS = [AmortizedMTA, LogMTA]
CALLS = ["push"] * 6 + ["slide", "slide", "extend", "insert", "evict", "until", "restore"]


def chained() -> monoids.Monoid:
    return monoids.from_function(lambda a, b: a + b, (), lift=lambda i: (i,), name="chained", grows=True)


#: a monoid, and its result of some whole numbers by nothing of ours
GROWING: dict[str, tuple[Callable[[], monoids.Monoid], Callable[[list[int]], Any]]] = {
    "Collect": (monoids.Collect, list),
    "Concat": (
        lambda: monoids.Fields(text=monoids.Concat("t")),
        lambda some: {"text": "".join(map(str, some))},
    ),
    "CollectDistinct": (monoids.CollectDistinct, set),
    "from_function": (chained, tuple),
    "Fields": (
        lambda: monoids.Fields(all=monoids.Collect(), top=monoids.Max(), n=monoids.Count()),
        lambda some: {"all": some, "top": max(some) if some else None, "n": len(some)},
    ),
}


def test_what_grows_says_so() -> None:
    assert all(make().grows for make, _ in GROWING.values())
    still = [monoids.Max(), monoids.Last(), monoids.DistinctCount(), monoids.Fields(a=monoids.Max())]
    assert not any(monoid.grows for monoid in [*still, monoids.from_function(max, 0, name="max")])


def test_the_algorithm_looks_the_same() -> None:
    window = AmortizedMTA(monoids.Collect())
    assert isinstance(window, AmortizedMTA)
    assert repr(window).startswith("<AmortizedMTA ")
    assert "page_size" in inspect.signature(AmortizedMTA).parameters


@pytest.mark.parametrize("label", GROWING)
@pytest.mark.parametrize("size", [2, 4, None])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "policy", [CountWindow(9), TimeWindow(7), CountWindow(40) | TimeWindow(30, closed="both"), None], ids=repr
)
def test_like_a_list(label: str, size: int | None, kind: Any, policy: Policy | None) -> None:
    make, wanted = GROWING[label]
    chance = random.Random(f"{label} {size} {policy}")
    with open_store("memory:") as store:
        window = kind(make(), policy, page_size=size, store=store, name="growing")
        held: list[tuple[int, int]] = []
        clock = 0

        def element(i: int) -> Any:
            return {"t": str(i)} if label == "Concat" else i

        def add() -> tuple[Any, int]:
            nonlocal clock
            clock += chance.choice([0, 0, 1, 1, 2, 5])
            held.append((chance.randrange(50), clock))
            return element(held[-1][0]), clock

        def enforce() -> None:
            limits = None if policy is None else policy.limits()
            if limits is not None and limits.count is not None:
                del held[: -limits.count]
            if limits is not None and limits.open_span is not None:
                held[:] = [each for each in held if each[1] > clock - limits.open_span]
            if limits is not None and limits.closed_span is not None:
                held[:] = [each for each in held if each[1] >= clock - limits.closed_span]

        def result() -> Any:
            return wanted([value for value, _ in held])

        for step in range(120):
            call = chance.choice(
                ["push"] * 6 + ["slide", "slide", "extend", "insert", "evict", "until", "restore"]
            )
            if call == "push":
                value, time = add()
                enforce()
                assert window.push(value, time) == result()
            elif call == "insert":
                window.insert(*add())
            elif call in ("slide", "extend"):
                rows, results = [], []
                for _ in range(chance.choice([1, 3, 20])):
                    rows.append(add())
                    if call == "slide":
                        enforce()
                    results.append(result())
                enforce()
                values, times = [value for value, _ in rows], [time for _, time in rows]
                batch = {"t": [value["t"] for value in values]} if label == "Concat" else values
                found = getattr(window, call)(batch, times)
                if call == "slide":
                    assert rows_of(found) == results
            elif call == "evict":
                k = chance.randrange(min(4, len(held)) + 1)
                del held[:k]
                window.evict(k)
            elif call == "until":
                moment = clock - chance.randrange(12)
                held[:] = [each for each in held if each[1] > moment]
                window.evict_until(moment)
            elif call == "restore":
                window.checkpoint(step)
                window.close()
                window = kind.restore(store, "growing", make(), policy)
            assert window.query() == result()
            assert (len(window), window.oldest) == (len(held), held[0][1] if held else None)
            if held:
                lower, upper = held[len(held) // 3][1], held[2 * len(held) // 3][1]
                inside = [value for value, time in held if lower <= time <= upper]
                assert window.range_query(lower, upper) == wanted(inside)
        window.close()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [2, 4, None])
def test_predicates_over_growing_states(kind: Any, size: int | None) -> None:
    window = kind(chained(), While(lambda total, old: len(total) - len(old) >= 30, name="30"), page_size=size)
    for i in range(100):
        assert window.push(i) == tuple(range(max(0, i - 29), i + 1))
    window.extend(range(100, 190))
    assert window.query() == tuple(range(160, 190))
    for i in range(190, 5000):
        window.insert(i)
    assert window.enforce() == 4970 - 160
    assert window.query() == tuple(range(4970, 5000))


def peak(kind: Any, make: Callable[[], monoids.Monoid], element: Callable[[int], Any], count: int) -> int:
    """The most memory that a full window takes when its first elements leave."""
    some = [element(i) for i in range(count + 80)]
    tracemalloc.start()
    window = kind(make(), CountWindow(count))
    window.extend(some[:count])
    for value in some[count : count + 50]:
        window.push(value)
    window.slide(some[count + 50 : count + 53])
    window.evict(100)
    window.query()
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found


@pytest.mark.parametrize("label", ["Collect", "CollectDistinct", "from_function", "Fields"])
def test_memory_like_the_other_algorithm(label: str) -> None:
    make, _ = GROWING[label]
    count = 1 << 15
    amortized, logarithmic = (peak(kind, make, int, count) for kind in KINDS)
    assert amortized <= 1.2 * logarithmic
    # a few times the window, of 8 bytes a reference and more in a set
    assert amortized <= 60 * count * (8 if label != "CollectDistinct" else 40)
