"""Figure 13 (bottom) of the DABA paper: elements a second, by the size of the window."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from mta.lab.experiments import plots
from mta.lab.experiments.daba_paper.contenders import CONTENDERS, QUICK_PAGE, rounds_of
from mta.lab.experiments.experiment import Case, Compared, Exhibit, Experiment, Record, Row, Scale, Tell
from mta.lab.experiments.operators import OPERATORS, elements_of
from mta.lab.turns import TURNS, rounds_in_turns

SIZES = tuple(1 << power for power in range(0, 21, 2))
QUICK_SIZES = (1, 1 << 4, 1 << 8)
#: Operators, and the largest window of each: a state of Bloom is 2 KB, and most have two an element.
MOST = {"sum": 1 << 20, "gmean": 1 << 20, "bloom": 1 << 14}
#: Seconds of processor time that a contender has at a size, if as many hold its dear rounds too.
SECONDS, QUICK_SECONDS = 0.4, 0.004
#: Recalculation is not measured beyond this size, as it is not in the paper.
RECALCULATED = 1 << 12


class Throughput(Experiment):
    name = "throughput"

    def cases(self, scale: Scale, options: argparse.Namespace) -> list[Case]:  # noqa: ARG002
        seconds, sizes = (QUICK_SECONDS, QUICK_SIZES) if scale.quick else (SECONDS, SIZES)
        page = QUICK_PAGE if scale.quick else None
        return [
            {"operator": operator, "size": size, "seconds": seconds, "page_size": page}
            for operator, most in MOST.items()
            for size in sizes
            if size <= most
        ]

    def title(self, case: Case) -> str:
        return f"{OPERATORS[case['operator']].title}, window {case['size']:,}"

    def measure(self, case: Case, tell: Tell) -> list[Row]:
        operator, size = case["operator"], case["size"]
        elements = elements_of(operator)
        windows = {}
        for name in CONTENDERS:
            if name != "recalc" or size <= RECALCULATED:
                tell({"filling": name})
                windows[name] = rounds_of(name, operator, elements, size, case["page_size"])
        tell({"measuring": size})
        found = rounds_in_turns(windows, case["seconds"])
        return [{"contender": name, "ns": ns} for name, ns in found.items()]

    def exhibits(self, records: Sequence[Record]) -> list[Exhibit]:
        rows = [row for record in records for row in self.rows(record)]
        return [
            _exhibit(operator, mine)
            for operator in MOST
            if (mine := [row for row in rows if row["operator"] == operator])
        ]


EXPERIMENT = Throughput()


def _exhibit(operator: str, rows: Sequence[Row]) -> Exhibit:
    rate = {(row["contender"], row["size"]): 1000 / row["ns"] for row in rows}
    sizes = sorted({row["size"] for row in rows})
    last = sizes[-1]
    series = {
        each.title: [(size, rate[name, size]) for size in sizes if (name, size) in rate]
        for name, each in CONTENDERS.items()
    }
    title = OPERATORS[operator].title
    others = [name for name in CONTENDERS if (name, last) in rate]
    order = sorted(others, key=lambda name: -rate[name, last])
    told = ", ".join(f"{CONTENDERS[name].title}: {rate[name, last]:.3g}" for name in order)
    slower = [size for size in sizes if rate["amta", size] < rate["daba", size]]
    return Exhibit(
        operator,
        f"Throughput of {title}, by the size of the window (figure 13, bottom)",
        lambda figure: plots.lines(figure, series, x="window size", y="million elements a second"),
        f"Million elements a second at {plots.many(last)}: {told}. Amortized MTA is slower than DABA at "
        f"{', '.join(map(plots.many, slower)) or 'no size'}.",
        [
            Compared(f"{CONTENDERS[name].title} / DABA at {plots.many(last)}", _ratio(rate, name, last), None)
            for name in others
            if name != "daba"
        ],
        f"Sizes to {plots.many(last)}; the paper has 2^20. Rounds of evict, insert and query, by processor "
        f"time: the median of {TURNS} turns, in each of which all that the window holds goes at least once. "
        "The paper gives no numbers for its figure.",
    )


def _ratio(rate: dict[tuple[str, int], float], name: str, size: int) -> float:
    return rate[name, size] / rate["daba", size]
