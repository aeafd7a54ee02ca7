"""How lines look in the figures of experiments: one look a contender, in all figures."""

from __future__ import annotations

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
    "Slicing, lazy": Look("#12507b", "o"),
    "Slicing, eager": Look("#c8702a", "^"),
    "Slicing, a store": Look("#4f8fa8", "o"),
    "Buckets": Look("#a63d57", "s"),
    "FlatFAT": Look("#7a4f9a", "v"),
    "Held, DABA": Look("#3f8f5f", "D"),
    "Held, one B-Int": Look("#8a8f96", "x"),
}
STORED = {", Redis": "--", ", a store": "--", ", RocksDB": ":"}
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
    for place, (title, points) in enumerate(series.items()):
        if points:
            look = look_of(title, place)
            xs, ys = zip(*sorted(points), strict=True)
            axes.plot(
                xs, ys, look.style, color=look.color, marker=look.marker, ms=4, lw=1.4, label=title,
                mfc=look.color if look.filled else "white",
            )  # fmt: skip
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
    axes.set_xticks(range(len(groups)), [title.replace(" ", "\n", 1) for title in groups])
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
        list(found.values()), list(found), loc="outside upper left", ncols=2, fontsize=7.5, frameon=False
    )


def finish(axes: Any, x: str, y: str) -> None:
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
