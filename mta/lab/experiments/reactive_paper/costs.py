"""Figures 6 to 12 of the Reactive Aggregator paper."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mta.lab.experiments import plots
from mta.lab.experiments.experiment import Compared, Exhibit, Row
from mta.lab.experiments.operators import OPERATORS
from mta.lab.experiments.reactive_paper.plans import PLANS, TITLES

SIZE, COST = "window size", "µs an element"
CUT = "By processor time of the process; the paper's is C++ in InfoSphere Streams."

Series = dict[str, list[tuple[float, float]]]


def throughput(rows: Sequence[Row]) -> Exhibit | None:
    some = [row for row in rows if row["operator"] in ("max", "stddev") and row["size"] <= 1024]
    if not some:
        return None
    series = _series(some, lambda ns: 1000 / ns)
    last, first = max(row["size"] for row in some), min(row["size"] for row in some)
    compared = []
    for operator, times, paper in (("max", "about 3", 3.0), ("stddev", "over 10", 10.0)):
        for size, reported in ((first, None), (last, paper)):
            ratio = _ratio(some, operator, size, "ra", "iss")
            what = f"{OPERATORS[operator].title}, {size:,}: throughput of RA / ISS"
            what += f" (the paper: {times} at 1,024)" if reported else ""
            compared.append(Compared(what, ratio, reported))
    return Exhibit(
        "figure-6", "Throughput of recalculation (ISS) and of RA (figure 6)",
        lambda figure: plots.lines(figure, series, x=SIZE, y="million elements a second"),
        f"Million elements a second at {last:,}: {_at(series, last)}.",
        compared, CUT,
    )  # fmt: skip


def logarithmic(rows: Sequence[Row]) -> Exhibit | None:
    series = _series(rows)
    told = []
    for title, points in list(series.items()):
        xs, ys = np.log2([x for x, _ in points]), np.array([y for _, y in points])
        if len(points) < 3:
            continue
        slope, start = np.polyfit(xs, ys, 1)
        spread = float(((ys - ys.mean()) ** 2).sum())
        off = float(((start + slope * xs - ys) ** 2).sum())
        series[f"{title}{plots.FIT}"] = [(2.0**x, max(float(start + slope * x), 1e-3)) for x in xs]
        told.append(
            f"{title}: {start:.2f} µs and {slope:.2f} µs more for each doubling, "
            f"R² {1 - off / spread if spread else 1:.2f}"
        )
    last = max(row["size"] for row in rows)

    def draw(figure: object) -> None:
        plots.lines(figure, series, x=SIZE, y=COST).set_yscale("linear")  # type: ignore[arg-type]

    return Exhibit(
        "figure-7", "Cost of a change by the size of the window: a straight line is a logarithm (figure 7)",
        draw, f"{'; '.join(told) or 'Too few sizes for a fit'}.", (),
        f"Sizes to {plots.many(last)}; the paper has 2^23. {CUT}",
    )  # fmt: skip


def tumbling(rows: Sequence[Row]) -> Exhibit | None:
    series = _series([{**row, "ns": row["ns"] * row["size"]} for row in rows])
    last = max(row["size"] for row in rows)
    return Exhibit(
        "figure-8", "A whole window anew: tumbling (figure 8)",
        lambda figure: plots.lines(figure, series, x=SIZE, y="µs a window"),
        f"µs a window of {last:,}: {_at(series, last)}.",
        [
            Compared(
                f"{OPERATORS[operator].title}: RA / ISS at {last:,}",
                _ratio(rows, operator, last, "iss", "ra"), 1.0,
            )
            for operator in dict.fromkeys(row["operator"] for row in rows)
        ],
        f"The paper: about the same. {CUT}",
    )  # fmt: skip


def resizing(rows: Sequence[Row]) -> Exhibit | None:
    series = _series(rows)
    last = max(row["size"] for row in rows)
    return Exhibit(
        "figure-9", "Capacities that stay n, or go between n and 2n (figure 9)",
        lambda figure: plots.lines(figure, series, x="n", y=COST),
        f"µs an element at {plots.many(last)}: {_at(series, last)}.",
        [
            Compared(
                f"{OPERATORS[operator].title}: oscillating / fixed at {plots.many(last)} (the paper: less)",
                _ratio(rows, operator, last, "fixed", "oscillating"), None,
            )
            for operator in dict.fromkeys(row["operator"] for row in rows)
        ],
        f"Sizes to {plots.many(last)}; the paper has 2^22. What goes then goes at once, and there is a query "
        f"after each element that comes. {CUT}",
    )  # fmt: skip


def granularity(rows: Sequence[Row]) -> Exhibit | None:
    series: Series = {}
    for row in sorted(rows, key=lambda row: PLANS["figure-10"].batches.index(row["batch"])):
        series.setdefault(f"m = {row['batch']}", []).append((row["size"], row["ns"] / 1000))
    last = max(row["size"] for row in rows)
    return Exhibit(
        "figure-10", "Several changes before a result: StdDev, m of n (figure 10)",
        lambda figure: plots.lines(figure, series, x="window size n", y=COST),
        f"µs an element at {plots.many(last)}: {_at(series, last)}.",
        (), f"Sizes to {plots.many(last)}. {CUT}",
    )  # fmt: skip


def base_intervals(rows: Sequence[Row]) -> Exhibit | None:
    series: Series = {}
    for row in rows:
        title = f"{TITLES[row['contender']]}: m = {row['batch']}"
        series.setdefault(title, []).append((row["size"], row["ns"] / 1000))
    last = max(row["size"] for row in rows)
    at = {(row["contender"], row["batch"]): row["ns"] for row in rows if row["size"] == last}

    def draw(figure: object) -> None:
        axes = plots.lines(figure, series, x=SIZE, y=COST)  # type: ignore[arg-type]
        for line in axes.get_lines():
            line.set_linestyle("--" if "n/16" in str(line.get_label()) else "-")
        figure.legends.clear()  # type: ignore[attr-defined]
        plots.legend(figure)  # type: ignore[arg-type]

    compared = [
        Compared(f"m = {batch}: B-Int / RA at {plots.many(last)}", at["aw", batch] / at["ra", batch], None)
        for batch in ("1", "n/16")
        if ("aw", batch) in at
    ]
    return Exhibit(
        "figure-11", "RA and B-Int: Max (figure 11)", draw,
        f"µs an element at {plots.many(last)}: {_at(series, last)}.",
        compared, f"Dashed: m = n/16. Sizes to {plots.many(last)}. {CUT}",
    )  # fmt: skip


def resident(rows: Sequence[Row]) -> Exhibit | None:
    series: Series = {}
    grown = {(row["contender"], row["size"]): row["resident"] - row["before"] for row in rows}
    for row in rows:
        series.setdefault(TITLES[row["contender"]], []).append((row["size"], row["resident"] / 2**20))
    last = max(row["size"] for row in rows)
    told = ", ".join(
        f"{TITLES[who]} {bytes_ / last:,.0f}" for (who, size), bytes_ in grown.items() if size == last
    )
    base, more = grown.get(("iss", last)), grown.get(("ra", last))
    ratio = more / base if more and base else None
    return Exhibit(
        "figure-12", "Resident memory: Max (figure 12)",
        lambda figure: plots.lines(figure, series, x=SIZE, y="MiB resident"),
        f"Bytes that an element adds at {plots.many(last)}: {told}. Below that it is Python and NumPy.",
        [Compared(f"RA / ISS, what {plots.many(last)} elements add", ratio, None)],
        f"Sizes to {plots.many(last)}, each in a process of its own; the paper has 2^12.",
    )  # fmt: skip


def _series(rows: Sequence[Row], value: Callable[[float], float] = lambda ns: ns / 1000) -> Series:
    series: Series = {}
    for row in rows:
        who = TITLES.get(row["contender"], row["contender"])
        title = f"{OPERATORS[row['operator']].title}, {who}"
        series.setdefault(title, []).append((row["size"], value(row["ns"])))
    return series


def _at(series: Series, size: float) -> str:
    found = {title: dict(points) for title, points in series.items()}
    return ", ".join(f"{title}: {each[size]:,.3g}" for title, each in found.items() if size in each)


def _ratio(rows: Sequence[Row], operator: str, size: int, over: str, under: str) -> float | None:
    """How many times as fast the first contender is as the second."""
    at = {row["contender"]: row["ns"] for row in rows if (row["operator"], row["size"]) == (operator, size)}
    return at[under] / at[over] if {over, under} <= at.keys() else None
