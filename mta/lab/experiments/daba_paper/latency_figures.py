"""The figures of `latency`: its table of all operators, and its series of three."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mta.lab.experiments import plots
from mta.lab.experiments.daba_paper.contenders import CONTENDERS
from mta.lab.experiments.experiment import Compared, Exhibit, Row
from mta.lab.experiments.operators import OPERATORS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: What was measured of an operator and a contender.
Summaries = Mapping[tuple[str, str], Row]

#: The paper's table 2: mean and deviation in processor cycles.
PAPER = {
    "sum": {"two-stacks": (127, 2980), "foa": (250, 15559), "ioa": (1824, 1919), "daba": (193, 113)},
    "max": {"two-stacks": (125, 2991), "foa": (332, 15356), "ioa": (1831, 2083), "daba": (200, 122)},
    "argmax": {"two-stacks": (136, 3214), "foa": (378, 18693), "ioa": (1846, 1925), "daba": (207, 137)},
    "mincount": {"two-stacks": (154, 4463), "foa": (395, 20150), "ioa": (1937, 2103), "daba": (222, 157)},
    "mean": {"two-stacks": (165, 3740), "foa": (397, 18528), "ioa": (1898, 2084), "daba": (237, 149)},
    "stddev": {"two-stacks": (200, 4099), "foa": (469, 20373), "ioa": (1943, 2081), "daba": (274, 160)},
    "gmean": {"two-stacks": (299, 3777), "foa": (484, 18171), "ioa": (2055, 2100), "daba": (366, 168)},
    "bloom": {
        "two-stacks": (5532, 298982), "foa": (12394, 310698), "ioa": (21595, 14691), "daba": (9021, 4249),
    },
}  # fmt: skip


def table(at: Summaries, there: Sequence[str], who: Sequence[str], cut: str) -> list[Exhibit]:
    if not there:
        return []
    worst = {
        OPERATORS[name].title: {CONTENDERS[each].title: at[name, each]["max_ns"] / 1000 for each in who}
        for name in there
    }
    return [
        Exhibit(
            "table",
            "Latency of a round: mean, 99.9 %, maximum (table 2)",
            lambda figure: _spans(figure, at, there, who),
            _seen(at, there, who),
            _compared(at, there),
            cut,
        ),
        Exhibit(
            "worst",
            "The longest round",
            lambda figure: plots.bars(figure, worst, y="µs"),
            _combines(at, there[0], who),
            (),
            cut,
        ),
    ]


def series_of(points: Sequence[Row], operators: Sequence[str], cut: str) -> list[Exhibit]:
    there = [name for name in operators if any(point["operator"] == name for point in points)]
    if not there:
        return []
    told = []
    for name in there:
        longest = {
            who: max(p["longest_ns"] for p in points if (p["operator"], p["contender"]) == (name, who))
            for who in dict.fromkeys(p["contender"] for p in points)
        }
        told.append(
            f"{OPERATORS[name].title}, the longest: "
            + ", ".join(f"{CONTENDERS[who].title} {value / 1000:,.0f} µs" for who, value in longest.items())
        )
    return [
        Exhibit(
            "series",
            "Latency over the rounds (figure 13, top)",
            lambda figure: _series(figure, points, there),
            f"The line is the median and dots are the longest of some rounds. {'; '.join(told)}.",
            (),
            f"The line is the median of {points[1]['round'] - points[0]['round']:,} rounds, and a dot the "
            f"longest of them. {cut}",
        )
    ]


def _spans(figure: Figure, at: Summaries, there: Sequence[str], who: Sequence[str]) -> None:
    """A line from the mean to the maximum of each contender, with a stroke at 99.9 %."""
    axes = figure.subplots()
    width = 0.8 / len(who)
    for place, each in enumerate(who):
        title = CONTENDERS[each].title
        look = plots.look_of(title, place)
        xs = [g + (place - (len(who) - 1) / 2) * width for g in range(len(there))]
        mean, most, high = (
            [at[name, each][what] / 1000 for name in there] for what in ("mean_ns", "max_ns", "p999_ns")
        )
        axes.vlines(xs, mean, most, color=look.color, lw=1)
        axes.plot(xs, mean, look.marker, color=look.color, ms=4, label=title)
        axes.plot(xs, high, "_", color=look.color, ms=5)
        axes.plot(xs, most, "^", color=look.color, ms=3, mfc="white")
    axes.set_xticks(range(len(there)), [OPERATORS[name].title for name in there], fontsize=7)
    axes.set_yscale("log")
    plots.finish(axes, "", "µs a round: mean, – 99.9 %, △ maximum")
    plots.legend(figure)


def _series(figure: Figure, points: Sequence[Row], there: Sequence[str]) -> None:
    """A panel for each operator and contender, all on the same scales."""
    who = list(dict.fromkeys(point["contender"] for point in points))
    every = figure.subplots(len(there), len(who), sharex=True, sharey=True, squeeze=False)
    for row, name in zip(every, there, strict=True):
        for place, (axes, each) in enumerate(zip(row, who, strict=True)):
            mine = [p for p in points if (p["operator"], p["contender"]) == (name, each)]
            look = plots.look_of(CONTENDERS[each].title, place)
            xs = [point["round"] / 1000 for point in mine]
            axes.plot(xs, [p["longest_ns"] / 1000 for p in mine], ".", color=look.color, ms=2)
            axes.plot(xs, [p["median_ns"] / 1000 for p in mine], color=look.color, lw=1.5)
            axes.set_yscale("log")
            plots.finish(axes, "", f"{OPERATORS[name].title}, µs" if not place else "")
            axes.tick_params(labelsize=7)
            axes.yaxis.label.set_size(8)
    for axes, each in zip(every[0], who, strict=True):
        axes.set_title(CONTENDERS[each].title.replace(", ", ",\n").replace(" ", "\n", 1), fontsize=7)
    every[-1][len(who) // 2].set_xlabel("thousand rounds", fontsize=8)


def _seen(at: Summaries, there: Sequence[str], who: Sequence[str]) -> str:
    least = [min(who, key=lambda each: at[name, each]["mean_ns"]) for name in there]
    won = {
        each: [OPERATORS[name].title for name, best in zip(there, least, strict=True) if best == each]
        for each in dict.fromkeys(least)
    }
    fastest = "; ".join(f"{CONTENDERS[each].title} for {', '.join(names)}" for each, names in won.items())
    told = "; ".join(
        f"{CONTENDERS[each].title} {row['mean_ns']:,.0f} ± {row['deviation_ns']:,.0f} ns, "
        f"99.9 % {row['p999_ns'] / 1000:,.1f} µs, maximum {row['max_ns'] / 1000:,.0f} µs"
        for each in who
        for row in (at[there[0], each],)
    )
    return f"The lowest mean has {fastest}. {OPERATORS[there[0]].title}: {told}."


def _combines(at: Summaries, name: str, who: Sequence[str]) -> str:
    told = "; ".join(
        f"{CONTENDERS[each].title} {row['combines_mean']:.2f} and {row['combines_max']:,}"
        for each in who
        for row in (at[name, each],)
    )
    return (
        f"Combines of a round, counted, on average and at most: {told}. A longest round has what Python and "
        "the system do meanwhile in it, too, such as collecting garbage; the counts have not."
    )


def _compared(at: Summaries, there: Sequence[str]) -> list[Compared]:
    """Means by that of Two-Stacks, and how far rounds spread, in times of their mean."""
    found = []
    for name in there:
        title, base = OPERATORS[name].title, at[name, "two-stacks"]["mean_ns"]
        for each in ("daba", "foa", "ioa"):
            paper = PAPER[name][each][0] / PAPER[name]["two-stacks"][0]
            what = f"{title}: {CONTENDERS[each].title} / Two-Stacks"
            found.append(Compared(what, at[name, each]["mean_ns"] / base, paper))
        what = f"{title}: Amortized MTA / Two-Stacks"
        found.append(Compared(what, at[name, "amta"]["mean_ns"] / base, None))
    for name in there:
        for each in ("two-stacks", "daba"):
            row, (mean, deviation) = at[name, each], PAPER[name][each]
            what = f"{OPERATORS[name].title}: deviation / mean of {CONTENDERS[each].title}"
            found.append(Compared(what, row["deviation_ns"] / row["mean_ns"], deviation / mean))
    return found
