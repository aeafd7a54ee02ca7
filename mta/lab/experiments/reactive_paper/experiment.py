"""The experiments of the Reactive Aggregator paper: figures 6 to 12, and tables 3 and 4."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from mta.lab.experiments.experiment import Case, Exhibit, Experiment, Record, Row, Scale, Tell
from mta.lab.experiments.reactive_paper import costs, plans, special, tables


class Reactive(Experiment):
    name = "reactive"

    def cases(self, scale: Scale, options: argparse.Namespace) -> list[Case]:  # noqa: ARG002
        return [*plans.cases(scale.quick), *special.cases(scale.quick)]

    def title(self, case: Case) -> str:
        return f"{case['part']}, {case['who']}, {case['size']:,}" if "who" in case else str(case["part"])

    def measure(self, case: Case, tell: Tell) -> list[Row]:
        measure = plans.measure if case["part"] in plans.PLANS else special.measure
        return measure(case, tell)

    def rows(self, record: Record) -> list[Row]:
        return [{"part": record["case"]["part"], **row} for row in record["rows"]]

    def exhibits(self, records: Sequence[Record]) -> list[Exhibit]:
        parts: dict[str, list[Row]] = {}
        for record in records:
            for row in self.rows(record):
                parts.setdefault(row["part"], []).append(row)
        return [
            exhibit
            for part, makers in MAKERS.items()
            if part in parts
            for make in makers
            if (exhibit := make(parts[part])) is not None
        ]


#: The figures of each part.
MAKERS = {
    "table-3": (costs.throughput, tables.break_even_points),
    "figure-7": (costs.logarithmic,),
    "figure-8": (costs.tumbling,),
    special.RESIZING: (costs.resizing,),
    "figure-10": (costs.granularity,),
    "figure-11": (costs.base_intervals,),
    "table-4": (tables.relative,),
    special.RESIDENT: (costs.resident,),
}

EXPERIMENT = Reactive()
