"""The keeper: keeps elements of a log longer than its windows need them."""

from __future__ import annotations

from typing import Any
from weakref import ref

from mta.core.log import Log, Piece
from mta.core.view import Front, Sums
from mta.kinds import Time


class Keeper:
    """Keeps elements for questions about the past: a view without an aggregate, from `head` to the tail.

    Elements that a user has evicted are gone, however long they were to be kept. As long as the head is where
    a user's eviction left it, the keeper is saved as a view that ends at its head.
    """

    def __init__(self, log: Log, keep: Time) -> None:
        self._log, self.keep = log, keep
        self.head = 0
        #: whether the head is where a user's eviction left it
        self.evicted = False
        #: the page of the oldest head of all windows when this was last looked at
        self.page = 0
        log.views.append(ref(self))

    @property
    def oldest(self) -> Any:
        """The time of the element at the head."""
        return self._log.read([Piece(0, self.head, self.head + 1)])[0].times.tolist()[0]

    @property
    def end(self) -> int:
        return self.head if self.evicted else self._log.tail

    def __len__(self) -> int:
        return self.end - self.head

    def apply(self, front: Front, _sums: Sums, end: int) -> None:
        """Gives up the elements before a front; a part of a commit. Ends there after a user's eviction."""
        self.head, self.evicted = front.head, front.head == end

    @property
    def follower(self) -> Keeper:
        """Nothing is read ahead."""
        return self

    def head_at(self, page: int) -> None:
        pass

    def resume(self, head: int, end: int, _oldest: Any) -> None:
        self.head, self.evicted = head, 0 < head == end
