"""`mta demo`: a window that is larger than the memory spent on it, over a series of sensor readings."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from mta import AmortizedMTA, monoids, policies
from mta.bench.measure import megabytes, peak_resident, resident
from mta.bench.storage import discarded, holdings, named_store, on_disk
from mta.monoids.base import Array

BATCH = 1 << 16
SEED = 20
#: Milliseconds between readings, on average.
GAP = 1000
#: Bytes of a row: a time and two values of 64 bits.
ROW = 24
#: Results of `slide`, and of `range_query`, that are computed again in another way.
CHECKED_ROWS, CHECKED_RANGES = 4, 3
#: Seconds between two lines where there is no terminal for a progress bar.
QUIET = 2.0


class Batch(NamedTuple):
    times: Array
    columns: dict[str, Array]


class Series:
    """Readings at irregular times, the same each time it is generated, a batch at a time."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        #: the time just before each batch that was generated so far
        self._starts = [1_700_000_000_000]

    @property
    def batches(self) -> int:
        return math.ceil(self.rows / BATCH)

    def batch(self, number: int) -> Batch:
        rng = np.random.default_rng((SEED, number))
        count = min(BATCH, self.rows - number * BATCH)
        times = self._starts[number] + np.cumsum(rng.integers(1, 2 * GAP, count))
        if number + 1 == len(self._starts):
            self._starts.append(int(times[-1]))
        daily = np.sin(times * (2 * math.pi / 86_400_000))
        temperature = 20.0 + 5.0 * daily + rng.normal(0.0, 1.5, count)
        return Batch(times, {"temperature": temperature, "load": rng.random(count)})

    def between(self, first: int, last: int) -> Iterator[Batch]:
        """The rows with first <= time <= last."""
        for number, start in enumerate(self._starts[:-1]):
            if start < last and self._starts[number + 1] >= first:
                times, columns = self.batch(number)
                rows = slice(*np.searchsorted(times, [first, last + 1]))
                yield Batch(times[rows], {name: column[rows] for name, column in columns.items()})


class Row(NamedTuple):
    """A result to be checked: what the window gave for the times from first to last."""

    what: str
    first: int
    last: int
    result: dict[str, float]


def run(rows: int, window: int, url: str | None = None, console: Console | None = None) -> None:
    """Slides a window of about so many rows over a series, prints what that took, and checks results."""
    console = console or Console()
    with ExitStack() as stack:
        directory = None
        if url is None:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mta-demo-")))
            url = f"rocksdb://{directory}"
        store = stack.enter_context(named_store(url))
        aggregates = monoids.Fields(
            peak=monoids.Max("temperature"),
            spread=monoids.SampleStdDev("temperature"),
            load=monoids.Mean("load"),
        )
        span = window * GAP
        console.print(
            f"{rows:,} readings, one a second on average, in {store.url};\nfor each of them the highest "
            f"temperature, its standard deviation and the mean\nload of the last "
            f"{_duration(span / 1000)}, which is about {window:,} readings.\n",
            highlight=False,
            markup=False,
        )
        amta = AmortizedMTA(aggregates, policies.TimeWindow(span), store=store)
        stack.enter_context(discarded(amta))
        before = resident()
        series, kept = Series(rows), []
        # the last row, and others at even distances
        chosen = {round(series.batches * (part + 1) / CHECKED_ROWS) - 1 for part in range(CHECKED_ROWS)}
        seconds = 0.0
        with _progress(console, rows) as advance:
            for number in range(series.batches):
                batch = series.batch(number)
                began = time.perf_counter()
                results = amta.slide(batch.columns, batch.times)
                seconds += time.perf_counter() - began
                if number in chosen:
                    last = int(batch.times[-1])
                    result = {name: column[-1].item() for name, column in results.items()}
                    kept.append(Row("slide", last - span + 1, last, result))
                advance(len(batch.times))
        peak = peak_resident()
        held = len(amta)
        kept.extend(_ranges(amta))
        stored = holdings(store, amta.name)
        disk = None if directory is None else on_disk(directory)

        _show(
            console,
            {
                "rows a second": f"{rows / seconds:,.0f}  ({seconds / rows * 1e9:.0f} ns a row)",
                "rows in the window": f"{held:,}",
                "their size": f"{megabytes(held * ROW)}  ({ROW} bytes a row)",
                "peak memory of the process": f"{megabytes(peak)}  ({megabytes(before)} before the window)",
                "taken by the window": _against(peak - before, held * ROW),
                "in the store": f"{sum(stored.pages.values()):,} pages, {megabytes(stored.bytes)}"
                + ("" if disk is None else f"; {megabytes(disk)} on disk"),
                "the last result": ", ".join(f"{key} {value:.4f}" for key, value in amta.query().items()),
            },
        )
        _check(console, series, kept)


def _ranges(window: Any) -> Iterator[Row]:
    """Aggregates of parts of the window."""
    rng = np.random.default_rng(SEED)
    for _ in range(CHECKED_RANGES):
        first, last = sorted(rng.integers(window.oldest, window.youngest + 1, 2).tolist())
        yield Row("range_query", first, last, window.range_query(first, last))


def _check(console: Console, series: Series, kept: list[Row]) -> None:
    """The kept results once more, from the series itself and in plain NumPy."""
    wrong = 0
    with _status(console, "checking"):
        for what, first, last, result in kept:
            expected = _plainly(series, first, last)
            for name, value in expected.items():
                if not np.isclose(result[name], value, rtol=1e-9, equal_nan=True):
                    wrong += 1
                    console.print(
                        f"WRONG: {what} from {first} to {last}: {name} is {result[name]}, expected {value}"
                    )
    if wrong:
        raise AssertionError(f"{wrong} results are not what the series says")
    slides = sum(row.what == "slide" for row in kept)
    console.print(
        f"{slides} results of slide and {len(kept) - slides} of range_query agree with NumPy.",
        highlight=False,
    )


def _plainly(series: Series, first: int, last: int) -> dict[str, float]:
    """Two passes over the rows: means, then squares of what is left."""
    peak, count, total, load, squares = -math.inf, 0, 0.0, 0.0, 0.0
    for _, columns in series.between(first, last):
        temperature = columns["temperature"]
        if len(temperature):
            peak, count = max(peak, float(temperature.max())), count + len(temperature)
            total, load = total + float(temperature.sum()), load + float(columns["load"].sum())
    mean = total / max(count, 1)
    for _, columns in series.between(first, last):
        squares += float(np.square(columns["temperature"] - mean).sum())
    spread = math.sqrt(squares / (count - 1)) if count > 1 else math.nan
    return {"peak": peak, "spread": spread, "load": load / max(count, 1)}


@contextmanager
def _progress(console: Console, rows: int) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal, plain lines now and then elsewhere."""
    if console.is_terminal:
        columns = (
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[speed]}"),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=console, transient=True) as bar:
            task, began, done = bar.add_task("", total=rows, speed=""), time.perf_counter(), 0

            def advance(count: int) -> None:
                nonlocal done
                done += count
                speed = f"{done / (time.perf_counter() - began) / 1e6:.1f} M rows/s"
                bar.update(task, advance=count, speed=speed)

            yield advance
        return
    done, said = 0, time.perf_counter()

    def count_up(count: int) -> None:
        nonlocal done, said
        done += count
        if done == rows or time.perf_counter() - said >= QUIET:
            said = time.perf_counter()
            console.print(f"{done:,} of {rows:,} rows", highlight=False)

    yield count_up


@contextmanager
def _status(console: Console, text: str) -> Iterator[None]:
    if console.is_terminal:
        with console.status(text):
            yield
    else:
        yield


def _show(console: Console, facts: dict[str, str]) -> None:
    table = Table.grid(padding=(0, 3))
    table.add_column(no_wrap=True)
    table.add_column()
    for name, fact in facts.items():
        table.add_row(name, fact)
    console.print(table)
    console.print()


def _duration(seconds: float) -> str:
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} seconds"


def _against(taken: int, size: int) -> str:
    share = f"{100 * taken / size:.0f} % of its size" if taken < size else "more than so small a window"
    return f"{megabytes(taken)}  ({share})"
