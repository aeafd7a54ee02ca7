"""What the memory experiment shows in a terminal: a line for each run, and a table in the end."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from mta.lab.experiments.spark_memory.one_run import JobCase
from mta.lab.experiments.spark_memory.runs import NO_HEAP, NO_WORKER, JobRun
from mta.lab.own_process import FAILED, FINISHED, TOO_SLOW

TITLES = {
    "rolling-rocksdb": "rolling over RocksDB",
    "rolling-redis": "rolling over Redis",
    "rolling-daba": 'rolling, algorithm="daba"',
    "pandas": "applyInPandas, pandas rolling",
    "spark-window": "Spark window, default frame",
    "spark-segment-tree": "Spark window, segment tree",
}
STYLES = {FINISHED: "green", NO_HEAP: "red", NO_WORKER: "red", TOO_SLOW: "yellow", FAILED: "red"}
#: The claim: resident MiB of a Python worker at the least heap, whatever the window.
WORKER_TARGET = 160


def size(megabytes: int) -> str:
    """As Spark writes it."""
    return f"{megabytes // 1024}g" if megabytes % 1024 == 0 else f"{megabytes}m"


def mebibytes(size: int) -> int:
    """Rounded up, so that what is held against a limit is never flattered."""
    return -(-size // (1 << 20))


def count(rows: int) -> str:
    return f"{rows // 10**6} M" if rows % 10**6 == 0 else f"{rows:,}"


def rate(rows_a_second: float | None) -> str:
    if rows_a_second is None:
        return ""
    return f"{rows_a_second / 1000:,.0f} k/s" if rows_a_second >= 10_000 else f"{rows_a_second:,.0f}/s"


def limits(case: JobCase) -> str:
    return f"heap {size(case.heap)}" + ("" if case.worker is None else f", worker {size(case.worker)}")


def title(case: JobCase) -> str:
    return f"{TITLES[case.contender]}, {count(case.rows)} rows, {limits(case)}"


def ended(run: JobRun) -> str:
    more = [text for text in (rate(run.rows_a_second), _megabytes("worker", run.worker_peak)) if text]
    return ", ".join([run.outcome, *more])


def _megabytes(what: str, peak: int) -> str:
    return f"{what} {mebibytes(peak)} MiB" if peak else ""


# -- in the end -------------------------------------------------------------------------------------------


def show(console: Console, runs: Sequence[JobRun], *, judged: bool) -> None:
    for rows in dict.fromkeys(each.case.rows for each in runs):
        some = [each for each in runs if each.case.rows == rows]
        _show_table(console, some)
        if judged:
            _show_workers(console, some)


def _show_table(console: Console, runs: Sequence[JobRun]) -> None:
    first = runs[0].case
    console.print()
    console.print(
        f"[bold]{count(first.rows)} rows of one key, window of {count(first.window)}[/]; "
        "peaks are of resident memory, in MiB",
        highlight=False,
    )
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("", no_wrap=True)
    table.add_column("", no_wrap=True)
    for heading in ("rows", "worker", "JVM"):
        table.add_column(heading, justify="right", no_wrap=True)
    title = ""
    for run in sorted(runs, key=_order):
        if TITLES[run.case.contender] != title:
            title = TITLES[run.case.contender]
            table.add_row(f"[bold]{title}[/]")
        peaks = [str(mebibytes(peak)) if peak else "" for peak in (run.worker_peak, run.jvm_peak)]
        outcome = f"[{STYLES[run.outcome]}]{run.outcome}[/]"
        table.add_row(f"  {limits(run.case)}", outcome, rate(run.rows_a_second), *peaks)
    console.print(table)
    for reason in dict.fromkeys(f"{each.outcome}: {each.reason}" for each in runs if each.reason):
        console.print(reason[:200], markup=False, highlight=False)


def _order(run: JobRun) -> tuple[int, int, int]:
    return list(TITLES).index(run.case.contender), run.case.heap, run.case.worker or 0


def _show_workers(console: Console, runs: Sequence[JobRun]) -> None:
    """The claim about the worker's memory, held against the least heap that was tried."""
    least = min(run.case.heap for run in runs)
    for name in ("rolling-rocksdb", "rolling-redis"):
        some = [r for r in runs if r.case.contender == name and r.case.heap == least]
        some = [run for run in some if run.outcome == FINISHED]
        if not some:
            continue
        peak = mebibytes(max(run.worker_peak for run in some))
        verdict = "[green]met[/]" if peak <= WORKER_TARGET else "[red]missed[/]"
        console.print(
            f"{TITLES[name]}, heap {size(least)}: the worker's peak is {peak} MiB, "
            f"target at most {WORKER_TARGET}: {verdict}",
            highlight=False,
            soft_wrap=True,
        )
