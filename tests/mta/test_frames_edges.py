"""What went wrong once in windows of several frames, each with the least that shows it."""

from __future__ import annotations

import datetime
import random
from collections import Counter
from typing import Any

import numpy as np
import pytest
from chance import fresh, seeds

from mta import AmortizedMTA, LogMTA, Reader, monoids
from mta.policies import CountWindow, TimeWindow
from stores import StoreError, open_store
from stores.testing import FaultyStore

KINDS = [AmortizedMTA, LogMTA]
T, Fields, Sum = TimeWindow, monoids.Fields, monoids.Sum


def features() -> Any:
    return Fields(
        short=monoids.Concat().over(7),
        late=monoids.Concat().over(T(9, delay=4)),
        last=monoids.Concat().over(rows=3),
    )


def history(chance: random.Random, window: Any, steps: int, attempt: Any) -> list[Any]:
    """What a window answers to some calls that chance chooses."""
    time, found = 0, []
    for step in range(steps):
        time += chance.choice([0, 1, 1, 2, 6])
        batch = [chr(97 + (step + each) % 26) for each in range(chance.randrange(1, 9))]
        times = [time + each for each in range(len(batch))]
        at = sorted(time + chance.randrange(-10, 20) for _ in range(4))
        call = chance.choice(
            ["push", "push", "extend", "slide", "slide at", "evict", "evict_until", "enforce"]
        )
        if call == "push":
            found.append(attempt(lambda: window.push(batch[0], time)))  # noqa: B023
            continue
        if call in ("evict", "evict_until", "enforce"):
            k = chance.randrange(3)
            calls = {
                "evict": lambda: window.evict(min(k, len(window))),  # noqa: B023
                "evict_until": lambda: window.evict_until(time - 5),  # noqa: B023
                "enforce": window.enforce,
            }
            found.append(attempt(calls[call]))
            continue
        time = times[-1]
        calls = {
            "extend": lambda: window.extend(batch, times),  # noqa: B023
            "slide": lambda: window.slide(batch, times),  # noqa: B023
            "slide at": lambda: window.slide(batch, times, at=at),  # noqa: B023
        }
        try:
            result = attempt(calls[call])
        except ValueError as error:  # a moment before which a user's eviction has come
            assert "gone" in str(error)  # noqa: PT017
            result = {"gone": np.zeros(0)}
        found.append(None if result is None else {name: each.tolist() for name, each in result.items()})
    return found


@pytest.mark.parametrize("seed", seeds(12))
@pytest.mark.parametrize("kind", KINDS)
def test_a_store_that_fails_leaves_the_windows_as_they_were(kind: Any, seed: int) -> None:
    """Also where `keep` reads a page to find out how far it reaches."""
    luck, rate = random.Random(seed), 0.0
    store = FaultyStore(open_store("memory:"), lambda *_: rate > luck.random())
    window = kind(features(), store=store, name=fresh("faulty"), page_size=2, keep=15)

    def attempt(call: Any) -> Any:
        nonlocal rate
        for each in (0.5, 0.3, 0.3, 0.0):
            tail = window._log.tail
            window._log.pages._cache.clear()
            rate = each
            try:
                return call()
            except StoreError:
                assert window._log.tail == tail
            finally:
                rate = 0.0
        return call()  # may be told of a write that failed before

    found = history(random.Random(seed), window, 60, attempt)
    assert found == history(
        random.Random(seed), kind(features(), page_size=2, keep=15), 60, lambda call: call()
    )
    window.close()


@pytest.mark.parametrize("page_size", [2, 4, 64, None])
@pytest.mark.parametrize("kind", KINDS)
def test_a_range_reaches_as_far_as_keep_at_every_page_size(kind: Any, page_size: int | None) -> None:
    window = kind(
        Fields(a=monoids.Count().over(5), b=monoids.Count().over(T(8, delay=2))), page_size=page_size, keep=10
    )
    for time in range(237):
        window.push(0, time)
    # as of 226 the frames need times after 216
    assert window.range_query(0, 10**6) == {"a": 20, "b": 20}
    assert window.at(226) == {"a": 5, "b": 8}


def histogram(**options: Any) -> Any:
    return monoids.from_function(
        lambda a, b: a + b, Counter(), lift=lambda value: Counter([value]), lower=dict, **options
    )


@pytest.mark.parametrize("grows", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "policy", [CountWindow(3), T(3), T(3, closed="left"), T(3, delay=1), T(3, min_count=2)], ids=repr
)
def test_results_that_are_mappings_keep_their_keys(policy: Any, kind: Any, grows: bool) -> None:
    chance = random.Random(1)
    values = [chance.randrange(3) for _ in range(60)]
    window = kind(histogram(grows=grows), policy, page_size=2)
    one_by_one = kind(histogram(grows=grows), policy, page_size=2)
    expected = [one_by_one.push(value, time) for time, value in enumerate(values)]
    found: list[Any] = []
    for start in range(0, 60, 15):
        part = window.slide(values[start : start + 15], range(start, start + 15))
        if isinstance(part, dict):  # they all have the same keys
            part = [dict(zip(part, row, strict=True)) for row in zip(*part.values(), strict=True)]
        found += list(part)
    assert found == expected


@pytest.mark.parametrize("at", [[datetime.datetime(2024, 1, 1)], [3]])
@pytest.mark.parametrize("values", [["bad"], [1]])
def test_a_slide_that_fails_decides_no_kind_of_times(at: list[Any], values: list[Any]) -> None:
    window = AmortizedMTA(Sum())
    times = [1] if isinstance(at[0], datetime.datetime) else [datetime.datetime(2024, 1, 1)]
    with pytest.raises(TypeError):
        window.slide(values, times, at=at)
    for time in (1, 2):
        window.push(1, time)
    assert AmortizedMTA(Sum()).slide([1], [5], at=[4, 6]).tolist() == [0, 1]


@pytest.mark.parametrize("kind", KINDS)
def test_elements_that_are_not_in_yet_are_evicted_by_time(kind: Any) -> None:
    alone = kind(Fields(s=Sum().over(T(10, delay=5))))
    beside = kind(Fields(s=Sum().over(T(10, delay=5)), c=monoids.Count().over(3)))
    for window in (alone, beside):
        for time in range(4):
            window.push(1, time)
        window.evict_until(2)
    assert alone.push(1, 9)["s"] == beside.push(1, 9)["s"] == 1


def test_a_count_beyond_64_bits() -> None:
    window = AmortizedMTA(Fields(n=monoids.Count().over(CountWindow(10**30)), s=Sum().over(5)))
    window.slide([1] * 10, range(10))
    window.evict(3)
    with pytest.raises(ValueError, match="gone"):
        window.at(2)
    assert window.at(9) == {"n": 7, "s": 5}


def test_windows_at_moments_far_apart_are_folded_one_by_one() -> None:
    n = 1 << 15
    window = AmortizedMTA(Fields(s=Sum().over(3), m=monoids.Max().over(T(2, closed="both"))), keep=n)
    window.extend(np.arange(n), np.arange(n))
    moments = np.arange(2, n, 7001)
    found = window.slide([], [], at=moments)
    assert found["s"].tolist() == (3 * moments - 3).tolist()
    assert found["m"].tolist() == moments.tolist()


def test_each_row_has_an_empty_list_of_its_own() -> None:
    window = AmortizedMTA(monoids.Collect(), T(5, closed="left"))
    rows = window.slide([1, 2], [0, 0])
    rows[0].append("mine")
    assert rows[1] == []


@pytest.mark.parametrize("evict", [lambda window: window.evict(2), lambda window: window.evict_until(2)])
@pytest.mark.parametrize("kind", KINDS)
def test_evicted_elements_are_gone_from_the_past_too(kind: Any, evict: Any) -> None:
    """Before a checkpoint and after it, until the windows have moved on."""
    with open_store("memory:") as store:
        name = fresh("evicted")
        window = kind(Sum(), T(10), store=store, name=name, keep=20, page_size=2)
        window.extend([1, 2, 4, 8], [0, 2, 4, 6])
        assert window.at(5) == 7
        evict(window)
        window.checkpoint()
        again = kind.restore(store, name, Sum(), T(10), keep=20)
        with Reader.open(store, name, Sum(), T(10)) as reader:
            for each in (window, again, reader):
                assert (each.query(), each.at(6), each.at(8)) == (12, 12, 12)
                with pytest.raises(ValueError, match=r"as of 5 .*gone"):
                    each.at(5)
        for time in range(8, 80):
            again.push(1, time)
        assert again.at(60) == 10
        again.close()


@pytest.mark.parametrize("kind", KINDS)
def test_lists_of_one_length_beside_empty_windows(kind: Any) -> None:
    window = kind(monoids.Collect(), T(2, closed="left"))
    assert window.slide([1, 2, 3, 4, 5], [0, 5, 6, 7, 20]).tolist() == [[], [], [2], [2, 3], []]
    asked = kind(monoids.Collect(), T(2, min_count=2)).slide([1, 2, 3], [0, 1, 5], at=[0, 1, 2, 9])
    assert asked.tolist() == [None, [1, 2], None, None]


@pytest.mark.parametrize("seed", seeds(4))
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("page_size", [2, 4, None])
def test_a_window_without_frames_is_asked_after_every_call(kind: Any, page_size: Any, seed: int) -> None:
    """What answers for moments is made once, and has to see all that comes after."""
    chance, name, time = random.Random(seed), fresh(), 0
    held: list[tuple[int, str]] = []
    with open_store("memory:") as store:
        window = kind(monoids.Concat(), T(20), store=store, name=name, page_size=page_size)
        for step in range(100):
            call = chance.choice(["push", "insert", "extend", "slide", "evict", "evict_until", "restore"])
            if call in ("push", "insert", "extend", "slide"):
                one = call in ("push", "insert")
                rows = []
                for _ in range(1 if one else chance.randrange(1, 9)):
                    time += chance.choice([0, 1, 1, 2, 6])
                    rows.append((time, f"{step}.{len(rows)} "))
                times, values = zip(*rows, strict=True)
                getattr(window, call)(*((values[0], times[0]) if one else (values, times)))
                held = [each for each in held + rows if call == "insert" or each[0] > time - 20]
            elif call == "evict":
                window.evict(count := chance.randrange(len(held) + 1))
                del held[:count]
            elif call == "evict_until":
                window.evict_until(time - 5)
                held = [each for each in held if each[0] > time - 5]
            else:
                window.checkpoint()
                window.close()
                window = kind.restore(store, name, monoids.Concat(), T(20))
            for moment in (time, time + 5, time + 50):
                wanted = "".join(value for when, value in held if when > moment - 20)
                assert window.at(moment) == wanted, (step, call, moment)
        window.close()
