"""What the operator's commands print. A terminal obeys nothing of what comes from a store."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import Any

from mta.encoding.untrusted import printable, shown

#: A value of more levels, or a whole number of more bits, is not written out.
DEEPEST, LONGEST = 100, 1 << 10

#: A longer text is cut in a table; `--json` has all of it.
WIDEST = 200


def table(*headings: str) -> Any:
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        made.add_column(heading, overflow="fold")
    return made


def add(made: Any, *cells: str, style: str = "") -> None:
    """Adds a row of plain texts."""
    from rich.text import Text

    made.add_row(*(Text(printable(cell), style=style) for cell in cells))


def show(made: Any) -> None:
    from rich.console import Console

    # a pipe has no width; 80 columns would fold names that somebody greps for
    Console(width=None if sys.stdout.isatty() else WIDEST).print(made)


def say(line: str) -> None:
    print(printable(line))


def print_json(value: Any) -> None:
    """In ASCII, so that every terminal, locale and parser takes it."""
    print(json.dumps(_plain(value), indent=1))


def value_text(value: Any) -> str:
    """A value from a store on one line of a table."""
    text = json.dumps(_plain(value), ensure_ascii=False)
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 1]}…"


def size_text(size: float) -> str:
    for unit in ("B", "KB", "MB"):
        if size < 1000:
            return f"{size:,.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"
        size /= 1000
    return f"{size:,.1f} GB"


def lease_text(lease: float | None) -> str:
    if lease is None:
        return "none"
    try:
        return f"{datetime.fromtimestamp(lease, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):  # beyond the years that have a number
        return "for ever" if lease > 0 else "long over"


def _plain(value: Any, depth: int = 0) -> Any:
    """The value with what JSON lacks as text."""
    if depth > DEEPEST:
        return "…"
    if isinstance(value, dict):
        return {_text(key): _plain(each, depth + 1) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each, depth + 1) for each in value]
    if isinstance(value, int):
        return value if value.bit_length() <= LONGEST else shown(value)
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float) and value - value == 0:
        return value
    return _text(value)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return str(value)
    except (ValueError, RecursionError):  # a whole number in it has too many digits
        return shown(value)
