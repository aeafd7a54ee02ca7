"""In-memory sliding-window aggregators with one interface, one module for each algorithm.

The most combines of each call, for a window of n elements:

| class | query | insertion | eviction | needs |
| --- | --- | --- | --- | --- |
| Recalculate | n - 1 | 0 | 0 | |
| SubtractOnEvict | 0 | 1 | 1 | an inverse |
| TwoStacks | 1 | 1 | n - 1, on average < 1 | |
| FunctionalOkasaki, ImperativeOkasaki | 1 | 4 | 3 | |
| DABA | 1 | 4, on average 2.5 | 3, on average 1.5 | |
| DABA(cached=True) | 1 | 3, on average 2 | 2, on average 1 | |
| ReactiveAggregator | O(m + m·log(n/m)) after m changes | 0 | 0 | |
| BaseIntervals | 2·log2(n) | log2(n), on average < 1 | 0 | |
"""

from mta.baselines.base import Baseline
from mta.baselines.base_intervals import BaseIntervals
from mta.baselines.daba import DABA
from mta.baselines.flatfat import FlatFAT
from mta.baselines.functional_okasaki import FunctionalOkasaki
from mta.baselines.imperative_okasaki import ImperativeOkasaki
from mta.baselines.reactive import ReactiveAggregator
from mta.baselines.recalculate import Recalculate
from mta.baselines.subtract import SubtractOnEvict
from mta.baselines.two_stacks import TwoStacks

__all__ = [
    "DABA",
    "BaseIntervals",
    "Baseline",
    "FlatFAT",
    "FunctionalOkasaki",
    "ImperativeOkasaki",
    "ReactiveAggregator",
    "Recalculate",
    "SubtractOnEvict",
    "TwoStacks",
]
