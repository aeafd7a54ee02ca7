"""A whole slicer as a checkpoint and back, wherever it is stopped."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_windows import Plain
from test_reference import steps
from window_kinds import MONOIDS, Uneven, content, counted, is_mark, known
from xxhash import xxh3_64_digest

from mta import AmortizedMTA, Fenced, ManifestCorrupt, ManifestMismatch, WindowError, WindowNotFound, monoids
from mta.slicing import Delta, EdgeWindow, Punctuation, Session, Slicer, Sliding, Tumbling
from mta.slicing.leaves import slice_states
from stores import open_store


def outcome(results: Any) -> list[Any]:
    return [(r.query, r.start, r.end, r.value, r.is_update) for r in results]


@pytest.mark.parametrize("monoid", MONOIDS)
@given(
    pairs=st.lists(known(), min_size=1, max_size=5),
    lateness=st.integers(0, 25),
    moves=steps(st.integers(-20, 70)),
    kept=st.integers(0, 6),
    data=st.data(),
)
def test_a_restored_slicer_goes_on_as_if_nothing_had_happened(
    monoid: str, pairs: Any, lateness: int, moves: Any, kept: int, data: st.DataObject
) -> None:
    kind, result = MONOIDS[monoid]
    mine = {f"q{n}": pair[0] for n, pair in enumerate(pairs)}
    functions = {name: each for name, each in mine.items() if isinstance(each, Uneven)}
    plain = Plain({f"q{n}": pair[1] for n, pair in enumerate(pairs)}, result, lateness, stored=True)
    store, name = open_store(f"memory:{uuid4().hex}"), "stream"
    slicer = Slicer(kind, mine, lateness=lateness, store=store, name=name, page_size=2, local=kept)
    time = 0
    for place, (what, argument) in enumerate([*moves, ("watermark", 200)]):
        if data.draw(st.booleans(), label=f"restart {place}"):
            slicer.checkpoint({"at": place})
            slicer.insert(argument[0] if what == "insert" else 1, time=50)  # this tuple is lost
            slicer = Slicer.restore(store, name, kind, functions, local=kept)
            assert slicer.offset == {"at": place}
        if what == "watermark":
            time += argument
            assert outcome(slicer.watermark(time)) == plain.watermark(time)
            continue
        batch = [argument] if what == "insert" else argument
        slicer.extend([value for value, _ in batch], [at for _, at in batch])
        for value, at in batch:
            plain.insert(value, at)
        assert slicer.late_dropped == plain.late_dropped
    slicer.close()


@pytest.mark.parametrize("store", ["lazy", "eager"])
@pytest.mark.parametrize("monoid", MONOIDS)
@given(
    pairs=st.lists(st.one_of(known(), counted, content), min_size=1, max_size=5),
    lateness=st.integers(0, 25),
    moves=steps(st.integers(-20, 70)),
    data=st.data(),
)
def test_a_slicer_in_memory_is_dumped_and_loaded(
    store: str, monoid: str, pairs: Any, lateness: int, moves: Any, data: st.DataObject
) -> None:
    kind, result = MONOIDS[monoid]
    mine = {f"q{n}": pair[0] for n, pair in enumerate(pairs)}
    functions = {name: each for name, each in mine.items() if isinstance(each, (Uneven, Punctuation))}
    plain = Plain({f"q{n}": pair[1] for n, pair in enumerate(pairs)}, result, lateness)
    slicer = Slicer(kind, mine, lateness=lateness, store=store)
    time = 0
    for place, (what, argument) in enumerate([*moves, ("watermark", 200)]):
        if data.draw(st.booleans(), label=f"restart {place}"):
            slicer = Slicer.load(slicer.dump(), kind, functions, store=store)
            assert slicer.queries == mine
        if what == "watermark":
            time += argument
            assert outcome(slicer.watermark(time)) == plain.watermark(time)
            continue
        batch = [argument] if what == "insert" else argument
        for value, at in batch:
            slicer.insert(value, at)
            plain.insert(value, at)


@pytest.mark.parametrize(
    "options",
    [
        {"in_order": True},
        {"every_tuples": 2, "lateness": 5},
        {"every_time": 3, "lateness": 5},
        {"changes_only": True, "lateness": 5},
        {"by": "user", "lateness": 5},
    ],
    ids=str,
)
def test_options_go_with_a_dump(options: Any) -> None:
    kind = monoids.Fields(sum=monoids.Sum("paid"), last=monoids.Last("paid"))
    queries = {"ten": Tumbling(10), "visit": Session(3), "slide": Sliding(7, 2)}
    by = {"by": options["by"]} if "by" in options else {}
    kept = Slicer(kind, queries, **options)
    moved = Slicer(kind, queries, **options)
    for time in range(60):
        value = {"paid": time % 7, "user": time % 3}
        assert kept.insert(value, time) == moved.insert(value, time)
        moved = Slicer.load(moved.dump(), kind, **by)
        if time % 8 == 0:
            assert kept.watermark(time - 2) == moved.watermark(time - 2)
            moved = Slicer.load(moved.dump(), kind, **by)
    assert kept.watermark(100) == moved.watermark(100)


@pytest.mark.parametrize(
    "kind",
    [
        monoids.SampleStdDev(),
        monoids.ArgMax(),
        monoids.Fields(mean=monoids.Mean(), most=monoids.MaxCount(), first=monoids.First()),
        monoids.CollectDistinct(),
        monoids.DistinctCount(),
        monoids.LongestIncreasingRun(),
        monoids.Concat(),
    ],
    ids=repr,
)
def test_states_of_every_form_are_leaves(kind: Any) -> None:
    """Slices in pages give the same results as slices in memory."""

    def values(n: int) -> Any:
        if isinstance(kind, monoids.ArgMax):
            return (n % 13, f"a{n}")
        return str(n % 10) if isinstance(kind, monoids.Concat) else n * 7 % 31

    queries = {"long": Sliding(400, 50), "visit": Session(9)}
    store = open_store(f"memory:{uuid4().hex}")
    paged = Slicer(kind, queries, lateness=10, store=store, name="s", page_size=4, local=0)
    memory = Slicer(kind, queries, lateness=10)
    for n in range(1500):
        if n % 100 > 88:
            continue
        for slicer in (paged, memory):
            slicer.insert(values(n), time=n)
        if n % 40 == 0:
            got, expected = paged.watermark(n - 5), memory.watermark(n - 5)
            assert [r[:3] for r in got] == [r[:3] for r in expected]
            for one, other in zip(got, expected, strict=True):
                assert one.value == other.value or one.value == pytest.approx(other.value)
        if n % 333 == 0:
            paged.checkpoint()
            paged = Slicer.restore(store, "s", kind, local=0)
    assert paged.leaves > 0
    paged.close()


class Cuts(EdgeWindow):
    """Edges every ten, and no windows."""

    def fingerprint(self) -> str:
        return "Cuts()"

    def edge_after(self, time: Any) -> Any:
        return time // 10 * 10 + 10

    def holding(self, time: Any) -> Any:  # noqa: ARG002
        return []


def test_local_slices_are_bounded_by_the_lateness_however_long_the_windows() -> None:
    step, local, most = 2000, 64, {}
    for lateness, length in ((100, 10_000), (1000, 10_000), (100, 1_000_000)):
        with Slicer(
            monoids.Sum(),
            {"cuts": Cuts(), "long": Sliding(length, length // 10)},
            lateness=lateness,
            store=open_store(f"memory:{uuid4().hex}"),
            local=local,
        ) as slicer:
            peak, results = 0, []
            for start in range(0, length + 3 * step, step):
                slicer.extend(np.ones(step // 10, dtype=np.int64), np.arange(start, start + step, 10))
                results += slicer.watermark(start + step)
                slicer.checkpoint()  # after which no slice is here that could be in the store
                peak = max(peak, slicer.slices)
            most[lateness, length] = peak
            assert {r.value for r in results if r.start >= 0} == {length // 10}
            assert slicer.leaves >= length // 10 * 8 // 10
        # slices that a late tuple may still change, and one and a half times `local`
        assert peak <= lateness // 10 + local * 3 // 2 + 1
    assert most[100, 10_000] == most[100, 1_000_000] < most[1000, 10_000]


def test_what_a_restore_refuses() -> None:
    store = open_store(f"memory:{uuid4().hex}")
    queries = {"mark": Tumbling(5), "own": Uneven()}
    with Slicer(monoids.Sum(), queries, store=store, name="s") as slicer:
        slicer.insert(1, time=3)
        slicer.checkpoint()
    with pytest.raises(WindowNotFound):
        Slicer.restore(store, "other", monoids.Sum())
    with pytest.raises(ManifestMismatch, match="slices of Sum"):
        Slicer.restore(store, "s", monoids.Max(), {"own": Uneven()})
    with pytest.raises(ManifestMismatch, match="has the query 'own', Uneven\\(\\), which holds a function"):
        Slicer.restore(store, "s", monoids.Sum())
    with pytest.raises(ManifestMismatch, match="'mark' as Tumbling\\(5\\), not Tumbling\\(6\\)"):
        Slicer.restore(store, "s", monoids.Sum(), {"mark": Tumbling(6), "own": Uneven()})
    with pytest.raises(ManifestMismatch, match="has no queries \\['more'\\]"):
        Slicer.restore(store, "s", monoids.Sum(), {"more": Tumbling(6), "own": Uneven()})
    with Slicer.restore(store, "s", monoids.Sum(), {"own": Uneven()}) as slicer:
        assert outcome(slicer.watermark(5)) == [("mark", 0, 5, 1, False)]


def test_an_older_writer_is_fenced() -> None:
    store = open_store(f"memory:{uuid4().hex}")
    older = Slicer(monoids.Sum(), {"q": Tumbling(5)}, store=store, name="s")
    older.insert(1, time=3)
    older.checkpoint()
    newer = Slicer.restore(store, "s", monoids.Sum())
    with pytest.raises(Fenced):
        older.checkpoint()
    newer.checkpoint()
    newer.close()
    older.close()


def test_memory_has_no_checkpoints_and_a_store_no_dump() -> None:
    slicer = Slicer(monoids.Sum(), {"q": Delta(None, 5), "p": Punctuation(is_mark)})
    with pytest.raises(WindowError, match="has no store to make a checkpoint in"):
        slicer.checkpoint()
    with (
        Slicer(monoids.Sum(), {"q": Tumbling(5)}, store=open_store("memory:")) as paged,
        pytest.raises(WindowError, match="has its slices in a store"),
    ):
        paged.dump()
    with pytest.raises(ManifestMismatch, match="holds a function"):
        Slicer.load(slicer.dump(), monoids.Sum())


@given(data=st.data())
def test_bytes_that_nobody_wrote(data: st.DataObject) -> None:
    """Also with the right checksum: a slicer, or an error of this package."""
    slicer = Slicer(
        monoids.First(), {"q": Sliding(10, 3), "v": Session(4), "c": Tumbling(3, measure="count")}, lateness=9
    )
    slicer.extend([5, 6, 7, 8, 9], [1, 12, 4, 25, 14])
    slicer.watermark(15)
    whole = slicer.dump()
    with pytest.raises(ManifestCorrupt, match="the checksum does not match"):
        Slicer.load(whole[:-1], monoids.First())
    body = bytearray(whole[:-8])
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    told = ""
    try:
        Slicer.load(bytes(body) + xxh3_64_digest(bytes(body)), monoids.First())
    except WindowError as error:
        told = str(error)
    assert told.isprintable()


@pytest.mark.parametrize("time", [2**63 - 1, -(2**63) + 1])
def test_the_last_times_there_are(time: int) -> None:
    kinds = {"ten": Tumbling(10), "visit": Session(5), "long": Sliding(2**63 - 1, 2**62)}
    slicer = Slicer(monoids.Sum(), kinds, lateness=5)
    slicer.extend([1, 2], [time, time])
    slicer = Slicer.load(slicer.dump(), monoids.Sum())
    results = slicer.watermark(2**63 - 1)
    # windows at the greatest time end behind it, and no watermark gets there
    assert {r.query: r.value for r in results} == ({} if time > 0 else dict.fromkeys(kinds, 3))
    Slicer.load(slicer.dump(), monoids.Sum())


def test_a_window_that_no_slicer_made() -> None:
    store = open_store(f"memory:{uuid4().hex}")
    kind = slice_states(monoids.Sum())
    with AmortizedMTA(kind, store=store, name="w") as window:
        window.checkpoint("mine")
    with pytest.raises(ManifestMismatch, match="was not checkpointed by a slicer"):
        Slicer.restore(store, "w", monoids.Sum())
    with AmortizedMTA.restore(store, "w", kind) as window:
        window.checkpoint({"slicer": b"12345678", "offset": None})
    with pytest.raises(ManifestCorrupt, match="the state of the slicer 'w'"):
        Slicer.restore(store, "w", monoids.Sum())
