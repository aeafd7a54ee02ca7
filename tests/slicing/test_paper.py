"""What the paper shows: figure 2's sessions, figure 4's cases, and how much is done a tuple."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import plain_windows
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_windows import windows
from window_kinds import sessions, sliding, tumbling

from mta import monoids
from mta.slicing import Session, Slicer, Sliding, Tumbling, aggregate_store
from stores import open_store


class Counting:
    """A monoid of sums that counts its combines."""

    def __init__(self, commutes: bool = True) -> None:
        self.combines = 0
        zero: Any = 0 if commutes else ""
        self.monoid = monoids.from_function(self._add, zero, name="sum", commutes=commutes)

    def _add(self, older: Any, younger: Any) -> Any:
        self.combines += 1
        return older + younger


def slices_of(slicer: Slicer) -> list[tuple[Any, Any, Any]]:
    (stream,) = slicer._streams.values()
    return [(each.first, each.last, each.state) for each in stream.slices.items]


@pytest.mark.parametrize("queries", [1, 20, 1000])
def test_a_tuple_in_order_is_one_combine_whatever_the_number_of_queries(queries: int) -> None:
    counting = Counting()
    lengths = {f"q{n}": Tumbling(1000 + n) for n in range(queries)}
    slicer = Slicer(counting.monoid, {**lengths, "visit": Session(50)})
    for time in range(900):
        slicer.insert(1, time=time)
    # the first tuple is the slice's state as it is
    assert counting.combines == 899
    assert slicer.slices == 1


def test_figure_2_sessions_of_several_gaps_take_the_slices_of_the_smallest() -> None:
    gaps = (3, 5, 6, 7)
    times = [0, 1, 2, 6, 7, 13, 14, 20, 28, 29]
    all_gaps = Slicer(monoids.Sum(), {f"gap {gap}": Session(gap) for gap in gaps})
    smallest = Slicer(monoids.Sum(), {"gap 3": Session(3)})
    for slicer in (all_gaps, smallest):
        for time in times:
            slicer.insert(1, time=time)
    assert slices_of(all_gaps) == slices_of(smallest)
    assert [first for first, _, _ in slices_of(smallest)] == [0, 6, 13, 20, 28]
    results = all_gaps.watermark(100)
    sessions = {gap: [(r.start, r.end, r.value) for r in results if r.query == f"gap {gap}"] for gap in gaps}
    assert sessions == {
        3: [(0, 5, 3), (6, 10, 2), (13, 17, 2), (20, 23, 1), (28, 32, 2)],
        5: [(0, 12, 5), (13, 19, 2), (20, 25, 1), (28, 34, 2)],
        6: [(0, 26, 8), (28, 35, 2)],
        7: [(0, 27, 8), (28, 36, 2)],
    }


@pytest.mark.parametrize(
    ("case", "time", "expected"),
    [
        ("1.1 inside a session", 11, [(10, 12, 103), (20, 22, 3)]),
        ("1.2 extends one at its end", 15, [(10, 15, 103), (20, 22, 3)]),
        ("1.3 extends one at its start", 18, [(10, 12, 3), (18, 22, 103)]),
        ("3 a session of its own", 16, [(10, 12, 3), (16, 16, 100), (20, 22, 3)]),
        ("3 before all", 6, [(6, 6, 100), (10, 12, 3), (20, 22, 3)]),
    ],
)
def test_figure_4_cases_of_a_late_tuple(case: str, time: int, expected: Any) -> None:
    counting = Counting()
    slicer = Slicer(counting.monoid, {"visit": Session(3)})
    for at in (10, 11, 12, 20, 21, 22):
        slicer.insert(1, time=at)
    before = counting.combines
    slicer.insert(100, time=time)
    assert slices_of(slicer) == expected
    assert counting.combines - before == (0 if case.startswith("3") else 1)


def test_figure_4_case_2_fuses_two_sessions_with_two_combines() -> None:
    counting = Counting()
    slicer = Slicer(counting.monoid, {"visit": Session(4)})
    for at in (10, 11, 12, 20, 21, 22):
        slicer.insert(1, time=at)
    before = counting.combines
    slicer.insert(100, time=16)
    assert slices_of(slicer) == [(10, 22, 106)]
    assert counting.combines - before == 2


def test_in_order_slices_are_cut_where_windows_start_and_out_of_order_where_they_end_too() -> None:
    # windows of 7 every 10: starts 0, 10, 20 …, ends 7, 17, 27 …
    for in_order, cuts in ((True, 1), (False, 2)):
        slicer = Slicer(monoids.Sum(), {"q": Sliding(7, 10)}, in_order=in_order)
        for time in range(1000):
            slicer.insert(1, time=time)
        assert slicer.slices == 100 * cuts
        results = slicer.watermark(1000)
        assert [(r.start, r.value) for r in results] == [(start, 7) for start in range(0, 1000, 10)]


def test_fewer_slices_where_edges_coincide() -> None:
    slicer = Slicer(monoids.Sum(), {"ten": Tumbling(10), "twenty": Tumbling(20), "slide": Sliding(40, 10)})
    for time in range(1000):
        slicer.insert(1, time=time)
    assert slicer.slices == 100


def test_slices_are_dropped_when_no_window_needs_them() -> None:
    slicer = Slicer(monoids.Sum(), {"q": Sliding(50, 10), "visit": Session(2)}, lateness=20)
    most = 0
    for time in range(0, 10_000):
        if time % 97 > 3:
            slicer.insert(1, time=time)
        if time % 10 == 0:
            slicer.watermark(time - 5)
            most = max(most, slicer.slices)
    # 50 of the window, 20 of lateness, 15 ahead of the watermark; and a session of up to 97
    assert most <= (50 + 20 + 15 + 97) // 10 + 4


@pytest.mark.parametrize("in_order", [True, False])
@given(
    pairs=st.lists(st.one_of(tumbling(1), sliding(1), sessions(1)), min_size=1, max_size=8),
    times=st.lists(st.integers(0, 120), min_size=1, max_size=60),
)
def test_slices_are_at_most_as_many_as_windows_start_and_twice_as_many_out_of_order(
    in_order: bool, pairs: Any, times: list[int]
) -> None:
    queries = {f"q{place}": pair[0] for place, pair in enumerate(pairs)}
    slicer = Slicer(monoids.Sum(), queries, in_order=in_order)
    for time in sorted(times) if in_order else times:
        slicer.insert(1, time=time)
    starts, ends, count = set(), set(), 0
    every = [(time, arrival, 1) for arrival, time in enumerate(range(min(times), max(times) + 1))]
    tuples = [(time, arrival, 1) for arrival, time in enumerate(sorted(times))]
    for _, plain in pairs:
        # windows by time start and end whether or not they have a tuple
        found = windows(plain, tuples if isinstance(plain, plain_windows.Session) else every)
        starts.update(start for start, _, _, _ in found)
        ends.update(end for _, end, _, _ in found)
        count += len(found)
    # and one for the tuples before the first edge, which are in no window
    assert slicer.slices <= 1 + (len(starts) if in_order else len(starts | ends))
    assert len(starts) <= count
    assert len(starts | ends) <= 2 * count


@pytest.mark.parametrize("options", [{}, {"in_order": True}, {"every_tuples": 1000}, {"every_time": 1000}])
def test_tuples_that_nothing_happens_at_copy_no_slices(options: Any) -> None:
    slicer = Slicer(monoids.Sum(), {"q": Tumbling(100)}, **options)
    streams = set()
    for time in range(500):
        slicer.insert(1, time=time)
        (stream,) = slicer._streams.values()
        streams.add(id(stream))
    # where tuples come in order, the first tuple of a window emits the windows before it
    assert len(streams) <= (7 if options.get("in_order") else 2)
    assert sum(r.value for r in slicer.watermark(500)) == 500


def test_long_windows_that_are_due_together_share_what_is_combined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aggregate_store, "BLOCK", 32)
    counting = Counting()
    slicer = Slicer(counting.monoid, {"long": Sliding(1000, 1)})
    slicer.extend([1] * 2000, range(2000))
    slicer.watermark(1900)
    before = counting.combines
    assert [r.value for r in slicer.watermark(2000)] == [1000] * 100
    # blocks of 32 slices and the slices at both ends; 1,000 combines for each window without blocks
    assert counting.combines - before <= 100 * (1000 // 32 + 2 * 32)


def test_what_queries_need_is_looked_at_when_an_eighth_more_slices_have_come() -> None:
    class Watched(Tumbling):
        looks = 0

        def reach(self, time: Any) -> Any:
            Watched.looks += 1
            return super().reach(time)

    slicer = Slicer(monoids.Sum(), {"long": Watched(10_000), "fine": Tumbling(10)})
    for time in range(0, 20_000, 10):
        slicer.insert(1, time=time)
        slicer.watermark(time)
    assert Watched.looks < 500 < 2000
    assert slicer.slices <= 1000 * 9 // 8 + 2


def test_late_tuples_of_what_does_not_commute_are_folded_once_when_a_result_is_due() -> None:
    counting = Counting(commutes=False)
    slicer = Slicer(counting.monoid, {"ten": Tumbling(10), "all": Tumbling(100)}, lateness=50)
    for time in range(30):
        slicer.insert(chr(65 + time), time=time)
    before = counting.combines
    for time in (1, 11, 5, 12, 5, 15, 29):
        slicer.insert(str(time % 10), time=time)
    assert counting.combines - before == 1  # for the tuple that was not late
    slicer.insert("+", time=29)
    slicer.extend(["x", "y"], [3, 29])
    results = {(r.query, r.start): r.value for r in slicer.watermark(100)}
    assert results["ten", 0] == "AB1CDxEF55GHIJ"
    assert results["ten", 10] == "KL1M2NOP5QRST"
    assert results["all", 0].endswith("UVWXYZ[\\]^9+y")
    # three slices, and two combines for the window of all
    assert counting.combines - before <= 1 + 40 + 2


def test_slices_of_a_store_let_tuples_go_that_no_late_one_can_come_between() -> None:
    store = open_store(f"memory:{uuid4().hex}")
    slicer = Slicer(monoids.Concat(), {"long": Sliding(1000, 10)}, lateness=20, store=store, name="s")
    for time in range(600):
        slicer.insert(chr(97 + time % 26), time=time)
        if time % 10 == 0:
            slicer.insert("L", time=max(time - 15, 0))
            slicer.watermark(time)
    (stream,) = slicer._streams.values()
    kept = [each.first for each in stream.slices.items if each.tuples is not None]
    assert slicer.slices == 60
    assert len(kept) <= 4
    slicer.checkpoint()
    slicer = Slicer.restore(store, "s", monoids.Concat())
    slicer.insert("M", time=595)
    text = slicer.watermark(1000)[0].value
    assert text.startswith("aLL")
    assert text.endswith("xMyzab")
    assert len(text) == 600 + 60 + 1
    slicer.close()


@pytest.mark.parametrize("store", ["lazy", "eager"])
def test_slices_in_memory_keep_tuples_for_as_long_as_late_ones_may_come_between(store: str) -> None:
    slicer = Slicer(monoids.Concat(), {"long": Sliding(100, 10)}, store=store)
    for time in range(600):
        slicer.insert(chr(97 + time % 26), time=time)
        if time % 10 == 0:
            slicer.watermark(time)
    slicer.insert("L", time=512)
    assert "rsLt" in next(r.value for r in slicer.watermark(610) if r.start == 510)
    (stream,) = slicer._streams.values()
    assert sum(each.count for each in stream.slices.items) <= 150
