"""Table 1 of the MTA paper, counted: combines, local entries, and round trips, which no machine changes."""

from __future__ import annotations

import argparse
import gc
import math
from collections.abc import Callable, Sequence
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from mta.lab.experiments import plots
from mta.lab.experiments.contender import Contender
from mta.lab.experiments.experiment import Case, Compared, Exhibit, Experiment, Record, Row, Scale, Tell
from mta.lab.experiments.paper.contenders import (
    CONTENDERS,
    PAPER_PAGE,
    Element,
    combine,
    monoid,
    policy,
    window_of,
)
from mta.lab.turns import pushes_of
from stores import CountingStore, Store, open_store

#: Window sizes, and how many pushes are counted at most where each combines about as often as the others.
SIZES, PUSHES = tuple(1 << k for k in range(6, 17, 2)), 1 << 13
QUICK_SIZES, QUICK_PUSHES = (1 << 6, 1 << 8), 1 << 9

#: Where a push combines often, fewer tell the same, and only the MTA goes up to the largest sizes.
FEW, OTHERS_LARGEST = 64, 1 << 14

#: Pushes before those that are counted: the first may find no room for one element more, and make some once.
FIRST = 4

#: Elements that come in together: a window is filled as a stream fills it.
CHUNK = 1024

#: Looks at what a window holds while it slides.
LOOKS = 8

#: Over a store that counts, and is none of the machine's.
WHO = ("naive", "ra", "daba", "lmta", "amta", "lmta-redis", "amta-redis")

#: What no entry of a window is behind.
FOREIGN = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType, Store)


Order = Callable[[float], float]


def constant(_: float) -> float:
    return 1.0


def linear(size: float) -> float:
    return size


#: Table 1 by its rows. Bulk reads are not in it: one for each tier at most.
ORDERS: dict[str, dict[str, Order]] = {
    "combines": {"Reactive": math.log, "DABA": constant, "Log MTA": math.log, "Amortized MTA": constant},
    "bulk_combines": {"Reactive": linear, "DABA": linear, "Log MTA": math.log, "Amortized MTA": math.log},
    "entries": {
        **{"Reactive": linear, "DABA": linear},
        **{"Log MTA, in memory": linear, "Amortized MTA, in memory": linear},
        **{"Log MTA, a store": math.log, "Amortized MTA, a store": math.log},
    },
    "bulk_reads": {"Log MTA": math.log, "Amortized MTA": math.log},
}


class Complexity(Experiment):
    name = "complexity"

    def cases(self, scale: Scale, options: argparse.Namespace) -> list[Case]:  # noqa: ARG002
        sizes = QUICK_SIZES if scale.quick else SIZES
        pushes = QUICK_PUSHES if scale.quick else PUSHES
        return [
            {"contender": name, "page": page, "largest": min(sizes[-1], largest), "pushes": pushes}
            for name in WHO
            for largest in (sizes[-1] if CONTENDERS[name].is_mta else OTHERS_LARGEST,)
            for page in ((PAPER_PAGE, 0) if CONTENDERS[name].is_mta else (0,))
        ]

    def title(self, case: Case) -> str:
        return _title(case)

    def measure(self, case: Case, tell: Tell) -> list[Row]:
        sizes = [size for size in SIZES if size <= case["largest"]]
        rows = []
        for size in sizes:
            tell({"window": size})
            rows.append(
                _counted(CONTENDERS[case["contender"]], case["page"] == PAPER_PAGE, size, case["pushes"])
            )
        return rows

    def exhibits(self, records: Sequence[Record]) -> list[Exhibit]:
        rows = [row for record in records for row in self.rows(record)]
        stored = [row for row in rows if CONTENDERS[row["contender"]].store]
        local = [row for row in rows if row not in stored]
        process = [row for row in rows if row in stored or not CONTENDERS[row["contender"]].is_mta]
        made = [
            _exhibit(local, "combines", "Combines of a push, on average", "combines a push",
                     "Table 1's amortised time. Over a store it is the same."),
            _exhibit(local, "bulk_combines", "Combines of the worst bulk eviction", "combines an eviction",
                     "Listing 3 is enforced, and the window asked. Over a store it is the same."),
            _exhibit(process, "entries", "Elements and partial results in the process", "entries at most",
                     "Table 1's least local size."),
            _exhibit(stored, "bulk_reads", "Round trips of the worst bulk eviction", "reads of the store",
                     "A read may ask for several pages."),
        ]  # fmt: skip
        return [exhibit for exhibit in made if exhibit is not None]


EXPERIMENT = Complexity()


# -- counting ---------------------------------------------------------------------------------------------


class _Counted:
    """The operator of listing 2, which counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, older: Element, younger: Element) -> Element:
        self.calls += 1
        return combine(older, younger)

    def during(self, work: Callable[[], Any]) -> int:
        before = self.calls
        work()
        return self.calls - before


def _counted(contender: Contender, paper: bool, size: int, pushes: int) -> Row:
    """What a window of one size comes to, while it slides on, and when much of it goes at once."""
    counted = _Counted()
    with open_store("memory:") as inner:
        counting = CountingStore(inner)
        store = counting if contender.store else None
        with window_of(contender, monoid(counted), policy(), store=store, paper=paper) as window:
            _fill(window, size, size)
            expensive = contender.title in ("Naive", "Reactive Aggregator")
            most = (FEW if expensive else pushes) if contender.steady else None
            for _ in range(FIRST):
                window.push((1, size))
            slid = _slide(window, counted, counting, size, pushes_of(window, 2 * size, 1, most))
            return {"size": size, **slid, **_bulk(window, counted, counting, size)}


def _fill(window: Any, count: int, size: int) -> None:
    for start in range(0, count, CHUNK):
        window.extend([(1, size) for _ in range(min(CHUNK, count - start))])


def _slide(window: Any, counted: _Counted, store: CountingStore, size: int, steps: int) -> Row:
    store.reset()
    start, most, entries = counted.calls, 0, 0
    for step in range(steps):
        before = counted.calls
        result = window.push((1, size))
        most = max(most, counted.calls - before)
        if step % max(1, steps // LOOKS) == 0:
            entries = max(entries, _entries(window))
    if tuple(result) != (size, size):
        raise AssertionError(f"the window holds {result}, not {size} elements")
    return {
        "pushes": steps,
        "combines": (counted.calls - start) / steps,
        "most_combines": most,
        "entries": entries,
        "trips": sum(store.calls.values()) / steps,
    }


def _bulk(window: Any, counted: _Counted, store: CountingStore, size: int) -> Row:
    """The worst of some bulk evictions; the window is filled again after each."""
    combines, reads, keys = 0, 0, 0
    for evicted in sorted({size // 4, size // 2, size // 2 + 1, 3 * size // 4, size - 1}):
        store.reset()
        window.insert((1, size + 1 - evicted))

        def work() -> None:
            window.enforce()
            window.query()

        combines = max(combines, counted.during(work))
        reads, keys = max(reads, store.calls["get_many"]), max(keys, store.keys_read)
        if len(window) != size + 1 - evicted:
            raise AssertionError(f"{len(window)} elements are left of {size + 1 - evicted}")
        _fill(window, evicted, size)
    return {"bulk_combines": combines, "bulk_reads": reads, "bulk_keys": keys}


def _entries(window: Any) -> int:
    """Elements and partial results that can be reached from a window without its store."""
    found, seen, todo = 0, {id(window)}, [window]
    while todo:
        one = todo.pop()
        # a copy, since threads of the background change what is walked
        for each in list(one.values()) if isinstance(one, dict) else gc.get_referents(one):
            if id(each) in seen or isinstance(each, FOREIGN):
                continue
            seen.add(id(each))
            if type(each) is tuple and len(each) == 2 and type(each[0]) is int and type(each[1]) is int:
                found += 1
            else:
                todo.append(each)
    return found


# -- showing ----------------------------------------------------------------------------------------------


def _title(case: Case) -> str:
    contender = CONTENDERS[case["contender"]]
    where = contender.title.replace("Redis", "a store")
    return f"{where}, P = {case['page']}" if case["page"] else where


def _exhibit(rows: Sequence[Row], what: str, title: str, y: str, more: str) -> Exhibit | None:
    """The figure of one count; none where nothing was counted yet."""
    if not rows:
        return None
    series: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        series.setdefault(_title(row), []).append((row["size"], row[what]))
    return Exhibit(
        what.replace("_", "-"),
        title,
        lambda figure: plots.lines(figure, series, x="window size", y=y),
        f"{more} {_seen(series)}",
        _growth(what, series),
    )


def _seen(series: dict[str, list[tuple[float, float]]]) -> str:
    largest = min(max(x for x, _ in points) for points in series.values())
    at = {title: dict(points).get(largest) for title, points in series.items()}
    text = "; ".join(f"{title}: {plots.many(value)}" for title, value in at.items() if value is not None)
    return f"At {plots.many(largest)}: {text}."


def _growth(what: str, series: dict[str, list[tuple[float, float]]]) -> list[Compared]:
    """How each grows from a middle size to the largest, beside what the paper's order makes of that."""
    found = []
    for title, points in series.items():
        (first, low), (last, high) = sorted(points)[(len(points) - 1) // 2], max(points)
        order = next((order for start, order in ORDERS[what].items() if title.startswith(start)), None)
        if low and first < last:
            paper = None if order is None else order(last) / order(first)
            between = f"from {plots.many(first)} to {plots.many(last)}"
            found.append(Compared(f"{title}, {between}", high / low, paper))
    return found
