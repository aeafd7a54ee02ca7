"""One run of a benchmark: servers, sections, tables, targets, JSON."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from mta.cli.named_store import named_store
from mta.lab.bench.measure import load_average, machine, versions
from mta.lab.bench.report import FORMAT, Section, show
from mta.lab.bench.servers import redis_server
from mta.lab.bench.setting import Setting
from stores import open_store

Measure = Callable[[Setting], Section]


def run_sections(
    benchmark: str,
    measures: Sequence[Measure],
    *,
    quick: bool,
    redis_url: str | None,
    json_file: Path | None,
    out: Console | None,
) -> dict[str, Any]:
    """Measures, prints tables to `out`, and returns what `json_file` gets."""
    out = out or Console()
    progress = Console(stderr=True)
    # known now rather than after minutes
    if json_file is not None and not json_file.absolute().parent.is_dir():
        raise FileNotFoundError(f"--json {json_file}: there is no directory {json_file.absolute().parent}")
    started = datetime.now(UTC).isoformat(timespec="seconds")
    about = machine()
    out.print(f"{about['processor']}, {about['cores']} cores, Python {about['python']}", markup=False)
    if quick:
        out.print("quick: tiny sizes, to see that everything runs; the figures mean nothing")
    out.print()
    sections: list[Section] = []
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mta-bench-")))
        url = redis_url or stack.enter_context(redis_server())
        redis = stack.enter_context(named_store(url))
        redis.get_many(["reachable"])
        rocksdb = stack.enter_context(open_store(f"rocksdb://{directory}"))
        status = stack.enter_context(progress.status("starting")) if progress.is_terminal else None

        def say(text: str) -> None:
            if status is None:
                progress.print(text, markup=False, highlight=False)
            else:
                status.update(text)

        setting = Setting(quick, url, rocksdb, redis, say)
        for measure in measures:
            section = measure(setting)
            show(out, section)
            sections.append(section)
    record = _record(benchmark, started, quick, about, sections)
    out.print(_verdict(record, quick))
    if json_file is not None:
        json_file.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    return record


def _record(
    benchmark: str, started: str, quick: bool, about: dict[str, Any], sections: list[Section]
) -> dict[str, Any]:
    verdicts = [line.passed for section in sections for line in section.lines]
    return {
        "format": FORMAT,
        "benchmark": benchmark,
        "started": started,
        "quick": quick,
        "machine": about,
        "load_average": load_average(),
        "versions": versions(),
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
