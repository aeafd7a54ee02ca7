"""What the trees of Log MTA and Amortized MTA have in common: the elements of a window, and two steps a call.

A tree has the paper's verbs: `insert`, `evict`, `total`, and Amortized MTA's `flip`. A caller that decides
between them, as a window under a policy does, asks first what the tree comes to, while nothing changes
(`front`, `behind`, `followed`), and has that committed then (`add_one`, `add_batch`, `move`). Between the
first change of a commit and the last nothing is called, so CPython does not look at signals meanwhile: a call
has happened or it has not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import repeat
from typing import Any, NamedTuple, TypeAlias

from mta.core.forest import Forest, Piece
from mta.core.outcome import Batch, Outcome
from mta.core.page import PageSource
from mta.core.stack import Stack
from mta.core.states import NOTHING, Layout, Run
from mta.core.tail import Tail

#: What has to be found out when it is needed.
UNKNOWN: Any = type("Unknown", (), {"__repr__": lambda _: "UNKNOWN", "__slots__": ()})()

#: Before all times.
BEFORE_ALL = -(2**63) + 1

#: A head that moves by no more is taken to walk: what the next evictions need is made ready at once, for as
#: many of them at first, and then for as many as the head has walked.
NEAR = 16

#: What changes when a leaf becomes the oldest: the leaf's time, R0 (in Amortized MTA), and the leaf's own
#: state (where `singles` are kept).
Step: TypeAlias = tuple[Any, Any, Any]


class Front(NamedTuple):
    """A tree from its leaf `head` on, before anything is added."""

    head: int
    oldest: Any
    r0: Any
    first: Any
    #: the steps to the leaves after it in its page, to be popped in that order, and how many of them are left
    ahead: list[Step]
    left: int
    stack: Stack
    #: the aggregate of what is younger than the stack's boundary
    younger: Any
    #: the leaf from which on the head has walked
    since: int


class Sums(NamedTuple):
    """The aggregates that a tree has ready at its young end."""

    #: of what is younger than the stack's boundary
    younger: Any
    #: of the whole window, or UNKNOWN
    kept: Any


class Added(NamedTuple):
    """What comes behind: one element for the last leaves, or all of it in new tails."""

    tails: list[Tail]
    times: tuple[Any, ...]
    entries: tuple[Any, ...]
    tail: int
    youngest: Any
    sums: Sums


class Tree(ABC):
    """The window [head, tail) over a forest of pages."""

    __slots__ = (
        "ahead",
        "combine",
        "first",
        "forest",
        "head",
        "kept",
        "layout",
        "mask",
        "oldest",
        "r0",
        "since",
        "singles",
        "stack",
        "tail",
        "trial",
        "younger",
        "youngest",
    )

    #: so many rows of a batch under a predicate are pushed one by one in the time that columns of them take,
    #: and where states have few columns some more, shared out among these: a push works on each of them
    few: int
    more: int

    def __init__(self, layout: Layout, pages: PageSource, page_size: int, *, singles: bool = False) -> None:
        self.layout = layout
        self.forest = Forest(layout, pages, page_size)
        self.mask = page_size - 1
        #: whether states of the oldest elements are kept ready, for a policy that asks for them
        self.singles = singles
        #: whether it was forked off another tree, which may become it
        self.trial = False
        self.combine: Callable[[Any, Any], Any] = layout.monoid.combine
        self.head = 0
        self.tail = 0
        #: the time of the oldest element
        self.oldest: Any = None
        #: the time of the last element that came
        self.youngest: Any = BEFORE_ALL
        #: the state of the oldest element, or UNKNOWN
        self.first: Any = UNKNOWN
        #: steps to the elements after the oldest, in its page, to be popped in that order
        self.ahead: list[Step] = []
        #: the Result Pair of Amortized MTA: the aggregate from the head to the stack's boundary, or UNKNOWN …
        self.r0: Any = NOTHING
        #: … and from there on
        self.younger: Any = NOTHING
        self.stack = Stack(self.forest, 0)
        #: the leaf from which on the head has walked: it came there by a leap, or in a batch
        self.since = 0
        #: the aggregate of the whole window, or UNKNOWN
        self.kept: Any = UNKNOWN

    def __len__(self) -> int:
        return self.tail - self.head

    # -- the paper's verbs ------------------------------------------------------------------------------

    def insert(self, row: Any, state: Any, time: Any) -> None:
        """Adds an element behind all others."""
        front = self.front(self.head)
        self.add_one(front, row, state, time, self.behind(front, state))

    def evict(self, k: int = 1) -> None:
        """Removes the k oldest elements."""
        if k == 1 and self.ahead:
            self.pop()
        else:
            self.move(self.head + k)

    @abstractmethod
    def total(self) -> Any:
        """The state of the whole window; the identity if it is empty."""

    # -- finding out ------------------------------------------------------------------------------------

    def front(self, head: int) -> Front:
        """The tree from leaf `head` on; changes nothing."""
        k, ahead, rest = head - self.head, self.ahead, (self.stack, self.younger, self.since)
        if not k:
            return Front(head, self.oldest, self.r0, self.first, ahead, len(ahead), *rest)
        if k <= len(ahead):
            left = len(ahead) - k
            return Front(head, *ahead[left], ahead, left, *rest)
        if head == self.tail:
            return self.nothing_from(head)
        return self._sought(head)

    def nothing_from(self, head: int) -> Front:
        """A tree without elements, whose next one is leaf `head`."""
        return Front(head, None, NOTHING, UNKNOWN, [], 0, Stack(self.forest, head), NOTHING, head)

    def alone(self, head: int, time: Any, states: Run) -> tuple[Front, Sums]:
        """A tree of nothing but some states, from leaf `head` on, and what is ready then."""
        layout, front = self.layout, self.nothing_from(head)._replace(oldest=time)
        if not self.singles:
            return front, Sums(layout.fold(states), UNKNOWN)
        # the oldest element is in no sum that grows
        first, count = layout.at(states, 0), layout.length(states)
        rest = layout.fold(layout.cut(states, 1, count)) if count > 1 else NOTHING
        front = front._replace(r0=first, first=first, stack=Stack(self.forest, head + 1))
        return front, Sums(rest, layout.join(first, rest))

    @abstractmethod
    def _sought(self, head: int) -> Front:
        """The tree from a leaf on that none of the steps ahead leads to.

        After a leap the steps to those that follow are left out, since nothing says that the head walks on.
        """

    @abstractmethod
    def behind(self, front: Front, state: Any) -> Sums:
        """What is ready with a state behind a front, at the least cost."""

    @abstractmethod
    def followed(self, front: Front, state: Any) -> tuple[Sums, Any]:
        """What is ready with a state behind a front, and the state of the whole window then."""

    # What a policy with a predicate asks of sums in which the oldest element is added last, so that nothing
    # that is small beside it is lost before anybody looks:

    @abstractmethod
    def coming(self, state: Any) -> Any:
        """What is made of a state, or of NOTHING, behind a window that is not empty: for these two."""

    @abstractmethod
    def whole(self, coming: Any) -> Any:
        """The state of the window with what comes."""

    @abstractmethod
    def rest(self, k: int, coming: Any, state: Any) -> Any:
        """The same without its k oldest elements, or NOTHING."""

    @abstractmethod
    def rests_ready(self) -> int:
        """For how many k `rest` is at hand."""

    @abstractmethod
    def walker(self) -> tuple[Stack, Any]:
        """A stack that a batch can walk over the window, without a change to this tree, and the aggregate
        of what is behind its boundary."""

    @abstractmethod
    def after(self, outcome: Outcome) -> tuple[Front, Sums]:
        """The front that a batch leaves, and what is ready then."""

    def oldest_state(self) -> Any:
        """The state of the oldest element, of which there is one."""
        if self.first is UNKNOWN:
            part = self.forest.read([Piece(0, self.head, self.head + 1)])[0]
            self.first = self.layout.at(part.states(self.layout), 0)
        return self.first

    def last_step(self, head: int, stop: int) -> int:
        """The leaf before which the steps from `head` end, of those before `stop` that may have one.

        As many as the head has walked: so the steps that are made for nothing, where it leaps on or a batch
        comes, are fewer than those it has taken.
        """
        return min(stop, head + max(NEAR, head - self.since))

    def steps(self, times: list[Any], r0s: Any, leaves: Any) -> list[Step]:
        """Steps to some leaves, given the oldest last; `leaves` has what makes their states."""
        singles: Any = repeat(UNKNOWN)
        if self.singles:
            singles = reversed(self.layout.state_list(leaves.states(self.layout)))
        return list(zip(times, r0s, singles, strict=False))

    # -- committing -------------------------------------------------------------------------------------

    def pop(self) -> None:
        """The oldest element goes, and a step is ready."""
        ahead = self.ahead
        # nothing is called from here on
        self.oldest, self.r0, self.first = ahead[-1]
        del ahead[-1]
        self.head += 1
        self.kept = UNKNOWN

    @abstractmethod
    def step(self, row: Any, state: Any, time: Any, coming: Any, lower: Any) -> Any:
        """One element comes, and one goes, to which a step is ready; returns the lowered total.

        The element fills no page. `coming` may be UNKNOWN. `lower` is None where results are states.
        """

    @abstractmethod
    def grow(self, row: Any, state: Any, time: Any, coming: Any, total: Any, lower: Any) -> Any:
        """One element comes to others and none goes; returns the lowered total, `total` if that is known.

        The element fills no page.
        """

    def commit(self, front: Front, added: Added) -> None:
        """Makes the tree what a call has come to."""
        head, oldest, r0, first, ahead, left, stack, _, since = front
        tails, times, entries, tail, youngest, (younger, kept) = added
        forest, leaves = self.forest, tails[0]
        leaf_times, leaf_entries = leaves.times, leaves.entries
        # nothing is called from here on
        del ahead[left:]
        leaf_times += times
        leaf_entries += entries
        forest.tails = tails
        self.head, self.oldest, self.r0, self.first = head, oldest, r0, first
        self.ahead, self.stack, self.since = ahead, stack, since
        self.tail, self.youngest = tail, youngest
        self.younger, self.kept = younger, kept

    def add_one(self, front: Front, row: Any, state: Any, time: Any, sums: Sums) -> None:
        """One element comes behind a front."""
        head, tail, tails = self.head, self.tail, self.forest.tails
        if front.head == tail:
            front = front._replace(oldest=time, first=state)
            if self.singles:  # as in `alone`
                front = front._replace(r0=state, stack=Stack(self.forest, tail + 1))
                sums = sums._replace(younger=NOTHING)
        if (tail + 1) & self.mask:
            self.commit(front, Added(tails, (time,), (row,), tail + 1, time, sums))
        else:
            with self.taking_back():
                tails = self.forest.with_one(time, row)
                self.commit(front, Added(tails, (), (), tail + 1, time, sums))
        self._settle(head, tail)

    def add_batch(self, front: Front, sums: Sums, batch: Batch) -> None:
        """A batch comes behind a front; the caller has it taken back if anything raises."""
        head, tail = self.head, self.tail
        if front.head == tail:
            front = front._replace(oldest=batch.time(0))
        tails = self.forest.with_run(batch.times, batch.elements, front.head)
        self.commit(front, Added(tails, (), (), tail + len(batch), batch.last, sums))
        self._settle(head, tail)

    def move(self, head: int) -> int:
        """Evicts all before leaf `head`; returns how many."""
        since = self.head
        if head > since:
            self._become(self.front(head))
            self._settle(since, self.tail)
        return head - since

    def _become(self, front: Front) -> None:
        """Nothing comes, and what is before a front goes."""
        sums = Sums(front.younger, UNKNOWN)
        self.commit(front, Added(self.forest.tails, (), (), self.tail, self.youngest, sums))

    @contextmanager
    def taking_back(self) -> Iterator[None]:
        """If elements do not come in after all, the pages that they filled are taken back.

        Not by a fork: its tail is none of the window's, and pages before it might be written as settled.
        """
        try:
            yield
        except BaseException:
            if not self.trial:
                self.forest.pages.take_back(self.tail)
            raise

    def fork(self) -> Tree:
        """A tree that goes on from here, while this one stays as it is, until it becomes that one.

        What the fork fills and leaves behind is told to the source of pages by this tree, if ever.
        """
        twin = type(self)(self.layout, self.forest.pages, self.forest.page_size, singles=self.singles)
        twin.trial = True
        twin.forest.tails = [tail.fork() for tail in self.forest.tails]
        twin.head, twin.oldest, twin.r0, twin.first = self.head, self.oldest, self.r0, self.first
        twin.ahead, twin.stack = list(self.ahead), self.stack.copy(twin.forest)
        twin.tail, twin.youngest, twin.since = self.tail, self.youngest, self.since
        twin.younger, twin.kept = self.younger, self.kept
        return twin

    def become(self, twin: Tree) -> None:
        """What was done to a fork has happened here; the caller has it taken back if anything raises."""
        head, tail = self.head, self.tail
        # nothing is called from here on
        self.forest = twin.forest
        self.head, self.oldest, self.r0, self.first = twin.head, twin.oldest, twin.r0, twin.first
        self.ahead, self.stack = twin.ahead, twin.stack
        self.tail, self.youngest, self.since = twin.tail, twin.youngest, twin.since
        self.younger, self.kept = twin.younger, twin.kept
        # and here it may be again
        self._settle(head, tail)

    def _settle(self, head: int, tail: int) -> None:
        """After a commit that moved head and tail from these: tells the source of pages where pages end."""
        if self.trial:
            return
        shift = self.forest.shift
        if tail >> shift != self.tail >> shift:
            self.forest.pages.settle(self.tail)
        if head >> shift != self.head >> shift:
            self.forest.drop_below(self.head)

    def resume(self, tails: list[Tail], head: int, tail: int, oldest: Any, youngest: Any) -> None:
        """An empty tree becomes what a version says; its pages are in the store."""
        self.forest.tails = tails
        self.head, self.tail, self.oldest, self.youngest = head, tail, oldest, youngest
        self.stack, self.since = Stack(self.forest, tail), head
        self.r0 = UNKNOWN if head < tail else NOTHING
        self.forest.drop_below(head)
