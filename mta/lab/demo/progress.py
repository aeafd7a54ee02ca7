"""How far a job is: two bars on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

#: Seconds between two lines where there is no terminal for bars.
QUIET = 5.0

#: Called with the rows that were shuffled, those that went through the windows, and the bytes of a worker.
Show = Callable[[int, int, int], None]


@contextmanager
def progress(console: Console, rows: int) -> Iterator[Show]:
    with (_bars if console.is_terminal else _lines)(console, rows) as show:
        yield show


@contextmanager
def _bars(console: Console, rows: int) -> Iterator[Show]:
    columns = (
        TextColumn("{task.description:8}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[state]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bars:
        shuffle = bars.add_task("shuffle", total=rows, state="")
        windows = bars.add_task("windows", total=rows, state="", start=False)

        def show(shuffled: int, done: int, memory: int) -> None:
            bars.update(shuffle, completed=shuffled, state=_of(shuffled, rows))
            if shuffled >= rows:
                bars.start_task(windows)
                worker = f", worker {memory / 1e6:.0f} MB" if memory else ""
                bars.update(
                    windows, completed=done, state=_of(done, rows) + worker if done else "Spark sorts"
                )

        yield show


def _of(done: int, rows: int) -> str:
    return f"{done / 1e6:.1f} of {rows / 1e6:.1f} M rows"


@contextmanager
def _lines(console: Console, rows: int) -> Iterator[Show]:
    said, last = -math.inf, ""  # the first line comes at once: a fast machine shuffles in less than QUIET

    def show(shuffled: int, done: int, memory: int) -> None:
        nonlocal said, last
        now = time.perf_counter()
        if done == rows or now - said >= QUIET:
            if shuffled < rows:
                line = f"shuffled {shuffled:,} of {rows:,} rows"
            elif done:
                line = f"windows: {done:,} of {rows:,} rows, worker {memory / 1e6:.0f} MB"
            else:
                line = "Spark sorts"
            said = now
            if line != last:
                console.print(line, highlight=False)
            last = line

    yield show
