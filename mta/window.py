"""What Log MTA and Amortized MTA have in common: elements in, a policy, elements out."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, NamedTuple, NoReturn, Self
from uuid import uuid4
from weakref import WeakSet

import numpy as np

from mta.attempts import AttemptHold
from mta.batch import Batch, Outcome, slide
from mta.checkpoint import Checkpoints, Content, check_matches
from mta.checks import (
    MAX_TIME,
    Clock,
    check_batch_times,
    check_lease,
    check_page_size,
    check_retain,
    check_time,
)
from mta.enforcement import first_kept, first_kept_after, first_kept_by_predicate, first_not_rejected
from mta.errors import EmptyWindowError, OutOfOrderError, WindowClosed, WindowError
from mta.forest import Forest, PageSource
from mta.levels import Tail
from mta.local_pages import LocalPages
from mta.manifest import Version
from mta.monoids.base import ColumnarMonoid, Monoid
from mta.ownership import Ownership
from mta.packing import check_text, pack, pack_entries, unpack
from mta.policies import Limits, Policy
from mta.stack import Stack
from mta.states import NOTHING, layout_of, result_array
from mta.stored_pages import StoredPages
from mta.turns import in_turn
from stores import Conflict, Store, StoreError

#: head and tail when a call began
Since = tuple[int, int]


class Front(NamedTuple):
    """Where a window begins: its first leaf, and what is ready for those that follow."""

    head: int
    #: the time of the first leaf
    oldest: Any
    #: times after it in its page, to be popped in that order, and how many of them are left
    ahead: list[Any]
    left: int
    #: of the algorithm
    ready: Any


class Added(NamedTuple):
    """What a call adds behind a window: all of it in new tails, or one element to the last leaves."""

    tails: list[Tail]
    times: tuple[Any, ...]
    entries: tuple[Any, ...]
    tail: int
    youngest: Any
    younger: Any


class MonoidTreeAggregator(ABC):
    """A sliding window over a forest of pages; see `LogMTA` and `AmortizedMTA`.

    Without a store it is wholly in memory. With one, only O(P · log n) of it is in the process.
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
    ) -> None:
        if not isinstance(monoid, Monoid):
            raise TypeError(f"the first argument is a monoid such as monoids.Max(), got {monoid!r}")
        if policy is not None and not isinstance(policy, Policy):
            raise TypeError(f"policy is one of mta.policies or None, got {policy!r}")
        if store is not None and not isinstance(store, Store):
            raise TypeError(f"store is what stores.open_store(url) returns, got {store!r}")
        check_retain(retain)
        check_lease(lease)
        self._monoid, self._policy = monoid, policy
        self._store, self._name = store, f"window-{uuid4().hex}" if name is None else name
        self._page_size = check_page_size(monoid, page_size)
        self._begin()
        if store is not None:
            ownership = Ownership(store, self.name, self.page_size, retain=retain, lease=lease)
            self._attach(store, ownership, Checkpoints(store, self.name, self._layout, ownership))

    def _begin(self) -> None:
        """An empty window in memory."""
        monoid = self._monoid
        self._layout = layout_of(monoid)
        self._limits = Limits() if self._policy is None else self._policy.limits()
        # called for each element, so looked up once
        self._row: Callable[[Any], Any] = monoid.row
        if isinstance(monoid, ColumnarMonoid) and not monoid.fields:
            self._row = monoid.check_row
        self._lift = monoid.lift_row
        self._combine = monoid.combine
        self._lower = monoid.lower
        self._pages: PageSource = LocalPages()
        self._stored = False
        self._ownership: Ownership | AttemptHold
        self._checkpoints: Checkpoints
        self._offset = pack(None)
        self._version: int | None = None
        self._forest = Forest(self._layout, self._pages, self._page_size)
        self._mask = self._page_size - 1
        self._clock = Clock(asked_for=bool(self._limits.spans()))
        self._head = 0
        self._tail = 0
        self._oldest: Any = None
        self._youngest: Any = -MAX_TIME
        #: times after the head's in its page, to be popped in that order
        self._ahead: list[Any] = []
        #: the aggregate of what is younger than the algorithm's boundary
        self._younger: Any = NOTHING
        #: whether a call is under way
        self._busy = False
        #: why no call is taken any more, if none is
        self._closed = ""
        self._ended = False

    def _attach(self, store: Store, hold: Ownership | AttemptHold, checkpoints: Checkpoints) -> None:
        """Keeps the pages of this window, which is empty, in a store."""
        self._store, self._stored = store, True
        self._ownership, self._checkpoints = hold, checkpoints
        self._pages = self._forest.pages = StoredPages(
            store, self.name, self._layout, hold, self._forest.shift
        )
        _of_this_process.add(self)

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

    # -- what a window holds ----------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._tail - self._head

    @property
    def oldest(self) -> Any:
        """The time of the oldest element, or None."""
        return self._oldest if self._tail > self._head else None

    @property
    def youngest(self) -> Any:
        """The time of the youngest element, or None."""
        return self._youngest if self._tail > self._head else None

    @in_turn
    def query(self) -> Any:
        """The lowered aggregate of the window."""
        self._check_open()
        return self.monoid.lower(self._total())

    @in_turn
    def range_query(self, t0: float, t1: float) -> Any:
        """The lowered aggregate of the elements with t0 <= time <= t1."""
        self._check_open()
        t0, t1 = check_time(t0), check_time(t1)
        if t0 > t1:
            raise ValueError(f"range_query goes from the older to the younger time, got {t0} and {t1}")
        start = self._forest.first_leaf(self._head, t0, "left")
        stop = self._forest.first_leaf(start, t1, "right")
        if start >= stop:
            return self.monoid.lower(self.monoid.identity)
        return self.monoid.lower(self._forest.fold(start, stop))

    @property
    def offset(self) -> Any:
        """The caller's offset in the last checkpoint; None before the first."""
        return unpack(self._offset)

    @property
    def version(self) -> int | None:
        """The number of the last checkpoint; None before the first."""
        return self._version

    # -- elements in ------------------------------------------------------------------------------------
    #
    # Each call first finds out all that it comes to, while nothing changes, and then commits it.

    @in_turn
    def insert(self, value: Any, time: float | None = None) -> None:
        """Adds an element; the policy is not asked yet.

        Where the policy asks for no times they may be left out, of all elements, and are counted then.
        """
        head, tail = self._head, self._tail
        row, state, time = self._admit(value, time)
        younger = self._followed_by(self._younger, state)
        if not (tail + 1) & self._mask:
            self._add_one((head, tail), self._front(head), row, time, younger)
            return
        oldest = self._oldest if tail > head else time
        leaves = self._forest.tails[0]
        times, entries = leaves.times, leaves.entries
        # as in `_commit`: nothing is called from here on
        times += (time,)
        entries += (row,)
        self._oldest, self._younger = oldest, younger
        self._youngest, self._tail = time, tail + 1

    @in_turn
    def push(self, value: Any, time: float | None = None) -> Any:
        """Inserts an element, enforces the policy and returns the result.

        If anything fails, nothing has changed.
        """
        since = self._head, self._tail
        return self._push(since, *self._admit(value, time))

    def _push(self, since: Since, row: Any, state: Any, time: Any) -> Any:
        if self._limits.predicates:
            head, stays = first_kept_by_predicate(self, state, time)
        else:
            head, stays = self._head, True
            if self._tail > head:
                head = first_kept(self, time, self._tail + 1)
        if stays:
            front = self._front(head)
            younger, total = self._with_state(front, state)
        else:
            front, younger, total = self._nothing_from(self._tail + 1), NOTHING, self.monoid.identity
        # which may refuse it, so before the window changes
        result = self.monoid.lower(total)
        self._add_one(since, front, row, time, younger)
        return result

    @in_turn
    def extend(self, values: Any, times: Any = None) -> None:
        """Inserts a batch and enforces the policy once, at its end."""
        since = self._head, self._tail
        batch = self._batch(values, times)
        count = len(batch)
        if not count:
            self._enforce()
            return
        states = self._layout.lift(batch.elements)
        total = self._layout.fold(states)
        head = first_kept_after(self, batch, states, total)
        if head <= self._tail:
            front = self._front(head)
            younger = self._followed_by(self._kept_younger(front), total)
        else:
            first = head - self._tail
            front, younger = self._nothing_from(head), NOTHING
            if first < count:
                front = front._replace(oldest=batch.time(first))
                younger = self._layout.fold(self._layout.cut(states, first, count))
        with self._taking_back():
            self._add(since, front, batch, younger)

    @in_turn
    def slide(self, values: Any, times: Any = None) -> Any:
        """`push` for a whole batch: one result a row, as an array (for Fields, a mapping of arrays).

        If anything fails, nothing has changed; only under a policy with a predicate, where each row waits
        for the one before, are the rows before the failure in, and the error says how many.
        """
        since = self._head, self._tail
        batch = self._batch(values, times)
        if not len(batch):
            return self._layout.lower(self._layout.lift(batch.elements))
        if self._limits.predicates:
            return self._slide_by_push(batch)
        with self._taking_back():
            self._write_early(batch)
            outcome = slide(self, batch)
            self._add(since, self._front_after(outcome), batch, outcome.younger)
        return outcome.results

    # -- elements out -----------------------------------------------------------------------------------

    @in_turn
    def evict(self, k: int = 1) -> None:
        """Removes the k oldest elements."""
        since = self._head, self._tail
        self._check_open()
        if isinstance(k, bool) or not hasattr(k, "__index__"):
            raise TypeError(f"evict takes a whole number of elements, got {k!r}")
        k = int(k.__index__())
        if k < 0:
            raise ValueError(f"evict takes a number of elements that is not negative, got {k}")
        if k > len(self):
            raise EmptyWindowError(f"cannot evict {k} element(s): the window {self.name!r} holds {len(self)}")
        if k:
            self._move_head(since, self._head + k)

    @in_turn
    def evict_until(self, t: float) -> int:
        """Removes all elements with time <= t; returns how many."""
        since = self._head, self._tail
        self._check_open()
        t = check_time(t)
        if not len(self) or self._oldest > t:
            return 0
        return self._move_head(since, self._forest.first_leaf(self._head, t, "right"))

    @in_turn
    def enforce(self) -> int:
        """Evicts the longest prefix that the policy rejects; returns how many elements."""
        return self._enforce()

    def _enforce(self) -> int:
        since = self._head, self._tail
        self._check_open()
        if not len(self):
            return 0
        head = first_kept(self, self._youngest, self._tail)
        if self._limits.predicates:
            head = max(head, first_not_rejected(self, self._total()))
        return self._move_head(since, head)

    # -- life -------------------------------------------------------------------------------------------

    @in_turn
    def checkpoint(self, offset: Any = None) -> int:
        """Makes the window durable, with the caller's offset in its input; returns the version.

        Writes in proportion to what came since the last checkpoint. Raises Fenced if another writer has
        taken the window over.
        """
        self._check_open()
        if not isinstance(self._pages, StoredPages):
            raise WindowError(
                f"the window {self.name!r} has no store to make a checkpoint in; give it store=..."
            )
        packed = pack(offset)
        self._pages.check_deletions()
        self._pages.flush(self._tail)
        content = self._content()
        version = self._checkpoints.commit(self, content, packed, self._pages.check_present)
        self._offset, self._version = packed, version.number
        self._pages.committed(self._checkpoints.unneeded_parts())
        return version.number

    def _content(self) -> Content:
        return Content(self._head, self._tail, self.oldest, self._youngest, self._forest.tails)

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
    ) -> Self:
        """The window as its last checkpoint, or a retained version, left it; its older writer is fenced.

        Reads the manifest and the tails; pages are read when they are needed.
        """
        root, _, _ = Ownership(store, name, 2).peek(version)
        check_matches(name, root, monoid, policy, page_size)
        window = cls(
            monoid, policy, store=store, name=name, page_size=root.page_size, retain=retain, lease=lease
        )
        assert isinstance(window._ownership, Ownership)
        window._load(window._ownership.take_over(version))
        return window

    def _load(self, version: Version) -> None:
        self._forest.tails = self._checkpoints.load(version)
        self._head, self._tail = version.head, version.tail
        self._oldest, self._youngest = version.oldest, version.youngest
        self._clock.resume(version.youngest, version.tail)
        self._offset, self._version = version.offset, version.number
        assert isinstance(self._pages, StoredPages)
        tiers = len(self._forest.tails)
        self._pages.reserve(2 * tiers + 4)
        self._pages.resume(version.tail, self._ownership.root.first_needed() or 0, tiers)
        self._forest.drop_below(version.head)

    def close(self) -> None:
        """Ends the background work, and deletes what no checkpoint names. Closing twice is fine.

        In a process that was forked from the window's own it does nothing.
        """
        if self._ended or self._closed == FORKED:
            return
        self._closed = CLOSED
        if self._stored:
            self._ownership.end()
        self._pages.close()
        if isinstance(self._pages, StoredPages):
            if self._ownership.extents is not None:
                self._pages.forget()
            with suppress(StoreError, Conflict):
                self._ownership.let_go()
        self._ended = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            f"the window {self.name!r} can be neither copied nor pickled: make a checkpoint and restore() it "
            "where it is needed, or make a second window"
        )

    def __repr__(self) -> str:
        where = "memory" if self.store is None else repr(self.store)
        return f"<{type(self).__name__} {self.name!r} of {self.monoid!r}, {len(self)} elements in {where}>"

    # -- what the algorithms differ in ------------------------------------------------------------------

    @abstractmethod
    def _total(self) -> Any:
        """The state of the whole window; the identity if it is empty."""

    @abstractmethod
    def _ready(self) -> Any:
        """What the algorithm has ready where the window begins."""

    @abstractmethod
    def _stepped(self, k: int) -> Any:
        """What it has ready k elements further on, with as many times in `_ahead`."""

    @abstractmethod
    def _sought(self, head: int) -> tuple[list[Any], Any]:
        """The time of leaf `head` < tail behind those that follow in its page, and what is ready there.

        Those that follow are left out after a leap, where nothing says that the head will walk on from there.
        """

    @abstractmethod
    def _nothing_ready(self, head: int) -> Any:
        """What it has ready for an empty window, whose next element is leaf `head`."""

    @abstractmethod
    def _ready_after(self, outcome: Outcome) -> Any: ...

    @abstractmethod
    def _with_state(self, front: Front, state: Any) -> tuple[Any, Any]:
        """What `_younger` becomes with one more state behind a front, and the state of the whole window."""

    @abstractmethod
    def _walker(self) -> Stack:
        """A stack that `slide` can walk over the window, without a change to this window."""

    @abstractmethod
    def _kept_younger(self, front: Front) -> Any:
        """What `_younger` is of a front, before anything is added."""

    @abstractmethod
    def _followed_by(self, younger: Any, state: Any) -> Any:
        """What `_younger` becomes with one more state."""

    @abstractmethod
    def _commit(self, front: Front, added: Added) -> None:
        """Makes the window what a call has come to.

        Nothing is called from the first change to the last, so CPython does not look at signals meanwhile:
        the call has happened or it has not.
        """

    # -- parts ------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise WindowClosed(f"the window {self.name!r} {self._closed}")

    def _admit(self, value: Any, time: Any) -> tuple[Any, Any, Any]:
        """The element's row, state and time, all checked, with room in the buffer for what it may fill."""
        clock = self._clock
        if time is None:
            time = clock.counted(self._tail)
        else:
            if type(time) is not int and type(time) is not float:
                time = check_time(time)
            if not clock.given:
                clock.give(self._tail)
        if not self._youngest <= time <= MAX_TIME or self._closed:
            self._check_open()
            check_time(time)
            raise self._out_of_order(time)
        row = self._row(value)
        state = self._lift(row)
        if self._stored and (type(row) not in (float, int) or not self._tail):
            self._check_storable(row, state)
        if not (self._tail + 1) & self._mask:
            self._pages.admit(self._tail)
        return row, state, time

    def _check_storable(self, row: Any, state: Any) -> None:
        """Refuses what a store cannot hold now, and not when the page is full."""
        if type(row) is str:
            check_text(row)
        else:
            pack(row)
        if not self._tail:
            pack_entries([self.monoid.pack(state)])

    def _out_of_order(self, time: Any, where: str = "") -> OutOfOrderError:
        return OutOfOrderError(
            f"time {time!r}{where} is before {self._youngest!r}, the time of the youngest element inserted; "
            "insert elements in the order of their times"
        )

    def _batch(self, values: Any, times: Any) -> Batch:
        self._check_open()
        elements = self._layout.elements(values)
        count = self._layout.length(elements)
        if times is None:
            first = self._clock.counted(self._tail) if count else self._tail
            times = np.arange(first, first + count)
        elif count:
            self._clock.give(self._tail)
        times = check_batch_times(times, count)
        if count and times[0] < self._youngest:
            raise self._out_of_order(times[:1].tolist()[0], " in row 0")
        if self._stored and count:
            self._layout.check_storable(elements)
        self._pages.admit(self._tail)
        return Batch(elements, times)

    def _front(self, head: int) -> Front:
        """The window from leaf `head` on."""
        k, ahead = head - self._head, self._ahead
        if not k:
            return Front(head, self._oldest, ahead, len(ahead), self._ready())
        if k <= len(ahead):
            left = len(ahead) - k
            return Front(head, ahead[left], ahead, left, self._stepped(k))
        if head == self._tail:
            return self._nothing_from(head)
        ahead, ready = self._sought(head)
        return Front(head, ahead[-1], ahead, len(ahead) - 1, ready)

    def _nothing_from(self, head: int) -> Front:
        return Front(head, None, [], 0, self._nothing_ready(head))

    def _front_after(self, outcome: Outcome) -> Front:
        return Front(outcome.head, outcome.oldest, [], 0, self._ready_after(outcome))

    def _add_one(self, since: Since, front: Front, row: Any, time: Any, younger: Any) -> None:
        if front.head == since[1]:
            front = front._replace(oldest=time)
        tails = self._forest.tails
        if (since[1] + 1) & self._mask:
            self._commit(front, Added(tails, (time,), (row,), since[1] + 1, time, younger))
        else:
            with self._taking_back():
                tails = self._forest.with_one(time, row)
                self._commit(front, Added(tails, (), (), since[1] + 1, time, younger))
        self._settle(since)

    def _add(self, since: Since, front: Front, batch: Batch, younger: Any) -> None:
        """Adds rows behind all others, and makes `front` the front."""
        if front.head == since[1]:
            front = front._replace(oldest=batch.time(0))
        tails = self._forest.with_run(batch.times, batch.elements)
        youngest, tail = batch.last, since[1] + len(batch)
        self._commit(front, Added(tails, (), (), tail, youngest, younger))
        self._settle(since)

    @contextmanager
    def _taking_back(self) -> Iterator[None]:
        """If elements do not come in after all, the pages that they filled are taken back."""
        try:
            yield
        except BaseException:
            self._pages.take_back(self._tail)
            raise

    def _write_early(self, batch: Batch) -> None:
        """Has the batch's pages written while its results are computed, where checkpoints are made."""
        pages = self._pages
        if isinstance(pages, StoredPages) and self._version is not None and len(self) >= len(batch):
            pages.put_early(self._forest.coming_pages(batch.times, batch.elements))

    def _move_head(self, since: Since, head: int) -> int:
        """Evicts all before `head`; returns how many."""
        if head > since[0]:
            front = self._front(head)
            younger = self._kept_younger(front)
            self._commit(front, Added(self._forest.tails, (), (), since[1], self._youngest, younger))
            self._settle(since)
        return head - since[0]

    def _settle(self, since: Since) -> None:
        """After a commit: says so to the source of pages."""
        shift = self._forest.shift
        if since[1] >> shift != self._tail >> shift:
            self._pages.settle(self._tail)
        if since[0] >> shift != self._head >> shift:
            self._forest.drop_below(self._head)

    def _slide_by_push(self, batch: Batch) -> Any:
        lift = self.monoid.lift_row
        results: list[Any] = []
        try:
            for row, time in zip(self._layout.row_list(batch.elements), batch.times.tolist(), strict=True):
                self._pages.admit(self._tail)
                results.append(self._push((self._head, self._tail), row, lift(row), time))
        except Exception as error:
            # the rows before are in, and their results must not be lost
            error.results = result_array(results)  # type: ignore[attr-defined]
            error.add_note(
                f"{len(results)} of the batch's {len(batch)} rows are in the window {self.name!r}, and their "
                "results are in this error's `results`; go on with the row after them"
            )
            raise
        return result_array(results)


CLOSED = "is closed; make a new one, or restore it"
FORKED = (
    "belongs to the process that this one was forked from; restore it here under a name of its own, or open "
    "windows after the fork"
)

#: Windows with a store, which an inherited copy in a forked process must not touch.
_of_this_process: WeakSet[MonoidTreeAggregator] = WeakSet()


def _after_fork() -> None:
    for window in list(_of_this_process):
        window._closed = FORKED
    _of_this_process.clear()


os.register_at_fork(after_in_child=_after_fork)
