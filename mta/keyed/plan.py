"""What the windows of all keys compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mta.core.limits import Limits
from mta.keyed.block import Shape
from mta.keyed.group import SHORT_WINDOW, Program
from mta.policies import Policy
from mta.window import MonoidTreeAggregator


@dataclass(frozen=True)
class KeyedPlan:
    """Each key has one window for each program; all of them are under one frame."""

    shape: Shape
    programs: Sequence[Program]
    #: of each program; the same but for what their predicates see
    policies: Sequence[Policy]
    page_sizes: Sequence[int]
    #: of windows whose pages are in the store
    algorithm: type[MonoidTreeAggregator]

    @cached_property
    def limits(self) -> Limits:
        return self.policies[0].limits()

    @cached_property
    def most_rows(self) -> int:
        """The most rows of a window that is kept with those of other keys."""
        return min(SHORT_WINDOW, *self.page_sizes)


def elements(columns: Mapping[str, Any], count: int) -> Any:
    """The columns of a block as a batch of elements."""
    return columns if columns else np.ones(count, dtype=np.int64)
