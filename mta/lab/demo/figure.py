"""The same plot as a picture, by matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


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
