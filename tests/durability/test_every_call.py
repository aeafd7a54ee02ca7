"""A fault at every single call to the store, before it is done and after, of each thing done to a window."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, TypeVar

import pytest

from mta import AmortizedMTA, WindowError, WindowNotFound, monoids, policies
from mta.durability.attempts import AttemptHold, retire
from mta.durability.coding import decode_root
from mta.durability.manifest import Named
from mta.durability.operations import collect, inspect, remove, remove_all, survey, verify, window_names
from mta.versioned import open_version, save_version
from mta.window import MonoidTreeAggregator
from stores import Store, StoreUnavailable, WrapperStore, open_store, pages_of

T = TypeVar("T")
SPAN = 40
POLICY = policies.CountWindow(SPAN)
FAULTS = (StoreUnavailable, KeyboardInterrupt)


class AtCall(WrapperStore):
    """Raises in the place of one call, or after it was done. Calls of the background are left alone."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.number, self.at, self.after = 0, 0, False
        self.error: type[BaseException] = StoreUnavailable
        self._thread = threading.get_ident()

    def arm(self, at: int, after: bool, error: type[BaseException]) -> None:
        self.number, self.at, self.after, self.error = 0, at, after, error

    def _around(self, call: str, action: Callable[[], T]) -> T:
        if threading.get_ident() != self._thread:
            return action()
        self.number += 1
        if self.number != self.at:
            return action()
        if self.after:
            action()
        raise self.error(f"in the place of call {self.at}, {call}")


def faults() -> Iterator[tuple[bool, type[BaseException]]]:
    return itertools.product((False, True), FAULTS)


def window_of(store: Store, name: str = "w") -> MonoidTreeAggregator:
    return AmortizedMTA(monoids.Concat(), POLICY, store=store, name=name, page_size=4)


def push(window: MonoidTreeAggregator, start: int, stop: int) -> str:
    result = ""
    for number in range(start, stop):
        result = window.push(text(number), number)
    return result


def text(number: int) -> str:
    return chr(ord("a") + number % 26) * 200


def total(last: int) -> str:
    return "".join(text(number) for number in range(max(0, last + 1 - SPAN), last + 1))


def restored(store: Store) -> Any:
    with AmortizedMTA.restore(store, "w", monoids.Concat(), POLICY) as window:
        assert window.query() == total(window.offset - 1)
        return window.offset


def keys_that_count(store: Store, name: str = "w") -> set[str]:
    found = store.read_root(name)
    return set() if found is None else set(Named.by(decode_root(name, found[0]).retained).keys(name))


def until_none(run: Callable[[int, bool, type[BaseException]], bool]) -> int:
    """Runs with a fault at call 1, 2, 3 … until there is no such call; how often there was a fault.

    How often that is depends on what the background has done before.
    """
    ran = 0
    for after, error in faults():
        for at in itertools.count(1):
            if not run(at, after, error):
                break
            ran += 1
    return ran


def test_checkpoint() -> None:
    def run(at: int, after: bool, error: type[BaseException]) -> bool:
        with open_store("memory:") as inner:
            store = AtCall(inner)
            window = window_of(store)
            push(window, 0, 90)
            window.checkpoint(offset=90)
            push(window, 90, 133)
            store.arm(at, after, error)
            faulty = False
            try:
                window.checkpoint(offset=133)
            except (StoreUnavailable, KeyboardInterrupt):
                faulty = True
            store.at = 0
            assert window.query() == total(132)
            found = verify(inner, "w")
            assert found.ok, found.problems
            assert inner.missing(sorted(keys_that_count(inner))) == []
            assert push(window, 133, 150) == total(149)
            window.checkpoint(offset=150)
            window.close()
            assert verify(inner, "w").ok
            assert restored(inner) == 150
            collect(inner)
            assert set(inner.list_keys(pages_of("w"))) == keys_that_count(inner)
            return faulty

    assert until_none(run) >= 4


def test_a_writer_that_ends_after_a_fault_in_its_checkpoint_leaves_the_one_before_or_this_one() -> None:
    def run(at: int, after: bool, error: type[BaseException]) -> bool:
        with open_store("memory:") as inner:
            store = AtCall(inner)
            window = window_of(store)
            push(window, 0, 90)
            window.checkpoint(offset=90)
            push(window, 90, 133)
            store.arm(at, after, error)
            faulty = False
            try:
                window.checkpoint(offset=133)
            except (StoreUnavailable, KeyboardInterrupt):
                faulty = True
            store.at = 0
            window.close()
            assert restored(inner) in ((90, 133) if faulty else (133,))
            assert verify(inner, "w").ok
            return faulty

    assert until_none(run) >= 4


def forget(window: MonoidTreeAggregator) -> None:
    """As if its process had ended, but with nothing under way that would come later."""
    window._log.pages.flush(window._log.tail)


def crowd(inner: Store) -> None:
    """A live window with leftovers of two writers before, a removed one's pages, and one without a root."""
    uncommitted = window_of(inner)
    push(uncommitted, 0, 61)
    forget(uncommitted)
    remove(inner, "w")
    first = window_of(inner)
    push(first, 0, 90)
    first.checkpoint(offset=90)
    push(first, 90, 133)
    forget(first)
    second = AmortizedMTA.restore(inner, "w", monoids.Concat(), POLICY)
    push(second, 90, 101)
    second.checkpoint(offset=101)
    second.close()
    gone = window_of(inner, "gone")
    push(gone, 0, 77)
    gone.checkpoint()
    gone.close()
    root = inner.read_root("gone")
    assert root is not None
    inner.delete_root("gone", root[1])


def test_gc() -> None:
    def run(at: int, after: bool, error: type[BaseException]) -> bool:
        with open_store("memory:") as inner:
            crowd(inner)
            store = AtCall(inner)
            store.arm(at, after, error)
            faulty = False
            try:
                collect(store)
            except (StoreUnavailable, KeyboardInterrupt):
                faulty = True
            store.at = 0
            assert restored(inner) == 101
            assert verify(inner, "w").ok
            collect(store)
            assert restored(inner) == 101
            assert not list(inner.list_keys(pages_of("gone")))
            return faulty

    assert until_none(run) >= 4


@pytest.mark.parametrize("prefix", [False, True])
def test_rm(prefix: bool) -> None:
    def take_away(store: Store) -> None:
        if prefix:
            remove_all(store, list(window_names(store, "w")), "w")
        else:
            remove(store, "w")

    def run(at: int, after: bool, error: type[BaseException]) -> bool:
        with open_store("memory:") as inner:
            crowd(inner)
            other = window_of(inner, "other")
            push(other, 0, 60)
            other.checkpoint(offset=60)
            store = AtCall(inner)
            store.arm(at, after, error)
            faulty = False
            try:
                take_away(store)
            except (StoreUnavailable, KeyboardInterrupt):
                faulty = True
            store.at = 0
            if inner.read_root("w") is not None:
                # its root is there, so it is all there
                assert faulty
                assert restored(inner) == 101
            with suppress(WindowNotFound):
                take_away(store)
            assert inner.read_root("w") is None
            collect(store)
            assert not list(inner.list_keys(pages_of("w")))
            assert verify(inner, "other").ok
            assert other.query() == total(59)
            other.close()
            return faulty

    assert until_none(run) >= 4


@pytest.mark.parametrize("look", [verify, inspect, lambda store, _: list(survey(store))])
def test_looking(look: Callable[[Store, str], Any]) -> None:
    """Looking changes nothing, and hides no fault."""

    def run(at: int, after: bool, error: type[BaseException]) -> bool:
        with open_store("memory:") as inner:
            crowd(inner)
            before = sorted(inner.list_keys("")), inner.read_root("w")
            store = AtCall(inner)
            store.arm(at, after, error)
            try:
                look(store, "w")
            except (StoreUnavailable, KeyboardInterrupt):
                assert (sorted(inner.list_keys("")), inner.read_root("w")) == before
                return True
            assert store.number < at, "a fault went unheard"
            return False

    assert until_none(run) >= 4


def attempt(store: Store, base: Any, batch: int, last: int) -> Any:
    """One attempt at a micro-batch: the window of its base, up to the element before `last`."""
    hold = AttemptHold(store, "w", 4, base, batch=batch, run="r", lease=60.0)
    window = open_version(
        AmortizedMTA, monoids.Concat(), POLICY, hold, store=store, name="w", page_size=4, base=base, inline=64
    )
    try:
        assert push(window, 0 if base is None else base.tail, last) == total(last - 1)
        return save_version(window, batch)
    finally:
        hold.end()


def test_attempts() -> None:
    """One has a fault; another one of the same batch comes after it, and then the next batch."""

    def run(at: int, after: bool, error: type[BaseException]) -> bool:
        with open_store("memory:") as inner:
            store = AtCall(inner)
            base = attempt(store, None, 0, 90)
            store.arm(at, after, error)
            faulty = False
            try:
                attempt(store, base, 1, 133)
            except (StoreUnavailable, KeyboardInterrupt):
                faulty = True
            store.at = 0
            won = attempt(store, base, 1, 133)
            assert inner.missing(sorted(base.keys("w"))) == []
            last = attempt(store, won, 2, 170)
            assert inner.missing(sorted({*won.keys("w"), *last.keys("w")})) == []
            assert verify(inner, "w").ok
            retire(store, "w", 3)
            assert inner.read_root("w") is None
            collect(store)
            assert not list(inner.list_keys(pages_of("w")))
            return faulty

    assert until_none(run) >= 4


def test_retire() -> None:
    def run(at: int, after: bool, error: type[BaseException]) -> bool:
        with open_store("memory:") as inner:
            store = AtCall(inner)
            base = attempt(store, None, 0, 90)
            attempt(store, base, 1, 133)
            store.arm(at, after, error)
            faulty = False
            try:
                retire(store, "w", 2)
            except (StoreUnavailable, KeyboardInterrupt):
                faulty = True
            store.at = 0
            if inner.read_root("w") is not None:
                assert verify(inner, "w").ok
            retire(store, "w", 2)
            collect(store)
            assert inner.read_root("w") is None
            assert not list(inner.list_keys(pages_of("w")))
            return faulty

    assert until_none(run) >= 4


def test_restore() -> None:
    def run(at: int, after: bool, error: type[BaseException]) -> bool:
        with open_store("memory:") as inner:
            crowd(inner)
            store = AtCall(inner)
            store.arm(at, after, error)
            faulty = False
            try:
                restored(store)
            except (StoreUnavailable, KeyboardInterrupt):
                faulty = True
            except WindowError as failed:
                raise AssertionError(f"a fault in call {at} is told as {failed!r}") from failed
            store.at = 0
            assert restored(inner) == 101
            return faulty

    assert until_none(run) >= 4
