"""Figure 6 of the MTA paper: the latency of an update, by the size of a window that stays the same."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from mta.lab.experiments import plots
from mta.lab.experiments.experiment import Case, Compared, Exhibit, Experiment, Record, Row, Scale, Tell
from mta.lab.experiments.paper.contenders import CONTENDERS, PAPERS, monoid, policy, store_of, window_of
from mta.lab.turns import SameElement, Turn, push_in_turns, pushes_of

SIZES, QUICK_SIZES = tuple(1 << k for k in range(0, 21, 2)), (1, 1 << 6, 1 << 9)
#: Pushes that are measured: a whole window, but no fewer than the first number; where every push costs about
#: the same, no more than the second.
PUSHES, QUICK_PUSHES = (1 << 13, 1 << 14), (1 << 6, 1 << 9)
TURNS = 8
#: Elements that come in together, and seconds for the background to come to rest.
CHUNK, REST = 1 << 12, 0.5
#: Combines that Naive may spend on a size.
NAIVE = 1 << 21


class ConstantWindow(Experiment):
    name = "constant-window"
    has_paper = True

    def cases(self, scale: Scale, options: argparse.Namespace) -> list[Case]:  # noqa: ARG002
        least, most = QUICK_PUSHES if scale.quick else PUSHES
        return [
            {"size": size, "least": least, "most": most, "paper": scale.paper}
            for size in (QUICK_SIZES if scale.quick else SIZES)
        ]

    def measure(self, case: Case, tell: Tell) -> list[Row]:
        size, start = case["size"], 1 << 22
        with ExitStack() as stack:
            turns = {}
            for name in PAPERS:
                tell({"filling": name})
                contender = CONTENDERS[name]
                store = stack.enter_context(store_of(contender.store))
                made = window_of(contender, monoid(), policy(), store=store, paper=case["paper"])
                window = stack.enter_context(made)
                _fill(window, size, start)
                most = min(case["most"], NAIVE // size) if name == "naive" else case["most"]
                pushes = pushes_of(window, size, case["least"], most if contender.steady else None)
                turns[name] = Turn(window, max(1, pushes // TURNS), SameElement((1, size), start))
            tell({"pushing": size})
            time.sleep(REST)
            spent = push_in_turns(turns, TURNS)
            for name, turn in turns.items():
                if tuple(turn.window.query()) != (size, size) or len(turn.window) != size:
                    raise AssertionError(f"{name} holds {turn.window.query()}, not {size} elements")
        return [{"contender": name, **spent[name].row()} for name in PAPERS]

    def exhibits(self, records: Sequence[Record]) -> list[Exhibit]:
        rows = [row for record in records for row in self.rows(record)]
        if not rows:
            return []
        at = {(row["contender"], row["size"]): row["ns"] for row in rows}
        sizes = sorted({row["size"] for row in rows})
        series = {
            CONTENDERS[name].title: [(size, at[name, size] / 1000) for size in sizes if (name, size) in at]
            for name in PAPERS
        }
        return [
            Exhibit(
                "latency",
                "Latency of an update, by the size of the window (figure 6)",
                lambda figure: plots.lines(figure, series, x="window size", y="µs an update"),
                _seen(at, sizes),
                _compared(at, sizes[-1]),
                f"Sizes to {plots.many(sizes[-1])}; the paper has 2^25. As many updates as the window has "
                f"elements, and {plots.many(rows[0]['least'])} at least; of Log MTA, whose updates all cost "
                f"the same, up to {plots.many(rows[0]['most'])}, and of Naive fewer.",
            )
        ]


EXPERIMENT = ConstantWindow()


def _fill(window: Any, size: int, stop: int) -> None:
    """Some at a time, so that what goes to a store is there in the end, but for what is buffered."""
    for first in range(stop - size, stop, CHUNK):
        count = min(CHUNK, stop - first)
        window.extend([(1, size)] * count, range(first, first + count))


Times = dict[tuple[str, int], float]


def _seen(at: Times, sizes: Sequence[int]) -> str:
    """From which size on Amortized MTA is the fastest, and what each comes to at the largest."""
    last = sizes[-1]
    faster = [size for size in sizes if at["amta", size] <= at["daba", size]]
    told = "; ".join(f"{CONTENDERS[name].title}: {plots.many(at[name, last] / 1000)} µs" for name in PAPERS)
    where = f"at {', '.join(map(plots.many, faster))}" if faster else "at no size"
    beyond = next((size for size in sizes if at["naive", size] > at["amta", size]), None)
    naive = "never slower" if beyond is None else f"slower from {plots.many(beyond)} on"
    return (
        f"At {plots.many(last)}: {told}. Amortized MTA in memory is as fast as cached DABA or faster "
        f"{where}; Naive is {naive} than it."
    )


def _compared(at: Times, last: int) -> list[Compared]:
    """The paper gives no numbers for figure 6, but those of table 2 for a sum over a window of 2^20."""
    daba = at["daba", last]
    paper = {"amta": 4163 / 4288, "amta-redis": 6253 / 4288, "lmta": 10341 / 4288, "lmta-redis": 14320 / 4288}
    return [
        Compared(f"{CONTENDERS[name].title} / cached DABA", at[name, last] / daba, paper.get(name))
        for name in PAPERS
        if name != "daba"
    ]
