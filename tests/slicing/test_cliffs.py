"""What a call costs where there is much: counted, and not timed."""

from __future__ import annotations

from typing import Any

import pytest
from costs import bytes_taken, lines_run
from plain_windows import CountSliding, Plain
from plain_windows import Session as PlainSession

from mta import monoids
from mta.slicing import (
    Delta,
    Late,
    Session,
    Slicer,
    Sliding,
    Tumbling,
    aggregate_store,
    lateness,
    window_manager,
)
from mta.slicing.progress.sessions import SessionProgress
from mta.slicing.window_manager import WindowManager


class Counted(Sliding):
    """How often it is asked for an edge."""

    asked = 0

    def edge_after(self, time: Any) -> Any:
        self.asked += 1
        return super().edge_after(time)


@pytest.mark.parametrize("slide", [10, 3])
def test_a_late_tuple_in_each_of_many_windows_asks_for_each_edge_once(slide: int) -> None:
    many = 1000
    kind = Counted(10, slide)
    slicer = Slicer(monoids.Sum(), {"q": kind, "other": Tumbling(10)}, lateness=100 * many)
    slicer.extend([1] * many, range(0, 10 * many, 10))
    slicer.watermark(10 * many)
    slicer.extend([1] * many, range(5, 10 * many, 10))
    kind.asked = 0
    results = slicer.watermark(10 * many)
    assert all(result.is_update for result in results if result.query == "other")
    windows = sum(result.query == "q" for result in results)
    assert windows >= many
    assert kind.asked <= 3 * windows


def test_late_tuples_far_apart_ask_for_no_edge_between_them() -> None:
    kind = Counted(10, 10)
    slicer = Slicer(monoids.Sum(), {"q": kind}, lateness=1_000_000)
    slicer.extend([1] * 1000, range(0, 10_000, 10))
    slicer.watermark(10_000)
    slicer.extend([1, 1], [5, 9_000])
    kind.asked = 0
    assert [(r.start, r.value) for r in slicer.watermark(10_000)] == [(0, 2), (9_000, 2)]
    assert kind.asked < 10


@pytest.mark.parametrize("store", ["lazy", "eager"])
def test_a_result_of_many_slices_takes_their_logarithm(store: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(aggregate_store, "BLOCK", 32)
    combines, taken = [0], {}

    def combine(older: int, younger: int) -> int:
        combines[0] += 1
        return older + younger

    for length in (700, 70_000):
        kind = monoids.from_function(combine, 0, commutes=True)
        slicer = Slicer(kind, {"q": Sliding(length, 7)}, store=store)
        ends = range(0, 2 * length, 7)
        slicer.extend([1] * len(ends), ends)
        slicer.watermark(length)
        combines[0] = 0
        results = slicer.watermark(2 * length)
        assert len(results) == length // 7
        taken[length] = combines[0] / len(results)
    assert taken[70_000] < 2 * taken[700] + 64
    assert taken[70_000] < 200


class Looks:
    """How many streams were looked at."""

    def __init__(self, monkeypatch: Any) -> None:
        self.count = 0
        advance = WindowManager.advance

        def counted(*arguments: Any) -> Any:
            self.count += 1
            return advance(*arguments)

        monkeypatch.setattr(WindowManager, "advance", counted)

    def taken(self) -> int:
        count, self.count = self.count, 0
        return count


def by_key(queries: Any, many: int, **options: Any) -> Slicer:
    slicer = Slicer(monoids.Sum("n"), queries, by="key", **options)
    slicer.extend([{"n": 1, "key": key} for key in range(many)], [key % 10 for key in range(many)])
    return slicer


def test_a_watermark_looks_only_at_keys_that_have_something_due(monkeypatch: Any) -> None:
    looks = Looks(monkeypatch)
    queries = {"hour": Tumbling(3600), "visit": Session(1000), "smooth": Sliding(3600, 60)}
    slicer = by_key(queries, 500, lateness=10)
    slicer.watermark(5)
    assert looks.taken() == 500  # all have got tuples
    for time in (6, 10, 59):
        assert slicer.watermark(time) == []
    assert looks.taken() == 0
    slicer.insert({"n": 1, "key": 7}, time=55)
    assert [r.key for r in slicer.watermark(59)] == []
    assert looks.taken() == 2  # once as it had been passed by, and once as it has got a tuple
    assert len(slicer.watermark(60)) == 500
    assert looks.taken() == 500
    slicer.watermark(1004)
    looks.taken()
    assert {r.key for r in slicer.watermark(1005)} == {key for key in range(500) if key % 10 == 4}
    assert looks.taken() == 50
    slicer.watermark(10_000)
    assert slicer.keys == []
    looks.taken()
    slicer.watermark(20_000)
    assert looks.taken() == 0


def test_silent_keys_of_counted_tuples_are_not_looked_at(monkeypatch: Any) -> None:
    looks = Looks(monkeypatch)
    slicer = by_key({"c": Tumbling(3, measure="count"), "t": Tumbling(10)}, 300)
    slicer.watermark(1000)
    slicer.watermark(1001)
    looks.taken()
    for time in range(2000, 5000, 100):
        assert slicer.watermark(time) == []
    assert looks.taken() == 0
    assert len(slicer.keys) == 300  # two more tuples make a window
    slicer.extend([{"n": 2, "key": 5}] * 2, [5000, 5000])
    assert [(r.key, r.value) for r in slicer.watermark(5000)] == [(5, 5)]


@pytest.mark.parametrize("kind", [Tumbling(3, measure="count"), Delta("n", 5)])
def test_keys_are_forgotten_after_a_silence(kind: Any, monkeypatch: Any) -> None:
    looks = Looks(monkeypatch)
    slicer = by_key({"c": kind, "t": Tumbling(10)}, 300, lateness=20, forget_after=100)
    slicer.insert({"n": 1, "key": 7}, time=80)
    slicer.watermark(119)
    assert len(slicer.keys) == 300
    slicer.watermark(129)
    assert slicer.keys == [7]
    looks.taken()
    slicer.insert({"n": 1, "key": 8}, time=130)
    slicer.watermark(190)
    assert slicer.keys == [7, 8]
    slicer.watermark(200)
    assert slicer.keys == [8]
    assert looks.taken() < 8
    again = Slicer.load(slicer.dump(), monoids.Sum("n"), by="key")
    again.watermark(249)
    assert again.keys == [8]
    again.watermark(250)
    assert again.keys == []


def test_a_silent_key_of_many_slices_lets_go_of_them(monkeypatch: Any) -> None:
    monkeypatch.setattr(window_manager, "FEW_SLICES", 256)
    slicer = Slicer(monoids.Sum("n"), {"t": Tumbling(1)}, by="key", lateness=10_000)
    slicer.extend([{"n": 1, "key": 7}] * 1000, range(1000))
    slicer.watermark(1500)
    slicer.watermark(20_000)
    assert (slicer.slices, slicer.keys) == (0, [])


@pytest.mark.parametrize("options", [{}, {"lateness": 20}, {"in_order": True}, {"by": "key"}], ids=str)
@pytest.mark.parametrize("store", ["lazy", "eager"])
def test_slices_of_a_session_that_never_ends_become_one(store: str, options: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(window_manager, "FEW_SLICES", 256)
    monkeypatch.setattr(window_manager, "MERGED_TUPLES", 512)
    queries = {"second": Tumbling(1), "visit": Session(30)}
    slicer = Slicer(monoids.Concat("text"), queries, store=store, **options)
    most = given = 0
    for time in range(3000):
        slicer.insert({"text": chr(97 + time % 26), "key": 1}, time=time)
        given += len(slicer.watermark(time))
        most = max(most, slicer.slices)
    assert most < 150
    *seconds, visit = slicer.watermark(4000)
    assert given + len(seconds) == 3000
    assert (visit.start, visit.end, len(visit.value)) == (0, 3029, 3000)
    assert visit.value == "".join(chr(97 + time % 26) for time in range(3000))
    assert slicer.slices == 0


def test_a_call_takes_on_the_keys_that_it_touches_and_no_others() -> None:
    """A copy of the keys would take a hundred bytes a key."""
    few, many = (by_key({"t": Tumbling(100)}, count) for count in (20, 20_000))
    taken = []
    for slicer in (few, many):
        slicer.watermark(10)
        slicer.watermark(11)
        row = {"n": 1, "key": 5}
        calls = [
            lambda s=slicer, r=row: s.extend([r], [12]),
            lambda s=slicer, r=row: s.insert(r, 13),
            lambda s=slicer: s.watermark(14),
        ]
        taken.append([bytes_taken(call) for call in calls])
    for there, here in zip(*taken, strict=True):
        assert here < 2 * there + 10_000


@pytest.mark.parametrize("changes_only", [False, True])
@pytest.mark.parametrize("kind", [Session(3), Tumbling(10), Sliding(20, 10)], ids=repr)
def test_a_watermark_touches_no_window_that_is_not_due(kind: Any, changes_only: bool) -> None:
    """All windows have ended and none is over, so a late tuple may change each of them."""
    ran = []
    for many in (300, 10_000):
        slicer = Slicer(monoids.Sum(), {"q": kind}, lateness=20 * many, changes_only=changes_only)
        now = 10 * many
        slicer.extend(range(many), range(0, now, 10))
        slicer.watermark(now)
        calls = [lambda s=slicer, t=now: s.watermark(t + 1), lambda s=slicer, t=now: s.watermark(t + 100)]
        slicer.insert(1, now + 100)
        lines = [lines_run(call) for call in calls]
        taken = [bytes_taken(lambda s=slicer, t=now: s.watermark(t + 200))]
        slicer.extend([1, 1, 1], [5, 51, now - 47])
        lines.append(lines_run(lambda s=slicer, t=now: s.watermark(t + 200)))
        slicer.insert(1, 61)
        taken.append(bytes_taken(lambda s=slicer, t=now: s.watermark(t + 200)))
        ran.append((lines, taken))
    for which in range(2):
        for there, here in zip(ran[0][which], ran[1][which], strict=True):
            assert here < 1.5 * there + (50, 10_000)[which]


def test_sessions_ahead_of_the_watermark_are_not_looked_at() -> None:
    ran = []
    for many in (300, 10_000):
        slicer = Slicer(monoids.Sum(), {"q": Session(3)}, lateness=5)
        slicer.extend([1] * many, range(0, 10 * many, 10))
        slicer.watermark(5)
        slicer.extend([1, 1], [7, 1003])  # out of order, and not late
        ran.append(lines_run(lambda s=slicer: s.watermark(11)))
        assert [(r.start, r.end, r.value) for r in slicer.watermark(18)] == [(7, 13, 2)]
    assert ran[1] < 1.5 * ran[0] + 50


LATE: dict[str, Any] = {
    "between the others": lambda many: [(7919 * each % many) * 10 + 5 for each in range(many)],
    "at one time": lambda many: [many] * many,
    "between two": lambda many: [3 + each % 5 for each in range(many)],
    "before all": lambda many: [-each for each in range(many)],
}


@pytest.mark.parametrize("kind", [Tumbling(100, measure="count"), Sliding(40, 3, measure="count")], ids=repr)
@pytest.mark.parametrize("where", LATE)
def test_late_tuples_of_a_batch_are_counted_in_one_pass(where: str, kind: Any) -> None:
    ran = []
    for many in (600, 6000):
        slicer = Slicer(monoids.First(), {"q": kind, "delta": Delta(None, 5)}, lateness=100 * many)
        slicer.extend([1] * many, range(0, 10 * many, 10))
        slicer.watermark(10 * many)
        late = LATE[where](many)
        ran.append(lines_run(lambda s=slicer, late=late: s.extend([2] * len(late), late)))
        (stream,) = slicer._streams.values()
        assert max(each.count for each in stream.slices.items) <= 2 * min(kind.slide, 512)
    assert ran[1] < 12 * ran[0]


def test_late_tuples_one_by_one_find_few_in_their_slice() -> None:
    slicer = Slicer(monoids.First(), {"q": Tumbling(50, measure="count")}, lateness=10_000)
    plain = Plain({"q": CountSliding(50, 50)}, lambda values: values[0], 10_000)
    slicer.extend([1] * 100, range(0, 1000, 10))
    for time in range(0, 1000, 10):
        plain.insert(1, time)
    assert len(slicer.watermark(1000)) == len(plain.watermark(1000)) == 2
    for each in range(2000):
        slicer.insert(each, 7919 * each % 20)
        plain.insert(each, 7919 * each % 20)
    (stream,) = slicer._streams.values()
    assert max(each.count for each in stream.slices.items) <= 100
    got = [(r.query, r.start, r.end, r.value, r.is_update) for r in slicer.watermark(1000)]
    assert got == plain.watermark(1000)


@pytest.mark.parametrize("behind", [0, 50])
@pytest.mark.parametrize("store", ["lazy", "eager"])
def test_queries_of_sessions_of_which_nothing_is_due_are_passed_over(
    store: str, behind: int, monkeypatch: Any
) -> None:
    looks = [0]
    advance = SessionProgress.advance

    def counted(*arguments: Any) -> Any:
        looks[0] += 1
        return advance(*arguments)

    monkeypatch.setattr(SessionProgress, "advance", counted)
    queries = {f"q{each}": Session(10 + each) for each in range(100)}
    plain = Plain({name: PlainSession(each.gap) for name, each in queries.items()}, list, behind)
    slicer = Slicer(monoids.Collect(), {**queries, "t": Tumbling(3)}, lateness=behind, store=store)

    def watermark(time: int) -> int:
        looks[0] = 0
        got = [(r.query, r.start, r.end, r.value, r.is_update) for r in slicer.watermark(time)]
        assert [each for each in got if each[0] != "t"] == plain.watermark(time)
        return looks[0]

    def insert(time: int) -> None:
        slicer.insert(time, time)
        plain.insert(time, time)

    insert(1000)
    assert watermark(1001) == 100
    for time in (1001, 1002, 1005):
        insert(time)
        assert watermark(time) == 0
    slicer = Slicer.load(slicer.dump(), monoids.Collect(), store=store)
    insert(1006)
    assert watermark(1007) == 100  # a dump does not keep the time until which there is nothing to do
    insert(1009)
    insert(1008)
    assert watermark(1009) == 0
    insert(1009)
    assert sum(watermark(time) for time in range(1010, 1130)) < 100 * 20
    assert watermark(1300) <= 100
    assert watermark(1300) == 0
    assert slicer.slices == 0


def test_of_many_queries_of_sessions_one_verdict_is_for_all_late_tuples_like_it(monkeypatch: Any) -> None:
    asked = [0]
    is_late = lateness._SessionGate.is_late

    def counted(*arguments: Any) -> bool:
        asked[0] += 1
        return is_late(*arguments)

    monkeypatch.setattr(lateness._SessionGate, "is_late", counted)
    late: list[Late] = []
    queries = {f"q{each}": Session(5 + each % 7) for each in range(100)}
    slicer = Slicer(monoids.Sum(), queries, lateness=50, on_late=late.append)
    slicer.extend([1] * 100, range(1000, 1100))
    slicer.watermark(1090)
    for time in (20, 10, 15, 20, 7):
        slicer.insert(1, time)
    assert (asked[0], slicer.late_dropped) == (100, 5)
    for time in (1032, 1040, 1033, 1089):
        slicer.insert(1, time)
    assert asked[0] == 200
    slicer.insert(1, 990)  # it joins sessions with a gap of 10 or more
    slicer.insert(1, 980)  # and then by this
    taken = sum(each.gap >= 10 for each in queries.values())
    assert [len(each.queries) for each in late] == [100] * 5 + [100 - taken] * 2
    slicer.insert(1, 20)
    assert slicer.late_dropped == 6
    values = {r.query: r.value for r in slicer.watermark(1200)}
    assert values == {name: 106 if each.gap >= 10 else 104 for name, each in queries.items()}
