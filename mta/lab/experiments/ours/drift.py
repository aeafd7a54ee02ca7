"""How wrong sums and deviations of real numbers are after a spike has left the window."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from mta import AmortizedMTA, LogMTA, monoids, policies
from mta.baselines import SubtractOnEvict
from mta.lab.bench.engine import rivals
from mta.lab.experiments import plots
from mta.lab.experiments.experiment import Case, Exhibit, Experiment, Record, Row, Scale, Tell
from mta.monoids.base import Array, Monoid

WINDOW, QUICK_WINDOW = 1000, 100
#: Rows in times of the window, where the spike comes, and the height of which every row is shown.
LENGTH, SPIKE, SHOWN = 6, 2, 1e12
HEIGHTS, QUICK_HEIGHTS = tuple(10.0**power for power in range(2, 19, 2)), (1e6, SHOWN)
#: Points of a line; an error is shown as at least the first, and as at most the second.
POINTS, LEAST, MOST = 60, 1e-17, 1e30
AGGREGATES: dict[str, Callable[[], Monoid]] = {"Sum": monoids.Sum, "SampleStdDev": monoids.SampleStdDev}

Rolling = Callable[[str, Array, int], Array]


class Contender(NamedTuple):
    title: str
    rolling: Rolling


def _window(kind: Callable[..., Any], *, push: bool = False) -> Rolling:
    def rolling(aggregate: str, values: Array, size: int) -> Array:
        window = kind(AGGREGATES[aggregate](), policies.CountWindow(size))
        if push:
            return np.array([window.push(value) for value in values.tolist()], dtype=float)
        parts = [window.slide(part) for part in np.array_split(values, LENGTH)]
        return np.concatenate(parts).astype(float)

    return rolling


def _frame(make: Callable[..., rivals.Rolling]) -> Rolling:
    def rolling(aggregate: str, values: Array, size: int) -> Array:
        return np.asarray(make(aggregate, np.arange(len(values)), values, size, True)(), dtype=float)

    return rolling


CONTENDERS = {
    "slide": Contender("Amortized MTA, slide", _window(AmortizedMTA)),
    "push": Contender("Log MTA, push", _window(LogMTA, push=True)),
    "subtract": Contender("Subtract-on-Evict", _window(SubtractOnEvict, push=True)),
    "polars": Contender("polars", _frame(rivals.polars)),
    "pandas": Contender("pandas", _frame(rivals.pandas)),
    "duckdb": Contender("DuckDB", _frame(rivals.duckdb)),
}


class Drift(Experiment):
    name = "drift"

    def cases(self, scale: Scale, options: argparse.Namespace) -> list[Case]:  # noqa: ARG002
        window, heights = (QUICK_WINDOW, QUICK_HEIGHTS) if scale.quick else (WINDOW, HEIGHTS)
        return [{"aggregate": name, "window": window, "heights": list(heights)} for name in AGGREGATES]

    def measure(self, case: Case, tell: Tell) -> list[Row]:
        aggregate, size = case["aggregate"], case["window"]
        rows: list[Row] = []
        for height in case["heights"]:
            tell({"height": height})
            values = np.random.default_rng(6).normal(20.0, 5.0, LENGTH * size)
            values[SPIKE * size] = height
            exact = exact_rolling(aggregate, values, size)
            for name, contender in CONTENDERS.items():
                try:
                    found = contender.rolling(aggregate, values, size)
                except rivals.Missing:
                    continue
                rows += _rows(name, height, size, errors(found[size - 1 :], exact))
        return rows

    def rows(self, record: Record) -> list[Row]:
        of = {name: record["case"][name] for name in ("aggregate", "window")}
        return [{**of, **row} for row in record["rows"]]

    def exhibits(self, records: Sequence[Record]) -> list[Exhibit]:
        rows = [row for record in records for row in self.rows(record)]
        found = []
        for aggregate in AGGREGATES:
            mine = [row for row in rows if row["aggregate"] == aggregate]
            if mine:
                found += _exhibits(aggregate, mine)
        return found


EXPERIMENT = Drift()


def exact_rolling(aggregate: str, values: Array, size: int) -> list[float]:
    """The aggregate of each full window, in rational numbers, and rounded once at the end."""
    numbers = [Fraction(value) for value in values.tolist()]
    total, squares = Fraction(0), Fraction(0)
    found = []
    for place, number in enumerate(numbers):
        total += number
        squares += number * number
        if place >= size:
            total -= numbers[place - size]
            squares -= numbers[place - size] ** 2
        if place >= size - 1:
            variance = (size * squares - total * total) / (size * (size - 1))
            found.append(float(total) if aggregate == "Sum" else math.sqrt(variance))
    return found


def errors(found: Array, exact: Sequence[float]) -> Array:
    """Relative errors; what is no number is as wrong as can be."""
    right = np.array(exact)
    with np.errstate(all="ignore"):
        wrong = np.abs(found - right) / np.abs(right)
    return np.minimum(np.where(np.isfinite(wrong), wrong, MOST), MOST)


def _rows(name: str, height: float, size: int, wrong: Array) -> list[Row]:
    """The largest errors before the spike, with it and after it; and a line of them."""
    come, gone = SPIKE * size - (size - 1), (SPIKE + 1) * size - (size - 1)
    parts = {"before": wrong[:come], "inside": wrong[come:gone], "after": wrong[gone:]}
    rows: list[Row] = [
        {"contender": name, "height": height, **{part: float(some.max()) for part, some in parts.items()}}
    ]
    if height == SHOWN:
        step = max(1, len(wrong) // POINTS)
        for start in range(0, len(wrong), step):
            error = float(wrong[start : start + step].max())
            rows.append({"contender": name, "height": height, "row": start + size - 1, "error": error})
    return rows


def _exhibits(aggregate: str, rows: Sequence[Row]) -> list[Exhibit]:
    who = list(dict.fromkeys(row["contender"] for row in rows))
    after = {
        CONTENDERS[name].title: [
            (row["height"], max(row["after"], LEAST))
            for row in rows
            if row["contender"] == name and "after" in row
        ]
        for name in who
    }
    lines = {
        CONTENDERS[name].title: [
            (row["row"], max(row["error"], LEAST))
            for row in rows
            if row["contender"] == name and "row" in row
        ]
        for name in who
    }
    window = rows[0]["window"]
    cut = (
        f"A window of {window:,} numbers of about 20, and one spike among them. Errors are of the exact "
        f"aggregate, in rational numbers; {LEAST:.0e} stands for none."
    )

    def by_height(figure: Any) -> None:
        axes = plots.lines(figure, after, x="height of the spike", y="largest relative error after it")
        axes.set_xscale("log")

    def by_row(figure: Any) -> None:
        axes = plots.lines(figure, lines, x="row", y="relative error", log_x=False)
        axes.axvspan(SPIKE * window, (SPIKE + 1) * window, color="#eeeeee", zorder=0)

    return [
        Exhibit(
            f"{aggregate.lower()}-heights", f"{aggregate}: what a spike leaves behind, by its height",
            by_height, _seen(after), (), cut,
        ),
        Exhibit(
            f"{aggregate.lower()}-rows", f"{aggregate}: errors before, with and after a spike of {SHOWN:.0e}",
            by_row, f"Grey is where the spike is in the window. {_before(rows, who)}", (), cut,
        ),
    ]  # fmt: skip


def _seen(after: dict[str, list[tuple[float, float]]]) -> str:
    told = []
    for title, points in after.items():
        height, worst = max(points, key=lambda point: (point[1], -point[0]))
        told.append(f"{title} {worst:.0e} (after {height:.0e})")
    worst_of = {title: max(error for _, error in points) for title, points in after.items()}
    least = [title for title, worst in worst_of.items() if worst == min(worst_of.values())]
    return (
        f"The largest relative errors after a spike has left: {', '.join(told)}. "
        f"The most exact: {' and '.join(least)}."
    )


def _before(rows: Sequence[Row], who: Sequence[str]) -> str:
    at = {row["contender"]: row for row in rows if "before" in row and row["height"] == SHOWN}
    told = ", ".join(f"{CONTENDERS[name].title} {at[name]['before']:.0e}" for name in who if name in at)
    return f"Before it they are at most: {told}."
