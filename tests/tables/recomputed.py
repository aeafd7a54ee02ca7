"""What `rolling` promises, written down for plain lists of rows; and an operator to try it with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from mta import monoids


class Row(NamedTuple):
    key: Any
    time: int
    a: int
    label: str


class Frame(NamedTuple):
    """Limits that all hold an element that is in the window; None for no limit."""

    count: int | None = None
    d: int | None = None
    closed: str = "right"
    delay: int = 0
    least: int = 0

    def holds(self, index: int, time: int, tail: int, moment: int) -> bool:
        if self.count is not None and index < tail - self.count:
            return False
        if self.d is None:
            return True
        end = moment - self.delay
        start = end - self.d
        return (start < time or (start == time and self.closed in ("both", "left"))) and (
            time < end or (time == end and self.closed in ("both", "right"))
        )


Fold = Callable[[list[Row]], Any]


class Recomputed:
    """Takes batches of rows, and gives for each row of a batch the result of each aggregate."""

    def __init__(self, aggregates: dict[str, tuple[Frame, Fold]]) -> None:
        self._aggregates = aggregates
        self._rows: dict[Any, list[Row]] = defaultdict(list)

    def append(self, batch: Sequence[Row]) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {name: [None] * len(batch) for name in self._aggregates}
        for number in sorted(range(len(batch)), key=lambda number: batch[number].time):
            row = batch[number]
            rows = self._rows[row.key]
            rows.append(row)
            for name, (frame, fold) in self._aggregates.items():
                held = [
                    each for at, each in enumerate(rows) if frame.holds(at, each.time, len(rows), row.time)
                ]
                found[name][number] = None if len(held) < frame.least else fold(held)
        return found


class Affine(monoids.ColumnarMonoid):
    """Compositions of x -> a x + b modulo a prime, which neither commute nor lose what they hold."""

    identity, width, prime = (1, 0), 2, 10_007

    def lift_row(self, row: Any) -> Any:
        return (row % 97 + 1, row % 89)

    def combine(self, older: Any, younger: Any) -> Any:
        (a, b), (c, d) = older, younger
        return (a * c % self.prime, (b * c + d) % self.prime)

    def lift_columns(self, inputs: Any) -> Any:
        return (inputs[0] % 97 + 1, inputs[0] % 89)

    def combine_columns(self, older: Any, younger: Any) -> Any:
        return self.combine(older, younger)

    def lower(self, state: Any) -> Any:
        return state[1]

    def lower_columns(self, states: Any) -> Any:
        return states[1]
