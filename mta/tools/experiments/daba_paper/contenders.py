"""Who is compared in the DABA paper's experiments."""

from __future__ import annotations

from collections.abc import Callable
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
from mta.tools.experiments.operators import OPERATORS
from mta.tools.experiments.rounds import Anew


class Contender(NamedTuple):
    title: str
    kind: Callable[..., Any]


CONTENDERS = {
    "recalc": Contender("Recalculate", Recalculate),
    "reactive": Contender("Reactive Aggregator", ReactiveAggregator),
    "two-stacks": Contender("Two-Stacks", TwoStacks),
    "foa": Contender("Functional Okasaki", FunctionalOkasaki),
    "ioa": Contender("Imperative Okasaki", ImperativeOkasaki),
    "daba": Contender("DABA", DABA),
    "amta": Contender("Amortized MTA, in memory", AmortizedMTA),
}


def window_of(name: str, operator: str) -> Any:
    """A window of a contender, empty. Recalculation is without an operator where that is better."""
    made = OPERATORS[operator]
    if name == "recalc" and made.anew is not None:
        return Anew(made.anew)
    return CONTENDERS[name].kind(made.monoid())
