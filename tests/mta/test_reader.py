"""Readers: each answer is that of the version that the reader names, by plain recomputation."""

from __future__ import annotations

import multiprocessing
import pickle
import threading
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta import (
    AmortizedMTA,
    ConcurrentUse,
    LogMTA,
    ManifestMismatch,
    PagesLost,
    Reader,
    WindowClosed,
    WindowNotFound,
    monoids,
    policies,
)
from mta.durability.coding import decode_root
from stores import (
    CountingStore,
    Store,
    StoreConfigError,
    StoreUnavailable,
    WrapperStore,
    open_store,
    pages_of,
)
from stores.testing import FaultyStore

T = TypeVar("T")

#: monoids, and what they make of a list of values, all of them texts of one letter or small numbers
PLAIN: dict[str, tuple[Any, Callable[[list[Any]], Any], Callable[[int], Any]]] = {
    "Concat": (monoids.Concat(), "".join, lambda i: chr(ord("a") + i * 7 % 26)),
    "Sum": (monoids.Sum(), sum, lambda i: i * i % 101),
    "Fields": (
        monoids.Fields(n=monoids.Count(), all=monoids.Concat("name")),
        lambda rows: {"n": len(rows), "all": "".join(row["name"] for row in rows)},
        lambda i: {"name": chr(ord("a") + i * 5 % 26)},
    ),
}


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store(f"memory:{uuid.uuid4().hex}") as opened:
        yield opened


def keeps(policy: Any, positions: list[int], times: list[int], moment: int) -> list[int]:
    """The positions that a policy keeps of these as of a moment, which is not before their times."""
    if isinstance(policy, policies.Union):
        one = keeps(policy.first, positions, times, moment)
        return [each for each in keeps(policy.second, positions, times, moment) if each in one]
    if isinstance(policy, policies.CountWindow):
        return positions[-policy.n :]
    if isinstance(policy, policies.TimeWindow):
        cut = moment - policy.d
        return [i for i in positions if times[i] > cut or (policy.closed == "both" and times[i] == cut)]
    return positions


POLICIES = st.one_of(
    st.none(),
    st.integers(1, 12).map(policies.CountWindow),
    st.integers(1, 12).map(policies.TimeWindow),
    st.integers(0, 12).map(lambda d: policies.TimeWindow(d, closed="both")),
    st.tuples(st.integers(1, 8), st.integers(1, 12)).map(
        lambda each: policies.CountWindow(each[0]) | policies.TimeWindow(each[1])
    ),
)


@given(
    name=st.sampled_from(sorted(PLAIN)),
    kind=st.sampled_from([AmortizedMTA, LogMTA]),
    policy=POLICIES,
    page_size=st.sampled_from([2, 4, None]),
    batches=st.lists(
        st.tuples(st.lists(st.integers(0, 4), min_size=1, max_size=25), st.integers(0, 3)),
        min_size=1,
        max_size=4,
    ),
)
def test_answers_are_those_of_the_version(
    name: str, kind: Any, policy: Any, page_size: int | None, batches: list[tuple[list[int], int]]
) -> None:
    monoid, plain, value = PLAIN[name]
    values: list[Any] = []
    times: list[int] = []
    versions: list[tuple[int, int]] = []  # head and tail
    with open_store("memory:") as store:
        window = kind(monoid, policy, store=store, name="w", page_size=page_size, retain=10)
        for steps, evicted in batches:
            for step in steps:
                times.append((times[-1] if times else 0) + step)
                values.append(value(len(values)))
                window.push(values[-1], times[-1])
            if evicted <= len(window):
                window.evict(evicted)
            window.checkpoint(offset=len(values))
            versions.append((len(values) - len(window), len(values)))
        window.close()
        for number, (head, tail) in enumerate(versions, 1):
            with Reader.open(store, "w", monoid, policy, version=number) as reader:
                here = values[head:tail]
                assert (reader.version, reader.offset, len(reader)) == (number, tail, tail - head)
                assert reader.query() == plain(here)
                bounds = (times[head], times[tail - 1]) if head < tail else (None, None)
                assert (reader.oldest, reader.youngest) == bounds
                for t0 in range(-1, times[tail - 1] + 3, 3):
                    for t1 in (t0, t0 + 2, t0 + 9):
                        between = [values[i] for i in range(head, tail) if t0 <= times[i] <= t1]
                        assert reader.range_query(t0, t1) == plain(between)
                for moment in range(-2, times[tail - 1] + 16):
                    check_as_of(reader, policy, plain, values, times[:tail], head, moment)
                assert reader.version == number


def check_as_of(
    reader: Reader, policy: Any, plain: Any, values: list[Any], times: list[int], head: int, moment: int
) -> None:
    until = [i for i in range(len(times)) if times[i] <= moment]
    if moment >= times[-1]:
        kept = keeps(policy, [i for i in until if i >= head], times, moment)
        assert reader.at(moment) == plain([values[i] for i in kept])
        return
    kept = keeps(policy, until, times, moment)
    gone = bool(kept) and kept[0] < head
    unknown = head > 0 and (not kept or kept[0] == head)  # elements that left may belong to it
    count = None if policy is None else policy.limits().count
    if count is not None and len(until) - count >= head:
        unknown = False
    if gone or unknown:
        with pytest.raises(ValueError, match=f"as of {moment} may have had elements that are gone"):
            reader.at(moment)
    else:
        assert reader.at(moment) == plain([values[i] for i in kept])


def test_a_time_whose_elements_are_gone_is_refused_with_both_times(store: Store) -> None:
    policy = policies.TimeWindow(10)
    with AmortizedMTA(monoids.Sum(), policy, store=store, name="w", page_size=4) as window:
        window.extend(range(100), range(100))
        window.checkpoint()
    with Reader.open(store, "w", monoids.Sum(), policy) as reader:
        with pytest.raises(ValueError, match=r"as of 70 may have had .* gone.* have those from 90 on"):
            reader.at(70)
        assert reader.at(99) == reader.query() == sum(range(90, 100))
        assert reader.at(104) == sum(range(95, 100))
        assert reader.at(10**6) == 0
        with pytest.raises(ValueError, match="older to the younger"):
            reader.range_query(2, 1)
        with pytest.raises(TypeError, match="a time is"):
            reader.at("soon")  # type: ignore[arg-type]


def test_a_time_that_a_newer_version_refuses_moves_the_reader(store: Store) -> None:
    policy = policies.TimeWindow(9)
    window = AmortizedMTA(monoids.Sum(), policy, store=store, name="w", page_size=2, retain=1)
    window.extend(range(40), range(40))
    window.checkpoint()
    reader = Reader.open(store, "w", monoids.Sum(), policy)
    window.extend(range(40), range(40, 80))
    window.checkpoint()
    window._log.pages._writer.finish()  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match=r"as of 41 .* the youngest element is of 79"):
        reader.at(41)
    assert (reader.version, reader.youngest) == (2, 79)
    window.close()


@pytest.mark.parametrize("spans", [False, True])
def test_a_predicate_is_not_asked_about_other_moments(store: Store, spans: bool) -> None:
    policy: policies.Policy = policies.SumWindow(10)
    if spans:
        policy = policy | policies.TimeWindow(5)
    with AmortizedMTA(monoids.Sum(), policy, store=store, name="w", page_size=4) as window:
        window.extend([3] * 20, range(20))
        result = window.query()
        window.checkpoint()
    with Reader.open(store, "w", monoids.Sum(), policy) as reader:
        assert reader.at(19) == result
        with pytest.raises(ValueError, match="has a predicate, which decides when elements come,"):
            reader.at(18)
        if spans:
            with pytest.raises(ValueError, match="has a predicate"):
                reader.at(23)
        else:
            assert reader.at(10**9) == result


# -- versions ----------------------------------------------------------------------------------------------


class Written:
    """A window of CountWindow(50) over Concat, and what a reader of each version must answer."""

    policy = policies.CountWindow(50)

    def __init__(self, store: Store, **options: Any) -> None:
        self.window = AmortizedMTA(
            monoids.Concat(), self.policy, store=store, name="w", page_size=4, **options
        )
        self.store, self.count = store, 0
        self.answers: dict[int, str] = {}

    def go_on(self, count: int = 20) -> int:
        """Pushes elements and makes a checkpoint, and waits for what is done in the background."""
        self.window.extend([letter(i) for i in range(self.count, self.count + count)])
        self.count += count
        number = self.window.checkpoint(offset=self.count)
        self.answers[number] = "".join(letter(i) for i in range(max(0, self.count - 50), self.count))
        self.window._log.pages._writer.finish()  # type: ignore[attr-defined]
        return number

    def reader(self, store: Store | None = None, **options: Any) -> Reader:
        return Reader.open(store or self.store, "w", monoids.Concat(), self.policy, **options)


def letter(i: int) -> str:
    return f"{i};"


def held(store: Store) -> set[str]:
    return set(store.list_keys(pages_of("w")))


def named(store: Store) -> set[str]:
    data, _ = store.read_root("w") or (b"", b"")
    return {key for version in decode_root("w", data).retained for key in version.keys("w")}


def test_a_reader_stays_until_it_is_refreshed(store: Store) -> None:
    written = Written(store)
    written.go_on(100)
    reader = written.reader()
    assert not reader.refresh()
    assert reader.query() == written.answers[1]
    written.go_on()
    assert (reader.version, reader.query()) == (1, written.answers[1])
    assert reader.refresh()
    assert (reader.version, reader.offset, reader.query()) == (2, 120, written.answers[2])
    assert not reader.refresh()


def test_a_reader_of_a_version_that_was_dropped_goes_on_to_the_last(store: Store) -> None:
    written = Written(store)
    written.go_on(100)
    readers = [written.reader() for _ in range(3)]
    for _ in range(10):
        written.go_on()
    for reader, ask in zip(
        readers,
        [Reader.query, lambda reader: reader.at(10**6), lambda reader: reader.range_query(0, 10**6)],
        strict=True,
    ):
        assert ask(reader) == written.answers[11]
        assert (reader.version, reader.offset) == (11, 300)
    assert not readers[0].refresh()


def test_pages_that_were_read_answer_for_a_dropped_version(store: Store) -> None:
    written = Written(store)
    written.go_on(100)
    reader = written.reader()
    reader.query()
    for _ in range(10):
        written.go_on()
    assert (reader.query(), reader.version) == (written.answers[1], 1)


def test_a_chosen_version_that_was_dropped_is_an_error(store: Store) -> None:
    written = Written(store)
    written.go_on(100)
    reader = written.reader(version=1)
    assert not reader.refresh()
    for _ in range(10):
        written.go_on()
    with pytest.raises(WindowNotFound, match=r"version 1 of the window 'w' .* dropped it; retained: 10, 11"):
        reader.query()
    assert reader.version == 1
    assert not reader.refresh()
    with pytest.raises(WindowNotFound, match=r"no version 1 of the window 'w' .*; retained: 10, 11"):
        written.reader(version=1)


def test_pages_that_the_store_lost_are_told_apart(store: Store) -> None:
    written = Written(store)
    written.go_on(100)
    readers = [written.reader(), written.reader(version=1)]
    store.delete_many(held(store))
    for reader in readers:
        with pytest.raises(PagesLost, match=r"page .* of window 'w' is not in"):
            reader.query()
        with pytest.raises(PagesLost):
            written.reader().query()


def test_a_window_that_was_removed_and_begun_anew(store: Store) -> None:
    written = Written(store)
    written.go_on(100)
    reader = written.reader()
    written.window.close()
    _, token = store.read_root("w") or (b"", b"")
    store.delete_root("w", token)
    store.delete_many(held(store))
    with pytest.raises(WindowNotFound, match="no window 'w'"):
        reader.refresh()
    with pytest.raises(WindowNotFound, match="no window 'w'"):
        reader.query()
    assert (reader.version, len(reader)) == (1, 50)
    anew = Written(store)
    anew.count = 5000
    anew.go_on(100)
    assert reader.query() == anew.answers[1]
    assert (reader.version, reader.offset) == (1, 5100)


class Between(WrapperStore):
    """Something happens before the next call of a name."""

    def __init__(self, inner: Store, name: str, action: Callable[[], object]) -> None:
        super().__init__(inner)
        self.left, self.name, self.action = 1, name, action

    def _around(self, call: str, action: Callable[[], T]) -> T:
        if call == self.name and self.left:
            self.left -= 1
            self.action()
        return action()


@pytest.mark.parametrize("times", [1, 3])
def test_a_writer_that_goes_on_while_a_reader_is_opened(store: Store, times: int) -> None:
    written = Written(store, retain=1)
    written.window._stored.checkpoints._inline = 0  # type: ignore[union-attr]
    written.go_on(101)
    between = Between(store, "get_many", lambda: (written.go_on(), written.go_on()))
    between.left = times
    with written.reader(between) as reader:
        assert reader.version == 1 + 2 * times
        assert reader.query() == written.answers[reader.version]


def test_a_writer_that_is_always_faster_is_told(store: Store) -> None:
    written = Written(store, retain=1)
    written.go_on(103)
    between = Between(store, "get_many", lambda: [written.go_on(30) for _ in range(3)])
    between.left = 0
    with written.reader(between) as reader:
        between.left = 1000
        with pytest.raises(PagesLost, match="dropped 16 versions one after the other"):
            reader.query()
        assert reader.version == 1


@pytest.mark.parametrize("after", [False, True])
def test_a_store_that_fails_leaves_the_reader_as_it_was(store: Store, after: bool) -> None:
    written = Written(store)
    written.go_on(100)
    for number in range(1, 60):
        line = FaultyStore(store, 0.0, after=after)
        reader = written.reader(line)
        was = reader.version
        for _ in range(4):
            written.go_on()
        start = line._number
        line.fails = lambda _, each, number=number, start=start: each == start + number
        failed = 0
        for ask in (Reader.query, Reader.refresh, lambda reader: reader.pin(60), Reader.unpin):
            before = reader.version
            try:
                ask(reader)
            except StoreUnavailable:
                failed += 1
                assert reader.version == before
        assert reader.query() == written.answers[reader.version]
        assert reader.version > was
        reader.close()
        if not failed and not line.faults:
            break
    else:
        raise AssertionError("a reader makes more calls than that?")
    assert not decode_root("w", (store.read_root("w") or (b"", b""))[0]).pins or after


# -- what is refused ---------------------------------------------------------------------------------------


def test_another_monoid_or_policy_and_no_window(store: Store) -> None:
    Written(store).go_on(100)
    with pytest.raises(ManifestMismatch, match="monoid Concat"):
        Reader.open(store, "w", monoids.Sum(), Written.policy)
    with pytest.raises(ManifestMismatch, match=r"policy CountWindow.*; open it so"):
        Reader.open(store, "w", monoids.Concat(), policies.CountWindow(51))
    with pytest.raises(WindowNotFound, match="no window 'v'"):
        Reader.open(store, "v", monoids.Concat(), Written.policy)
    with pytest.raises(WindowNotFound, match=r"no version 9 .*; retained: 1"):
        Reader.open(store, "w", monoids.Concat(), Written.policy, version=9)
    begun = AmortizedMTA(monoids.Sum(), store=store, name="begun", page_size=2)
    begun._stored.hold.claim()  # type: ignore[union-attr]
    with pytest.raises(WindowNotFound, match="no checkpoint of a window 'begun'"):
        Reader.open(store, "begun", monoids.Sum())
    begun.close()


def test_arguments_are_checked(store: Store) -> None:
    Written(store).go_on(100)
    for arguments, reason in (
        ((None, "w", monoids.Sum()), "takes the window's store"),
        ((3, "w", monoids.Sum()), "store is what"),
        ((store, "w", "Sum()"), "monoid"),
        ((store, "w", monoids.Sum(), 5), "policy is one of"),
    ):
        with pytest.raises(TypeError, match=reason):
            Reader.open(*arguments)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="version is the whole number"):
        Reader.open(store, "w", monoids.Concat(), Written.policy, version="1")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="several names, got the text"):
        Reader.open_many(store, "w", monoids.Concat(), Written.policy)
    with pytest.raises(ValueError, match="name"):
        Reader.open(store, "", monoids.Concat(), Written.policy)
    with Written(store).reader() as reader:
        for seconds in (0, -1, float("nan"), float("inf"), 31 * 86400, True, "1"):
            with pytest.raises(ValueError, match="pin takes seconds, above 0 and up to 2,592,000"):
                reader.pin(seconds)  # type: ignore[arg-type]


def test_a_closed_reader_and_its_copies(store: Store) -> None:
    Written(store).go_on(100)
    reader = Written(store).reader()
    with pytest.raises(TypeError, match="can be neither copied nor pickled"):
        pickle.dumps(reader)
    assert repr(reader).startswith("<Reader of version 1 of 'w', 50 elements in MemoryStore(")
    reader.close()
    reader.close()
    calls: list[Callable[[], object]] = [
        reader.query,
        reader.refresh,
        reader.unpin,
        lambda: reader.at(3),
        lambda: reader.range_query(0, 3),
        lambda: reader.pin(3),
    ]
    for call in calls:
        with pytest.raises(WindowClosed, match="the reader of the window 'w' is closed; open another one"):
            call()


def test_two_threads_in_one_reader(store: Store) -> None:
    Written(store).go_on(100)
    inside, go_on = threading.Event(), threading.Event()
    between = Between(store, "get_many", lambda: (inside.set(), go_on.wait(300)))
    reader = Written(store).reader(between)
    between.left = 1
    thread = threading.Thread(target=reader.query)
    thread.start()
    assert inside.wait(300)
    with pytest.raises(ConcurrentUse, match="the reader of the window 'w' is in another call"):
        reader.query()
    go_on.set()
    thread.join()
    assert reader.query()


def test_a_forked_child_opens_its_own(tmp_path: Any) -> None:
    with open_store(f"rocksdb://{tmp_path}/w") as store:
        Written(store).go_on(100)
    with open_store(f"rocksdb://{tmp_path}/w", read_only=True) as store:
        reader = Written(store).reader()
        expected = reader.query()

        def child(answers: Any) -> None:
            try:
                reader.query()
            except WindowClosed as error:
                answers.put(str(error))
            reader.close()
            answers.put(Written(store).reader().query())

        fork = multiprocessing.get_context("fork")
        answers = fork.SimpleQueue()
        process = fork.Process(target=child, args=(answers,))
        process.start()
        assert "was forked from; open one here" in answers.get()
        assert answers.get() == expected
        process.join()
        process.close()
        answers.close()
        assert reader.query() == expected


# -- stores ------------------------------------------------------------------------------------------------


def test_a_url_is_opened_for_reading_and_closed(tmp_path: Any) -> None:
    url = f"rocksdb://{tmp_path}/w"
    with open_store(url) as store:
        written = Written(store)
        written.go_on(100)
        with Reader.open(url, "w", monoids.Concat(), Written.policy) as reader:
            assert reader.store.read_only
            assert reader.query() == written.answers[1]
            written.go_on()
            assert reader.refresh()
            assert reader.query() == written.answers[2]
            with pytest.raises(StoreConfigError, match="opened for reading only"):
                reader.pin(10)
            opened = reader.store
        assert opened._closed
        with pytest.raises(WindowNotFound):
            Reader.open(url, "none", monoids.Concat(), Written.policy)
        many = Reader.open_many(url, ["w"], monoids.Concat(), Written.policy)
        assert many["w"].query() == written.answers[2]
        many["w"].close()
        assert many["w"].store._closed


def test_a_warm_query_makes_no_call_and_opening_few(store: Store) -> None:
    written = Written(store)
    written.window._stored.checkpoints._inline = 0  # type: ignore[union-attr]
    written.go_on(103)
    counting = CountingStore(store)
    reader = written.reader(counting)
    assert counting.round_trips == 2
    reader.query()
    assert counting.round_trips == 3
    reader.query()
    reader.at(10**6)
    assert counting.round_trips == 3
    assert not reader.refresh()
    assert counting.round_trips == 4


def test_a_warm_query_of_many_frames_makes_no_call(store: Store) -> None:
    frames = {f"f{i}": monoids.Concat().over(policies.TimeWindow(370 * i)) for i in range(1, 21)}
    with AmortizedMTA(frames, store=store, name="w", page_size=4) as window:
        window.extend([str(i % 10) for i in range(9000)], range(9000))
        expected = window.query()
        window.checkpoint()
    counting = CountingStore(store)
    with Reader.open(counting, "w", frames) as reader:
        assert reader.query() == expected
        before = counting.round_trips
        assert reader.query() == expected
        assert counting.round_trips == before


@pytest.mark.parametrize("page_size", [2, 4, 64])
@pytest.mark.parametrize("monoid", [monoids.Concat, monoids.Sum, monoids.Max])
def test_frames_are_read_together(store: Store, page_size: int, monoid: Callable[[], Any]) -> None:
    """Five frames take as many round trips as the one of them that reaches back furthest."""
    longest = policies.TimeWindow(7000)
    five = [
        longest, policies.TimeWindow(5000), policies.TimeWindow(3001, delay=1002), policies.CountWindow(2003),
        policies.TimeWindow(904, closed="left"),
    ]  # fmt: skip
    moment, count, trips = 8100, 9000, {}
    for name, frames in {"one": [longest], "five": five}.items():
        features = {f"f{at}": monoid().over(frame) for at, frame in enumerate(frames)}
        with AmortizedMTA(features, store=store, name=name, page_size=page_size, keep=2000) as window:
            values = [str(i % 10) for i in range(count)] if monoid is monoids.Concat else range(count)
            window.extend(values, range(count))
            expected = [window.query(), window.at(moment), window.range_query(1500, moment)]
            window.checkpoint()
        counting, trips[name] = CountingStore(store), []
        with Reader.open(counting, name, features) as reader:
            asks = [reader.query, partial(reader.at, moment), partial(reader.range_query, 1500, moment)]
            for ask, answer in zip(asks, expected, strict=True):
                assert ask() == answer
                trips[name].append(counting.round_trips)
    # five frames have larger tails, which may be parts of their own; these take a round trip
    assert all(five <= one + 1 for five, one in zip(trips["five"], trips["one"], strict=True))


def test_many_windows_are_opened_in_two_calls(store: Store) -> None:
    for i in range(50):
        with AmortizedMTA(
            monoids.Sum(), policies.CountWindow(5), store=store, name=f"w{i}", page_size=4
        ) as window:
            window._stored.checkpoints._inline = 0 if i % 2 else 640  # type: ignore[union-attr]
            window.extend(range(i, i + 7))
            window.checkpoint(i)
    counting = CountingStore(store)
    names = [f"w{i}" for i in range(50)]
    readers = Reader.open_many(counting, [*names, "w3"], monoids.Sum(), policies.CountWindow(5))
    assert counting.calls == {"read_roots": 1, "get_many": 1}
    assert list(readers) == names
    for i, reader in enumerate(readers.values()):
        assert (reader.query(), reader.offset) == (sum(range(i + 2, i + 7)), i)
    assert Reader.open_many(counting, [], monoids.Sum()) == {}
    with pytest.raises(WindowNotFound, match="no window 'none'"):
        Reader.open_many(counting, ["w1", "none"], monoids.Sum(), policies.CountWindow(5))


def test_many_windows_whose_writers_go_on_meanwhile(store: Store) -> None:
    written = Written(store, retain=1)
    written.window._stored.checkpoints._inline = 0  # type: ignore[union-attr]
    written.go_on(101)
    between = Between(store, "get_many", lambda: (written.go_on(), written.go_on()))
    readers = Reader.open_many(between, ["w"], monoids.Concat(), Written.policy)
    assert (readers["w"].version, readers["w"].query()) == (3, written.answers[3])
