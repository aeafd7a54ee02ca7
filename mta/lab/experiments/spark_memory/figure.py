"""The figure of the memory experiment: contenders down, memory limits across, how a run ended in its cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from mta.lab.experiments.spark_memory.report import TITLES, count, rate, size
from mta.lab.experiments.spark_memory.runs import NO_HEAP, NO_WORKER, JobRun
from mta.lab.own_process import FAILED, FINISHED, TOO_SLOW

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Look(NamedTuple):
    fill: str
    text: str
    word: str
    hatch: str = ""


#: Told apart by brightness and by words, so in print and without colours too.
LOOKS = {
    FINISHED: Look("#12507b", "white", ""),
    TOO_SLOW: Look("#c9ced3", "black", "too slow"),
    NO_HEAP: Look("#fff4e6", "#8a3b00", "out of\nmemory", "////"),
    NO_WORKER: Look("#fff4e6", "#8a3b00", "out of\nmemory", "////"),
    FAILED: Look("#fff4e6", "#8a3b00", "failed", "xx"),
}
HATCHING = "#f2c89b"


class Panel(NamedTuple):
    title: str
    labels: list[str]
    #: by contender and place of the label
    runs: dict[tuple[str, int], JobRun]


def draw(figure: Figure, runs: Sequence[JobRun]) -> None:
    """Draws all runs with the same number of rows."""
    names = [name for name in TITLES if any(run.case.contender == name for run in runs)]
    panels = _panels(runs)
    widths = [len(panel.labels) for panel in panels]
    figure.set_size_inches(max(6.4, 2.9 + 0.86 * sum(widths) + 0.3 * len(panels)), 1.7 + 0.52 * len(names))
    axes = figure.subplots(
        1,
        len(panels),
        squeeze=False,
        gridspec_kw={"width_ratios": widths, "wspace": 0.3 / (sum(widths) / len(widths))},
    )
    for panel, axis in zip(panels, axes[0], strict=True):
        _draw_panel(axis, panel, names, first=axis is axes[0][0])
    case = runs[0].case
    figure.suptitle(
        f"Which jobs finish: {count(case.rows)} rows of one key, a window of {count(case.window)} rows",
        fontsize=11, fontweight="bold", x=0.01, ha="left",
    )  # fmt: skip


#: What the looks mean.
LEGEND = (
    "Dark: finished, with thousands of rows a second. Grey: still running at its time limit. "
    "Hatched: ended for want of memory. Empty: not run."
)


def _panels(runs: Sequence[JobRun]) -> list[Panel]:
    """The heap with workers at their most, workers with the heap at its most, and both at their least."""
    heaps = sorted({run.case.heap for run in runs})
    workers = sorted({run.case.worker for run in runs if run.case.worker is not None})
    most_worker, most_heap = workers[-1] if workers else None, heaps[-1]
    by_heap = {
        (run.case.contender, heaps.index(run.case.heap)): run
        for run in runs
        if run.case.worker in (None, most_worker)
    }
    panels = [Panel(_heading("Spark heap", "worker", most_worker), [size(heap) for heap in heaps], by_heap)]
    if len(workers) > 1:
        by_worker = {
            (run.case.contender, workers.index(run.case.worker)): run
            for run in runs
            if run.case.worker is not None and run.case.heap == most_heap
        }
        labels = [size(worker) for worker in workers]
        panels.append(Panel(_heading("Python worker", "heap", most_heap), labels, by_worker))
    if len(workers) > 1 and len(heaps) > 1:
        least = (heaps[0], workers[0])
        both = {(run.case.contender, 0): run for run in runs if (run.case.heap, run.case.worker) == least}
        panels.append(Panel("Both at\ntheir least", [" + ".join(map(size, least))], both))
    return panels


def _heading(what: str, other: str, limit: int | None) -> str:
    return what if limit is None else f"{what}\n({other} {size(limit)})"


def _draw_panel(axis: Any, panel: Panel, names: Sequence[str], *, first: bool) -> None:
    from matplotlib.patches import Rectangle

    for row, name in enumerate(names):
        for column in range(len(panel.labels)):
            run = panel.runs.get((name, column))
            if run is None:
                continue
            look = LOOKS[run.outcome]
            edge = HATCHING if look.hatch else look.fill
            box = Rectangle((column - 0.47, row - 0.45), 0.94, 0.9, lw=0, fc=look.fill, hatch=look.hatch)
            box.set_edgecolor(edge)
            axis.add_patch(box)
            text = look.word or rate(run.rows_a_second)
            backing = {"facecolor": look.fill, "edgecolor": "none", "pad": 1.0} if look.hatch else None
            axis.text(
                column, row, text, color=look.text, ha="center", va="center", fontsize=8, bbox=backing,
                linespacing=0.95,
            )  # fmt: skip
    axis.set_xlim(-0.5, len(panel.labels) - 0.5)
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.set_xticks(range(len(panel.labels)), panel.labels, fontsize=9)
    axis.set_yticks(range(len(names)), [TITLES[name] for name in names] if first else [], fontsize=9)
    axis.set_title(panel.title, fontsize=9, loc="left")
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
