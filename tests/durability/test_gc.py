"""`mta gc` and `mta rm`: all that nobody needs goes, and nothing else, whoever is at work meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
from chance import fresh

from mta import AmortizedMTA, Fenced, PagesLost, WindowExists, WindowNotFound, monoids, policies
from mta.durability.attempts import AttemptHold
from mta.durability.coding import decode_root, encode_root
from mta.durability.manifest import EPOCHS, Root
from mta.durability.operations import collect, remove, remove_all, survey, verify, window_names
from mta.durability.owners import surely_dead
from mta.window import MonoidTreeAggregator
from stores import Store, open_store, page_key, page_prefix, pages_of
from stores.memory import MemoryStore
from stores.testing import CountingStore, FaultyStore

POLICY = policies.CountWindow(100)


@pytest.fixture
def name() -> Iterator[str]:
    return fresh("gc")


def new(store: Store, name: str, *, lease: float | None = None) -> MonoidTreeAggregator:
    return AmortizedMTA(monoids.Sum(), POLICY, store=store, name=name, page_size=4, lease=lease)


def restored(store: Store, name: str, version: int | None = None) -> MonoidTreeAggregator:
    return AmortizedMTA.restore(store, name, monoids.Sum(), POLICY, version=version)


def root_of(store: Store, name: str) -> Root:
    found = store.read_root(name)
    assert found is not None
    return decode_root(name, found[0])


def held(store: Store, name: str) -> set[str]:
    return set(store.list_keys(pages_of(name)))


def named(store: Store, name: str) -> set[str]:
    return {key for version in root_of(store, name).versions for key in version.keys(name)}


def die(store: Store, name: str, **changes: object) -> None:
    """Makes the owner of a window a process that is gone."""
    found = store.read_root(name)
    assert found is not None
    root = decode_root(name, found[0])
    values = {**vars(root), "owner": (root.owner[0], root.owner[1], root.owner[2] + 1), **changes}
    store.swap_root(name, encode_root(name, Root(**values)), found[1])


def collected(store: Store, name: str, *, dry_run: bool = False) -> int:
    """Pages of the window that went; the store may hold others of other tests."""
    return sum(each.pages for each in collect(store, dry_run=dry_run, grace=0) if each.name == name)


def test_a_live_window_keeps_what_it_has(any_store: Store, name: str) -> None:
    with new(any_store, name) as window:
        for start in range(0, 1000, 50):
            window.slide(range(start, start + 50))
            if start % 300 == 0:
                window.checkpoint()
            if start % 250 == 0:
                collect(any_store, grace=0)
            assert window.range_query(window.oldest, window.youngest) == window.query()
        expected = window.query()
        window.checkpoint()
        collect(any_store, grace=0)
    with restored(any_store, name) as window:
        assert window.query() == expected
    collect(any_store, grace=0)
    assert held(any_store, name) == named(any_store, name)
    assert verify(any_store, name).problems == []
    remove(any_store, name)
    assert held(any_store, name) == set()


def test_what_a_dead_writer_did_not_commit_goes(any_store: Store, name: str) -> None:
    window = new(any_store, name)
    window.extend(range(100))
    window.checkpoint()
    window.extend(range(200))
    window._log.pages.close()
    assert held(any_store, name) > named(any_store, name)
    assert collected(any_store, name) == 0
    die(any_store, name)
    would = collected(any_store, name, dry_run=True)
    assert held(any_store, name) > named(any_store, name)
    assert collected(any_store, name) == would > 0
    assert held(any_store, name) == named(any_store, name)
    with restored(any_store, name) as again:
        assert again.query() == sum(range(100))


def test_a_commit_of_a_dead_writer_that_arrives_late_fails(name: str) -> None:
    """Its pages are gone by then, so it must not count."""
    with open_store("memory:") as store:
        window = new(store, name)
        window.extend(range(100))
        window.checkpoint()
        window.extend(range(100, 400))
        window._log.pages.flush(window._log.tail)  # type: ignore[attr-defined]
        die(store, name)
        found = store.read_root(name)
        assert found is not None
        window._stored.hold._token = found[1]  # the swap that it has sent would still be done now …
        assert collected(store, name) > 0
        with pytest.raises(Fenced):  # … and no more
            window.checkpoint()
        assert verify(store, name).problems == []


def test_gc_of_a_dead_writer_is_cut_off_anywhere(name: str) -> None:
    for number in range(1, 30):
        with open_store("memory:") as store:
            window = new(store, name)
            window.extend(range(100))
            window.checkpoint()
            window.extend(range(200))
            window._log.pages.close()
            die(store, name)
            faulty = FaultyStore(store, lambda _, call, number=number: call == number, after=number % 2 == 0)
            with suppress(Exception):
                collect(faulty, grace=0)
            assert verify(store, name).problems == []
            collect(store, grace=0)
            assert held(store, name) == named(store, name)
            if not faulty.faults:
                return
    raise AssertionError("gc takes more calls than that?")


def test_a_window_that_died_before_its_first_checkpoint_goes(any_store: Store, name: str) -> None:
    window = new(any_store, name)
    window.extend(range(100))
    window._log.pages.close()
    assert collected(any_store, name) == 0
    assert any_store.read_root(name) is not None
    die(any_store, name)
    assert collected(any_store, name) > 0
    assert any_store.read_root(name) is None
    assert held(any_store, name) == set()
    with pytest.raises(Fenced, match="was removed"):
        window.checkpoint()


def test_a_lease_that_ran_out_ends_the_window(any_store: Store, name: str) -> None:
    window = new(any_store, name, lease=0.05)
    window.extend(range(100))
    window.checkpoint()
    window._stored.hold.end()  # as if its process were gone
    time.sleep(0.1)
    assert not any(each.name == name for each in collect(any_store, grace=60))
    assert verify(any_store, name).problems == []
    assert collected(any_store, name) > 0
    assert any_store.read_root(name) is None
    assert held(any_store, name) == set()
    with pytest.raises(Fenced):
        window.checkpoint()


def test_pages_of_a_later_epoch_are_not_touched(any_store: Store, name: str) -> None:
    with new(any_store, name) as window:
        window.extend(range(50))
        window.checkpoint()
    later = page_key(page_prefix(name, root_of(any_store, name).epoch + EPOCHS, 0), 0)
    time.sleep(EPOCHS / 1e6)
    any_store.put_many({later: b"x"})
    die(any_store, name)
    collect(any_store, grace=0)
    assert later in held(any_store, name)
    remove(any_store, name)
    assert held(any_store, name) == set()


def test_pages_without_a_root_go(any_store: Store, name: str) -> None:
    keys = {page_key(page_prefix(name, epoch, 0), number): b"x" for epoch in (3, 4) for number in range(700)}
    any_store.put_many(keys)
    assert collected(any_store, name, dry_run=True) == 1400
    assert held(any_store, name) == set(keys)
    assert collected(any_store, name) == 1400
    assert held(any_store, name) == set()


def test_a_window_that_begins_while_gc_lists_is_spared(name: str) -> None:
    with open_store("memory:") as store:
        store.put_many({page_key(page_prefix(name, 7, 0), 0): b"left over"})
        listed = store.list_keys
        windows: list[MonoidTreeAggregator] = []

        def listing(prefix: str) -> Iterator[str]:
            # the window begins when its root was seen to be missing, and its pages are listed too
            if not windows:
                windows.append(new(store, name))
                windows[0].extend(range(200))
                windows[0]._log.pages.flush(windows[0]._log.tail)  # type: ignore[attr-defined]
            return listed(prefix)

        store.list_keys = listing  # type: ignore[method-assign]
        collect(store, grace=0)
        window = windows[0]
        window.checkpoint()
        window.close()
        assert verify(store, name).problems == []
        assert held(store, name) == named(store, name)


def test_the_pages_of_a_version_that_was_gone_back_behind_go(any_store: Store, name: str) -> None:
    with new(any_store, name) as window:
        for _ in range(3):
            window.extend(range(50))
            window.checkpoint()
    with restored(any_store, name, version=2) as window:
        window.checkpoint()
        assert len(window) == 100
    assert held(any_store, name) >= named(any_store, name)
    collect(any_store, grace=0)
    assert held(any_store, name) == named(any_store, name)
    assert verify(any_store, name).problems == []
    remove(any_store, name)


def test_a_damaged_manifest_is_told_and_its_pages_are_spared(any_store: Store, name: str) -> None:
    with new(any_store, name) as window:
        window.extend(range(50))
        window.checkpoint()
    found = any_store.read_root(name)
    assert found is not None
    any_store.swap_root(name, found[0][:-1] + bytes([found[0][-1] ^ 1]), found[1])
    before = held(any_store, name)
    (told,) = [each for each in collect(any_store, grace=0) if each.name == name]
    assert told.problem
    assert "manifest" in told.reason
    assert held(any_store, name) == before
    assert remove(any_store, name).pages == len(before)


def test_remove_fences_the_writer(any_store: Store, name: str) -> None:
    window = new(any_store, name)
    window.extend(range(100))
    window.checkpoint()
    assert remove(any_store, name).pages > 0
    with pytest.raises(WindowNotFound, match=name):
        remove(any_store, name)
    window.extend(range(100))
    with pytest.raises((Fenced, PagesLost)):
        window.checkpoint()
    with new(any_store, name) as another:
        another.extend(range(10))
        another.checkpoint()
        window.close()
        assert another.query() == 45
        another.checkpoint()
    assert verify(any_store, name).problems == []
    remove(any_store, name)


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="needs /proc")
def test_a_process_that_was_killed_is_surely_dead(name: str, tmp_path: object) -> None:
    url = f"rocksdb://{tmp_path}"
    program = (
        "import os, signal\n"
        "from mta import AmortizedMTA, monoids\n"
        "from stores import open_store\n"
        f"window = AmortizedMTA(monoids.Sum(), store=open_store({url!r}), name={name!r}, page_size=4)\n"
        "window.extend(range(100)); window.checkpoint(); window.extend(range(100))\n"
        "window._log.pages.flush(window._log.tail)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=False)
    with open_store(url) as store:
        assert surely_dead(root_of(store, name).owner)
        extra = held(store, name) - named(store, name)
        assert collected(store, name) == len(extra)
        assert held(store, name) == named(store, name)


# -- many windows ------------------------------------------------------------------------------------------


def many(store: Store, prefix: str, count: int) -> list[str]:
    """Windows of a dead writer, each with a root, three pages that are needed, and two that are not."""
    names = [f"{prefix}/{number}" for number in range(count)]
    for name in names:
        with new(store, name) as window:
            window.extend(range(12))
            window.checkpoint()
    store.put_many(
        {page_key(page_prefix(name, epoch, 0), 7): b"left over" for name in names for epoch in (1, 2)}
    )
    return names


def test_calls_are_a_few_a_hundred_windows(name: str) -> None:
    for count in (100, 400):
        store = CountingStore(MemoryStore())
        many(store, name, count)
        store.reset()
        assert sum(each.pages for each in collect(store)) == 2 * count
        # two listings; and for a hundred windows their roots twice, and a deletion
        assert store.round_trips <= 3 + 3 * count // 100
        store.reset()
        assert len(list(survey(store))) == count
        assert store.round_trips <= 1 + count // 100
        store.reset()
        removed = remove_all(store, list(window_names(store, name)), name)
        assert (len(removed), sum(each.pages for each in removed)) == (count, 3 * count)
        assert store.round_trips <= 3 + 4 * count // 100
        assert not store.inner._contents.pages  # type: ignore[attr-defined]


def test_keys_come_in_any_order_and_more_than_are_held(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["mta.durability.operations.roots"], "KEYS", 70)
    monkeypatch.setattr(sys.modules["mta.durability.operations.roots"], "WINDOWS", 7)
    with MemoryStore() as store:
        names = many(store, name, 60)
        pages = store._contents.pages
        store._contents.pages = dict(sorted(pages.items(), key=lambda item: item[0][::-1]))
        assert sum(each.pages for each in collect(store, dry_run=True)) == 120
        assert sum(each.pages for each in collect(store)) == 120
        for each in names:
            assert held(store, each) == named(store, each)


def test_windows_go_by_prefix(any_store: Store, name: str) -> None:
    names = many(any_store, f"{name}-a", 30)
    (other,) = many(any_store, f"{name}-b", 1)
    before = held(any_store, other)
    any_store.put_many({page_key(page_prefix(f"{name}-a/left", 5, 0), 1): b"x"})
    found = list(window_names(any_store, f"{name}-a/"))
    assert set(found) == set(names)
    would = remove_all(any_store, found, f"{name}-a/", dry_run=True)
    assert held(any_store, names[0])
    removed = remove_all(any_store, found, f"{name}-a/")
    assert removed == would
    assert {each.name for each in removed if each.root} == set(names)
    assert sum(each.pages for each in removed) == 5 * 30 + 1
    assert list(window_names(any_store, f"{name}-a/")) == []
    assert held(any_store, names[7]) == held(any_store, f"{name}-a/left") == set()
    assert held(any_store, other) == before
    remove(any_store, other)


def test_rm_asks_no_clock(any_store: Store, name: str) -> None:
    """Pages of a writer whose clock was ahead of the operator's go with the window."""
    now = any_store.now
    with new(any_store, name) as window:
        window.extend(range(200))
        window.checkpoint()
    any_store.now = lambda: now() - 700  # type: ignore[method-assign]
    assert remove(any_store, name).pages > 0
    assert held(any_store, name) == set()


@pytest.mark.parametrize("behind", [0, 700])
def test_rm_spares_a_window_that_begins_meanwhile(name: str, behind: float) -> None:
    """Whatever its writer's clock."""
    with MemoryStore() as store:
        with new(store, name) as window:
            window.extend(range(200))
            window.checkpoint()
        listed = store.list_keys
        windows: list[MonoidTreeAggregator] = []

        def listing(prefix: str) -> Iterator[str]:
            if not windows:  # the root is gone, and the pages are not
                store.now = lambda: time.time() - behind  # type: ignore[method-assign]
                windows.append(new(store, name))
                windows[0].extend(range(200))
                windows[0]._log.pages.flush(windows[0]._log.tail)  # type: ignore[attr-defined]
            return listed(prefix)

        store.list_keys = listing  # type: ignore[method-assign]
        remove(store, name)
        with windows[0] as window:
            window.checkpoint()
        assert verify(store, name).problems == []
        assert held(store, name) >= named(store, name)
        if not behind:
            assert held(store, name) == named(store, name)
        store.list_keys = listed  # type: ignore[method-assign]
        remove(store, name)
        assert held(store, name) == set()


def test_a_root_that_is_swapped_while_it_is_removed_goes_all_the_same(name: str) -> None:
    with MemoryStore() as store:
        window = new(store, name)
        window.extend(range(100))
        window.checkpoint()
        read = store.read_roots

        def reading(names: list[str]) -> list[object]:
            found = read(names)
            if len(asked) < 2:
                asked.append(names)
                window.checkpoint()
            return list(found)

        asked: list[list[str]] = []
        store.read_roots = reading  # type: ignore[method-assign, assignment]
        assert remove(store, name).root
        assert (len(asked), store.read_root(name), held(store, name)) == (2, None, set())


def test_what_is_no_key_or_name_of_ours_is_left_alone(name: str) -> None:
    with MemoryStore() as store:
        (window,) = many(store, name, 1)
        odd = ["{}:0", "x", "{a", f"{{%41}}:{1:016x}:00:{0:016x}", f"{{{'n' * 201}}}:{1:016x}:00:{0:016x}"]
        store._contents.pages.update(dict.fromkeys(odd, b"x"))
        store._contents.roots.update({"": (b"x", b"t"), "n" * 201: (b"x", b"t")})
        assert [each.name for each in collect(store)] == [window]
        assert [each.name for each in survey(store)] == [window]
        assert set(odd) < set(store._contents.pages)


# -- windows that attempts share ---------------------------------------------------------------------------


def test_a_name_belongs_to_a_streaming_query_or_to_a_window(any_store: Store, name: str) -> None:
    shared = AttemptHold(any_store, name, 4, None, batch=1, run="r", lease=60)
    shared.claim()
    root = any_store.read_root(name)
    window = new(any_store, name)
    with pytest.raises(WindowExists, match=f"{name}.*streaming query"):
        window.extend(range(100)) or window.checkpoint()  # type: ignore[func-returns-value]
    with pytest.raises(WindowExists, match="streaming query"):
        restored(any_store, name)
    assert any_store.read_root(name) == root
    shared.let_go()
    assert not any_store.read_root(name)
    with new(any_store, name) as window:
        window.extend(range(100))
        window.checkpoint()
        root = any_store.read_root(name)
        with pytest.raises(WindowExists, match="none of a streaming query"):
            AttemptHold(any_store, name, 4, None, batch=2, run="r", lease=60).claim()
        assert any_store.read_root(name) == root
    remove(any_store, name)
