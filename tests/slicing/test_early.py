"""Early results are the same for a batch as for its tuples one by one, and never of a window that is over."""

from __future__ import annotations

from typing import Any

import pytest
from costs import lines_run
from hypothesis import given
from hypothesis import strategies as st
from plain_windows import Plain
from plain_windows import Session as PlainSession
from plain_windows import Tumbling as PlainTumbling
from test_reference import make, steps
from window_kinds import MONOIDS, content, counted, known

from mta import monoids
from mta.slicing import Delta, Punctuation, Session, Slicer, Sliding, Tumbling

IN_MEMORY = ["lazy", "eager"]
STORES = pytest.mark.parametrize("store", IN_MEMORY)


def found(results: Any) -> list[Any]:
    return [(r.query, r.start, r.end, r.value) for r in results]


@pytest.mark.parametrize(
    ("kind", "early"),
    [
        (Tumbling(2, measure="count"), ("q", 2, 3, [10])),
        (Delta(None, 4), ("q", 5, 11, [9, 10])),
        (Punctuation(lambda value: value > 5, name="large"), ("q", 11, 11, [10])),
        (Session(3), ("q", 11, 14, [10])),
    ],
    ids=repr,
)
@STORES
def test_a_tuple_that_a_query_refuses_is_in_no_early_result_before_it(
    store: str, kind: Any, early: Any
) -> None:
    slicer = Slicer(monoids.Collect(), {"q": kind, "all": Tumbling(1000)}, every_tuples=1, store=store)
    slicer.extend([1, 9], [1, 5])
    slicer.watermark(10)
    got = found(slicer.extend([10, 20], [11, 0]))
    assert [each for each in got if each[0] == "q"] == [early, early]
    assert got[-1] == ("all", 0, 1000, [20, 1, 9, 10])


@STORES
def test_a_counted_window_that_is_over_is_not_given_early(store: str) -> None:
    queries = {"c": Tumbling(3, measure="count"), "v": Tumbling(100)}
    slicer = Slicer(monoids.Collect(), queries, every_tuples=1, store=store)
    slicer.extend([1, 2, 3], [1, 2, 3])
    assert found(slicer.watermark(50)) == [("c", 0, 3, [1, 2, 3])]
    assert found(slicer.insert(7, 2)) == [("v", 0, 100, [1, 2, 7, 3])]
    assert found(slicer.insert(8, 60)) == [("c", 3, 4, [8]), ("v", 0, 100, [1, 2, 7, 3, 8])]


@STORES
def test_slices_of_counted_windows_that_are_over_are_not_asked_for_early(store: str) -> None:
    queries = {"c": Sliding(6, 5, measure="count"), "v": Tumbling(16)}
    slicer = Slicer(monoids.Collect(), queries, every_tuples=1, store=store)
    for time in (1, 2, 17, 35, 42, 26):
        slicer.insert(time, time)
    assert found(slicer.watermark(44.5))[-1] == ("c", 0, 6, [1, 2, 17, 26, 35, 42])
    # it has the number of the last tuple in a window that is over; the next window begins with that number
    assert found(slicer.insert(7, 34)) == [("c", 5, 6, [42]), ("v", 32, 48, [7, 35, 42])]


@given(
    store=st.sampled_from(["lazy", "eager"]),
    pairs=st.lists(st.one_of(known(), counted, content), min_size=1, max_size=5),
    own=st.lists(st.integers(0, 40), min_size=5, max_size=5),
    options=st.sampled_from([{"every_tuples": 1}, {"every_tuples": 3}, {"every_time": 4}]),
    moves=steps(st.integers(-40, 90)),
)
def test_early_results_of_a_batch_are_those_of_its_tuples(
    store: str, pairs: Any, own: Any, options: Any, moves: Any
) -> None:
    kind, _ = MONOIDS["steps"]
    queries = {f"q{place}": kind for place, (kind, _) in enumerate(pairs)}
    lateness = dict(zip(queries, own, strict=False))
    one, other = (make(store, kind, queries, lateness=lateness, **options) for _ in range(2))
    time = 0
    for what, argument in moves:
        if what == "watermark":
            time += argument
            assert one.watermark(time) == other.watermark(time)
            continue
        batch = [argument] if what == "insert" else argument
        early = one.extend([value for value, _ in batch], [at for _, at in batch])
        assert early == [each for value, at in batch for each in other.insert(value, at)]


@given(
    store=st.sampled_from([*IN_MEMORY, "paged"]),
    gaps=st.lists(st.integers(1, 12), min_size=1, max_size=3),
    beside=st.booleans(),
    lateness=st.integers(0, 60),
    moves=steps(st.integers(-40, 90)),
)
def test_an_early_session_is_that_of_the_youngest_tuple(
    store: str, gaps: Any, beside: bool, lateness: int, moves: Any
) -> None:
    kind, result = MONOIDS["steps"]
    queries: dict[str, Any] = {f"q{place}": Session(gap) for place, gap in enumerate(gaps)}
    plain = Plain({name: PlainSession(each.gap) for name, each in queries.items()}, result, lateness)
    plain.stored = store == "paged"
    more = {"t": Tumbling(7)} if beside else {}
    # with other windows, fewer tuples are late for all
    slicer = make(store, kind, {**queries, **more}, lateness=lateness, every_tuples=1)
    plain.queries |= {name: PlainTumbling(7) for name in more}
    time: Any = 0
    for what, argument in moves:
        if what == "watermark":
            time += argument
            slicer.watermark(time)
            plain.watermark(time)
            continue
        for value, at in [argument] if what == "insert" else argument:
            early = {r.query: (r.start, r.end, r.value) for r in slicer.insert(value, at)}
            if not plain.insert(value, at):
                assert early == {}
                continue
            youngest = max(at for at, _, _ in plain.tuples)
            for name in queries:
                start, end, _, part = (plain.states[name].now() or [(0, 0, 0, [])])[-1]
                if part and part[-1][0] == youngest and end >= plain.time:
                    assert early[name] == (start, end, result([value for _, _, value in part]))
                else:
                    assert name not in early
    slicer.close()


@pytest.mark.parametrize("lateness", [0, 10**6])
def test_an_early_session_costs_as_much_as_is_near_the_youngest_tuple(lateness: int) -> None:
    ran = []
    for many in (50, 5000):
        queries = {"s": Session(3), "v": Tumbling(10**6)}
        slicer = Slicer(monoids.Sum(), queries, every_time=1, lateness={"s": lateness})
        slicer.insert(1, 10 * many)
        slicer.watermark(10 * many)
        slicer.extend([1] * many, range(0, 10 * many, 10))  # late, so that time stands still
        slicer.insert(1, 10 * many + 1)
        ran.append(lines_run(lambda s=slicer, t=10 * many + 2: s.insert(1, t)))
        assert found(slicer.insert(1, 10 * many + 3))[0] == ("s", 10 * many, 10 * many + 6, 4)
    assert ran[1] < 1.5 * ran[0]
