"""Who is compared in the DABA paper's experiments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from mta import AmortizedMTA
from mta.baselines import (
    DABA,
    FunctionalOkasaki,
    ImperativeOkasaki,
    ReactiveAggregator,
    Recalculate,
    TwoStacks,
)
from mta.lab.experiments.operators import OPERATORS
from mta.lab.turns import RecomputedWindow, Rounds


class Contender(NamedTuple):
    title: str
    kind: Callable[..., Any]
    #: whether every round costs about the same
    steady: bool = False


CONTENDERS = {
    "recalc": Contender("Recalculate", Recalculate, steady=True),
    "reactive": Contender("Reactive Aggregator", ReactiveAggregator, steady=True),
    "two-stacks": Contender("Two-Stacks", TwoStacks),
    "foa": Contender("Functional Okasaki", FunctionalOkasaki),
    "ioa": Contender("Imperative Okasaki", ImperativeOkasaki),
    "daba": Contender("DABA", DABA),
    "amta": Contender("Amortized MTA, in memory", AmortizedMTA),
}

#: Elements of a page in quick runs, which measure whole pages too.
QUICK_PAGE = 16


def window_of(name: str, operator: str, page_size: int | None = None) -> Any:
    """A window of a contender, empty. Recalculation is without an operator where that is better."""
    made, kind = OPERATORS[operator], CONTENDERS[name].kind
    if name == "recalc" and made.anew is not None:
        return RecomputedWindow(made.anew)
    return kind(made.monoid(), page_size=page_size) if kind is AmortizedMTA else kind(made.monoid())


def rounds_of(name: str, operator: str, elements: Sequence[Any], size: int, page_size: int | None) -> Rounds:
    """A full window of a contender, and what comes into it."""
    window = window_of(name, operator, page_size)
    return Rounds(window, elements, size, steady=CONTENDERS[name].steady)
