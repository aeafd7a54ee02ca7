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
from mta.window import MonoidTreeAggregator


class LogMTA(MonoidTreeAggregator):
    """A sliding window whose insertions, evictions of any number and queries each take O(log n)."""

    def _total(self) -> Any:
        if self._head == self._tail:
            return self.monoid.identity
        return self._forest.fold_nodes(self._head, self._tail)

    def _insert(self, row: Any, state: Any, time: Any) -> None:  # noqa: ARG002
        self._forest.append(time, row)
        if self._tail == self._head:
            self._oldest = time
        self._tail += 1
        self._youngest = time

    def _older(self, head: int) -> Any:
        return self._forest.fold_nodes(head, self._tail)

    def _insert_and_answer(self, row: Any, state: Any, time: Any, older: Any) -> Any:
        total = self._layout.join(older, state)
        self._insert(row, state, time)
        return total

    def _extended(self, younger: Any) -> None:
        pass

    def _step(self, k: int) -> None:
        pass

    def _seek(self, head: int) -> list[Any]:
        page_end = ((head >> self._forest.shift) + 1) << self._forest.shift
        self._forest.load_cover(head, self._tail)
        near = head <= self._head + NEAR
        stop = min(page_end, self._tail) if near else head + 1
        leaves = self._forest.read([Piece(0, head, stop)])[0]
        times: list[Any] = leaves.times.tolist()
        times.reverse()
        return times

    def _clear(self) -> None:
        pass

    def _walker(self) -> Stack:
        return Stack(self._forest)

    def _younger(self) -> Any:
        return NOTHING

    def _adopt(self, outcome: Outcome) -> None:
        pass
