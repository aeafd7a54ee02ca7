"""What the choices of the design are worth: the size of a page, reading ahead, columns and not objects."""

from __future__ import annotations

import argparse
import gc
import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np

from mta import AmortizedMTA, monoids, policies
from mta.lab.contents import contents, discarded
from mta.lab.experiments import plots
from mta.lab.experiments.experiment import Case, Compared, Exhibit, Experiment, Record, Row, Scale, Tell
from mta.lab.experiments.paper.contenders import store_of
from mta.lab.turns import timed
from mta.monoids.base import Array, Monoid
from stores import LatencyStore, Store

WINDOW, QUICK_WINDOW = 1 << 17, 1 << 10
PAGES, QUICK_PAGES = tuple(1 << power for power in range(1, 17)), (2, 64)
STORES = {"": "in memory", "rocksdb": "RocksDB", "redis": "Redis"}
#: Rows of a batch; and how often as many rows as the window has are slid, and then pushed.
BATCH, TIMES = 1 << 14, 3
#: Pages of fewer entries take long, and their dear rows are close together: so many rows tell the same.
SMALL, FEW = 64, 1 << 10
#: Seconds that every call of a store far away takes longer.
FAR = 0.0005


def _columns() -> Monoid:
    return monoids.Max()


def _objects() -> Monoid:
    return monoids.from_function(max, float("-inf"), name="max")


class Variant(NamedTuple):
    """A window as it is made, and where it is."""

    store: str
    monoid: Callable[[], Monoid] = _columns
    delay: float = 0.0
    page_size: int | None = None
    #: None is as by default; 0 is that nothing is kept or read ahead
    cached: int | None = None


AHEAD = {
    "Redis": {"read ahead": Variant("redis"), "nothing": Variant("redis", cached=0)},
    "Redis, 0.5 ms away": {
        "read ahead": Variant("redis", delay=FAR), "nothing": Variant("redis", delay=FAR, cached=0),
    },
    "0.5 ms away, 1 K a page": {
        "read ahead": Variant("redis", delay=FAR, page_size=1 << 10),
        "nothing": Variant("redis", delay=FAR, page_size=1 << 10, cached=0),
    },
    "RocksDB": {"read ahead": Variant("rocksdb"), "nothing": Variant("rocksdb", cached=0)},
}  # fmt: skip
ENCODED = {
    title[0].upper() + title[1:]: {
        "columns": Variant(store),
        "objects": Variant(store, _objects),
        "objects, 16 K a page": Variant(store, _objects, page_size=1 << 14),
    }
    for store, title in STORES.items()
}  # fmt: skip


class Ablation(Experiment):
    name = "ablation"

    def cases(self, scale: Scale, options: argparse.Namespace) -> list[Case]:  # noqa: ARG002
        window, pages = (QUICK_WINDOW, QUICK_PAGES) if scale.quick else (WINDOW, PAGES)
        every: list[Case] = [{"part": "pages", "page_size": size} for size in pages]
        return [{**case, "window": window} for case in [*every, {"part": "ahead"}, {"part": "encoding"}]]

    def measure(self, case: Case, tell: Tell) -> list[Row]:
        if case["part"] == "pages":
            groups: Mapping[str, Mapping[str, Variant]] = {
                title: {"": Variant(store, page_size=case["page_size"])} for store, title in STORES.items()
            }
        else:
            groups = AHEAD if case["part"] == "ahead" else ENCODED
        rows = []
        for where, variants in groups.items():
            tell({"where": where})
            with ExitStack() as stack:
                windows = {name: _Sliding(each, case["window"], stack) for name, each in variants.items()}
                for _ in range(TIMES):
                    for sliding in windows.values():
                        sliding.turn()
                rows += [{"where": where, "variant": name, **each.row()} for name, each in windows.items()]
        return rows

    def exhibits(self, records: Sequence[Record]) -> list[Exhibit]:
        parts: dict[str, list[Row]] = {}
        for record in records:
            for row in self.rows(record):
                parts.setdefault(row["part"], []).append(row)
        found = []
        if "pages" in parts:
            found += _pages(parts["pages"])
        if "ahead" in parts:
            found.append(_variants("ahead", "Reading ahead, and not", parts["ahead"]))
        if "encoding" in parts:
            found.append(_variants("encoding", "Columns, and objects in msgpack", parts["encoding"]))
        return found


EXPERIMENT = Ablation()


class _Sliding:
    """A full window, and what each turn of it took: a batch, and single pushes."""

    def __init__(self, variant: Variant, size: int, stack: ExitStack) -> None:
        store: Store | None = stack.enter_context(store_of(variant.store))
        if store is not None and variant.delay:
            store = LatencyStore(store, variant.delay)
        self._size, self._at = size, 0
        small = (variant.page_size or SMALL) < SMALL
        self._rows = min(size, FEW) if small else size
        self._batch = min(self._rows, BATCH)
        self._window = stack.enter_context(
            discarded(
                AmortizedMTA(
                    variant.monoid(), policies.TimeWindow(size), store=store,
                    page_size=variant.page_size, cached=variant.cached,
                )
            )
        )  # fmt: skip
        self._rng = np.random.default_rng(8)
        for _ in range(0, size, self._batch):
            self._window.slide(*self._coming(self._batch))
        self._store = store
        self._spent: dict[str, list[float]] = {"slide": [], "push": []}

    def _coming(self, count: int) -> tuple[Array, Array]:
        start, self._at = self._at, self._at + count
        return self._rng.normal(20.0, 5.0, count), np.arange(start, self._at)

    def turn(self) -> None:
        gc.collect()
        batches = [self._coming(self._batch) for _ in range(0, self._rows, self._batch)]
        self._spent["slide"].append(timed(lambda: self._slide(batches))[0] / self._rows)
        pushed = [each.tolist() for each in self._coming(self._rows)]
        self._spent["push"].append(timed(lambda: self._push(*pushed))[0] / self._rows)

    def _slide(self, batches: Sequence[tuple[Array, Array]]) -> None:
        for values, times in batches:
            self._window.slide(values, times)

    def _push(self, values: list[float], times: list[int]) -> None:
        push = self._window.push
        for value, time in zip(values, times, strict=True):
            push(value, time)

    def row(self) -> Row:
        if len(self._window) != self._size:
            raise AssertionError(f"{len(self._window)} elements are held, not {self._size}")
        found = {f"{what}_ns": statistics.median(each) * 1e9 for what, each in self._spent.items()}
        if self._store is None:
            return found
        self._window.checkpoint()  # so that what is buffered is there
        held = contents(self._store, self._window.name)
        pages = self._window.page_size
        entries = sum(held.pages.values()) * pages
        return {**found, "bytes": held.bytes / self._size, "entries": entries / self._size}


# -- showing ----------------------------------------------------------------------------------------------


def _pages(rows: Sequence[Row]) -> list[Exhibit]:
    window = rows[0]["window"]
    cut = (
        f"Max over a time window of {plots.many(window)}. With pages of 2 every level is stored, as in the "
        "paper; every level in larger pages is not measured, as the library has no such layout."
    )
    found = []
    for what, title in (("slide_ns", "A row of a batch"), ("push_ns", "A push")):
        series = _by_page(rows, what, 1000)
        best = {
            where: min(points, key=lambda point: point[1])[0] for where, points in series.items() if points
        }
        told = ", ".join(f"{where}: {plots.many(size)}" for where, size in best.items())
        found.append(
            Exhibit(
                what.removesuffix("_ns"), f"{title}, by the size of a page", _lines(series, "µs"),
                f"The fastest size of a page: {told}.", _compared(rows, what), cut,
            )
        )  # fmt: skip
    stored = _by_page(rows, "bytes", 1)
    entries = {row["page_size"]: row["entries"] for row in rows if "entries" in row}
    told = "; ".join(f"pages of {plots.many(size)}: {entries[size]:.2f}" for size in sorted(entries)[::5])
    found.append(
        Exhibit(
            "stored", "Bytes in the store for an element, by the size of a page",
            _lines(stored, "bytes an element"),
            f"Entries in the store for an element of the window: {told}.", (), cut,
        )
    )  # fmt: skip
    return found


def _lines(series: dict[str, list[tuple[float, float]]], y: str) -> Callable[[Any], object]:
    return lambda figure: plots.lines(figure, series, x="entries in a page", y=y)


def _by_page(rows: Sequence[Row], what: str, divisor: float) -> dict[str, list[tuple[float, float]]]:
    series: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if what in row:
            series.setdefault(f"Amortized MTA, {row['where']}", []).append(
                (row["page_size"], row[what] / divisor)
            )
    return series


def _compared(rows: Sequence[Row], what: str) -> list[Compared]:
    at = {(row["where"], row["page_size"]): row[what] for row in rows}
    least = min(row["page_size"] for row in rows)
    best = {where: min(each for (w, _), each in at.items() if w == where) for where in STORES.values()}
    return [
        Compared(f"{where}: pages of {least} / the best", at[where, least] / best[where], None)
        for where in STORES.values()
        if (where, least) in at
    ]


def _variants(slug: str, title: str, rows: Sequence[Row]) -> Exhibit:
    groups = {
        f"{row['where']}, {what}".replace(", ", ",\n"): {
            each["variant"]: each[f"{what}_ns"] for each in rows if each["where"] == row["where"]
        }
        for what in ("slide", "push")
        for row in rows
    }
    ratios = {}
    for name, group in groups.items():
        first, *others = group
        for other in others:
            ratios[f"{name.replace(chr(10), ' ')}: {other} / {first}"] = group[other] / group[first]
    ends = [pick(ratios, key=lambda name: ratios[name]) for pick in (max, min)]
    told = ", and at least ".join(f"{ratios[name]:.2f} times as long ({name})" for name in ends)
    stored = ", ".join(
        f"{row['where']}, {row['variant']} {row['bytes']:.1f}" for row in rows if "bytes" in row
    )

    def draw(figure: Any) -> None:
        axes = plots.bars(figure, groups, y="ns a row")
        axes.tick_params(axis="x", labelsize=6.5)

    return Exhibit(
        slug, title, draw, f"At most {told}. Bytes in the store for an element: {stored}.",
        [Compared(name, ratio, None) for name, ratio in ratios.items()],
        f"Max over a time window of {plots.many(rows[0]['window'])}; the median of {TIMES}.",
    )  # fmt: skip
