"""The plot of the demo: megabytes of the windows and of the memory over seconds, below the limit.

`terminal_plot` draws it with block characters, `save_figure` as a picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

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


def save_figure(
    path: Path,
    seconds: Sequence[float],
    memory: Sequence[float],
    window: Sequence[float],
    limit: float,
    title: str,
) -> None:
    """Megabytes over seconds."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    blue, orange, red, grey = "#4c78a8", "#e45d0b", "#b0302f", "#555555"
    figure, axes = pyplot.subplots(figsize=(9, 5), dpi=150, layout="constrained")
    axes.fill_between(seconds, window, color=blue, alpha=0.18, linewidth=0)
    axes.plot(seconds, window, color=blue, linewidth=1.6)
    axes.plot(seconds, memory, color=orange, linewidth=2.2)
    axes.axhline(limit, color=red, linewidth=1.2, linestyle=(0, (5, 4)))
    end = max(seconds[-1], 1e-9)
    top = max(*memory, *window, limit) * 1.12
    axes.annotate(
        f"limit on a Python worker: {limit:,.0f} MB of address space",
        (0, limit),
        (4, 4),
        textcoords="offset points",
        color=red,
    )
    peak = max(range(len(window)), key=window.__getitem__)
    axes.annotate(
        f"longest open window: {window[peak]:,.0f} MB",
        (seconds[peak], window[peak]),
        (0, 5),
        textcoords="offset points",
        ha="right" if seconds[peak] > end / 2 else "left",
        color=blue,
    )
    peak = max(range(len(memory)), key=memory.__getitem__)
    axes.annotate(
        f"largest Python worker: {memory[peak]:,.0f} MB resident",
        (end, memory[-1] if memory[-1] else memory[peak]),
        (0, 8),
        textcoords="offset points",
        ha="right",
        color=orange,
    )
    axes.set(xlim=(0, end), ylim=(0, top), xlabel="seconds since the job began", ylabel="MB")
    axes.set_title(title, loc="left", fontsize=11, color=grey)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    figure.savefig(path)
    pyplot.close(figure)
