"""Pins: what a reader has pinned stays, its writer goes on, and nothing is left when the pin has expired."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from chance import examples, seeds

from mta import AmortizedMTA, Fenced, Reader, WindowError, WindowNotFound, monoids, policies
from mta.durability import invariants
from mta.durability.coding import decode_root, encode_root
from mta.durability.manifest import Pin, Root
from mta.durability.operations import collect, inspect, remove, remove_all, verify
from mta.durability.ownership import Ownership
from mta.errors import ManifestCorrupt
from mta.window import MonoidTreeAggregator
from stores import Store, StoreUnavailable, WrapperStore, open_store, pages_of
from stores.testing import FaultyStore

T = TypeVar("T")
POLICY = policies.CountWindow(50)


class Clocked(WrapperStore):
    """A store whose clock goes when it is told to, and where something may happen before a call."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.moment = 1_000_000_000.0
        self.before: dict[str, Callable[[], object]] = {}

    def now(self) -> float:
        return self.moment

    def _around(self, call: str, action: Callable[[], T]) -> T:
        happens = self.before.pop(call, None)
        if happens is not None:
            happens()
        return action()


@pytest.fixture
def store(any_store: Store) -> Clocked:
    return Clocked(any_store)


@pytest.fixture
def name() -> str:
    return f"pinned-{uuid.uuid4().hex}"


class Line:
    """A window of 50 texts, and what a reader of each version must answer."""

    def __init__(self, store: Store, name: str, **options: Any) -> None:
        self.store, self.name, self.count = store, name, 0
        self.answers: dict[int, str] = {}
        self.window: MonoidTreeAggregator = AmortizedMTA(
            monoids.Concat(), POLICY, store=store, name=name, page_size=4, **options
        )
        self.all_in_parts()

    def go_on(self, checkpoints: int = 1, count: int = 23) -> int:
        for _ in range(checkpoints):
            self.window.extend([f"{i};" for i in range(self.count, self.count + count)])
            self.count += count
            self.version = self.window.checkpoint(offset=self.count)
            self.answers[self.version] = "".join(f"{i};" for i in range(max(0, self.count - 50), self.count))
        self.window._log.pages._writer.finish()  # type: ignore[attr-defined]
        return self.version

    def restore(self, **options: Any) -> None:
        self.window = AmortizedMTA.restore(self.store, self.name, monoids.Concat(), POLICY, **options)
        self.count = self.window.offset
        self.all_in_parts()

    def all_in_parts(self) -> None:
        """The tails of small pages would stand in the manifest."""
        self.window._stored.checkpoints._inline = 0  # type: ignore[union-attr]

    def reader(self, store: Store | None = None, **options: Any) -> Reader:
        return Reader.open(store or self.store, self.name, monoids.Concat(), POLICY, **options)

    def root(self) -> Root:
        return decode_root(self.name, (self.store.read_root(self.name) or (b"", b""))[0])

    def held(self) -> set[str]:
        return set(self.store.list_keys(pages_of(self.name)))

    def named(self) -> set[str]:
        return {key for version in self.root().retained for key in version.keys(self.name)}


@pytest.fixture
def line(store: Clocked, name: str) -> Iterator[Line]:
    line = Line(store, name)
    yield line
    line.window.close()


def test_a_pinned_version_stays_and_goes_when_it_is_unpinned(line: Line) -> None:
    line.go_on(4)
    with line.reader() as reader:
        reader.pin(60)
        line.go_on(10)
        assert [version.number for version in line.root().retained] == [4, 13, 14]
        assert verify(line.store, line.name).problems == []
        assert not reader.refresh()
        assert (reader.version, reader.query()) == (4, line.answers[4])
        with line.reader(version=4) as other:
            assert other.query() == line.answers[4]
        reader.unpin()
        assert line.root().pins == ()
        assert line.root().pinned == ()
        assert reader.refresh()
        assert (reader.version, reader.query()) == (14, line.answers[14])
    line.go_on(1)
    assert line.held() == line.named()


@pytest.mark.parametrize("end", ["checkpoint", "close", "gc", "restore", "restored before"])
def test_nothing_is_left_once_a_pin_has_expired(line: Line, store: Clocked, end: str) -> None:
    line.go_on(4)
    reader = line.reader()
    reader.pin(60)
    line.go_on(10)
    if end == "restored before":
        line.window.close()
        line.restore()
    store.moment += 59
    line.go_on(1)
    assert reader.query() == line.answers[4]
    reader._at.kept.clear()
    pages = line.held()
    store.moment += 2
    if end in ("checkpoint", "restored before"):
        line.go_on(1)
    elif end == "close":
        line.window.close()
    elif end == "gc":
        collect(store, grace=0)
        line.go_on(1)
    else:
        line.window.close()
        line.restore()
        line.go_on(1)
    assert line.root().pins == ()
    assert line.root().pinned == ()
    assert line.held() == line.named() != pages
    with pytest.raises(
        WindowNotFound, match=r"version 4 of the window .* its pin has expired: renew it in time"
    ):
        reader.query()
    assert reader.version == 4
    reader.unpin()
    assert reader.query() == line.answers[line.version]
    assert reader.version == line.version
    reader.close()


@pytest.mark.parametrize("how", ["refresh", "pin", "chosen"])
def test_a_reader_goes_on_once_its_pin_has_expired(line: Line, store: Clocked, how: str) -> None:
    line.go_on(4)
    reader = line.reader(version=4 if how == "chosen" else None)
    reader.pin(60)
    line.go_on(10)
    store.moment += 59
    assert not reader.refresh()
    line.go_on(1)
    store.moment += 2
    line.go_on(1)
    reader._at.kept.clear()
    with pytest.raises(WindowNotFound, match="its pin has expired") as error:
        reader.query()
    assert ("; refresh() goes on to the last version" in str(error.value)) == (how != "chosen")
    if how == "chosen":
        assert not reader.refresh()
        with pytest.raises(WindowNotFound, match=r"version 4 .* cannot be pinned"):
            reader.pin(60)
        assert reader.version == 4
        return
    if how == "refresh":
        assert reader.refresh()
        assert not reader.refresh()
    else:
        reader.pin(60)
    assert (reader.version, reader.query()) == (line.version, line.answers[line.version])
    before = line.version
    line.go_on(5)
    reader._at.kept.clear()
    last = before if how == "pin" else line.version
    assert (reader.query(), reader.version) == (line.answers[last], last)
    reader.close()


@pytest.mark.parametrize("closed", [True, False], ids=["reader closed", "unpinned"])
def test_closing_leaves_nothing_of_a_pin_that_was_ended(line: Line, closed: bool) -> None:
    line.go_on(4)
    reader = line.reader()
    reader.pin(60)
    line.go_on(10)
    if closed:
        reader.close()
    else:
        reader.unpin()
    assert line.held() > line.named()
    line.window.close()
    assert line.held() == line.named()


def test_gc_beside_a_writer_keeps_what_is_pinned(line: Line, store: Clocked) -> None:
    line.go_on(4)
    reader = line.reader()
    reader.pin(60)
    for _ in range(5):
        line.go_on(2)
        collect(store, grace=0)
        reader._at.kept.clear()
        assert reader.query() == line.answers[4]
    store.moment += 100
    assert not [each for each in collect(store) if each.name == line.name]
    assert line.root().pins  # not before the grace is over, for clocks that differ
    collect(store, grace=0)
    assert not line.root().pins
    assert line.go_on(1)  # the writer's root was changed, and it was not fenced


def test_a_pin_is_prolonged_and_shortened(line: Line, store: Clocked) -> None:
    line.go_on(4)
    reader = line.reader()
    reader.pin(60)
    reader.pin(600)
    ((_, number, until),) = line.root().pins
    assert (number, until) == (4, store.moment + 600)
    reader.pin(1)
    ((_, _, until),) = line.root().pins
    assert until == store.moment + 1
    reader.close()
    assert not line.root().pins


def test_a_reader_pins_the_last_version_if_its_own_is_gone(line: Line) -> None:
    line.go_on(4)
    reader, chosen = line.reader(), line.reader(version=4)
    line.go_on(4)
    reader.pin(60)
    assert (reader.version, reader.query()) == (8, line.answers[8])
    with pytest.raises(WindowNotFound, match=r"version 4 .* cannot be pinned"):
        chosen.pin(60)
    reader.close()


def test_a_window_has_only_so_many_pins(line: Line, store: Clocked) -> None:
    line.go_on(4)
    readers = [line.reader() for _ in range(64)]
    for reader in readers:
        reader.pin(60)
    with line.reader() as late:
        with pytest.raises(
            WindowError, match="has 64 pins, which are the most; the next one expires in 60 s"
        ):
            late.pin(60)
        readers[0].pin(30)
        store.moment += 30
        late.pin(60)
    for reader in readers:
        reader.close()
    assert not line.root().pins


@pytest.mark.parametrize("call", ["checkpoint", "lease", "close", "lost"])
def test_a_writer_meets_a_pin_at_each_of_its_swaps(store: Clocked, name: str, call: str) -> None:
    """The reader sets it just before the swap, so that the writer's token is that of another root."""
    lost: list[bool] = []
    faulty = FaultyStore(store, lambda what, _: what == "swap_root" and bool(lost) and lost.pop(), after=True)
    line = Line(faulty, name, lease=3600.0)
    line.go_on(3)
    reader = line.reader(store)
    pin = lambda: reader.pin(60)  # noqa: E731
    if call == "lost":
        lost.append(True)
        with pytest.raises(StoreUnavailable):
            line.window.checkpoint(offset=line.count)
        pin()
        assert len(line.root().versions) == 2
    elif call != "close":
        store.before["swap_root"] = pin
    if call == "lease":
        hold = line.window._stored.hold  # type: ignore[union-attr]
        hold._renewed = -1e9
        hold.renew()
        assert line.root().lease == store.moment + 3600
    if call == "close":
        pin()
        line.window.close()
        assert line.root().pins
        line.restore()
    line.go_on(5)
    assert len(line.root().pins) == 1
    assert reader.query()
    older = line.window
    line.restore()
    with pytest.raises(Fenced, match="another writer"):
        older.checkpoint()
    line.window.close()
    reader.close()
    collect(store, grace=0)
    assert line.held() == line.named()


@pytest.mark.parametrize("gone", [True, False], ids=["expired", "held"])
def test_closing_takes_no_commit_back_because_of_a_pin(store: Clocked, name: str, gone: bool) -> None:
    """The last commit was done and its answer lost; then the pin expires, which `close` takes out."""
    lost: list[bool] = []
    line = Line(
        FaultyStore(store, lambda what, _: what == "swap_root" and bool(lost) and lost.pop(), after=True),
        name,
    )
    line.go_on(2)
    reader = line.reader(store)
    reader.pin(5)
    line.go_on(1)
    store.moment += 10 * gone
    line.window.extend(["x;", "y;"])
    lost.append(True)
    with pytest.raises(StoreUnavailable):
        line.window.checkpoint(offset=71)
    line.window.close()
    assert [version.number for version in line.root().versions] == [3, 4]
    assert len(line.root().pins) == (not gone)
    assert verify(store, name).problems == []
    with line.reader(store) as last:
        assert (last.version, last.offset) == (4, 71)
        assert last.query() == line.answers[3].partition(";")[2].partition(";")[2] + "x;y;"
    reader.close()


def test_a_commit_without_an_answer_keeps_its_number(store: Clocked, name: str) -> None:
    """A reader may have seen it, and pinned it: the next commit is another version."""
    lost: list[bool] = []
    line = Line(
        FaultyStore(store, lambda what, _: what == "swap_root" and bool(lost) and lost.pop(), after=True),
        name,
    )
    line.go_on(3)
    line.window.extend(["x;", "y;"])
    lost.append(True)
    with pytest.raises(StoreUnavailable):
        line.window.checkpoint(offset=71)
    reader = line.reader(store)
    assert reader.version == 4
    expected = line.answers[3].partition(";")[2].partition(";")[2] + "x;y;"
    reader.pin(60)
    assert line.go_on(5) == 9
    assert [version.number for version in line.root().retained] == [4, 8, 9]
    assert reader.query() == expected
    reader.close()
    line.window.close()


def test_a_writer_that_went_back_keeps_what_is_pinned(line: Line, store: Clocked) -> None:
    """The pinned version is not one that the window goes on from."""
    line.go_on(6)
    reader = line.reader()
    reader.pin(60)
    line.window.close()
    line.restore(version=5)
    line.go_on(3, count=31)
    assert [version.number for version in line.root().retained] == [6, 8, 9]
    assert reader.query() == line.answers[6]
    reader._at.kept.clear()
    assert reader.query() == line.answers[6]
    assert verify(store, line.name).problems == []
    with pytest.raises(WindowNotFound, match="no version 6"):  # a pin may expire under a writer
        AmortizedMTA.restore(store, line.name, monoids.Concat(), POLICY, version=6)
    store.moment += 61
    line.go_on(1)
    collect(store, grace=0)
    assert line.held() == line.named()
    reader.close()


def test_a_pinned_window_is_not_removed(line: Line, store: Clocked) -> None:
    line.go_on(4)
    with line.reader() as reader:
        reader.pin(60)
        with pytest.raises(
            WindowError, match=r"1 reader has pinned versions of the window .*, for 60 more seconds"
        ):
            remove(store, line.name)
        (kept,) = remove_all(store, [line.name], line.name)
        assert (kept.problem, kept.root, kept.pages) == (True, False, 0)
        assert "pinned" in kept.reason
        assert inspect(store, line.name).summary.pins == ((4, store.moment + 60),)
        assert reader.query() == line.answers[4]
    assert remove(store, line.name).root
    assert not line.held()


def test_a_lease_that_ran_out_waits_for_pins(store: Clocked, name: str) -> None:
    line = Line(store, name, lease=10.0)
    line.go_on(4)
    line.window._stored.hold.end()  # type: ignore[union-attr]
    with line.reader() as reader:
        reader.pin(600)
        store.moment += 300
        collect(store, grace=0)
        assert reader.query() == line.answers[4]
        store.moment += 301
        collect(store, grace=0)
        assert store.read_root(name) is None
        assert not line.held()
        reader._at.kept.clear()
        with pytest.raises(WindowNotFound, match="its pin has expired"):
            reader.query()


@pytest.mark.parametrize("seed", seeds(6))
def test_any_order_of_pins_checkpoints_and_collections(seed: int) -> None:
    chance = random.Random(seed)
    with open_store(f"memory:{uuid.uuid4().hex}") as inner:
        store = Clocked(inner)
        line = Line(store, "w", retain=chance.choice([1, 2, 3]))
        line.go_on(1)
        readers: list[Reader] = []
        for _ in range(examples(120)):
            act = chance.randrange(9)
            if act < 3:
                line.go_on(1, chance.choice([1, 3, 23, 90]))
            elif act == 3:
                readers.append(line.reader())
            elif act == 4 and readers:
                reader = chance.choice(readers)
                try:
                    reader.pin(chance.choice([5, 50]))
                except WindowNotFound:
                    reader.unpin()
            elif act == 5 and readers:
                readers.pop(chance.randrange(len(readers))).close()
            elif act == 6:
                store.moment += chance.choice([1, 10, 60])
            elif act == 7:
                collect(store, grace=0)
            else:
                line.window.close()
                numbers = [version.number for version in line.root().versions]
                line.restore(version=chance.choice(numbers), retain=chance.choice([1, 2, 3]))
            invariants.check("w", line.root(), ())
            for reader in readers:
                if chance.random() < 0.3:
                    reader._at.kept.clear()
                try:
                    answer = reader.query()
                except WindowNotFound:
                    assert reader._pinned_until is not None
                    assert reader._pinned_until <= store.moment
                    reader.unpin()
                    answer = reader.query()
                assert answer == line.answers[reader.version]
        store.moment += 1000
        line.go_on(1)
        collect(store, grace=0)
        assert not line.root().pins
        assert line.held() == line.named()


# -- manifests ---------------------------------------------------------------------------------------------


def sound() -> Root:
    with open_store("memory:") as inner:
        line = Line(Clocked(inner), "w")
        line.go_on(4)
        line.reader().pin(60)
        line.go_on(3)
        return line.root()


def test_roots_without_pins_are_written_as_before() -> None:
    root = sound()
    assert decode_root("w", encode_root("w", root)) == root
    plain = root.without_pins()
    assert decode_root("w", encode_root("w", plain)) == plain
    assert len(encode_root("w", plain)) < len(encode_root("w", root))


WRONG: dict[str, tuple[Callable[[Root], Root], str]] = {
    "a version that is not retained": (
        lambda root: replace(root, pins=(*root.pins, Pin("x", 3, 1.0))),
        r"its pins name the versions \[3\], which are not retained",
    ),
    "one id twice": (lambda root: replace(root, pins=root.pins * 2), "two of its pins have one id"),
    "a version without a pin": (
        lambda root: replace(root, pins=(Pin("x", root.versions[0].number, 1.0),)),
        r"it keeps the versions \[4\], which no reader has pinned",
    ),
    "a version twice": (
        lambda root: replace(root, pinned=root.pinned * 2),
        r"the versions \[4, 4\], which readers have pinned, are there twice",
    ),
    "a version that is current": (
        lambda root: replace(root, pinned=(*root.pinned, root.versions[0])),
        "are there twice",
    ),
    "too many": (
        lambda root: replace(root, pins=tuple(Pin(str(i), 4, 1.0) for i in range(65))),
        "65 pins",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_pins_are_neither_written_nor_read(wrong: str) -> None:
    change, reason = WRONG[wrong]
    root = change(sound())
    with pytest.raises(ManifestCorrupt, match=f"so it was not written: .*{reason}"):
        invariants.check("w", root, ())
    with pytest.raises(ManifestCorrupt, match=reason):
        decode_root("w", encode_root("w", root))


def test_an_owner_learns_of_pins_before_it_deletes(line: Line) -> None:
    """A window is closed whose version was pinned after its last checkpoint: its pages stay."""
    line.go_on(4)
    reader = line.reader()
    reader.pin(60)
    hold = line.window._stored.hold  # type: ignore[union-attr]
    assert isinstance(hold, Ownership)
    assert not hold.root.pins
    assert hold.knows_root()
    assert hold.root.pins
    line.window.close()
    assert reader.query() == line.answers[4]
    reader.close()
