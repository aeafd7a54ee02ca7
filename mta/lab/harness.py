"""Runs benchmarks and experiments: shows how far they are, and writes what they have measured.

A benchmark measures its sections in this process, over stores that the harness opens. An experiment runs its
cases in processes of their own, goes on where an earlier run has stopped, and draws figures.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from mta.cli.options import named_store
from mta.lab.bench.report import FORMAT, Section, show
from mta.lab.experiments.experiment import Case, Experiment, Record, Scale, text_of
from mta.lab.experiments.page import write_page
from mta.lab.experiments.registry import ENTRIES
from mta.lab.experiments.results import Results
from mta.lab.machine import load_average, provenance
from mta.lab.own_process import FAILED, FINISHED, TOO_SLOW
from mta.lab.servers import redis_server
from mta.lab.signals import terminable
from stores import Store, open_store

STYLES = {FINISHED: "green", TOO_SLOW: "yellow"}


@contextmanager
def status_line(console: Console, text: str) -> Iterator[Callable[[str], None] | None]:
    """A line on a terminal, and the function that replaces it; None where the console is no terminal."""
    if console.is_terminal:
        with console.status(text) as status:
            yield status.update
    else:
        yield None


# -- benchmarks -------------------------------------------------------------------------------------------


@dataclass
class Setting:
    """The stores that the sections of a benchmark measure, how large they are, and a line of progress."""

    quick: bool
    redis_url: str
    rocksdb: Store
    redis: Store
    say: Callable[[str], None]

    @property
    def page_size(self) -> int | None:
        """Small where windows are small, since a window that fits in its first pages never meets a store."""
        return 256 if self.quick else None

    def stores(self, stack: ExitStack) -> dict[str, Store | None]:
        """Under the names that the tables have for them. The memory: store lasts as long as the stack."""
        return {
            "in memory": None,
            "memory:": stack.enter_context(open_store("memory:")),
            "rocksdb": self.rocksdb,
            "redis": self.redis,
        }


Measure = Callable[[Setting], Section]


def run_benchmark(
    benchmark: str,
    measures: Sequence[Measure],
    *,
    quick: bool,
    redis_url: str | None,
    json_file: Path | None,
    out: Console | None,
    with_stores: bool = True,
) -> dict[str, Any]:
    """Measures, prints tables to `out`, and returns what `json_file` gets.

    Without stores no server is started: those of the setting are in memory.
    """
    out = out or Console()
    # known now rather than after minutes
    if json_file is not None and not json_file.absolute().parent.is_dir():
        raise FileNotFoundError(f"--json {json_file}: there is no directory {json_file.absolute().parent}")
    found = provenance()
    machine = found["machine"]
    out.print(f"{machine['processor']}, {machine['cores']} cores, Python {machine['python']}", markup=False)
    if quick:
        out.print("quick: tiny sizes, to see that everything runs; the figures mean nothing")
    out.print()
    sections: list[Section] = []
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mta-bench-")))
        if with_stores:
            url = redis_url or stack.enter_context(redis_server())
            redis = stack.enter_context(named_store(url))
            redis.get_many(["reachable"])
            rocksdb = stack.enter_context(open_store(f"rocksdb://{directory}"))
        else:
            url = "memory:"
            redis = rocksdb = stack.enter_context(open_store(url))
        progress = Console(stderr=True)
        update = stack.enter_context(status_line(progress, "starting"))
        say = update or partial(progress.print, markup=False, highlight=False)
        setting = Setting(quick, url, rocksdb, redis, say)
        for measure in measures:
            section = measure(setting)
            show(out, section)
            sections.append(section)
    record = _record(benchmark, quick, found, sections)
    out.print(_verdict(record, quick))
    if json_file is not None:
        json_file.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    return record


def _record(benchmark: str, quick: bool, found: dict[str, Any], sections: list[Section]) -> dict[str, Any]:
    verdicts = [line.passed for section in sections for line in section.lines]
    return {
        "format": FORMAT,
        "benchmark": benchmark,
        "quick": quick,
        **found,
        "load_average": load_average(),
        "targets": {"passed": verdicts.count(True), "failed": verdicts.count(False)},
        "sections": {section.name: section.record() for section in sections},
    }


def _verdict(record: dict[str, Any], quick: bool) -> str:
    passed, failed = record["targets"]["passed"], record["targets"]["failed"]
    if quick or not passed + failed:
        return "no targets judged"
    missed = [
        f"  {line['section']}: {line['subject']}, {line['contender']}"
        for section in record["sections"].values()
        for line in section["lines"]
        if line["passed"] is False
    ]
    return "\n".join(
        [f"{passed} of {passed + failed} targets met", *(["missed:", *missed] if missed else [])]
    )


# -- experiments ------------------------------------------------------------------------------------------


def run_experiments(
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
            good = good and all(record["outcome"] != FAILED for record in results.records)
    console.print(f"wrote {write_page(out)}", markup=False, highlight=False, soft_wrap=True)
    return good


def _run_cases(results: Results, todo: Sequence[Case], options: argparse.Namespace, console: Console) -> None:
    experiment = results.experiment
    console.print(
        f"[bold]{experiment.name}[/]: {ENTRIES[experiment.name].about}", highlight=False, soft_wrap=True
    )
    for number, case in enumerate(todo, 1):
        line = _CaseLine(console, f"{number:2}/{len(todo)}  {experiment.title(case)}")
        if results.has(case):
            line.skip("had before")
            continue
        if experiment.needless(case, results.records):
            line.skip("left out: earlier runs tell how it would end")
            continue
        record = line.during(experiment, case, experiment.seconds(case, options))
        results.add(record)
        experiment.check(results.records)


class _CaseLine:
    """The line of one case: replaced while the case runs on a terminal, and printed at its end."""

    def __init__(self, console: Console, text: str) -> None:
        self._console, self._text, self._began = console, text, time.monotonic()

    def during(self, experiment: Experiment, case: Case, seconds: float) -> Record:
        with status_line(self._console, self._text) as update:

            def tell(progress: dict[str, Any]) -> None:
                if update is not None:
                    passed = time.monotonic() - self._began
                    more = f", {text_of(progress)}" if progress else ""
                    update(f"{self._text}: {passed:.0f} s{more}")

            record = experiment.perform(case, seconds, tell)
        self._end(experiment.ended(record), STYLES.get(record["outcome"], "red"))
        return record

    def skip(self, reason: str) -> None:
        self._end(reason, "dim")

    def _end(self, text: str, style: str) -> None:
        self._console.print(f"{self._text}: ", end="", markup=False, highlight=False, soft_wrap=True)
        self._console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)
