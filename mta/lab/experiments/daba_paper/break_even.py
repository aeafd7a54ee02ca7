"""Table 3 of the DABA paper: the window from which on an algorithm is faster than recalculation."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mta.lab.experiments import plots
from mta.lab.experiments.daba_paper.contenders import CONTENDERS, QUICK_PAGE, rounds_of
from mta.lab.experiments.experiment import Case, Compared, Exhibit, Experiment, Record, Row, Scale, Tell
from mta.lab.experiments.operators import OPERATORS, elements_of
from mta.lab.turns import break_even, rounds_in_turns

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
QUICK_SIZES = (1, 8, 64, 256)
SECONDS, QUICK_SECONDS = 0.05, 0.002

#: The paper's table 3; None is never.
WHO = ("reactive", "two-stacks", "foa", "ioa", "daba")
PAPER: dict[str, tuple[int | None, ...]] = {
    "sum": (1024, 32, 128, 1024, 112),
    "max": (1024, 28, 112, 1024, 64),
    "argmax": (512, 28, 112, 512, 64),
    "mincount": (512, 28, 64, 1024, 48),
    "mean": (1024, 32, 128, 1024, 112),
    "stddev": (1024, 32, 112, 1024, 64),
    "gmean": (16, 2, 4, 16, 4),
    "bloom": (16, 12, 28, 48, 28),
    "collect": (None, None, None, None, None),
}

#: By operator and contender.
Found = Mapping[tuple[str, str], float | None]


class BreakEven(Experiment):
    name = "break-even"

    def cases(self, scale: Scale, options: argparse.Namespace) -> list[Case]:  # noqa: ARG002
        sizes, seconds = (QUICK_SIZES, QUICK_SECONDS) if scale.quick else (SIZES, SECONDS)
        page = QUICK_PAGE if scale.quick else None
        return [
            {"operator": name, "sizes": list(sizes), "seconds": seconds, "page_size": page} for name in PAPER
        ]

    def title(self, case: Case) -> str:
        return OPERATORS[case["operator"]].title

    def measure(self, case: Case, tell: Tell) -> list[Row]:
        operator = case["operator"]
        elements = elements_of(operator)
        rows = []
        for size in case["sizes"]:
            tell({"size": size})
            windows = {
                name: rounds_of(name, operator, elements, size, case["page_size"]) for name in CONTENDERS
            }
            found = rounds_in_turns(windows, case["seconds"])
            rows += [{"contender": name, "size": size, "ns": ns} for name, ns in found.items()]
        return rows

    def rows(self, record: Record) -> list[Row]:
        return [{"operator": record["case"]["operator"], **row} for row in record["rows"]]

    def exhibits(self, records: Sequence[Record]) -> list[Exhibit]:
        rows = [row for record in records for row in self.rows(record)]
        there = [name for name in PAPER if any(row["operator"] == name for row in rows)]
        if not there:
            return []
        sizes = sorted({row["size"] for row in rows})
        at: dict[tuple[str, str], float | None] = {}
        for operator in there:
            times = {
                (row["contender"], row["size"]): row["ns"] for row in rows if row["operator"] == operator
            }
            for name in (*WHO, "amta"):
                at[operator, name] = break_even(times, name, "recalc")
        return [
            Exhibit(
                "sizes",
                "From which window on recalculation is slower (table 3)",
                lambda figure: _draw(figure, at, there),
                _seen(at, there, sizes[-1]),
                _compared(at, there),
                f"Windows of 1 to {plots.many(sizes[-1])}. Open markers: the paper's. Recalculation folds "
                "with the operator, but for Collect, where it copies the window. No marker: never.",
            )
        ]


EXPERIMENT = BreakEven()


def _draw(figure: Figure, at: Found, there: Sequence[str]) -> None:
    axes = figure.subplots()
    who = (*WHO, "amta")
    for place, name in enumerate(who):
        title = CONTENDERS[name].title
        look = plots.look_of(title, place)
        shift = (place - (len(who) - 1) / 2) * 0.8 / len(who)
        measured = [(g + shift, size) for g, o in enumerate(there) if (size := at[o, name])]
        axes.plot(*_both(measured), look.marker, color=look.color, ms=5, label=title)
        if name in WHO:
            paper = [(g + shift, size) for g, o in enumerate(there) if (size := PAPER[o][WHO.index(name)])]
            axes.plot(*_both(paper), look.marker, color=look.color, ms=5, mfc="white", mew=0.8)
    axes.set_xticks(range(len(there)), [OPERATORS[name].title for name in there], fontsize=7)
    axes.set_xlim(-0.6, len(there) - 0.4)
    axes.set_yscale("log", base=2)
    plots.finish(axes, "", "window size")
    plots.legend(figure)


def _both(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


def _seen(at: Found, there: Sequence[str], most: int) -> str:
    told = []
    for operator in there:
        sizes = ", ".join(
            f"{CONTENDERS[name].title} {'never' if (size := at[operator, name]) is None else round(size)}"
            for name in (*WHO, "amta")
        )
        told.append(f"{OPERATORS[operator].title}: {sizes}")
    return f"{'; '.join(told)}. Never is: not up to {most:,}."


def _compared(at: Found, there: Sequence[str]) -> list[Compared]:
    """Sizes in times of that of Two-Stacks."""
    found = []
    for operator in there:
        base, paper = at[operator, "two-stacks"], dict(zip(WHO, PAPER[operator], strict=True))
        theirs = paper["two-stacks"]
        for name in ("daba", "foa", "ioa", "reactive", "amta"):
            mine, reported = at[operator, name], paper.get(name)
            what = f"{OPERATORS[operator].title}: {CONTENDERS[name].title} / Two-Stacks"
            measured = mine / base if mine and base else None
            found.append(Compared(what, measured, reported / theirs if reported and theirs else None))
    return found
