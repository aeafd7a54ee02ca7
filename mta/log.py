"""Log MTA (Villalba, Berral, Carrera: IEEE TPDS 2019, section 4.1).

No Stack and no Result Pair: a query folds the O(log n) nodes of the binary trees that cover the window, those
of the left spine up from the head and those of the right spine down to the tail.
"""

from __future__ import annotations

from typing import Any

from mta.batch import Outcome
from mta.enforcement import NEAR
from mta.forest import Piece
from mta.stack import Stack
from mta.states import NOTHING
from mta.window import Added, Front, MonoidTreeAggregator


class LogMTA(MonoidTreeAggregator):
    """A sliding window whose insertions, evictions of any number and queries each take O(log n)."""

    def _total(self) -> Any:
        if self._head == self._tail:
            return self.monoid.identity
        return self._forest.fold_nodes(self._head, self._tail)

    def _ready(self) -> Any:
        return None

    def _stepped(self, k: int) -> Any:  # noqa: ARG002
        return None

    def _sought(self, head: int) -> tuple[list[Any], Any]:
        page_end = ((head >> self._forest.shift) + 1) << self._forest.shift
        self._forest.load_cover(head, self._tail)
        near = head <= self._head + NEAR
        stop = min(page_end, self._tail) if near else head + 1
        leaves = self._forest.read([Piece(0, head, stop)])[0]
        times: list[Any] = leaves.times.tolist()
        times.reverse()
        return times, None

    def _nothing_ready(self, head: int) -> Any:  # noqa: ARG002
        return None

    def _ready_after(self, outcome: Outcome) -> Any:  # noqa: ARG002
        return None

    def _with_state(self, front: Front, state: Any) -> tuple[Any, Any]:
        return NOTHING, self._layout.join(self._forest.fold_nodes(front.head, self._tail), state)

    def _walker(self) -> Stack:
        return Stack(self._forest, self._tail)

    def _kept_younger(self, front: Front) -> Any:  # noqa: ARG002
        return NOTHING

    def _followed_by(self, younger: Any, state: Any) -> Any:  # noqa: ARG002
        return NOTHING

    def _commit(self, front: Front, added: Added) -> None:
        head, oldest, ahead, left, _ = front
        tails, times, entries, tail, youngest, _ = added
        forest, leaves = self._forest, tails[0]
        leaf_times, leaf_entries = leaves.times, leaves.entries
        # nothing is called from here on
        del ahead[left:]
        leaf_times += times
        leaf_entries += entries
        forest.tails = tails
        self._head, self._oldest, self._ahead = head, oldest, ahead
        self._tail, self._youngest = tail, youngest
