"""The plan of a job: all that its tasks need to know of a call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spark_integration.aggregates.inputs import Input
from spark_integration.aggregates.parts import Aggregate, Part
from spark_integration.aggregates.programs import Program, programs
from spark_integration.call.frames import Frame


@dataclass(frozen=True)
class Plan:
    """All that a task has to know. It travels with the job, so it holds no credentials."""

    keys: tuple[Input, ...]
    #: the first one is the time
    order: tuple[Input, ...]
    frame: Frame
    aggregates: tuple[Aggregate, ...]
    store: str
    store_options: Mapping[str, Any]
    algorithm: str
    page_size: int | None
    zone: str
    metered: bool = False

    @property
    def parts(self) -> list[Part]:
        return [part for aggregate in self.aggregates for part in aggregate.parts]

    @property
    def row_by_row(self) -> bool:
        """Whether windows take rows one by one: rows before one that fails are then in the window."""
        return self.algorithm == "daba" or self.frame.by_predicate

    def programs(self) -> list[Program]:
        return programs(self.parts, plain=self.row_by_row, checked=self.frame.by_predicate)
