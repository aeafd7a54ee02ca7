"""Tables 3 and 4 of the Reactive Aggregator paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mta.lab.experiments import plots
from mta.lab.experiments.experiment import Compared, Exhibit, Row
from mta.lab.experiments.operators import OPERATORS
from mta.lab.turns import break_even

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The paper's table 3: from which window on RA is faster, and ten times as fast. None is never.
PAPER_3 = {
    "count": (None, None), "sum": (370, 5200), "sum-double": (290, 5200), "max": (260, 5200),
    "max-double": (130, 3600), "mean": (10, 900), "mincount": (200, 4480), "stddev": (10, 700),
    "popstddev": (10, 700), "argmax": (130, 2770), "argmax-double": (250, 5810), "collect": (None, None),
}  # fmt: skip
#: The paper's table 4: time of Arasu-Widom / time of RA, at windows of 8, 8 K and 8 M.
PAPER_4 = {
    "sum": (1.02, 1.20, 1.36), "max": (1.02, 1.25, 1.37), "mean": (1.05, 1.24, 1.39),
    "mincount": (1.04, 1.23, 1.35), "popstddev": (1.06, 1.26, 1.37),
}  # fmt: skip

Found = dict[str, tuple[float | None, float | None]]


def break_even_points(rows: Sequence[Row]) -> Exhibit | None:
    there = [name for name in PAPER_3 if any(row["operator"] == name for row in rows)]
    at: Found = {}
    for operator in there:
        times = {(row["contender"], row["size"]): row["ns"] for row in rows if row["operator"] == operator}
        at[operator] = break_even(times, "ra", "iss"), break_even(times, "ra", "iss", 10.0)
    told = "; ".join(
        f"{OPERATORS[name].title} {_size(even)} and {_size(tenfold)}" for name, (even, tenfold) in at.items()
    )
    compared = []
    for name, (even, tenfold) in at.items():
        paper, ten = PAPER_3[name]
        measured = tenfold / even if even and tenfold else None
        reported = ten / paper if ten and paper else None
        compared.append(Compared(f"{OPERATORS[name].title}: size of 10× / of even", measured, reported))
    last = max(row["size"] for row in rows)
    return Exhibit(
        "table-3", "From which window on RA is faster than recalculation, and 10 times (table 3)",
        lambda figure: _sizes(figure, at),
        f"Windows from which on RA is faster, and ten times as fast: {told}.",
        compared,
        f"Windows to {plots.many(last)}, interpolated between powers of two. Open markers: the paper's. "
        "Recalculation folds with the operator, but reads the size for Count and copies for Collect.",
    )  # fmt: skip


def _size(size: float | None) -> str:
    return "never" if size is None else f"{round(size, -1):,.0f}" if size >= 10 else f"{size:.0f}"


def _sizes(figure: Figure, at: Found) -> None:
    axes = figure.subplots()
    for which, (label, color, marker) in enumerate((("even", "#12507b", "o"), ("10×", "#c8702a", "^"))):
        for source, filled in ((at, True), (PAPER_3, False)):
            points = [
                (place, size) for place, name in enumerate(at) if (size := source[name][which]) is not None
            ]
            axes.plot(
                [x + (-0.12 if filled else 0.12) for x, _ in points], [y for _, y in points], marker,
                color=color, mfc=color if filled else "white", ms=5,
                label=label if filled else f"{label}, the paper",
            )  # fmt: skip
    titles = [OPERATORS[name].title for name in at]
    axes.set_xticks(range(len(at)), titles, fontsize=7, rotation=30, ha="right")
    axes.set_xlim(-0.6, len(at) - 0.4)
    axes.set_yscale("log", base=2)
    plots.finish(axes, "", "window size")
    plots.legend(figure)


def relative(rows: Sequence[Row]) -> Exhibit | None:
    there = [name for name in PAPER_4 if any(row["operator"] == name for row in rows)]
    sizes = sorted({row["size"] for row in rows})
    at = {(row["operator"], row["contender"], row["size"]): row["ns"] for row in rows}
    groups = {
        OPERATORS[name].title: {
            f"n = {plots.many(size)}": at[name, "aw", size] / at[name, "ra", size] for size in sizes
        }
        for name in there
    }
    slower = sum(ratio > 1 for group in groups.values() for ratio in group.values())
    cells = sum(map(len, groups.values()))
    compared = [
        Compared(
            f"{OPERATORS[name].title}, n = {plots.many(size)}: B-Int / RA",
            groups[OPERATORS[name].title][f"n = {plots.many(size)}"], paper,
        )
        for name in there
        for size, paper in zip(sizes, PAPER_4[name], strict=False)
    ]  # fmt: skip

    def draw(figure: Figure) -> None:
        plots.bars(figure, groups, y="B-Int / RA", log_y=False).axhline(1, color="#555555", lw=0.8)

    return Exhibit(
        "table-4", "Time of B-Int / time of RA (table 4)",
        draw,
        f"B-Int is slower than RA in {slower} of {cells} cells.",
        compared,
        f"The largest window is {plots.many(sizes[-1])}; it is compared with the paper's of 2^23.",
    )  # fmt: skip
