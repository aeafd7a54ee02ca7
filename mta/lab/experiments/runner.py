"""Running experiments: the cases that are still to run, one after the other, and then figures and a page."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from mta.lab.experiments.experiment import Case, Experiment, Record, Scale, text_of
from mta.lab.experiments.page import write_page
from mta.lab.experiments.process import FINISHED
from mta.lab.experiments.registry import ENTRIES
from mta.lab.experiments.results import Results
from mta.lab.signals import terminable

STYLES = {FINISHED: "green", "too slow": "yellow"}


def run(
    experiments: Sequence[Experiment],
    scale: Scale,
    out: Path,
    options: Sequence[argparse.Namespace],
    console: Console | None = None,
) -> bool:
    """Runs experiments, each with its options; whether all runs finished or ended as runs of theirs may."""
    console = console or Console()
    out.mkdir(parents=True, exist_ok=True)
    good = True
    with terminable():
        for experiment, own in zip(experiments, options, strict=True):
            used = Scale(scale.quick, scale.paper and experiment.has_paper)
            results = Results(experiment, used, out)
            todo = experiment.cases(used, own)
            results.resume(todo)
            _run_cases(results, todo, own, console)
            experiment.show(console, results.records, used)
            for file in results.write():
                console.print(f"wrote {file}", markup=False, highlight=False, soft_wrap=True)
            good = good and all(record["outcome"] != "failed" for record in results.records)
    console.print(f"wrote {write_page(out)}", markup=False, highlight=False, soft_wrap=True)
    return good


def _run_cases(results: Results, todo: Sequence[Case], options: argparse.Namespace, console: Console) -> None:
    experiment = results.experiment
    console.print(
        f"[bold]{experiment.name}[/]: {ENTRIES[experiment.name].about}", highlight=False, soft_wrap=True
    )
    for number, case in enumerate(todo, 1):
        say = _Progress(console, f"{number:2}/{len(todo)}  {experiment.title(case)}")
        if results.has(case):
            say.told("had before")
            continue
        if experiment.needless(case, results.records):
            say.told("left out: earlier runs tell how it would end")
            continue
        record = say.during(experiment, case, experiment.seconds(case, options))
        results.add(record)
        experiment.check(results.records)


class _Progress:
    """The line of one run: replaced while it goes on in a terminal, printed once elsewhere."""

    def __init__(self, console: Console, text: str) -> None:
        self._console, self._text, self._began = console, text, time.monotonic()

    def during(self, experiment: Experiment, case: Case, seconds: float) -> Record:
        if not self._console.is_terminal:
            record = experiment.perform(case, seconds, lambda _: None)
        else:
            with self._console.status(self._text) as status:

                def tell(told: dict[str, Any]) -> None:
                    passed = time.monotonic() - self._began
                    more = f", {text_of(told)}" if told else ""
                    status.update(f"{self._text}: {passed:.0f} s{more}")

                record = experiment.perform(case, seconds, tell)
        self._say(experiment.ended(record), STYLES.get(record["outcome"], "red"))
        return record

    def told(self, text: str) -> None:
        self._say(text, "dim")

    def _say(self, text: str, style: str) -> None:
        self._console.print(f"{self._text}: ", end="", markup=False, highlight=False, soft_wrap=True)
        self._console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)
