"""The window that users hold: takes elements in, asks the policy, gives results, is made durable and closed.

It composes a tree (`mta.core`), what checks its input (`mta.admission`), and, with a store, what keeps it
there (`mta.stored_window`). Each call first finds out all that it comes to, while nothing changes, and then
has the tree commit it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NoReturn, Self
from uuid import uuid4

from mta.admission import Admission
from mta.checks import check_count, check_kept, check_page_size, check_parts, check_restored, check_time
from mta.core.batch import slide, slide_in_parts
from mta.core.enforcement import first_kept_after, first_kept_now, rule_of
from mta.core.limits import Limits
from mta.core.log import Log
from mta.core.states import NOTHING, layout_of
from mta.core.view import Sums, View
from mta.durability.attempts import AttemptHold
from mta.durability.manifest import Version
from mta.durability.ownership import Ownership
from mta.durability.snapshots import INLINE, check_matches
from mta.encoding.packing import unpack
from mta.errors import WindowError
from mta.inputs import lower_of
from mta.kinds import UNKNOWN
from mta.monoids.base import Monoid
from mta.paging.local import LocalPages
from mta.policies import Policy
from mta.stored_window import Keeper
from mta.turns import CLOSED, FORKED, TakesTurns, in_turn
from stores import Store


class MonoidTreeAggregator(TakesTurns, ABC):
    """A sliding window over a log of pages; see `LogMTA` and `AmortizedMTA`.

    Without a store it is wholly in memory. With one, only O(P · log n) of it is in the process: of pages of
    `page_size` entries some wait to be written together, and some are read ahead. `buffered` and `cached` say
    how many entries those are, and `refill_below` how few that were read ahead may be left before more are;
    None is what is fast. With `buffered=0` a page is written as it is full, with `cached=0` none is read
    ahead. The last `retain` checkpoints stay readable; docs/durability.md says what a `lease` is.
    """

    def __init__(
        self,
        monoid: Monoid,
        policy: Policy | None = None,
        *,
        store: Store | None = None,
        name: str | None = None,
        page_size: int | None = None,
        retain: int = 2,
        lease: float | None = None,
        buffered: int | None = None,
        cached: int | None = None,
        refill_below: int | None = None,
    ) -> None:
        check_parts(monoid, policy, store)
        self._bounds = check_kept(retain, lease, buffered, cached, refill_below)
        self._monoid, self._policy = monoid, policy
        self._store, self._name = store, f"window-{uuid4().hex}" if name is None else name
        self._page_size = check_page_size(monoid, page_size)
        limits = self._limits = Limits() if policy is None else policy.limits()
        self._rule = rule_of(limits)
        self._lower = lower_of(monoid)
        self._log = Log(layout_of(monoid), LocalPages(), self._page_size)
        self._view = self._view_kind(monoid)(self._log, singles=bool(limits.predicates))
        self._admission = Admission(self._log, asked_for_times=bool(limits.spans()))
        self._keeper: Keeper | None = None
        if store is not None:
            self.keep_in(store, Ownership(store, self._name, self._page_size, retain=retain, lease=lease))

    @staticmethod
    @abstractmethod
    def _view_kind(monoid: Monoid) -> type[View]:
        """The kind of view that windows of a monoid have."""

    # -- what it was made of ----------------------------------------------------------------------------

    @property
    def monoid(self) -> Monoid:
        return self._monoid

    @property
    def policy(self) -> Policy | None:
        return self._policy

    @property
    def store(self) -> Store | None:
        return self._store

    @property
    def name(self) -> str:
        return self._name

    @property
    def page_size(self) -> int:
        return self._page_size

    # -- what it holds ----------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._view)

    @property
    def oldest(self) -> Any:
        """The time of the oldest element, or None."""
        return self._view.oldest if len(self._view) else None

    @property
    def youngest(self) -> Any:
        """The time of the youngest element, or None."""
        return self._log.youngest if len(self._view) else None

    def query(self) -> Any:
        """The lowered aggregate of the window."""
        if self._busy or self._closed:  # as in `in_turn`, without its calls; and so in the next three
            raise self._refusal()
        self._busy = True
        try:
            total = self._view.total()
            return total if self._lower is None else self._lower(total)
        finally:
            self._busy = False

    @in_turn
    def range_query(self, t0: float, t1: float) -> Any:
        """The lowered aggregate of the elements with t0 <= time <= t1."""
        t0, t1 = check_time(t0), check_time(t1)
        if t0 > t1:
            raise ValueError(f"range_query goes from the older to the younger time, got {t0} and {t1}")
        view, log = self._view, self._view.log
        start = log.first_position(view.head, t0, "left")
        stop = log.first_position(start, t1, "right")
        return self.monoid.lower(log.fold(start, stop) if start < stop else self.monoid.identity)

    @property
    def offset(self) -> Any:
        """The caller's offset in the last checkpoint; None before the first."""
        return None if self._keeper is None else unpack(self._keeper.offset)

    @property
    def version(self) -> int | None:
        """The number of the last checkpoint; None before the first."""
        return None if self._keeper is None else self._keeper.version

    @property
    def pages_read(self) -> tuple[int, int]:
        """How many pages were asked for, and how many of them were in the process or on their way to it."""
        return (0, 0) if self._keeper is None else (self._keeper.pages.asked, self._keeper.pages.hits)

    # -- elements in ------------------------------------------------------------------------------------

    def insert(self, value: Any, time: float | None = None) -> None:
        """Adds an element; the policy is not asked yet.

        Where the policy asks for no times they may be left out, of all elements, and are counted then.
        """
        if self._busy or self._closed:
            raise self._refusal()
        self._busy = True
        try:
            row, state, time = self._admission.one(value, time)
            self._view.insert(row, state, time)
        finally:
            self._busy = False

    def push(self, value: Any, time: float | None = None) -> Any:
        """Inserts an element, enforces the policy and returns the result.

        If anything fails, nothing has changed.
        """
        if self._busy or self._closed:
            raise self._refusal()
        self._busy = True
        try:
            row, state, time = self._admission.one(value, time)
            return self._push(self._view, row, state, time)
        finally:
            self._busy = False

    def _push(self, view: View, row: Any, state: Any, time: Any) -> Any:
        gone, coming, total = self._rule(view, state, time)
        if (view.end + 1) & view.mask:  # what happens nearly always: it fills no page, and at most one goes
            if gone == 1 and view.steps:
                return view.step(row, state, time, coming, self._lower)
            if gone == 0 and view.head < view.end:
                return view.grow(row, state, time, coming, total, self._lower)
        if gone > view.end - view.head:
            front, sums = view.nothing_from(view.end + 1), Sums(NOTHING, UNKNOWN)
            total = self.monoid.identity
        else:
            front = view.front(view.head + gone)
            if gone or coming is UNKNOWN:
                sums, total = view.followed(front, state)
            else:
                total = view.whole(coming) if total is UNKNOWN else total
                sums = Sums(coming, total)
        # which may refuse it, so before the window changes
        result = total if self._lower is None else self._lower(total)
        view.add_one(front, row, state, time, sums)
        return result

    @in_turn
    def extend(self, values: Any, times: Any = None) -> None:
        """Inserts a batch and enforces the policy once, at its end."""
        view, layout = self._view, self._view.layout
        batch = self._admission.batch(values, times)
        if not len(batch):
            view.move(first_kept_now(view, self._limits))
            return
        states = layout.lift(batch.elements)
        head = first_kept_after(view, self._limits, batch, states)
        first = head - view.end
        if first < 0:
            front = view.front(head)
            sums = view.behind(front, layout.fold(states))
        elif first < len(batch):
            front, sums = view.alone(head, batch.time(first), layout.cut(states, first, len(batch)))
        else:
            front, sums = view.nothing_from(head), Sums(NOTHING, UNKNOWN)
        with view.log.taking_back():
            view.add_batch(front, sums, batch)

    @in_turn
    def slide(self, values: Any, times: Any = None) -> Any:
        """`push` for a whole batch: one result a row, as an array (for Fields, a mapping of arrays).

        If anything fails, nothing has changed. Under a predicate that does not take columns it takes a push a
        row.
        """
        view = self._view
        batch = self._admission.batch(values, times)
        if not len(batch):
            return view.layout.lower(view.layout.lift(batch.elements))
        with view.log.taking_back():
            if self._limits.predicates:
                fork = view.fork()
                results = slide_in_parts(fork, self._limits, batch, self._push)
                view.become(fork)
                return results
            if self._keeper is not None and len(self) >= len(batch):
                self._keeper.write_early(batch)
            outcome = slide(view, self._limits, batch)
            view.add_batch(*view.after(outcome), batch)
            return outcome.results

    # -- elements out -----------------------------------------------------------------------------------

    def evict(self, k: int = 1) -> None:
        """Removes the k oldest elements."""
        if self._busy or self._closed:
            raise self._refusal()
        self._busy = True
        try:
            if type(k) is int and k == 1 and self._view.steps:
                self._view.pop()
                return
            if count := check_count(k, self):
                self._view.evict(count)
        finally:
            self._busy = False

    @in_turn
    def evict_until(self, t: float) -> int:
        """Removes all elements with time <= t; returns how many."""
        t, view = check_time(t), self._view
        if not len(view) or view.oldest > t:
            return 0
        return view.move(view.log.first_position(view.head, t, "right"))

    @in_turn
    def enforce(self) -> int:
        """Evicts the longest prefix that the policy rejects; returns how many elements."""
        return self._view.move(first_kept_now(self._view, self._limits))

    # -- life -------------------------------------------------------------------------------------------

    def keep_in(self, store: Store, hold: Ownership | AttemptHold, *, inline: int = INLINE) -> None:
        """Keeps the pages of this window, which is empty, in a store from now on, under a writer's hold.

        `inline` bytes of each tail may stand in a version itself.
        """
        self._store, self._admission.stored = store, True
        self._keeper = Keeper(store, self._name, self._view, hold, self._bounds, inline=inline)
        self._stays_in_this_process()

    @in_turn
    def checkpoint(self, offset: Any = None) -> int:
        """Makes the window durable, with the caller's offset in its input; returns the version.

        Writes in proportion to what came since the last checkpoint. Raises Fenced if another writer has
        taken the window over.
        """
        if self._keeper is None:
            raise WindowError(
                f"the window {self.name!r} has no store to make a checkpoint in; give it store=..."
            )
        return self._keeper.checkpoint(offset, self.monoid, self.policy)

    @classmethod
    def restore(
        cls,
        store: Store,
        name: str,
        monoid: Monoid,
        policy: Policy | None = None,
        *,
        version: int | None = None,
        page_size: int | None = None,
        retain: int = 2,
        lease: float | None = None,
        buffered: int | None = None,
        cached: int | None = None,
        refill_below: int | None = None,
    ) -> Self:
        """The window as its last checkpoint, or a retained version, left it; its older writer is fenced.

        Reads the manifest and the tails; pages are read when they are needed.
        """
        check_restored(monoid, policy, store, version)
        root, _, _ = Ownership(store, name, 2).peek(version)
        check_matches(name, root, monoid, policy, page_size)
        window = cls(
            *(monoid, policy), name=name, page_size=root.page_size, retain=retain, lease=lease,
            buffered=buffered, cached=cached, refill_below=refill_below,
        )  # fmt: skip
        hold = Ownership(store, name, root.page_size, retain=retain, lease=lease)
        window.keep_in(store, hold)
        window.load(hold.take_over(version))
        return window

    def load(self, version: Version) -> None:
        """This window, which is empty and has a store, becomes what a version says."""
        assert self._keeper is not None
        self._keeper.load(version)
        self._admission.clock.resume(version.youngest, version.tail)

    @in_turn
    def hand_over(self, number: int) -> Version:
        """The window as a version that somebody else keeps; it is closed then. For the hold of an attempt."""
        assert self._keeper is not None
        version = self._keeper.hand_over(number, self.monoid, self.policy)
        self._log.tails = []
        self._closed, self._ended = CLOSED, True
        return version

    def close(self) -> None:
        """Ends the background work, and deletes what no checkpoint names. Closing twice is fine.

        In a process that was forked from the window's own it does nothing.
        """
        if self._ended or self._closed == FORKED:
            return
        if self._busy:
            raise self._refusal()
        self._closed = CLOSED
        if self._keeper is None:
            self._log.pages.close()
        else:
            self._keeper.close()
        self._ended = True

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            f"the window {self.name!r} can be neither copied nor pickled: make a checkpoint and restore() it "
            "where it is needed, or make a second window"
        )

    def __repr__(self) -> str:
        where = "memory" if self.store is None else repr(self.store)
        return f"<{type(self).__name__} {self.name!r} of {self.monoid!r}, {len(self)} elements in {where}>"
