"""Two windows over one log in a store: heads that move apart, pages behind the older one, and checkpoints."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from mta import AmortizedMTA, LogMTA, ManifestMismatch, monoids
from mta.core.amortized_view import AmortizedView
from mta.core.log import Log
from mta.core.logarithmic_view import LogarithmicView
from mta.core.states import layout_of
from mta.core.view import Added, Change, View, commit_all
from mta.durability.attempts import AttemptHold
from mta.durability.checkpoints import check_matches
from mta.durability.coding import decode_root, encode_root
from mta.durability.manifest import SavedView
from mta.durability.operations import collect, verify
from mta.durability.ownership import Ownership
from mta.paging.stored import StoredPages
from mta.stored_window import StoredWindow
from mta.window import open_version
from stores import CountingStore, Store, open_store, pages_of, parse_page_key

#: a log's views keep this many elements
LENGTHS = (37, 5)
MONOID = monoids.Sum()


class Twins:
    """Two views over one log, in a store."""

    def __init__(self, store: Store, kinds: tuple[type[View], ...], *, restore: bool = False) -> None:
        if restore:
            check = partial(check_matches, "w", MONOID, None, 2)
            hold = Ownership.find(store, "w", None, check)
        else:
            hold = Ownership(store, "w", 2)
        layout = layout_of(MONOID)
        pages = StoredPages(store, "w", layout, hold, hold.page_size.bit_length() - 1)
        self.log = Log(layout, pages, hold.page_size)
        self.views = [kind(self.log) for kind in kinds]
        self.stored = StoredWindow(store, "w", self.log, self.views, pages, hold, inline=0)
        if restore:
            self.stored.restore(hold.take_over())

    def push(self, value: int, lengths: tuple[int, ...] = LENGTHS) -> None:
        """Appends an element; each view keeps some of the youngest elements."""
        log, time = self.log, self.log.tail
        log.pages.admit(log.tail)
        fills = not (log.tail + 1) & log.mask
        changes = []
        for view, length in zip(self.views, lengths, strict=True):
            front = view.front(max(view.head, log.tail + 1 - length))
            sums, _ = view.sums_and_total(front, value)
            if front.head == log.tail:
                front = front._replace(oldest=time, first=value)
            changes.append(Change(view, front, sums, time + 1))
        if fills:
            added = Added(log.appended(time, value), (), (), time + 1, time)
        else:
            added = Added(log.tails, (time,), (value,), time + 1, time)
        commit_all(log, added, changes)

    def totals(self) -> list[Any]:
        return [view.total() for view in self.views]

    def checkpoint(self, offset: Any = None) -> int:
        return self.stored.checkpoint(offset, MONOID, None)


def pages_in(store: Store, tier: int = 0) -> list[int]:
    keys = map(parse_page_key, store.list_keys(pages_of("w")))
    return sorted({key.number for key in keys if key.tier == tier})


KINDS = [(AmortizedView, AmortizedView), (LogarithmicView, LogarithmicView), (AmortizedView, LogarithmicView)]


@pytest.mark.parametrize("kinds", KINDS, ids=lambda kinds: "-".join(kind.__name__ for kind in kinds))
def test_two_views_live_and_come_back(kinds: tuple[type[View], ...]) -> None:
    chance, values = random.Random(1), []
    with CountingStore(open_store("memory:")) as store:
        twins = Twins(store, kinds)
        for row in range(700):
            values.append(chance.randrange(1000))
            twins.push(values[-1])
            assert twins.totals() == [sum(values[-length:]) for length in LENGTHS]
            if chance.random() < 0.02:
                twins.checkpoint(row)
                assert verify(store, "w", MONOID).problems == []
            if chance.random() < 0.01 and twins.stored.version is not None:
                # a crash: what came since the checkpoint is lost, and comes again
                store.reset()
                twins = Twins(store, kinds, restore=True)
                assert store.calls["read_root"] + store.calls["swap_root"] + store.calls["get_many"] <= 3
                done = twins.log.tail
                assert [view.head for view in twins.views] == [max(0, done - each) for each in LENGTHS]
                for value in values[done:]:
                    twins.push(value)
                assert twins.totals() == [sum(values[-length:]) for length in LENGTHS]
        assert len(values) == twins.log.tail == 700
        twins.checkpoint()
        twins.stored.pages.flush(twins.log.tail)
        twins.stored.close()
        collect(store)  # what crashes have left
        assert pages_in(store)[0] <= (700 - LENGTHS[0]) // 2
        assert verify(store, "w", MONOID).problems == []
        assert set(range((700 - LENGTHS[0]) // 2, 350)) <= set(pages_in(store))


def test_pages_behind_the_older_head_are_dropped() -> None:
    with open_store("memory:") as store:
        twins = Twins(store, (AmortizedView, AmortizedView))
        for value in range(200):
            twins.push(value, (10**9, 3))
        twins.stored.pages.flush(200)
        assert pages_in(store) == list(range(100))  # the older view still needs them
        twins.views[0].move(120)
        for value in range(200, 260):
            twins.push(value, (10**9, 3))
        twins.stored.pages.flush(260)
        twins.stored.pages._writer.finish()
        left = pages_in(store)
        assert left == list(range(60, 130))
        assert twins.totals() == [sum(range(120, 260)), 257 + 258 + 259]
        # the heads may also pass each other
        twins.views[0].move(259)
        twins.push(260, (2, 3))
        assert twins.totals() == [259 + 260, 258 + 259 + 260]
        twins.checkpoint()
        again = Twins(store, (AmortizedView, AmortizedView), restore=True)
        assert [view.head for view in again.views] == [259, 258]
        assert again.totals() == [259 + 260, 258 + 259 + 260]


@pytest.mark.parametrize("kind", [AmortizedMTA, LogMTA])
@pytest.mark.parametrize(
    "views", [[SavedView(3, 13, 3), SavedView(5, 13, 5)], [SavedView(3, 9, 3)], [SavedView(3, 3, None)]]
)
def test_one_window_is_not_restored_from_other_views(kind: Any, views: list[SavedView]) -> None:
    """It would hold other elements than any of them. The writer is not fenced."""
    with open_store("memory:") as store:
        with kind(MONOID, store=store, name="w", page_size=2) as window:
            window.extend(range(13))
            window.evict(3)
            window.checkpoint()
        data, token = store.read_root("w") or (b"", b"")
        root = decode_root("w", data)
        version = replace(root.versions[-1], views=tuple(views))
        store.swap_root("w", encode_root("w", replace(root, versions=(version,))), token)
        before = store.read_root("w")
        with pytest.raises(ManifestMismatch, match=r"version 1 of the window 'w' has the views \[3, "):
            kind.restore(store, "w", MONOID)
        assert store.read_root("w") == before
        hold = AttemptHold(store, "v", 2, version, batch=1, run="r", lease=60)
        with pytest.raises(ManifestMismatch, match="cannot be restored as one"):
            open_version(kind, MONOID, None, hold, store=store, name="v", page_size=2, base=version, inline=0)
