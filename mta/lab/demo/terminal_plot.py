"""A plot of block characters: an area for the windows, one for the memory before it, a line for the limit."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

HEIGHT = 14
EIGHTHS = " ▁▂▃▄▅▆▇█"
WINDOW, LIMIT = "░", "╌"
STYLES = {WINDOW: "cyan", LIMIT: "red", "█": "bold yellow"}


def terminal_plot(
    seconds: Sequence[float], memory: Sequence[float], window: Sequence[float], limit: float, columns: int
) -> Text:
    """Megabytes over seconds; each column has the most of its samples."""
    width = max(20, columns - 8)
    end = max(seconds[-1], 1e-9)
    bars = [_most(seconds, memory, end, width, column) for column in range(width)]
    areas = [_most(seconds, window, end, width, column) for column in range(width)]
    step = _round_up(max(*memory, *window, limit) * 1.02 / HEIGHT)
    text = Text()
    for row in reversed(range(HEIGHT)):
        low = row * step
        label = f"{low + step:,.0f}" if (row + 1) % 2 == 0 or row == HEIGHT - 1 else ""
        text.append(f"{label:>5} ┤" if label else "      │", "dim")
        for bar, area in zip(bars, areas, strict=True):
            mark = _cell(bar, area, low, step, low < limit <= low + step)
            text.append(mark, STYLES["█"] if mark in EIGHTHS else STYLES[mark])
        text.append("\n")
    text.append("    0 └" + "─" * width + "\n", "dim")
    text.append("       0" + f"{end:,.0f} s".rjust(width - 1) + "\n", "dim")
    for mark, what in (
        ("█", "largest Python worker, resident MB"),
        (WINDOW, "longest open window, MB"),
        (LIMIT, "limit"),
    ):
        text.append(f"   {mark * 2} ", STYLES[mark])
        text.append(what)
    return text


def _cell(bar: float, area: float, low: float, step: float, limit: bool) -> str:
    eighths = min(8, max(0, round((bar - low) / step * 8)))
    if eighths:
        return EIGHTHS[eighths]
    if limit:
        return LIMIT
    return WINDOW if area - low >= step / 2 else " "


def _most(seconds: Sequence[float], values: Sequence[float], end: float, width: int, column: int) -> float:
    """The most of a column's samples; of the last one before it where it has none."""
    first, last = end * column / width, end * (column + 1) / width
    here = [value for at, value in zip(seconds, values, strict=True) if first <= at <= last]
    before = [value for at, value in zip(seconds, values, strict=True) if at < first]
    return max(here) if here else before[-1] if before else 0.0


def _round_up(step: float) -> float:
    """To a number that gives plain labels."""
    for nice in (1, 2, 2.5, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 60, 75, 100, 150, 200, 250, 500):
        if step <= nice:
            return nice
    return step
