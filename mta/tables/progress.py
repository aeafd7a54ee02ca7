"""How far a call of `rolling` is, as bars on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

#: Takes what is done, the number of rows for which it was done since the last time, and of how many; None for
#: a number of rows that is not known yet.
Tell: TypeAlias = Callable[[str, int, int | None], None]


@contextmanager
def told(show: bool) -> Iterator[Tell]:
    """What a call tells how far it is: bars on standard error, or nothing."""
    if not show:
        yield lambda _what, _rows, _total: None
        return
    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,.0f} rows")
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def tell(what: str, rows: int, total: int | None) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], advance=rows, total=total)

        yield tell
