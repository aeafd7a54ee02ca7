"""Two windows over one log, at two entries a page: heads move apart, pages go behind the older one."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from chance import seeds

from mta import monoids
from mta.core import view as view_module
from mta.core.amortized_view import AmortizedView
from mta.core.log import Log
from mta.core.logarithmic_view import LogarithmicView
from mta.core.states import layout_of
from mta.core.view import Added, Change, View, commit_all, finish
from mta.durability.ownership import Ownership
from mta.paging.stored import StoredPages
from mta.stored_window import StoredWindow
from stores import Store, open_store
from stores.names import pages_of, parse_page_key

PAGE = 2
LETTERS = "abcdefghijklmnopqrstuvwxyz"
KINDS = [(AmortizedView, AmortizedView), (LogarithmicView, LogarithmicView), (AmortizedView, LogarithmicView)]


class Pair:
    """One log of letters and two windows over it, beside the letters themselves."""

    def __init__(self, kinds: tuple[Any, Any], store: Store) -> None:
        self.store, self.monoid = store, monoids.Concat()
        self.open(kinds, Ownership(store, "w", PAGE))
        self.letters = ""
        self.heads = [0, 0]

    def open(self, kinds: tuple[Any, Any], hold: Ownership) -> None:
        layout = layout_of(self.monoid)
        pages = StoredPages(self.store, "w", layout, hold, PAGE.bit_length() - 1)
        self.log = Log(layout, pages, PAGE)
        self.views: list[View] = [kind(self.log) for kind in kinds]
        self.stored = StoredWindow(self.store, "w", self.log, self.views, pages, hold)

    def push(self, heads: list[int]) -> None:
        """Appends a letter and moves the heads, both in one call."""
        finish(self.log)
        letter, tail = LETTERS[self.log.tail % 26], self.log.tail
        if not (tail + 1) % PAGE:
            self.log.pages.admit(tail)
        changes = []
        for view, head in zip(self.views, heads, strict=True):
            front = view.front(head)
            sums, _ = view.sums_and_total(front, letter)
            if head == tail:
                front, sums = view.begun(front, letter, tail, sums)
            changes.append(Change(view, front, sums, tail + 1))
        with self.log.taking_back():
            if (tail + 1) % PAGE:
                added = Added(self.log.tails, (tail,), (letter,), tail + 1, tail)
            else:
                added = Added(self.log.appended(tail, letter), (), (), tail + 1, tail)
            commit_all(self.log, added, changes)

    def note(self, heads: list[int]) -> None:
        """A push has happened."""
        self.letters += LETTERS[len(self.letters) % 26]
        self.heads = list(heads)

    def check(self) -> None:
        finish(self.log)
        assert self.log.tail == len(self.letters)
        for view, head in zip(self.views, self.heads, strict=True):
            assert (view.head, view.end) == (head, len(self.letters))
            assert view.total() == self.letters[head:]
            assert view.oldest == (head if head < view.end else None) or not len(view)
        older = min(self.heads)
        assert (self.log.fold(older, self.log.tail) if older < self.log.tail else "") == self.letters[older:]

    def checkpoint(self, offset: object) -> None:
        self.stored.checkpoint(offset, self.monoid, None)

    def restored(self) -> Pair:
        """Another process that takes over."""
        pair = Pair.__new__(Pair)
        pair.store, pair.monoid = self.store, self.monoid
        hold = Ownership.find(self.store, "w", None, lambda _: None)
        pair.open((type(self.views[0]), type(self.views[1])), hold)
        pair.stored.restore(hold.take_over())
        pair.letters, pair.heads = self.letters, list(self.heads)
        return pair


def pages_stored(store: Store) -> set[int]:
    """The numbers of the pages of elements in the store."""
    keys = map(parse_page_key, store.list_keys(pages_of("w")))
    return {key.number for key in keys if key.tier == 0}


@pytest.fixture(params=KINDS, ids=lambda kinds: "-".join(kind.__name__ for kind in kinds))
def pair(request: Any) -> Iterator[Pair]:
    with open_store("memory:") as store:
        pair = Pair(request.param, store)
        yield pair
        pair.stored.close()


@pytest.mark.parametrize("seed", seeds(10))
def test_heads_move_apart(pair: Pair, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(150):
        if chance.random() < 0.8:
            moves = [chance.choice([0, 0, 1, 1, 1, 2, 9]) for _ in pair.heads]
            heads = [min(len(pair.letters), sum(each)) for each in zip(pair.heads, moves, strict=True)]
            pair.push(heads)
            pair.note(heads)
        else:  # one of them moves, and nothing comes
            view = chance.choice([0, 1])
            pair.heads[view] = min(len(pair.letters), pair.heads[view] + chance.randrange(12))
            pair.views[view].move(pair.heads[view])
        if chance.random() < 0.3:
            pair.check()
    pair.check()


def test_pages_are_dropped_behind_the_older_head(pair: Pair) -> None:
    for row in range(200):
        heads = [max(0, row - 100), max(0, row - 10)]
        pair.push(heads)
        pair.note(heads)
    pair.checkpoint(0)
    pair.stored.pages.check_deletions()
    pair.stored.pages.delete_behind()
    assert pages_stored(pair.store) == set(range(99 // PAGE, 200 // PAGE))
    pair.views[0].move(195)
    pair.heads[0] = 195
    pair.check()
    for offset in (1, 2):  # two versions are retained
        pair.checkpoint(offset)
    pair.stored.pages.delete_behind()
    assert pages_stored(pair.store) == set(range(189 // PAGE, 200 // PAGE))
    pair.check()


@pytest.mark.parametrize("seed", seeds(5))
def test_a_checkpoint_has_both_and_is_restored(pair: Pair, seed: int) -> None:
    chance = random.Random(seed)
    for row in range(120):
        heads = [max(pair.heads[0], row - 70), max(pair.heads[1], row - chance.randrange(3, 20))]
        pair.push(heads)
        pair.note(heads)
        if row % 40 == 39:
            pair.checkpoint(row)
            (version, *_) = reversed(pair.stored.hold.root.versions)
            assert [view.head for view in version.views] == pair.heads
            other = pair.restored()
            other.check()
            pair.stored.close()
            pair.stored, pair.log, pair.views = other.stored, other.log, other.views
    pair.check()


def test_an_interrupt_finds_all_of_a_push_done_or_none(pair: Pair) -> None:
    """At every call inside it. What is left of the views follows before the next call."""
    number, happened, undone = 0, 0, 0
    for row in range(60):
        pair.push([max(0, row - 30), max(0, row - 7)])
        pair.note([max(0, row - 30), max(0, row - 7)])
    while True:
        row = len(pair.letters)
        heads = [row - 30, row - 7]
        calls = 0

        def profile(frame: Any, event: str, _: Any, last: int = number) -> None:
            nonlocal calls
            if event == "call" and frame.f_code.co_filename != __file__:
                calls += 1
                if calls > last:
                    raise KeyboardInterrupt

        sys.setprofile(profile)
        try:
            pair.push(heads)
        except KeyboardInterrupt:
            interrupted = True
        else:
            interrupted = False
        finally:
            sys.setprofile(None)
        if pair.log.tail > row:
            happened += 1
            pair.note(heads)
        else:
            undone += 1
        pair.check()
        if not interrupted:
            break
        number += 1
    assert happened >= 3
    assert undone >= 20


def test_a_checkpoint_after_an_interrupt_has_what_was_left_of_the_views(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    for row in range(42):
        heads = [max(0, row - 30), max(0, row - 7)]
        with monkeypatch.context() as interrupted:
            if row == 41:
                interrupted.setattr(view_module, "finish", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
                with pytest.raises(KeyboardInterrupt):
                    pair.push(heads)
            else:
                pair.push(heads)
        pair.note(heads)
    pair.checkpoint(42)
    assert [view.end for view in pair.stored.hold.root.versions[-1].views] == [42, 42]
    pair.restored().check()
