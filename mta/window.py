"""The window that users hold: takes elements in, asks the policy, gives results, is made durable and closed.

A window is a log with one view (`mta.core`), the checks of its input (`mta.admission`), and, with a store,
its pages and checkpoints there (`mta.stored_window`). Each call first finds out all that it changes, while
nothing changes, and then has the view commit the changes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NoReturn, Self, TypeVar
from uuid import uuid4

from mta.admission import Admission
from mta.checks import (
    check_count,
    check_keep,
    check_kept,
    check_page_size,
    check_parts,
    check_restored,
    unit_of,
)
from mta.core.amortized_view import AmortizedView
from mta.core.batch import slide, slide_in_parts
from mta.core.enforcement import first_kept_after, first_kept_now, rule_of
from mta.core.frame import Frame, frames_of
from mta.core.framed import FramedLog, view_of
from mta.core.log import Log
from mta.core.logarithmic_view import LogarithmicView
from mta.core.states import NOTHING, layout_of
from mta.core.view import Sums, View
from mta.durability.attempts import AttemptHold
from mta.durability.checkpoints import INLINE, check_matches, check_views
from mta.durability.manifest import Root, Version
from mta.durability.ownership import Ownership
from mta.encoding.packing import unpack
from mta.errors import WindowError, WindowNotFound
from mta.inputs import lower_of
from mta.kinds import UNKNOWN, Row, State, Time, Value
from mta.monoids.base import Monoid
from mta.monoids.nulls import Nulls
from mta.paging.bounds import AS_IS, Bounds
from mta.paging.local import LocalPages
from mta.paging.stored import StoredPages
from mta.policies import Policy
from mta.stored_window import StoredWindow
from mta.times.durations import Duration
from mta.times.kinds import TimeKind
from mta.turns import CLOSED, TakesTurns, in_turn
from stores import Store


class MonoidTreeAggregator(TakesTurns, ABC):
    """A sliding window; see `LogMTA` and `AmortizedMTA`.

    `monoid` says what is aggregated, and `policy` which elements the window holds: without a policy, all
    until they are evicted. Without a `store` the window is in memory. With a store, its pages of `page_size`
    entries are there under `name`, and O(page_size · log n) entries are in the process. At most `buffered`
    entries wait to be written. `cached` entries are read ahead, and more once `refill_below` of them are
    left. None is the fast default; 0 turns the buffer, or reading ahead, off. The last `retain` checkpoints
    stay readable. `keep` says how much longer than its frames a window keeps elements, for `at` and
    `range_query` of the past. `lease` is in seconds; docs/durability.md describes it. With `nulls="skip"`
    missing values are in the window and not in its aggregate (docs/input.md); otherwise they are refused.

    Raises TypeError and ValueError for arguments that cannot be, and WindowExists, at the first page or
    checkpoint that is written, if another window has the name. Opens nothing until then.
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
        keep: Any = None,
        nulls: Nulls = "refuse",
    ) -> None:
        monoid = check_parts(monoid, policy, store, nulls)
        kept = None if keep is None else check_keep(keep, policy)
        bounds = check_kept(retain, lease, buffered, cached, refill_below)
        name, size = f"window-{uuid4().hex}" if name is None else name, check_page_size(monoid, page_size)
        hold = None if store is None else Ownership(store, name, size, retain=retain, lease=lease)
        frames, unit = frames_of(monoid, policy), unit_of(monoid, policy, kept)
        self._begin(monoid, policy, frames, unit, store, name, size, hold, bounds, keep=kept)

    def _begin(
        self,
        monoid: Monoid,
        policy: Policy | None,
        frames: Sequence[Frame],
        in_microseconds: bool | None,
        store: Store | None,
        name: str,
        page_size: int,
        hold: Ownership | AttemptHold | None,
        bounds: Bounds = AS_IS,
        inline: int = INLINE,
        keep: Duration | None = None,
    ) -> None:
        """An empty window, whose pages are in a store if there is a writer's hold.

        `inline` bytes of each tail may stand in a version itself.
        """
        self._monoid, self._policy = monoid, policy
        self._store, self._name, self._page_size = store, name, page_size
        self._lower = lower_of(monoid)
        layout, pages = layout_of(monoid), None
        if store is not None and hold is not None:
            pages = StoredPages(store, name, layout, hold, page_size.bit_length() - 1, bounds)
        self._log = Log(layout, pages or LocalPages(), page_size)
        self._frame, self._limits = frames[0], frames[0].limits
        limits, stored = self._limits, hold is not None
        self._admission = Admission(self._log, in_microseconds=in_microseconds, stored=stored)
        self._framed: FramedLog | None = None
        self._view: Any
        self._keep = keep
        if len(frames) == 1 and frames[0].plain and keep is None:
            self._rule = rule_of(limits)
            self._view = self._view_kind(monoid)(self._log, singles=bool(limits.predicates))
            views = [self._view]
        else:
            framed = FramedLog(
                self._log,
                [(frame, view_of(self._log, frame, self._view_kind)) for frame in frames],
                None if keep is None else keep.amount,
                self._admission.clock.shown,
            )
            self._view = self._framed = framed
            self._lower, self._push = None, framed.push  # type: ignore[method-assign,assignment]
            views = framed.views
        self._stored: StoredWindow | None = None
        if store is not None and hold is not None and pages is not None:
            self._stored = StoredWindow(store, name, self._log, views, pages, hold, inline)
            self._stays_in_this_process()

    @cached_property
    def _frames(self) -> FramedLog:
        """The window as one of frames, for questions about moments. Raises ValueError under a predicate."""
        if self._framed is not None:
            return self._framed
        if self._limits.predicates:
            raise ValueError(
                f"the policy {self._policy!r} evicts by aggregates, one element after the other, so there is "
                "no window as of a moment: ask under a policy of time and count"
            )
        return FramedLog(self._log, [(self._frame, self._view)], shown=self._admission.clock.shown)

    @staticmethod
    @abstractmethod
    def _view_kind(monoid: Monoid) -> type[View]:
        """The kind of view that windows of a monoid have."""

    # -- what it was made of ----------------------------------------------------------------------------

    @property
    def monoid(self) -> Monoid:
        """What the window aggregates."""
        return self._monoid

    @property
    def policy(self) -> Policy | None:
        """Which elements the window holds; None for all until they are evicted."""
        return self._policy

    @property
    def nulls(self) -> Nulls:
        """What the window does with missing values."""
        return "skip" if self._monoid.skips_nulls else "refuse"

    @property
    def store(self) -> Store | None:
        """Where the pages are; None for a window in memory."""
        return self._store

    @property
    def name(self) -> str:
        """The name of the window in its store."""
        return self._name

    @property
    def page_size(self) -> int:
        """The entries of a page."""
        return self._page_size

    # -- what it holds ----------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._view)

    @property
    def oldest(self) -> Any:
        """The time of the oldest element, or None."""
        return self._admission.clock.shown(self._view.oldest) if len(self._view) else None

    @property
    def youngest(self) -> Any:
        """The time of the youngest element, or None."""
        if self._framed is not None:
            youngest = self._framed.youngest
            return None if youngest is None else self._admission.clock.shown(youngest)
        return self._admission.clock.shown(self._log.youngest) if len(self._view) else None

    def query(self) -> Any:
        """The aggregate of the window, lowered; of an empty window, that of the identity.

        O(1) amortised for `AmortizedMTA`, O(log n) after an eviction for `LogMTA`. Reads at most the pages of
        one path of the tree.
        """
        if self._busy or self._closed:  # as in `in_turn`, without its calls; and so in the next three
            raise self._refusal()
        self._busy = True
        try:
            total = self._view.total()
            return total if self._lower is None else self._lower(total)
        finally:
            self._busy = False

    @in_turn
    def range_query(self, t0: Any, t1: Any) -> Any:
        """The aggregate of the window's elements with t0 <= time <= t1, lowered, in O(log n).

        Raises ValueError if t0 > t1.
        """
        log, framed = self._log, self._framed
        first = self._view.head if framed is None else framed.first_of_range
        t0, t1 = self._admission.clock.asked_range(t0, t1, log.tail)
        start, stop = log.first_positions(first, [(t0, "left"), (t1, "right")])
        return self.monoid.lower(log.fold(start, stop) if start < stop else self.monoid.identity)

    @in_turn
    def at(self, moment: Any) -> Any:
        """The result as of a moment, without an element, in O(log n); evicts nothing.

        As of a moment there are the elements with times up to the moment, and the frames are at the moment.
        So an idle window is asked by the present time. A moment before the youngest element is answered as
        long as no element is gone that the window had then; `keep=` keeps elements longer. Raises ValueError
        otherwise, and under a predicate.
        """
        return self._frames.at(self._admission.clock.asked(moment, self._log.tail))

    @property
    def offset(self) -> Any:
        """The caller's offset in the last checkpoint; None before the first."""
        return None if self._stored is None else unpack(self._stored.offset)

    @property
    def version(self) -> int | None:
        """The number of the last checkpoint; None before the first."""
        return None if self._stored is None else self._stored.version

    @property
    def pages_read(self) -> tuple[int, int]:
        """How many pages were needed, and how many of these were in the process or on their way there."""
        return (0, 0) if self._stored is None else (self._stored.pages.asked, self._stored.pages.hits)

    # -- elements in ------------------------------------------------------------------------------------

    def insert(self, value: Value, time: Any = None) -> None:
        """Appends an element, and does not enforce the policy.

        Under a policy without times `time` may be left out, for all elements: the elements are counted then.
        Raises OutOfOrderError if `time` is before that of the youngest element, and the monoid's TypeError or
        ValueError. O(1) amortised for `AmortizedMTA`.
        """
        if self._busy or self._closed:
            raise self._refusal()
        self._busy = True
        try:
            row, state, time = self._admission.one(value, time)
            self._view.insert(row, state, time)
        finally:
            self._busy = False

    def push(self, value: Value, time: Any = None) -> Any:
        """Appends an element, enforces the policy and returns the result, all or nothing.

        Raises what `insert` raises. An element that fills a page waits for the store if the buffer is full.
        """
        if self._busy or self._closed:
            raise self._refusal()
        self._busy = True
        try:
            row, state, time = self._admission.one(value, time)
            return self._push(self._view, row, state, time)
        finally:
            self._busy = False

    def _push(self, view: View, row: Row, state: State, time: Time) -> Any:
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
                sums, total = view.sums_and_total(front, state)
            else:
                total = view.whole(coming) if total is UNKNOWN else total
                sums = Sums(coming, total)
        # which may refuse it, so before the window changes
        result = total if self._lower is None else self._lower(total)
        view.add_one(front, row, state, time, sums)
        return result

    @in_turn
    def extend(self, values: Any, times: Any = None) -> None:
        """Appends a batch and enforces the policy once, at its end; all or nothing.

        `values` is an array, or what the monoid takes for many elements, and `times` never decrease. Raises
        what `insert` raises, and names the row.
        """
        view, layout = self._view, self._log.layout
        batch = self._admission.batch(values, times)
        if self._framed is not None:
            if len(batch):
                self._framed.extend(batch)
            else:
                self._framed.enforce()
            return
        if not len(batch):
            view.move(first_kept_now(view, self._limits))
            return
        states = layout.lift(batch.elements)
        head = first_kept_after(view, self._limits, batch, states)
        first = head - view.end
        if first < 0:
            front = view.front(head)
            sums = view.cheap_sums(front, layout.fold(states))
        elif first < len(batch):
            front, sums = view.alone(head, batch.time(first), layout.cut(states, first, len(batch)))
        else:
            front, sums = view.nothing_from(head), Sums(NOTHING, UNKNOWN)
        with view.log.taking_back():
            view.add_batch(front, sums, batch)

    @in_turn
    def slide(self, values: Any, times: Any = None, *, at: Any = None) -> Any:
        """`push` for a whole batch, all or nothing: one result a row, as an array.

        With `at`, one result for each of these moments instead, which never go backwards: the window as of
        the moment, as `at` gives it, with the batch in it.

        For `Fields` the results are a mapping of arrays. Whole-array operations do the work, except under a
        predicate that does not take columns, which costs a push a row. Raises what `insert` raises, and names
        the row.
        """
        view, layout = self._view, self._log.layout
        if at is not None:
            frames, clock = self._frames, self._admission.clock
            moments, kind = clock.asked_all(at, self._log.tail)
            batch = self._admission.batch(values, times)
            clock.check_asked(moments, kind)
            return frames.slide_at(batch, moments)
        batch = self._admission.batch(values, times)
        if not len(batch):
            return layout.lower(layout.lift(batch.elements))
        if self._framed is not None:
            if self._stored is not None and len(self) >= len(batch):
                self._stored.write_early(batch)
            return self._framed.slide(batch)
        with view.log.taking_back():
            if self._limits.predicates:
                fork = view.fork()
                results = slide_in_parts(fork, self._limits, batch, self._push)
                view.become(fork)
                return results
            if self._stored is not None and len(self) >= len(batch):
                self._stored.write_early(batch)
            outcome = slide(view, self._limits, batch)
            view.add_batch(*view.after(outcome), batch)
            return outcome.results

    # -- elements out -----------------------------------------------------------------------------------

    def evict(self, k: int = 1) -> None:
        """Evicts the k oldest elements, in O(log n) for any k, and O(1) amortised for one.

        Raises EmptyWindowError if the window has fewer elements.
        """
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
    def evict_until(self, t: Any) -> int:
        """Evicts all elements with time <= t, in O(log n); returns how many."""
        t, view = self._admission.clock.asked(t, self._log.tail), self._view
        if self._framed is not None:
            return self._framed.evict_until(t)
        if not len(view) or view.oldest > t:
            return 0
        return int(view.move(view.log.first_position(view.head, t, "right")))

    @in_turn
    def enforce(self) -> int:
        """Evicts the elements that the policy does not keep; returns how many."""
        if self._framed is not None:
            return self._framed.enforce()
        return int(self._view.move(first_kept_now(self._view, self._limits)))

    # -- life -------------------------------------------------------------------------------------------

    @in_turn
    def checkpoint(self, offset: Any = None) -> int:
        """Makes the window durable, with the caller's offset in its input; returns the number of the version.

        `offset` is any value that msgpack can serialize. Writes in proportion to the elements since the last
        checkpoint. Raises Fenced if another writer has taken the window over, StoreError if the store fails,
        and WindowError if the window has no store.
        """
        if self._stored is None:
            raise WindowError(
                f"the window {self.name!r} has no store to make a checkpoint in; give it store=..."
            )
        keep = None if self._keep is None else repr(self._keep)
        return self._stored.checkpoint(offset, self.monoid, self.policy, self._time_kind(), keep)

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
        keep: Any = None,
        nulls: Nulls = "refuse",
    ) -> Self:
        """Opens the window as its last checkpoint, or a retained `version`, left it. Fences its older writer.

        `monoid`, `policy`, `keep`, `nulls` and `page_size` must be those of the checkpoint: ManifestMismatch
        otherwise. Raises WindowNotFound if the store has no such window or version, and ManifestCorrupt if
        its root is damaged.
        Reads the root and the tails in at most three round trips; pages are read when they are needed.
        """
        monoid = check_restored(monoid, policy, store, version, nulls)
        kept = None if keep is None else check_keep(keep, policy)
        bounds, frames = check_kept(retain, lease, buffered, cached, refill_below), frames_of(monoid, policy)
        unit = unit_of(monoid, policy, kept)

        def check(root: Root) -> None:
            check_matches(name, monoid, policy, page_size, root, None if kept is None else repr(kept))
            check_views(name, root.version(version), frames, unit, kept is not None)

        hold = Ownership.find(store, name, version, check, retain=retain, lease=lease)
        window = cls.__new__(cls)
        window._begin(monoid, policy, frames, unit, store, name, hold.page_size, hold, bounds, keep=kept)
        window._resume(hold.take_over())
        return window

    @classmethod
    def open(
        cls, store: Store, name: str, monoid: Monoid, policy: Policy | None = None, **options: Any
    ) -> Self:
        """A window in a store: goes on from the last checkpoint, or begins if there is none.

        Takes the options of `restore` and of a new window, and raises their errors. A window that is there
        must have a given `page_size`.
        """
        try:
            return cls.restore(store, name, monoid, policy, **options)
        except WindowNotFound:
            if options.get("version") is not None:
                raise
            options.pop("version", None)
            return cls(monoid, policy, store=store, name=name, **options)

    def _resume(self, version: Version) -> None:
        """Makes this window, which is empty and has a store, what a version says."""
        assert self._stored is not None
        self._stored.restore(version)
        self._admission.clock.resume(version.youngest, version.tail, version.kind)

    def _time_kind(self) -> TimeKind:
        """The kind of the times of this window, as a checkpoint keeps it."""
        return self._admission.clock.kind_of(self._log.tail)

    @in_turn
    def _hand_over(self, number: int) -> Version:
        """The window as a version, which the caller keeps; closes the window. For the hold of an attempt."""
        assert self._stored is not None
        version = self._stored.hand_over(number, self.monoid, self.policy, self._time_kind())
        self._log.tails = []
        self._closed, self._ended = CLOSED, True
        return version

    def _end(self) -> None:
        """Ends the background work, and deletes the pages that no checkpoint names."""
        if self._stored is None:
            self._log.pages.close()
        else:
            self._stored.close()

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            f"the window {self.name!r} can be neither copied nor pickled: make a checkpoint and restore() it "
            "where it is needed, or make a second window"
        )

    def __repr__(self) -> str:
        where = "memory" if self.store is None else repr(self.store)
        return f"<{type(self).__name__} {self.name!r} of {self.monoid!r}, {len(self)} elements in {where}>"


class LogMTA(MonoidTreeAggregator):
    """A sliding window whose insertions, evictions of any number and queries each take O(log n).

    >>> from mta import LogMTA, monoids, policies
    >>> window = LogMTA(monoids.Max(), policies.TimeWindow(60))
    >>> for time, value in ((0, 3), (30, 1), (61, 2)):
    ...     window.insert(value, time)
    >>> window.enforce(), window.query(), len(window)
    (1, 2, 2)
    >>> window.evict_until(30), window.oldest
    (1, 61)
    """

    @staticmethod
    def _view_kind(monoid: Monoid) -> type[View]:  # noqa: ARG004
        return LogarithmicView


class AmortizedMTA(MonoidTreeAggregator):
    """A sliding window with amortised O(1) insertion and eviction, and bulk eviction in O(log n).

    States that grow with the window are not kept for every coming eviction, but folded as LogMTA folds them.

    >>> from mta import AmortizedMTA, monoids, policies
    >>> window = AmortizedMTA(monoids.Sum(), policies.CountWindow(3))
    >>> [window.push(value) for value in (1, 2, 3, 4)]
    [1, 3, 6, 9]
    >>> window.slide([5, 6])
    array([12, 15])
    >>> window.range_query(3, 4)
    9

    With a store its elements are there, and a checkpoint can be restored, in this process or another:

    >>> from stores import open_store
    >>> store = open_store("memory:")
    >>> with AmortizedMTA(monoids.Max(), policies.CountWindow(100), store=store, name="sensor-7") as window:
    ...     window.extend(range(1000))
    ...     window.checkpoint(offset=1000)
    1
    >>> again = AmortizedMTA.restore(store, "sensor-7", monoids.Max(), policies.CountWindow(100))
    >>> again.query(), len(again), again.offset
    (999, 100, 1000)
    """

    @staticmethod
    def _view_kind(monoid: Monoid) -> type[View]:
        return LogarithmicView if monoid.grows else AmortizedView


W = TypeVar("W", bound=MonoidTreeAggregator)


def open_version(
    kind: type[W],
    monoid: Monoid,
    policy: Policy | None,
    hold: AttemptHold,
    *,
    store: Store,
    name: str,
    page_size: int,
    base: Version | None,
    inline: int,
) -> W:
    """A window as a version left it, or an empty one, under the hold of an attempt.

    The caller keeps the version, and not the store's root. `inline` bytes of each tail may stand in a
    version: a window smaller than a page, whose rows fit there, never touches the store.
    """
    frames = frames_of(monoid, policy)
    unit = unit_of(monoid, policy, None)
    check_views(name, base, frames, unit)
    window = kind.__new__(kind)
    window._begin(monoid, policy, frames, unit, store, name, page_size, hold, inline=inline)
    if base is not None:
        window._resume(base)
    return window


def save_version(window: MonoidTreeAggregator, number: int) -> Version:
    """The window as a version, published if anything had to be written for it. Closes the window."""
    return window._hand_over(number)
