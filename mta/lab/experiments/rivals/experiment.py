"""Ours beside what a user would take instead, by the size of the window: time, memory, and what is held."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from mta.lab.experiments.experiment import Case, Disagreement, Exhibit, Experiment, Record, Row, Scale, Tell
from mta.lab.experiments.rivals import figures
from mta.lab.experiments.rivals.entrants import CONTENDERS, SLOW, SUMS, missing, places_of
from mta.lab.experiments.rivals.values import last_of

QUICK_SIZES = (10**2, 10**3)
#: Rows at least, and rows beyond a window that is large.
LEAST, QUICK_LEAST, BEYOND = 10**6, 10**4, 10**7


class Rivals(Experiment):
    name = "rivals"
    told = ("pyspark", "river")
    adds_up = True  # what was run with an option stays where it is not given

    def __init__(self) -> None:
        self._places: dict[str, Path | None] = {}

    def cases(self, scale: Scale, options: argparse.Namespace) -> list[Case]:
        self._places = places_of(options.swag, options.flink)
        for why, titles in missing(self._places).items():
            print(f"mta: left out, as {why}: {'; '.join(titles)}", file=sys.stderr)
        least = QUICK_LEAST if scale.quick else LEAST
        return [
            {"contender": name, "window": size, "rows": min(each.rows, max(least, size + min(size, BEYOND)))}
            for name, each in CONTENDERS.items()
            if not each.missing(self._places) and not (scale.quick and name in SLOW)
            for size in (QUICK_SIZES if scale.quick else each.sizes)
        ]

    def title(self, case: Case) -> str:
        title = CONTENDERS[case["contender"]].title
        return f"{title}, window {case['window']:,}, {case['rows']:,} rows"

    def seconds(self, case: Case, options: argparse.Namespace) -> float:  # noqa: ARG002
        return 300.0

    def perform(self, case: Case, seconds: float, tell: Tell) -> Record:
        """Where something is on this machine is told to the run, and stays out of the results."""
        place = self._places.get(CONTENDERS[case["contender"]].place)
        run = case if place is None else {**case, "place": str(place)}
        return {**super().perform(run, seconds, tell), "case": case}

    def measure(self, case: Case, tell: Tell) -> list[Row]:
        name, rows, window = case["contender"], case["rows"], case["window"]
        tell({"rows": rows})
        places = (Path(case["place"]),) if "place" in case else ()
        found = CONTENDERS[name].measure(rows, window, *places)
        right = last_of(rows, window)
        if name not in SUMS and found["last"] != right:
            raise AssertionError(f"{name} ends with {found['last']}, not with {right}")
        return [{**found, "ns": found["seconds"] / rows * 1e9}]

    def check(self, records: Sequence[Record]) -> None:
        """Both of Spark's frames have the same sum over the same rows."""
        sums: dict[tuple[int, int], float] = {}
        for record in records:
            for row in self.rows(record):
                if row["contender"] in SUMS:
                    key = (row["window"], row["rows"])
                    if sums.setdefault(key, row["last"]) != row["last"]:
                        raise Disagreement(f"Spark's sums at {key} are {row['last']} and {sums[key]}")

    def rows(self, record: Record) -> list[Row]:
        return [{**row, "peak_bytes": record["peak_bytes"]} for row in super().rows(record)]

    def exhibits(self, records: Sequence[Record]) -> list[Exhibit]:
        return figures.exhibits([row for record in records for row in self.rows(record)])


EXPERIMENT = Rivals()
