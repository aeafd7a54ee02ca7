"""What is measured for each figure and table of the Reactive Aggregator paper, but for two of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

from mta.baselines import BaseIntervals, ReactiveAggregator, Recalculate
from mta.lab.experiments.experiment import Case, Row, Tell
from mta.lab.experiments.operators import OPERATORS, elements_of
from mta.lab.turns import RecomputedWindow, Rounds, rounds_in_turns

#: The paper's ISS computes the aggregate of the window anew; its AW is B-Int, of Arasu and Widom.
TITLES = {"iss": "Recalculate", "ra": "Reactive Aggregator", "aw": "B-Int"}
KINDS: dict[str, Any] = {"iss": Recalculate, "ra": ReactiveAggregator, "aw": BaseIntervals}

#: Aggregations of the paper's table 3.
TABLE_3 = (
    *("count", "sum", "sum-double", "max", "max-double", "mean", "mincount"),
    *("stddev", "popstddev", "argmax", "argmax-double", "collect"),
)
LARGEST = 1 << 20


class Plan(NamedTuple):
    """Contenders and operators, at sizes of the window, and how much comes in before each query."""

    operators: Sequence[str]
    who: Sequence[str]
    sizes: Sequence[int]
    #: a number, or a part of the window
    batches: Sequence[str] = ("1",)


def powers(least: int, most: int, step: int = 1) -> tuple[int, ...]:
    return tuple(1 << power for power in range(least, most + 1, step))


PLANS = {
    "table-3": Plan(TABLE_3, ("iss", "ra"), powers(0, 14)),
    "figure-7": Plan(("max", "stddev"), ("ra",), powers(0, 20, 2)),
    "figure-8": Plan(("max", "stddev"), ("ra", "iss"), powers(0, 12, 2), ("n",)),
    "figure-10": Plan(("stddev",), ("ra",), powers(0, 14, 2), ("1", "4", "64", "n/16", "n/4", "n")),
    "figure-11": Plan(("max",), ("ra", "aw"), powers(0, 20, 4), ("1", "n/16")),
    "table-4": Plan(("sum", "max", "mean", "mincount", "popstddev"), ("ra", "aw"), (8, 1 << 13, LARGEST)),
}
#: Sizes of a quick run.
QUICK = 1 << 8
#: Seconds of processor time that a contender has at a size.
SECONDS, QUICK_SECONDS = 0.1, 0.001


def cases(quick: bool) -> Iterator[Case]:
    seconds = QUICK_SECONDS if quick else SECONDS
    for name, plan in PLANS.items():
        sizes = [size for size in plan.sizes if size <= QUICK][::3] if quick else list(plan.sizes)
        yield {"part": name, "operators": list(plan.operators), "sizes": sizes, "seconds": seconds}


def measure(case: Case, tell: Tell) -> list[Row]:
    """Nanoseconds of processor time for each element that came in. No round is dear beside the others."""
    plan = PLANS[case["part"]]
    rows = []
    for operator, size, batch in product(case["operators"], case["sizes"], plan.batches):
        count = count_of(batch, size)
        if not 1 <= count <= size:
            continue
        tell({"operator": operator, "size": size, "batch": batch})
        elements = elements_of(operator)
        windows = {
            who: Rounds(window_of(who, operator), elements, size, count, steady=True) for who in plan.who
        }
        for who, ns in rounds_in_turns(windows, case["seconds"]).items():
            rows.append(
                {"operator": operator, "contender": who, "size": size, "batch": batch, "ns": ns / count}
            )
    return rows


def window_of(who: str, operator: str) -> Any:
    made = OPERATORS[operator]
    if who == "iss" and made.anew is not None:
        return RecomputedWindow(made.anew)
    return KINDS[who](made.monoid())


def count_of(batch: str, size: int) -> int:
    """A batch as a number of elements; 0 where the window is too small for such a part of it."""
    part, _, divisor = batch.partition("/")
    return int(part) if part != "n" else size // int(divisor or 1)
