"""Attempts of one window at once: what may count stays whole, and what can count no longer goes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest
from chance import fresh
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from mta import AmortizedMTA, Fenced, LogMTA, PagesLost, monoids, policies
from mta.durability import attempts, checkpoints, leases
from mta.durability.attempts import AttemptHold, retire
from mta.durability.coding import decode_root, pack_version
from mta.durability.manifest import DOCUMENTS, Attempt, Extents, Root, Version
from mta.durability.operations import collect, collect_window
from mta.durability.owners import this_process
from mta.window import MonoidTreeAggregator, open_version, save_version
from stores import Store, StoreUnavailable, WrapperStore, open_store, page_key, page_prefix, pages_of
from stores.testing import FaultyStore

T = TypeVar("T")
LIMIT = 30
POLICY = policies.CountWindow(LIMIT)
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

#: in turn with the letters, so that each row is told from those near it
HOUR = 3600.0


@dataclass
class Attempted:
    """An attempt with its window, and what the window should hold."""

    hold: AttemptHold
    window: MonoidTreeAggregator
    batch: int
    text: str
    run: str = ""

    def push(self, text: str) -> None:
        for letter in text:
            self.text = (self.text + letter)[-LIMIT:]
            assert self.window.push(letter) == self.text

    def publish(self) -> Version:
        return save_version(self.window, self.batch)

    def abandon(self) -> None:
        """As if its process were gone: nothing is taken back."""
        self.window._log.pages.close()
        self.window._closed = True


def begun(
    store: Store,
    name: str,
    base: Version | None,
    *,
    batch: int,
    text: str = "",
    run: str = "run",
    kind: type[MonoidTreeAggregator] = AmortizedMTA,
    page_size: int = 2,
    inline: int = 0,
    lease: float = HOUR,
) -> Attempted:
    hold = AttemptHold(store, name, page_size, base, batch=batch, run=run, lease=lease)
    window = open_version(
        kind,
        monoids.Concat(),
        POLICY,
        hold,
        store=store,
        name=name,
        page_size=page_size,
        base=base,
        inline=inline,
    )
    return Attempted(hold, window, batch, text, run)


def first_version(store: Store, name: str, text: str) -> Version:
    """What the first micro-batch of a window comes to."""
    first = begun(store, name, None, batch=0)
    first.push(text)
    return first.publish()


def text_of(store: Store, name: str, version: Version, page_size: int = 2) -> str:
    """What a version holds, all of it read."""
    reader = begun(store, name, version, batch=0, page_size=page_size)
    found: str = reader.window.range_query(-1, 10**9)
    assert found == reader.window.query()
    reader.abandon()
    return found


def root_of(store: Store, name: str) -> Root:
    data, _ = store.read_root(name) or (b"", b"")
    return decode_root(name, data)


def keys_of(store: Store, name: str) -> set[str]:
    return set(store.list_keys(pages_of(name)))


def named(name: str, *versions: Version) -> set[str]:
    return {key for version in versions for key in version.keys(name)}


@pytest.fixture
def name() -> str:
    return fresh("attempts")


@pytest.fixture(params=["memory", "rocksdb", pytest.param("redis", marks=pytest.mark.redis)])
def url(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[str]:
    url = {"memory": f"memory:{uuid.uuid4().hex}", "rocksdb": f"rocksdb://{tmp_path}/db"}.get(request.param)
    with open_store(url or request.getfixturevalue("redis_url")):
        yield url or request.getfixturevalue("redis_url")


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with open_store(url) as opened:
        yield opened


# -- one after the other ----------------------------------------------------------------------------------


def test_an_attempt_that_writes_nothing_claims_nothing(store: Store, name: str) -> None:
    first = begun(store, name, None, batch=0, inline=1000)
    first.push("a")
    version = first.publish()
    assert store.read_root(name) is None
    assert not keys_of(store, name)
    assert text_of(store, name, version) == "a"


def test_hundreds_of_batches_go_on_under_one_epoch(store: Store, name: str) -> None:
    version, text, epochs = None, "", set()
    for batch in range(300):
        attempt = begun(store, name, version, batch=batch, text=text)
        attempt.push(LETTERS[batch % 50 :][:3])
        before, version, text = version, attempt.publish(), attempt.text
        assert len(version.extents.ends) == 1
        epochs.add(root_of(store, name).epoch)
    assert version is not None
    assert len(epochs) == 1
    assert text_of(store, name, version) == text
    assert before is not None
    assert keys_of(store, name) == named(name, before, version)


def test_an_attempt_without_rows_leaves_the_window_as_it_is(store: Store, name: str) -> None:
    version = first_version(store, name, "abcdef")
    again = begun(store, name, version, batch=1, text="abcdef")
    assert again.publish().extents == version.extents
    assert keys_of(store, name) == named(name, version)


@pytest.mark.parametrize("count", [31, 40, 200])
def test_pages_that_came_and_went_within_an_attempt_are_not_left(store: Store, name: str, count: int) -> None:
    version, text, versions = None, "", []
    for batch in range(3):
        attempt = begun(store, name, version, batch=batch, text=text)
        attempt.push((LETTERS * 4)[:count])
        version, text = attempt.publish(), attempt.text
        versions.append(version)
    assert keys_of(store, name) == named(name, *versions[-2:])


# -- at once ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("winner", [0, 1])
def test_either_of_two_attempts_may_win(store: Store, name: str, winner: int) -> None:
    base = first_version(store, name, "abcdefghij")
    both = [begun(store, name, base, batch=1, text="abcdefghij") for _ in range(2)]
    for text in ("klm", "no", "pqrs"):
        for attempt in both:
            attempt.push(text)
    versions = [attempt.publish() for attempt in reversed(both)][::-1]
    assert keys_of(store, name) == named(name, base, *versions)
    assert not named(name, versions[0]) & named(name, versions[1]) - named(name, base)
    collect(store, grace=0)
    assert keys_of(store, name) == named(name, base, *versions)
    following = begun(store, name, versions[winner], batch=2, text=both[winner].text)
    following.push("tuvwxyz")
    after = following.publish()
    assert keys_of(store, name) == named(name, versions[winner], after)
    assert text_of(store, name, after) == "abcdefghijklmnopqrstuvwxyz"


def test_a_zombie_of_an_earlier_batch_is_refused(store: Store, name: str) -> None:
    base = first_version(store, name, "abcdef")
    zombie = begun(store, name, base, batch=1, text="abcdef")
    second = begun(store, name, base, batch=1, text="abcdef")
    second.push("ghi")
    version = second.publish()
    third = begun(store, name, version, batch=2, text="abcdefghi")
    third.push("jkl")
    last = third.publish()
    root = store.read_root(name)
    with pytest.raises(Fenced, match="is at batch 2 already, and this attempt is of batch 1"):
        zombie.hold.claim()
    zombie.abandon()
    assert store.read_root(name) == root
    assert text_of(store, name, last) == "abcdefghijkl"


def test_an_attempt_that_fails_takes_its_pages_back(store: Store, name: str) -> None:
    base = first_version(store, name, "abcdef")
    failed = begun(store, name, base, batch=1, text="abcdef")
    failed.push("ghijkl")
    failed.window._log.pages.flush(failed.window._log.tail)  # type: ignore[attr-defined]
    assert keys_of(store, name) > named(name, base)
    failed.window.close()
    assert keys_of(store, name) == named(name, base)
    assert not [each for each in root_of(store, name).attempts if each.batch == 1]
    again = begun(store, name, base, batch=1, text="abcdef")
    again.push("ghijkl")
    assert text_of(store, name, again.publish()) == "abcdefghijkl"


# -- dead and gone ----------------------------------------------------------------------------------------

DIES_WHILE_IT_WRITES = """
import sys
from test_attempts import begun
from mta.durability.coding import unpack_version
from stores import open_store
import msgpack

url, name, packed = sys.argv[1:]
store = open_store(url)
base = unpack_version(1, msgpack.unpackb(bytes.fromhex(packed), strict_map_key=False))
attempt = begun(store, name, base, batch=1, text="abcdefghij", run="dead")
attempt.window.slide(list("klmnopqrst"))
attempt.window._log.pages.flush(attempt.window._log.tail)
print("wrote", flush=True)
while True:
    attempt.window.slide(list("uvwxyz"))
"""


@pytest.mark.parametrize("store_of_processes", ["rocksdb", pytest.param("redis", marks=pytest.mark.redis)])
def test_a_batch_is_replayed_after_a_kill(
    request: pytest.FixtureRequest, tmp_path: Any, name: str, store_of_processes: str
) -> None:
    import msgpack

    url = f"rocksdb://{tmp_path}/db"
    if store_of_processes == "redis":
        url = request.getfixturevalue("redis_url")
    with open_store(url) as store:
        first = begun(store, name, None, batch=0, run="dead")
        first.push("abcdefghij")
        base = first.publish()
    packed = msgpack.packb(pack_version(base)).hex()
    paths = os.pathsep.join([os.path.dirname(__file__), *filter(None, sys.path)])
    process = subprocess.Popen(
        [sys.executable, "-c", DIES_WHILE_IT_WRITES, url, name, packed],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": paths},
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"wrote\n"
        time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
    with open_store(url) as store:
        left = keys_of(store, name)
        assert left > named(name, base)
        replay = begun(store, name, base, batch=1, text="abcdefghij", run="next")
        replay.push("klmnop")
        version = replay.publish()
        assert left < keys_of(store, name)
        assert replay.hold.beside_gone
        collect_window(store, name)
        assert keys_of(store, name) == named(name, base, version)
        assert [each.run for each in root_of(store, name).attempts] == ["next"]
        assert text_of(store, name, version) == "abcdefghijklmnop"


def test_gc_leaves_an_attempt_at_work_alone_until_its_lease_ends(
    store: Store, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "this_process", lambda: ("elsewhere", 1, 1))
    base = first_version(store, name, "abcdef")
    at_work = begun(store, name, base, batch=1, text="abcdef")
    at_work.push("ghijkl")
    at_work.window._log.pages.flush(at_work.window._log.tail)  # type: ignore[attr-defined]
    stored = keys_of(store, name)
    collect(store, grace=0)
    assert keys_of(store, name) == stored > named(name, base)
    with monkeypatch.context() as later:
        now = store.now()
        later.setattr(type(store), "now", lambda _: now + HOUR + 1)
        collect(store, grace=0)
    assert keys_of(store, name) == named(name, base)
    with pytest.raises(Fenced, match="was cleared away"):
        at_work.publish()
    at_work.abandon()


@pytest.mark.parametrize(
    ("run", "lease", "spared"), [("run", 0.02, True), ("next", HOUR, True), ("next", 0.02, False)]
)
def test_what_may_have_won_the_batch_is_spared(
    store: Store, name: str, monkeypatch: pytest.MonkeyPatch, run: str, lease: float, spared: bool
) -> None:
    """Of the same run it may have, dead or alive; of another run it may have while it is alive."""
    monkeypatch.setattr(attempts, "this_process", lambda: ("elsewhere", 1, 1))
    base = first_version(store, name, "abcdef")
    first = begun(store, name, base, batch=1, text="abcdef", run="run", lease=lease)
    first.push("ghijkl")
    version = first.publish()
    time.sleep(0.05)
    second = begun(store, name, base, batch=1, text="abcdef", run=run)
    second.push("mnopqr")
    after = second.publish()
    assert (named(name, version) <= keys_of(store, name)) is spared
    assert text_of(store, name, after) == "abcdefmnopqr"
    if spared:
        assert text_of(store, name, version) == "abcdefghijkl"
    retire(store, name, 2)  # its owner is none that other tests of a shared store know


def test_a_renewal_that_comes_late_prolongs_nothing(
    store: Store, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its thread had started when the attempt was published, and waited for its turn."""
    base = first_version(store, name, "abcdef")
    first = begun(store, name, base, batch=1, text="abcdef", lease=HOUR)
    first.push("ghijkl")
    first.publish()
    published = root_of(store, name)
    now = leases.now()
    monkeypatch.setattr(leases, "now", lambda: now + HOUR)  # it would be due
    first.hold.renew_if_free()
    assert root_of(store, name) == published
    retire(store, name, 2)


def test_gc_allows_for_clocks_that_differ(store: Store, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "this_process", lambda: ("elsewhere", 1, 1))
    base = first_version(store, name, "abcdef")
    at_work = begun(store, name, base, batch=1, text="abcdef")
    at_work.push("ghijkl")
    at_work.window._log.pages.flush(at_work.window._log.tail)  # type: ignore[attr-defined]
    stored = keys_of(store, name)
    with monkeypatch.context() as later:
        now = store.now()
        later.setattr(type(store), "now", lambda _: now + HOUR + 30)
        collect(store, grace=60)
        assert keys_of(store, name) == stored > named(name, base)
        later.setattr(type(store), "now", lambda _: now + HOUR + 90)
        collect(store, grace=60)
    assert keys_of(store, name) == named(name, base)
    at_work.abandon()


def test_a_write_that_comes_after_its_attempt_let_go_is_found(store: Store, name: str) -> None:
    base = first_version(store, name, "abcdef")
    failed = begun(store, name, base, batch=1, text="abcdef")
    failed.push("ghijkl")
    failed.window._log.pages.flush(failed.window._log.tail)  # type: ignore[attr-defined]
    late = sorted(keys_of(store, name) - named(name, base))
    written = store.get_many(late)
    failed.window.close()
    assert keys_of(store, name) == named(name, base)
    store.put_many({key: data for key, data in zip(late, written, strict=True) if data is not None})
    assert keys_of(store, name) > named(name, base)
    collect(store, grace=0)
    assert keys_of(store, name) == named(name, base)


# -- a root that others change meanwhile, and answers that are lost -----------------------------------------


class Crowded(WrapperStore):
    """Before a root is swapped, something else happens, once."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.before: list[Callable[[], Any]] = []

    def _around(self, call: str, action: Callable[[], T]) -> T:
        if call == "swap_root" and self.before:
            self.before.pop()()
        return action()


@pytest.mark.parametrize("late", [False, True], ids=["done", "done during the next claim"])
def test_a_claim_whose_answer_was_lost_is_made_again(store: Store, name: str, late: bool) -> None:
    """Each claim has an epoch of its own, and one of them counts."""
    base = first_version(store, name, "abcdef")
    other = begun(store, name, base, batch=1)
    other.hold.claim()
    crowded = Crowded(store)
    attempt = begun(crowded, name, base, batch=1, text="abcdef")

    def lose(*arguments: Any) -> None:
        crowded.before.append(lambda: store.swap_root(*arguments))
        raise StoreUnavailable("the connection broke")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(crowded, "swap_root", lose)
        with pytest.raises(StoreUnavailable):
            attempt.hold.claim()
    if not late:
        crowded.before.pop()()
    attempt.push("ghijkl")
    version = attempt.publish()
    ids = [each.id for each in root_of(store, name).attempts if each.batch == 1]
    assert ids == [other.hold._id, attempt.hold._id]
    assert text_of(store, name, version) == "abcdefghijkl"
    collect(store, grace=0)
    assert keys_of(store, name) == named(name, base, version)


def test_two_attempts_publish_at_the_same_moment(store: Store, name: str) -> None:
    base = first_version(store, name, "abcdef")
    crowded = Crowded(store)
    first = begun(crowded, name, base, batch=1, text="abcdef")
    second = begun(store, name, base, batch=1, text="abcdef")
    for attempt, text in ((first, "ghijkl"), (second, "mnopqr")):
        attempt.push(text)
        attempt.window._log.pages.flush(attempt.window._log.tail)  # type: ignore[attr-defined]
    others: list[Version] = []
    crowded.before.append(lambda: others.append(second.publish()))
    version = first.publish()
    published = [pack_version(each.version) for each in root_of(store, name).attempts if each.version]
    assert [pack_version(each) for each in (version, *others) if pack_version(each) not in published] == []
    collect(store, grace=0)
    assert text_of(store, name, version) == "abcdefghijkl"
    assert text_of(store, name, others[0]) == "abcdefmnopqr"


def test_a_version_whose_publishing_had_no_answer_is_spared(store: Store, name: str) -> None:
    """It may count: Spark may have heard of it, and the attempt that closes does not know."""
    base = first_version(store, name, "abcdef")
    cut = False
    line = FaultyStore(store, lambda call, _: cut and call == "swap_root", after=True)
    attempt = begun(line, name, base, batch=1, text="abcdef")
    attempt.push("ghijkl")
    attempt.window._log.pages.flush(attempt.window._log.tail)  # type: ignore[attr-defined]
    cut = True
    with pytest.raises(StoreUnavailable):
        attempt.publish()
    cut = False
    (version,) = [each.version for each in root_of(store, name).attempts if each.batch == 1]
    attempt.window.close()
    assert version is not None
    assert named(name, base, version) <= keys_of(store, name)
    assert text_of(store, name, version) == "abcdefghijkl"


# -- the end of a window ----------------------------------------------------------------------------------


def test_a_retired_window_leaves_nothing(store: Store, name: str) -> None:
    base = first_version(store, name, "abcdef")
    second = begun(store, name, base, batch=1, text="abcdef")
    second.push("ghi")
    second.publish()
    retire(store, name, 2)
    assert not keys_of(store, name)
    assert store.read_root(name) is None
    retire(store, name, 2)


def test_a_window_that_began_anew_is_not_retired(store: Store, name: str) -> None:
    old = first_version(store, name, "abcdef")
    retire(store, name, 1)
    anew = begun(store, name, None, batch=1)
    anew.push("xyz")
    version = anew.publish()
    retire(store, name, 1)
    assert keys_of(store, name) == named(name, version)
    assert not named(name, version) & named(name, old)
    assert text_of(store, name, version) == "xyz"


def test_a_zombie_does_not_bring_a_retired_window_back(store: Store, name: str) -> None:
    base = first_version(store, name, "abcdef")
    zombie = begun(store, name, base, batch=1, text="abcdef")
    zombie.push("ghijkl")
    zombie.window._log.pages.flush(zombie.window._log.tail)  # type: ignore[attr-defined]
    retire(store, name, 2)
    with pytest.raises(Fenced, match="was cleared away"):
        zombie.publish()
    zombie.abandon()
    collect(store, grace=0)
    assert not keys_of(store, name)
    assert store.read_root(name) is None


def test_a_window_does_not_go_on_in_another_store(store: Store, name: str) -> None:
    base = first_version(store, name, "abcdef")
    with open_store(f"memory:{uuid.uuid4().hex}") as other:
        wrong = AttemptHold(other, name, 2, base, batch=1, run="run", lease=HOUR)
        with pytest.raises(PagesLost, match="has pages, and none are in"):
            wrong.claim()
        assert other.read_root(name) is None
    right = begun(store, name, base, batch=1, text="abcdef")
    right.push("gh")
    assert text_of(store, name, right.publish()) == "abcdefgh"


# -- everything at random ---------------------------------------------------------------------------------

#: What may happen next, what leads far more often than what ends something.
ACTIONS = (
    *("begin", "push", "publish") * 6,
    *("win",) * 4,
    *("clear_away",) * 3,
    *("start_query_again", "fail", "die", "end", "forget", "read"),
)


class Query(RuleBasedStateMachine):
    """A key of a streaming query: micro-batches one after the other, each with several attempts."""

    url: str
    page_size: int
    #: the ids of attempts whose processes are gone
    gone: set[str]

    @initialize(kind=st.sampled_from([AmortizedMTA, LogMTA]), inline=st.sampled_from([0, 40, 1000]))
    def start(self, kind: type[MonoidTreeAggregator], inline: int) -> None:
        self.kind, self.inline = kind, inline
        self.name = fresh("attempts")
        self.store = open_store(self.url)
        self.batch, self.run = 0, 0
        #: the version that the last micro-batch came to, and what it holds
        self.base: Version | None = None
        self.text = ""
        #: whether the window before this one is to be removed
        self.over = False
        self.at_work: list[Attempted] = []
        #: what attempts of this micro-batch have come to, in this run of the query
        self.published: list[tuple[Attempted, Version]] = []
        self.letters = 0

    def next_letters(self, count: int) -> str:
        self.letters += 1
        return (LETTERS[self.letters % 50 :] + LETTERS)[:count]

    def counts(self, attempt: Attempted) -> bool:
        return (attempt.batch, attempt.run) == (self.batch, str(self.run))

    def chosen(self, which: int) -> Attempted | None:
        return self.at_work[which % len(self.at_work)] if self.at_work else None

    @rule(
        action=st.sampled_from(ACTIONS),
        which=st.integers(0, 3),
        count=st.sampled_from([1, 2, 3, 5, 8, 20, 45]),
        flag=st.booleans(),
    )
    def act(self, action: str, which: int, count: int, flag: bool) -> None:
        arguments: dict[str, tuple[Any, ...]] = {
            "push": (which, count, flag),
            "start_query_again": (flag,),
            **dict.fromkeys(("publish", "win", "fail", "die"), (which,)),
        }
        getattr(self, action)(*arguments.get(action, ()))

    def begin(self) -> None:
        if len(self.at_work) > 3:
            return
        if self.over:
            retire(self.store, self.name, self.batch)
        self.at_work.append(
            begun(
                self.store,
                self.name,
                self.base,
                batch=self.batch,
                text=self.text,
                run=str(self.run),
                kind=self.kind,
                page_size=self.page_size,
                inline=self.inline,
            )
        )

    def push(self, which: int, count: int = 5, flush: bool = True) -> None:
        attempt = self.chosen(which)
        if attempt is None:
            return
        try:
            attempt.push(self.next_letters(count))
            if flush:
                attempt.window._log.pages.flush(attempt.window._log.tail)  # type: ignore[attr-defined]
        except (Fenced, PagesLost):
            assert not self.counts(attempt)
            self.at_work.remove(attempt)
            attempt.abandon()
            self.gone.add(attempt.hold._id)

    def publish(self, which: int) -> None:
        attempt = self.chosen(which)
        if attempt is None:
            return
        self.at_work.remove(attempt)
        try:
            version = attempt.publish()
        except (Fenced, PagesLost):
            assert not self.counts(attempt)
            attempt.abandon()
            self.gone.add(attempt.hold._id)
            return
        if self.counts(attempt):
            self.published.append((attempt, version))

    def fail(self, which: int) -> None:
        attempt = self.chosen(which)
        if attempt is None:
            return
        self.at_work.remove(attempt)
        with suppress(Fenced, PagesLost):
            attempt.window.close()
        self.gone.add(attempt.hold._id)

    def die(self, which: int) -> None:
        attempt = self.chosen(which)
        if attempt is not None:
            self.at_work.remove(attempt)
            attempt.abandon()
            self.gone.add(attempt.hold._id)

    def win(self, which: int) -> None:
        if not self.published:
            return
        attempt, self.base = self.published[which % len(self.published)]
        self.text, self.over = attempt.text, False
        self._next_batch()

    def start_query_again(self, all_die: bool) -> None:
        """What its run before has published counts no longer; attempts that live on are zombies."""
        self.gone.update(attempt.hold._id for attempt, _ in self.published)
        self.run += 1
        self.published = []
        while all_die and self.at_work:
            self.die(0)

    def end(self) -> None:
        """The window is empty for good, which a micro-batch finds that has no rows of it."""
        if self.base is None or any(attempt.batch == self.batch for attempt in self.at_work):
            return
        if self.published:
            return
        self.base, self.text, self.over = None, "", True
        self._next_batch()

    def forget(self) -> None:
        if self.over and not self.published:
            retire(self.store, self.name, self.batch)
            self.over = False
            self._next_batch()

    def clear_away(self) -> None:
        collect(self.store, grace=0)

    def _next_batch(self) -> None:
        self.batch += 1
        self.published = []

    def read(self) -> None:
        if self.base is not None:
            assert text_of(self.store, self.name, self.base, self.page_size) == self.text
        for attempt, version in self.published:
            assert text_of(self.store, self.name, version, self.page_size) == attempt.text

    @invariant()
    def what_may_count_is_whole(self) -> None:
        if not hasattr(self, "store"):
            return
        stored = keys_of(self.store, self.name)
        needed = [] if self.base is None else [self.base]
        needed += [version for _, version in self.published]
        assert named(self.name, *needed) <= stored

    def teardown(self) -> None:
        if not hasattr(self, "store"):
            return
        self.read()
        self.start_query_again(all_die=True)
        # two more micro-batches, so that the store need not keep what was before
        versions = []
        for _ in range(2):
            self.begin()
            self.push(0)
            self.publish(0)
            self.win(0)
            assert self.base is not None
            versions.append(self.base)
            collect(self.store, grace=0)
        self.read()
        if any(version.keys(self.name) for version in versions) and self.store.read_root(self.name):
            root = root_of(self.store, self.name)
            assert {each.number for each in root.retained} <= {each.number for each in versions}
        assert keys_of(self.store, self.name) == named(self.name, *versions)
        retire(self.store, self.name, self.batch)
        assert not keys_of(self.store, self.name)
        assert self.store.read_root(self.name) is None
        self.store.close()


@pytest.mark.random
@pytest.mark.parametrize("page_size", [2, 4])
def test_attempts_at_random(url: str, page_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    class Machine(Query):
        pass

    gone: set[str] = set()
    really = attempts.is_gone

    def is_gone(attempt: Attempt, now: float) -> bool:
        # others of a shared server are those that tests of streams have left there
        return attempt.id in gone if attempt.owner == this_process() else really(attempt, now)

    for module in ("mta.durability.attempts", "mta.durability.operations.collect"):
        monkeypatch.setattr(sys.modules[module], "is_gone", is_gone)
    monkeypatch.setattr(checkpoints, "MOST_PARTS", 3)
    Machine.url, Machine.page_size, Machine.gone = url, page_size, gone
    examples = settings.default.max_examples * (2 if url.startswith("memory") else 1) // 2
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        Machine, settings=settings(max_examples=examples, stateful_step_count=80)
    )


def test_documents_that_no_version_names_any_more_go(store: Store, name: str) -> None:
    def version(*documents: tuple[int, int, int]) -> Version:
        return Version.of_documents(1, b"", Extents(((5, None),), 1), documents)

    keys = {
        (epoch, n): page_key(page_prefix(name, epoch, DOCUMENTS), n) for epoch in (5, 6) for n in range(9)
    }
    store.put_many(dict.fromkeys(keys.values(), b"x"))
    attempts.clear(store, name, [version((5, 2, 7), (6, 0, 3))], [version((5, 4, 6), (6, 1, 2))])
    gone = {(5, 2), (5, 3), (5, 6), (6, 0), (6, 2)}
    assert keys_of(store, name) == {key for place, key in keys.items() if place not in gone}
    store.delete_many(keys.values())
