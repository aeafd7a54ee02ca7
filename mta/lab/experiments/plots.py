"""How lines look in the figures of experiments: one look a contender, in all figures."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import log10
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Points = Sequence[tuple[float, float]]


class Look(NamedTuple):
    color: str
    marker: str
    style: str = "-"
    filled: bool = True


#: By how a title begins. Dashed is over Redis, dotted over RocksDB, and an open marker is a page of two.
LOOKS = {
    "Naive": Look("#8a8f96", "x"),
    "Recalculate": Look("#8a8f96", "x"),
    "Two-Stacks Lite": Look("#b48fce", "D"),
    "Two-Stacks": Look("#7a4f9a", "D"),
    "Functional": Look("#a63d57", "<"),
    "Imperative": Look("#4f8fa8", ">"),
    "B-Int": Look("#6b6b2f", "P"),
    "Subtract": Look("#8a8f96", "x"),
    "polars": Look("#c23b75", "D"),
    "pandas": Look("#7a4f9a", "v"),
    "DuckDB": Look("#c99a12", "P"),
    "Spark, segment": Look("#a63d57", "<"),
    "Spark": Look("#e08a5a", ">"),
    "river": Look("#4f8fa8", "X"),
    "Flink, by event": Look("#6b6b2f", "<"),
    "Flink": Look("#a9a93f", ">"),
    "DABA Lite": Look("#8cc5a2", "s"),
    "AMTA": Look("#c8702a", "^"),
    "FiBA(4) without": Look("#4f8fa8", "v"),
    "FiBA": Look("#a63d57", "v"),
    "Amortized MTA, by push": Look("#5f9fcb", "o"),
    "Reactive": Look("#b7a57a", "v"),
    "DABA": Look("#3f8f5f", "s"),
    "Log MTA": Look("#c8702a", "^"),
    "Amortized MTA": Look("#12507b", "o"),
    "Slicing, one by one": Look("#6b6b2f", "v"),
    "Slicing, First, one by one": Look("#b48fce", "D"),
    "Slicing, First": Look("#7a4f9a", "D"),
    "Slicing, lazy": Look("#12507b", "o"),
    "Slicing, eager": Look("#c8702a", "^"),
    "Slicing, a store": Look("#4f8fa8", "o"),
    "Buckets": Look("#a63d57", "s"),
    "FlatFAT": Look("#7a4f9a", "v"),
    "Held, DABA": Look("#3f8f5f", "D"),
    "Held, one B-Int": Look("#8a8f96", "x"),
}
STORED = {", Redis": "--", ", a store": "--", ", RocksDB": ":"}
#: How the title of a line through others ends. It has the colour of those, and no markers.
FIT = ", fit"
#: Of bars, by the style of the lines.
HATCHES = {"-": "", "--": "////", ":": "...."}
OTHERS = (
    *(Look("#7a4f9a", "D"), Look("#a63d57", "s"), Look("#4f8fa8", "v"), Look("#6b6b2f", "o")),
    *(Look("#c8702a", "^"), Look("#12507b", "P"), Look("#3f8f5f", "X"), Look("#8a8f96", "x")),
)


def look_of(title: str, place: int) -> Look:
    found = next((look for start, look in LOOKS.items() if title.startswith(start)), None)
    if found is None:
        return OTHERS[place % len(OTHERS)]
    style = next((style for where, style in STORED.items() if where in title), "-")
    return found._replace(style=style, filled=", P = 2" not in title)


def lines(
    figure: Figure,
    series: Mapping[str, Points],
    *,
    x: str,
    y: str,
    log_x: bool = True,
    log_y: bool = True,
) -> Axes:
    """Draws one line a title, with the legend above; y is on a logarithmic scale where all is above 0."""
    axes: Axes = figure.subplots()
    titles = list(series)
    for place, (title, points) in enumerate(series.items()):
        if points:
            of = title.removesuffix(FIT)
            look = look_of(of, titles.index(of) if of in titles else place)
            xs, ys = zip(*sorted(points), strict=True)
            axes.plot(
                xs, ys, look.style, color=look.color, marker=look.marker, ms=4, lw=1.4, label=title,
                mfc=look.color if look.filled else "white",
            )  # fmt: skip
            if of != title:
                axes.get_lines()[-1].set(marker="", linestyle="--", linewidth=1)
    if log_x:
        tens = all(x > 0 and log10(x).is_integer() for points in series.values() for x, _ in points)
        axes.set_xscale("log", base=10 if tens else 2)
    if log_y and all(value > 0 for points in series.values() for _, value in points):
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    finish(axes, x, y)
    legend(figure)
    return axes


def bars(figure: Figure, groups: Mapping[str, Mapping[str, float]], *, y: str, log_y: bool = True) -> Axes:
    """Draws a group of bars a title, one for each contender in it."""
    axes: Axes = figure.subplots()
    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    width = 0.8 / max(len(names), 1)
    for place, name in enumerate(names):
        look = look_of(name, place)
        at = [(g, group[name]) for g, group in enumerate(groups.values()) if name in group]
        axes.bar(
            [g + (place - (len(names) - 1) / 2) * width for g, _ in at],
            [value for _, value in at],
            width,
            label=name,
            facecolor=look.color,
            edgecolor="white",
            hatch=HATCHES[look.style],
            linewidth=0.3,
        )
    size = 9.0 if len(groups) < 7 else 7.0
    axes.set_xticks(range(len(groups)), [title.replace(" ", "\n", 1) for title in groups], fontsize=size)
    if log_y:
        axes.set_yscale("log")
    finish(axes, "", y)
    legend(figure)
    return axes


def legend(figure: Figure) -> None:
    """What is on all axes, once each, above them."""
    found: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(str(label), handle)
    figure.legend(
        list(found.values()), list(map(typeset, found)), loc="outside upper left", ncols=2, fontsize=7.5,
        frameon=False, handlelength=3,
    )  # fmt: skip


def typeset(text: str) -> str:
    """Powers of two as a figure shows them."""
    return re.sub(r"\b2\^(\d+)", r"$2^{\1}$", text)


def _plain(value: float, _: object = None) -> str:
    """A number at an axis: as one writes it, where that is not long."""
    return f"{value:g}" if 1e-2 <= value < 1e4 else f"$10^{{{round(log10(value))}}}$"


def _label_tens(axis: Any, least: float, most: float) -> None:
    """A logarithmic axis: plain numbers, and more of them where it has few powers of ten."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axis.set_major_formatter(_plain)
    axis.set_minor_formatter(NullFormatter())
    if most < 100 * least:
        axis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0)))


def finish(axes: Any, x: str, y: str) -> None:
    if axes.get_yscale() == "log" and axes.yaxis.get_transform().base == 10:
        _label_tens(axes.yaxis, *axes.get_ylim())
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(True, color="#e3e8ec", lw=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def many(number: float) -> str:
    """A number as text: 2^20 where it is a power of two of that size."""
    whole = int(number)
    if whole == number and whole >= 1024 and whole & (whole - 1) == 0:
        return f"2^{whole.bit_length() - 1}"
    return f"{number:,.3g}" if abs(number) < 100 else f"{number:,.0f}"
