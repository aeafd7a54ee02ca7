"""What Log MTA and Amortized MTA have in common: elements in, a policy, elements out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import numpy as np

from mta.attempts import AttemptHold
from mta.batch import Batch, Outcome, slide
from mta.checkpoint import Checkpoints, check_matches
from mta.checks import MAX_TIME, check_batch_times, check_time
from mta.enforcement import first_kept, first_kept_after, first_kept_by_predicate, first_not_rejected
from mta.errors import EmptyWindowError, OutOfOrderError, WindowClosed, WindowError
from mta.forest import Forest, PageSource
from mta.local_pages import LocalPages
from mta.manifest import Version
from mta.monoids.base import ColumnarMonoid, Monoid
from mta.ownership import Ownership
from mta.packing import pack, unpack
from mta.policies import Limits, Policy
from mta.stack import Stack
from mta.states import NOTHING, layout_of, result_array
from mta.stored_pages import StoredPages
from stores import Conflict, Store, StoreError

#: Entries a page. A call to NumPy or to a store has a fixed cost, so pages of columns are large.
COLUMN_PAGE, OBJECT_PAGE = 1 << 14, 1 << 10


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
        self.monoid = monoid
        self.policy = policy
        self.store = store
        self.name = f"window-{uuid4().hex}" if name is None else name
        self.page_size = _page_size(monoid, page_size)
        self._layout = layout_of(monoid)
        self._limits = Limits() if policy is None else policy.limits()
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
        #: the caller's offset in the last checkpoint, and its version
        self.offset: Any = None
        self.version: int | None = None
        self._forest = Forest(self._layout, self._pages, self.page_size)
        self._head = 0
        self._tail = 0
        self._oldest: Any = None
        self._youngest: Any = -MAX_TIME
        #: times after the head's in its page, to be popped in that order
        self._ahead: list[Any] = []
        self._closed = False
        if store is not None:
            ownership = Ownership(store, self.name, self.page_size, retain=retain, lease=lease)
            self._attach(store, ownership, Checkpoints(store, self.name, self._layout, ownership))

    def _attach(self, store: Store, hold: Ownership | AttemptHold, checkpoints: Checkpoints) -> None:
        """Keeps the pages of this window, which is empty, in a store."""
        self.store, self._stored = store, True
        self._ownership, self._checkpoints = hold, checkpoints
        self._pages = self._forest.pages = StoredPages(store, self.name, self._layout, hold)

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

    def query(self) -> Any:
        """The lowered aggregate of the window."""
        self._check_open()
        return self.monoid.lower(self._total())

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

    # -- elements in ------------------------------------------------------------------------------------

    def insert(self, value: Any, time: float | None = None) -> None:
        """Adds an element; the policy is not asked yet. `time` defaults to the count of insertions so far."""
        row, state, time = self._admit(value, time)
        self._insert(row, state, time)

    def push(self, value: Any, time: float | None = None) -> Any:
        """Inserts an element, enforces the policy and returns the result.

        What goes is found, and what stays is read, before the element goes in: if the store fails, nothing
        has changed.
        """
        return self._push(*self._admit(value, time))

    def _push(self, row: Any, state: Any, time: Any) -> Any:
        if self._limits.predicates:
            head, stays = first_kept_by_predicate(self, state, time)
        else:
            head, stays = self._head, True
            if self._tail > head:
                head = first_kept(self, time, self._tail + 1)
        older = self._older(head)
        if head > self._head:
            self._move_head(head)
        result = self._insert_and_answer(row, state, time, older)
        if not stays:
            self._move_head(self._tail)
            result = self.monoid.identity
        return self.monoid.lower(result)

    def extend(self, values: Any, times: Any = None) -> None:
        """Inserts a batch and enforces the policy once, at its end."""
        batch = self._batch(values, times)
        if not len(batch):
            self.enforce()
            return
        states = self._layout.lift(batch.elements)
        total = self._layout.fold(states)
        head = first_kept_after(self, batch, states, total)
        if head <= self._tail:
            # read what stays before anything is added: if the store fails, nothing has changed
            if head > self._head:
                self._move_head(head)
            younger = self._layout.join(self._younger(), total)
            self._add(batch)
            self._extended(younger)
            return
        first, count = head - self._tail, len(batch)
        younger = self._layout.fold(self._layout.cut(states, first, count)) if first < count else NOTHING
        if len(self):
            self._move_head(self._tail)
        self._add(batch)
        if first == count:
            self._move_head(self._tail)
            return
        self._take(Outcome(None, head, batch.times[first].item(), None, younger))

    def slide(self, values: Any, times: Any = None) -> Any:
        """`push` for a whole batch: one result a row, as an array (for Fields, a mapping of arrays).

        If the store fails, nothing has changed; only under a policy with a predicate, where each row waits
        for the one before, are the rows before the failure in, and the error says how many.
        """
        batch = self._batch(values, times)
        if not len(batch):
            return self._layout.lower(self._layout.lift(batch.elements))
        if self._limits.predicates:
            return self._slide_by_push(batch)
        with self._writing_early(batch):
            outcome = slide(self, batch)
        self._add(batch)
        self._take(outcome)
        return outcome.results

    # -- elements out -----------------------------------------------------------------------------------

    def evict(self, k: int = 1) -> None:
        """Removes the k oldest elements."""
        self._check_open()
        if isinstance(k, bool) or not hasattr(k, "__index__"):
            raise TypeError(f"evict takes a whole number of elements, got {k!r}")
        k = int(k.__index__())
        if k < 0:
            raise ValueError(f"evict takes a number of elements that is not negative, got {k}")
        if k > len(self):
            raise EmptyWindowError(f"cannot evict {k} element(s): the window {self.name!r} holds {len(self)}")
        if k:
            self._move_head(self._head + k)

    def evict_until(self, t: float) -> int:
        """Removes all elements with time <= t; returns how many."""
        self._check_open()
        t = check_time(t)
        before = self._head
        if self._tail > before and self._oldest <= t:
            self._move_head(self._forest.first_leaf(before, t, "right"))
        return self._head - before

    def enforce(self) -> int:
        """Evicts the longest prefix that the policy rejects; returns how many elements."""
        self._check_open()
        before = self._head
        if self._tail > before:
            head = first_kept(self, self._youngest, self._tail)
            if self._limits.predicates:
                head = max(head, first_not_rejected(self, self._total()))
            if head > before:
                self._move_head(head)
        return self._head - before

    # -- life -------------------------------------------------------------------------------------------

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
        pack(offset)
        self._pages.flush()
        version = self._checkpoints.commit(self, offset)
        self._pages.retain(self._checkpoints.unneeded_parts())
        self.offset, self.version = offset, version.number
        return version.number

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
        self.offset, self.version = unpack(version.offset), version.number
        assert isinstance(self._pages, StoredPages)
        self._pages.reserve(2 * len(self._forest.tails) + 4)
        first = self._ownership.root.first_needed() or 0
        for tier in range(len(self._forest.tails)):
            shift = self._forest.shift * (tier + 1)
            self._pages.resume(tier, range(first >> shift, version.tail >> shift))
        self._forest.drop_below(version.head)

    def close(self) -> None:
        """Ends the background work, and deletes what no checkpoint names. Closing twice is fine."""
        if self._closed:
            return
        self._closed = True
        self._pages.close()
        if isinstance(self._pages, StoredPages) and self._ownership.extents is not None:
            self._pages.forget()
            with suppress(StoreError, Conflict):
                self._ownership.let_go()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        where = "memory" if self.store is None else repr(self.store)
        return f"<{type(self).__name__} {self.name!r} of {self.monoid!r}, {len(self)} elements in {where}>"

    # -- what the algorithms differ in ------------------------------------------------------------------

    @abstractmethod
    def _total(self) -> Any:
        """The state of the whole window; the identity if it is empty."""

    @abstractmethod
    def _insert(self, row: Any, state: Any, time: Any) -> None:
        """Adds an element that was checked."""

    @abstractmethod
    def _older(self, head: int) -> Any:
        """What `_insert_and_answer` needs, read while nothing has changed, for a window from `head`."""

    @abstractmethod
    def _insert_and_answer(self, row: Any, state: Any, time: Any, older: Any) -> Any:
        """Adds an element that was checked; the state of the whole window with it. Reads nothing."""

    @abstractmethod
    def _extended(self, younger: Any) -> None:
        """Elements were added behind all others, and `_younger` has become this."""

    @abstractmethod
    def _seek(self, head: int) -> list[Any]:
        """Makes `head` < tail the oldest element; returns its time, behind those that follow in its page.

        Those that follow are left out after a leap, where nothing says that the head will walk on from there.
        Changes nothing if a page cannot be read.
        """

    @abstractmethod
    def _step(self, k: int) -> None:
        """Makes the k-th of the times in `_ahead` the oldest element's."""

    @abstractmethod
    def _clear(self) -> None:
        """Makes the window empty."""

    @abstractmethod
    def _walker(self) -> Stack:
        """A stack that `slide` can walk over the window, without a change to this window."""

    @abstractmethod
    def _younger(self) -> Any:
        """The aggregate from the walker's boundary to the tail, or NOTHING."""

    @abstractmethod
    def _adopt(self, outcome: Outcome) -> None:
        """A batch was added, and the window is what its outcome says."""

    # -- parts ------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise WindowClosed(f"the window {self.name!r} is closed; make a new one, or restore it")

    def _admit(self, value: Any, time: Any) -> tuple[Any, Any, Any]:
        """The element's row, state and time, all checked, with room in the buffer for what it may fill."""
        if time is None:
            time = self._tail
        elif type(time) is not int and type(time) is not float:
            time = check_time(time)
        if not self._youngest <= time <= MAX_TIME or self._closed:
            self._check_open()
            check_time(time)
            raise self._out_of_order(time)
        row = self._row(value)
        state = self._lift(row)
        if self._stored and (type(row) not in (float, int, str) or not self._tail):
            self._check_storable(row, state)
        if not (self._tail + 1) & (self.page_size - 1):
            self._pages.admit()
        return row, state, time

    def _check_storable(self, row: Any, state: Any) -> None:
        """Refuses what a store cannot hold now, and not when the page is full."""
        pack(row)
        if not self._tail:
            pack(self.monoid.pack(state))

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
            times = np.arange(self._tail, self._tail + count)
        times = check_batch_times(times, count)
        if count and times[0] < self._youngest:
            raise self._out_of_order(times[0].item(), " in row 0")
        if self._stored and count:
            self._layout.check_storable(elements)
        self._pages.admit()
        return Batch(elements, times)

    def _take(self, outcome: Outcome) -> None:
        """The window becomes what a batch that was added came to."""
        self._adopt(outcome)
        self._ahead = []
        self._oldest = outcome.oldest
        self._leave(outcome.head)

    def _add(self, batch: Batch) -> None:
        """Adds rows to the forest, behind all others."""
        if self._tail == self._head:
            self._oldest = batch.times[0].item()
        self._forest.extend(batch.times, batch.elements)
        self._tail = self._forest.tail
        self._youngest = batch.times[-1].item()

    @contextmanager
    def _writing_early(self, batch: Batch) -> Iterator[None]:
        """Has the batch's pages written while its results are computed, where checkpoints are made."""
        pages = self._pages
        if not isinstance(pages, StoredPages) or self.version is None or len(self) < len(batch):
            yield
            return
        pages.put_early(self._forest.coming_pages(batch.times, batch.elements))
        try:
            yield
        except BaseException:
            pages.take_back()
            raise

    def _move_head(self, head: int) -> None:
        """Evicts all before `head`."""
        k = head - self._head
        ahead = self._ahead
        if k <= len(ahead):
            self._step(k)
            del ahead[len(ahead) - k + 1 :]
            self._oldest = ahead.pop()
        elif head == self._tail:
            self._clear()
            self._ahead = []
        else:
            ahead = self._seek(head)
            self._oldest = ahead.pop()
            self._ahead = ahead
        self._leave(head)

    def _leave(self, head: int) -> None:
        """Makes `head` the first leaf, and lets go of the pages before it."""
        before, self._head = self._head, head
        shift = self._forest.shift
        if before >> shift != head >> shift:
            self._forest.drop_below(head)

    def _slide_by_push(self, batch: Batch) -> Any:
        lift = self.monoid.lift_row
        results: list[Any] = []
        try:
            for row, time in zip(self._layout.row_list(batch.elements), batch.times.tolist(), strict=True):
                self._pages.admit()
                results.append(self._push(row, lift(row), time))
        except Exception as error:
            # the rows before are in, and their results must not be lost
            error.results = result_array(results)  # type: ignore[attr-defined]
            error.add_note(
                f"{len(results)} of the batch's {len(batch)} rows are in the window {self.name!r}, and their "
                "results are in this error's `results`; go on with the row after them"
            )
            raise
        return result_array(results)


def _page_size(monoid: Monoid, page_size: int | None) -> int:
    if page_size is None:
        return COLUMN_PAGE if isinstance(monoid, ColumnarMonoid) else OBJECT_PAGE
    if isinstance(page_size, bool) or not isinstance(page_size, int):
        raise TypeError(f"page_size is a whole number, got {page_size!r}")
    if page_size < 2 or page_size & (page_size - 1):
        raise ValueError(f"page_size is a power of two and at least 2, got {page_size}")
    return page_size
