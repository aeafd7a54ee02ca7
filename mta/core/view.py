"""The view: a window over a log, with an aggregate that is kept up to date.

A view holds the positions [head, end) of its log. It has the paper's verbs: `insert`, `evict`, `total`, and
Amortized MTA's `flip`. A window under a policy decides between these verbs. The window first asks what a
call would change (`front`, `cheap_sums`, `sums_and_total`), and nothing changes meanwhile. Then the window
has the changes committed (`add_one`, `add_batch`, `move`). A commit makes no call between its first
assignment and its last, and CPython looks at signals only at calls: so a call has happened or it has not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any, NamedTuple, Protocol, TypeAlias
from weakref import ref

from mta.core.log import Fold, Log, Piece
from mta.core.page import Follower
from mta.core.stack import Stack
from mta.core.states import NOTHING, Layout, Run
from mta.core.tail import Tail
from mta.kinds import UNKNOWN, Array, Row, State, Time

#: A head that moves by no more than this many positions walks; otherwise it leaps. Steps are made for at
#: least this many evictions.
NEAR = 16

#: What one eviction makes known of the element that becomes the oldest: its time, R0 from it on (in Amortized
#: MTA), and its own state (where `singles` are kept).
Step: TypeAlias = tuple[Any, Any, Any]


class Front(NamedTuple):
    """The old end of a view: its head, and the values that are ready there."""

    head: int
    #: the time of the oldest element
    oldest: Any
    r0: State
    #: the state of the oldest element, or UNKNOWN
    first: State
    #: steps to the following elements of the head's page, the next one last, and how many of them are left
    steps: list[Step]
    left: int
    stack: Stack
    #: R1: the aggregate of the elements from the stack's boundary on
    r1: State
    #: the position from which the head has walked
    walked_from: int


class Sums(NamedTuple):
    """The aggregates that a view has ready at its young end."""

    #: of the elements from the stack's boundary on
    r1: State
    #: of the whole window, or UNKNOWN
    total: State


class Added(NamedTuple):
    """The young end of a log after a call: single entries for tier 0, or new tails that hold all entries."""

    tails: list[Tail]
    times: tuple[Any, ...]
    entries: tuple[Any, ...]
    tail: int
    youngest: Any


class Batch:
    """Rows that were checked."""

    __slots__ = ("elements", "times")

    def __init__(self, elements: Run, times: Array) -> None:
        self.elements = elements
        self.times = times

    def __len__(self) -> int:
        return len(self.times)

    def time(self, row: int) -> Any:
        """The time of a row as a plain number."""
        return self.times[row : row + 1].tolist()[0]

    def part(self, layout: Layout, start: int, stop: int) -> Batch:
        return Batch(layout.cut(self.elements, start, stop), self.times[start:stop])

    @property
    def last(self) -> Any:
        """The time of the last row."""
        return self.time(len(self.times) - 1)


class Outcome(NamedTuple):
    """The results of a batch, and the window after it."""

    results: Any
    #: the head of the last row's window, and the time of the element there
    head: int
    oldest: Any
    #: the stack, walked up to that head; None if the last row's window lies in the batch
    walker: Stack | None
    #: the aggregate from the walker's boundary, or from the head without a walker, to the new tail
    r1: State
    #: the aggregate of the last row's window
    total: State


class View(ABC):
    """The window [head, end) of a log."""

    __slots__ = (
        "__weakref__",
        "combine",
        "end",
        "first",
        "follower",
        "head",
        "known_total",
        "layout",
        "log",
        "mask",
        "oldest",
        "r0",
        "r1",
        "singles",
        "stack",
        "steps",
        "walked_from",
    )

    #: `few` rows of a batch under a predicate are pushed one by one in the time that columns of them take.
    #: `more` rows are added to these, divided by the columns of a state: a push works on each column.
    few: int
    more: int

    def __init__(
        self,
        log: Log,
        *,
        singles: bool = False,
        follower: Follower | None = None,
        layout: Layout | None = None,
    ) -> None:
        self.log = log
        #: the log's, or that of some of its fields
        self.layout = layout or log.layout
        self.mask = log.mask
        #: reads pages ahead of this view's head
        self.follower = log.pages.follow() if follower is None else follower
        #: whether states of the oldest elements are kept ready, for a policy that asks for them
        self.singles = singles
        self.combine: Callable[[Any, Any], Any] = self.layout.monoid.combine
        self.head = 0
        self.end = 0
        #: the time of the oldest element
        self.oldest: Any = None
        #: the state of the oldest element, or UNKNOWN
        self.first: State = UNKNOWN
        #: steps to the elements after the oldest one, in its page, the next one last
        self.steps: list[Step] = []
        #: the Result Pair of Amortized MTA: R0 aggregates from the head to the stack's boundary, R1 from the
        #: boundary to the end; R0 may be UNKNOWN
        self.r0: State = NOTHING
        self.r1: State = NOTHING
        self.stack = Stack(log, 0, self.layout)
        #: the position from which the head has walked: it came there by a leap, or in a batch
        self.walked_from = 0
        #: the aggregate of the whole window, or UNKNOWN
        self.known_total: State = UNKNOWN
        log.views.append(ref(self))

    def __len__(self) -> int:
        return self.end - self.head

    # -- the paper's verbs ------------------------------------------------------------------------------

    def insert(self, row: Row, state: State, time: Time) -> None:
        """Appends an element."""
        front = self.front(self.head)
        self.add_one(front, row, state, time, self.cheap_sums(front, state))

    def evict(self, k: int = 1) -> None:
        """Evicts the k oldest elements."""
        if k == 1 and self.steps:
            self.pop()
        else:
            self.move(self.head + k)

    @abstractmethod
    def total(self) -> Any:
        """The state of the whole window; the identity if the window is empty."""

    def unread(self) -> Fold | None:
        """What `total` would fold of the log, for a caller that has it folded with others (`keep_total`)."""
        return None

    def keep_total(self, total: State) -> None:
        """Takes the aggregate that `unread` has asked for."""
        self.known_total = total

    # -- finding out ------------------------------------------------------------------------------------

    def front(self, head: int) -> Front:
        """The view's old end if its head were at a position; elements and aggregates stay what they are."""
        k, steps = head - self.head, self.steps
        if not k:
            at_head = self.oldest, self.r0, self.first, steps, len(steps)
            return Front(head, *at_head, self.stack, self.r1, self.walked_from)
        if k <= len(steps):
            left = len(steps) - k
            return Front(head, *steps[left], steps, left, self.stack, self.r1, self.walked_from)
        if head == self.end:
            return self.nothing_from(head)
        return self._sought(head)

    def nothing_from(self, head: int) -> Front:
        """The front of a view without elements, whose next element has position `head`."""
        return Front(head, None, NOTHING, UNKNOWN, [], 0, Stack(self.log, head, self.layout), NOTHING, head)

    def alone(self, head: int, time: Time, states: Run) -> tuple[Front, Sums]:
        """A view of some new states only: its front, at position `head`, and its sums."""
        layout, front = self.layout, self.nothing_from(head)._replace(oldest=time)
        if not self.singles:
            return front, Sums(layout.fold(states), UNKNOWN)
        # the oldest element is in no sum that grows
        first, count = layout.at(states, 0), layout.length(states)
        rest = layout.fold(layout.cut(states, 1, count)) if count > 1 else NOTHING
        front = front._replace(r0=first, first=first, stack=Stack(self.log, head + 1, self.layout))
        return front, Sums(rest, layout.join(first, rest))

    @abstractmethod
    def _sought(self, head: int) -> Front:
        """The front at a position to which no step leads.

        A head that leaps gets no steps, since nothing says that it walks on.
        """

    @abstractmethod
    def cheap_sums(self, front: Front, state: State) -> Sums:
        """The sums of a front followed by a state, as far as they cost least."""

    @abstractmethod
    def sums_and_total(self, front: Front, state: State) -> tuple[Sums, Any]:
        """The sums of a front followed by a state, and the state of the whole window then."""

    # A predicate gets sums in which the oldest element is added last: a small sum, added to a large element,
    # would be rounded away before the predicate sees it.

    @abstractmethod
    def coming(self, state: State) -> Any:
        """An aggregate that ends with a coming state, or with the window: the argument of `whole` and `rest`.

        The window is not empty. `state` may be NOTHING.
        """

    @abstractmethod
    def whole(self, coming: State) -> Any:
        """The state of the window with the coming state."""

    @abstractmethod
    def rest(self, k: int, coming: State, state: State) -> Any:
        """The state of the window with the coming state and without its k oldest elements, or NOTHING."""

    @abstractmethod
    def rests_ready(self) -> int:
        """The largest k for which `rest` reads no page."""

    @abstractmethod
    def walker(self) -> tuple[Stack, Any]:
        """A stack for a batch to walk while this view stays as it is, and the aggregate from its boundary."""

    @abstractmethod
    def after(self, outcome: Outcome) -> tuple[Front, Sums]:
        """The front and the sums that a batch leaves."""

    def oldest_state(self) -> Any:
        """The state of the oldest element, of a window that is not empty."""
        if self.first is UNKNOWN:
            part = self.log.read([Piece(0, self.head, self.head + 1)])[0]
            self.first = self.layout.at(part.states(self.layout), 0)
        return self.first

    def last_step(self, head: int, stop: int) -> int:
        """The position at which the steps from `head` end, which is `stop` at most.

        Steps are made for as many positions as the head has walked. So fewer steps are made in vain, where
        the head leaps or a batch comes, than the head has taken.
        """
        return min(stop, head + max(NEAR, head - self.walked_from))

    def make_steps(self, times: list[Any], r0s: Any, elements: Any) -> list[Step]:
        """Steps to some elements, given the oldest last; their states are made of `elements`, if needed."""
        singles: Any = repeat(UNKNOWN)
        if self.singles:
            singles = reversed(self.layout.state_list(elements.states(self.layout)))
        return list(zip(times, r0s, singles, strict=False))

    # -- committing -------------------------------------------------------------------------------------

    def pop(self) -> None:
        """Evicts the oldest element, where a step to the next one is ready."""
        steps = self.steps
        # nothing is called from here on
        self.oldest, self.r0, self.first = steps[-1]
        del steps[-1]
        self.head += 1
        self.known_total = UNKNOWN

    @abstractmethod
    def step(self, row: Row, state: State, time: Time, coming: State, lower: Any) -> Any:
        """Appends one element and evicts one, to whose next a step is ready; returns the lowered total.

        The element fills no page. `coming` may be UNKNOWN. `lower` is None where results are states.
        """

    @abstractmethod
    def grow(self, row: Row, state: State, time: Time, coming: State, total: State, lower: Any) -> Any:
        """Appends one element to others and evicts none; returns the lowered total.

        The element fills no page. `coming` and `total` may be UNKNOWN.
        """

    def commit(self, front: Front, sums: Sums, added: Added) -> None:
        """Makes the view, and its log, of which it is the only view, what a call has found out."""
        head, oldest, r0, first, steps, left, stack, _, walked_from = front
        tails, times, entries, tail, youngest = added
        r1, total = sums
        log, elements = self.log, tails[0]
        tail_times, tail_entries = elements.times, elements.entries
        # nothing is called from here on
        del steps[left:]
        tail_times += times
        tail_entries += entries
        log.tails, log.tail, log.youngest = tails, tail, youngest
        self.head, self.end, self.oldest, self.r0, self.first = head, tail, oldest, r0, first
        self.steps, self.stack, self.walked_from = steps, stack, walked_from
        self.r1, self.known_total = r1, total

    def apply(self, front: Front, sums: Sums, end: int) -> None:
        """Commits what a call has found out for this view alone; a second time changes nothing more."""
        head, oldest, r0, first, steps, left, stack, _, walked_from = front
        # nothing is called from here on
        del steps[left:]
        self.head, self.end, self.oldest, self.r0, self.first = head, end, oldest, r0, first
        self.steps, self.stack, self.walked_from = steps, stack, walked_from
        self.r1, self.known_total = sums

    def add_one(self, front: Front, row: Row, state: State, time: Time, sums: Sums) -> None:
        """Appends one element, and evicts the elements before a front."""
        log, head = self.log, self.head
        tail = log.tail
        if front.head == self.end:
            front, sums = self.begun(front, state, time, sums)
        if (tail + 1) & self.mask:
            self.commit(front, sums, Added(log.tails, (time,), (row,), tail + 1, time))
        else:
            try:
                self.commit(front, sums, Added(log.appended(time, row), (), (), tail + 1, time))
            except BaseException:
                log.take_back()
                raise
        self._settle(head, tail)

    def begun(self, front: Front, state: State, time: Time, sums: Sums) -> tuple[Front, Sums]:
        """A front without elements and its sums, for a coming element that is the only one then."""
        front = front._replace(oldest=time, first=state)
        if self.singles:  # as in `alone`
            front = front._replace(r0=state, stack=Stack(self.log, self.end + 1, self.layout))
            sums = sums._replace(r1=NOTHING)
        return front, sums

    def add_batch(self, front: Front, sums: Sums, batch: Batch) -> None:
        """Appends a batch, and evicts the elements before a front.

        The caller takes pages back (`Log.taking_back`) if anything raises.
        """
        head, log = self.head, self.log
        tail = log.tail
        if front.head == self.end:
            front = front._replace(oldest=batch.time(0))
        tails = log.extended(batch.times, batch.elements, front.head)
        self.commit(front, sums, Added(tails, (), (), tail + len(batch), batch.last))
        self._settle(head, tail)

    def move(self, head: int) -> int:
        """Evicts all elements before a position; returns how many."""
        since = self.head
        if head > since:
            self._become(self.front(head))
            self._settle(since, self.log.tail)
        return head - since

    def _become(self, front: Front) -> None:
        """Evicts the elements before a front, and appends none."""
        self.apply(front, Sums(front.r1, UNKNOWN), self.end)

    def fork(self) -> View:
        """A view to go on with while this one stays as it is, until this one becomes it.

        A fork has a log of its own. The page source hears of the pages that the fork fills, but not that they
        count, nor that pages are behind its head: this view says so, if it becomes the fork.
        """
        twin = type(self)(self.log.fork(), singles=self.singles, follower=self.follower, layout=self.layout)
        twin.head, twin.oldest, twin.r0, twin.first = self.head, self.oldest, self.r0, self.first
        twin.steps, twin.stack = list(self.steps), self.stack.copy(twin.log)
        twin.end, twin.walked_from = self.end, self.walked_from
        twin.r1, twin.known_total = self.r1, self.known_total
        return twin

    def become(self, twin: View) -> None:
        """Makes this view, the only one of its log, its fork.

        The caller takes pages back (`Log.taking_back`) if anything raises.
        """
        log, head = self.log, self.head
        tail, other = log.tail, twin.log
        stack = twin.stack.copy(log)
        # nothing is called from here on
        log.tails, log.tail, log.youngest = other.tails, other.tail, other.youngest
        self.head, self.oldest, self.r0, self.first = twin.head, twin.oldest, twin.r0, twin.first
        self.steps, self.stack = twin.steps, stack
        self.end, self.walked_from = twin.end, twin.walked_from
        self.r1, self.known_total = twin.r1, twin.known_total
        # and here it may be again
        self._settle(head, tail)

    def _settle(self, head: int, tail: int) -> None:
        """Tells the page source where pages end, after a commit moved head and tail from these positions."""
        log = self.log
        if log.trial:
            return
        shift = log.shift
        if tail >> shift != log.tail >> shift:
            log.pages.settle(log.tail)
        if head >> shift != self.head >> shift:
            self.follower.head_at(self.head >> shift)
            log.drop_behind_views()

    def resume(self, head: int, end: int, oldest: Any) -> None:
        """Makes an empty view what a version says; its log is resumed already."""
        self.head, self.end, self.oldest = head, end, oldest
        self.stack, self.walked_from = Stack(self.log, end, self.layout), head
        self.r0 = UNKNOWN if head < end else NOTHING
        self.follower.head_at(head >> self.log.shift)


class Changed(Protocol):
    """What a commit asks of one of several views."""

    head: int

    @property
    def follower(self) -> Follower: ...

    def apply(self, front: Front, sums: Sums, end: int) -> None: ...


class Change(NamedTuple):
    """What a call makes of one of several views."""

    view: Changed
    front: Front
    sums: Sums
    end: int


def commit_all(log: Log, added: Added, changes: Sequence[Change]) -> None:
    """Makes a log, and each of its views, what a call has found out.

    An interrupt finds nothing changed, or the log changed and the changes of the views noted. Then the next
    call makes these first (`finish`).
    """
    tails, times, entries, tail, youngest = added
    shift, before, elements = log.shift, log.tail, tails[0]
    heads = [(view, view.head) for view, _, _, _ in changes]
    tail_times, tail_entries = elements.times, elements.entries
    # nothing is called from here on
    tail_times += times
    tail_entries += entries
    log.tails, log.tail, log.youngest = tails, tail, youngest
    log.unfinished = changes
    # and here it may be again
    finish(log)
    if before >> shift != tail >> shift:
        log.pages.settle(tail)
    moved = [view for view, head in heads if view.head >> shift != head >> shift]
    for view in moved:
        view.follower.head_at(view.head >> shift)
    if moved:
        log.drop_behind_views()


def finish(log: Log) -> None:
    """Makes the changes of views that an interrupted commit has left."""
    for view, front, sums, end in log.unfinished:
        view.apply(front, sums, end)
    log.unfinished = ()
