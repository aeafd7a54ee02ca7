"""Figure 9 of the MTA paper: one window of many dimensions, beside a window for each dimension."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from mta import monoids, policies
from mta.lab.experiments import plots
from mta.lab.experiments.experiment import Case, Compared, Exhibit, Experiment, Record, Row, Scale, Tell
from mta.lab.experiments.paper.contenders import CONTENDERS, store_of, window_of
from mta.lab.turns import SameElement, Turn, push_in_turns

SIZE, QUICK_SIZE = 1 << 15, 1 << 8
DIMENSIONS, QUICK_DIMENSIONS = (1, 2, 3, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50), (1, 2, 5)
#: Pushes a turn: in all turns as many as the window has elements, so that whole pages of them go.
PUSHES, QUICK_PUSHES, TURNS = 1 << 12, 1 << 5, 8
#: The paper: a fixed part of 4,158 ns, 411 ns a dimension, and 4,895 ns with one.
PAPER = 50 * 4895 / (4158 + 50 * 411)


class Dimensions(Experiment):
    name = "dimensions"
    has_paper = True

    def cases(self, scale: Scale, options: argparse.Namespace) -> list[Case]:  # noqa: ARG002
        if scale.quick:
            return [
                {
                    "size": QUICK_SIZE,
                    "pushes": QUICK_PUSHES,
                    "most": QUICK_DIMENSIONS[-1],
                    "paper": scale.paper,
                }
            ]
        return [{"size": SIZE, "pushes": PUSHES, "most": DIMENSIONS[-1], "paper": scale.paper}]

    def measure(self, case: Case, tell: Tell) -> list[Row]:
        dimensions = [k for k in DIMENSIONS if k <= case["most"]]
        size = case["size"]
        contender = CONTENDERS["amta-redis"]
        with ExitStack() as stack:
            store = stack.enter_context(store_of(contender.store))
            turns = {}
            for k in dimensions:
                tell({"filling": k})
                made = window_of(contender, _monoid(k), _policy(), store=store, paper=case["paper"])
                window = stack.enter_context(made)
                window.extend(
                    {name: np.full(size, value) for name, value in _element(k, size).items()}, range(size)
                )
                turns[str(k)] = Turn(window, case["pushes"], SameElement(_element(k, size), size))
            tell({"pushing": size})
            spent = push_in_turns(turns, TURNS)
            for name, turn in turns.items():
                wanted = {"maxSize": size, **{f"count{each}": size for each in range(int(name))}}
                if turn.window.query() != wanted:
                    raise AssertionError(f"{turn.window.query()}, not {wanted}")
        return [{"dimensions": k, **spent[str(k)].row()} for k in dimensions]

    def exhibits(self, records: Sequence[Record]) -> list[Exhibit]:
        rows = [row for record in records for row in self.rows(record)]
        if not rows:
            return []
        ks = np.array([row["dimensions"] for row in rows])
        each = np.array([row["ns"] for row in rows]) / 1000
        slope, fixed = np.polyfit(ks, each, 1)
        most, alone = int(ks.max()), float(each[ks.argmin()])
        ratio = most * alone / float(each[ks.argmax()])

        def draw(figure: Any) -> None:
            axes = figure.subplots()
            axes.bar(ks, each, width=0.8 if len(ks) < 5 else 1.8, color="#12507b", label="one window")
            axes.plot(ks, fixed + slope * ks, color="#c8702a", lw=1.4, label="regression")
            axes.plot(ks, ks * alone, "--", color="#8a8f96", label="a window for each dimension")
            plots.finish(axes, "dimensions", "µs an update")
            figure.legend(loc="outside upper left", ncols=3, fontsize=7.5, frameon=False)

        return [
            Exhibit(
                "latency",
                "One window of many dimensions (figure 9)",
                draw,
                f"An update takes {plots.many(fixed)} µs and {plots.many(slope)} µs a dimension "
                f"(regression); {most} windows of one dimension would take {plots.many(ratio)} times as long "
                f"as one window of {most}.",
                [Compared(f"{most} windows / a window of {most}", ratio, PAPER if most == 50 else None)],
                f"{rows[0]['pushes']:,} updates each; Amortized MTA over Redis, a window of "
                f"{plots.many(rows[0]['size'])}.",
            )
        ]  # fmt: skip


EXPERIMENT = Dimensions()


def _element(dimensions: int, size: int) -> dict[str, int]:
    return {"maxSize": size, **{f"x{each}": 1 for each in range(dimensions)}}


def _monoid(dimensions: int) -> monoids.Fields:
    counts = {f"count{each}": monoids.Sum(f"x{each}") for each in range(dimensions)}
    return monoids.Fields(maxSize=monoids.Last("maxSize"), **counts)


def _too_long(total: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    """Listing 3."""
    return bool(total["count0"] - old["count0"] >= total["maxSize"])


def _policy() -> policies.Policy:
    return policies.While(_too_long, name="maxSize")
