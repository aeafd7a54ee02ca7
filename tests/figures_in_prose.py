"""Which numbers of the documents come from which measurements.

Each entry of `TOLD` is a sentence of a document with places for its numbers, and how these are computed from
the files in docs/results. The test compares them. `python tests/figures_in_prose.py` writes them anew after a
run: look at what it changed, since the words around a number may not be true any more.
"""

from __future__ import annotations

import csv
import json
import re
import statistics
import sys
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mta.lab.turns import break_even

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
MIB, GIB = 1 << 20, 1 << 30

Row = dict[str, Any]
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
PLACE = re.compile(r"\{([^{}]*)\}")
#: What stands at a place: a number, or several with what is between them.
NUMBER = r"([\u2212-]?\d[\d,.]*(?:·10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?|[⁰¹²³⁴⁵⁶⁷⁸⁹]+)"


class Told(NamedTuple):
    """A sentence, and its numbers."""

    document: str
    #: `{…}` is a place, with the format of its number; an empty one has text
    words: str
    numbers: Callable[[], Iterable[Any]]
    #: what is in docs/results only once it was run
    needs: str = ""

    def expected(self) -> list[str]:
        formats = PLACE.findall(self.words)
        return [
            format(number, how.removeprefix(":")) for how, number in zip(formats, self.numbers(), strict=True)
        ]

    def match(self, text: str) -> re.Match[str]:
        """Where the sentence is, with a group for each place. Lines may break anywhere."""
        parts = [r"\s+".join(map(re.escape, re.split(r"\s+", part))) for part in PLACE.split(self.words)[::2]]
        found = list(re.finditer(NUMBER.join(parts), text))
        if len(found) != 1:
            raise AssertionError(f"{self.document} has {len(found)} times: {self.words}")
        return found[0]

    def differences(self, text: str) -> list[str]:
        match = self.match(text)
        return [
            f"{self.document}: {there}, where the measurements say {wanted}, in: {' '.join(match[0].split())}"
            for there, wanted in zip(match.groups(), self.expected(), strict=True)
            if there.rstrip(".,") != wanted
        ]

    def corrected(self, text: str) -> str:
        match = self.match(text)
        for group, wanted in reversed(list(enumerate(self.expected(), 1))):
            start, stop = match.span(group)
            stop -= len(match[group]) - len(match[group].rstrip(".,"))
            text = text[:start] + wanted + text[stop:]
        return text

    def is_there(self) -> bool:
        return not self.needs or (RESULTS / self.needs).exists()


# -- measurements -----------------------------------------------------------------------------------------


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return {"True": True, "False": False}.get(text, text)


@cache
def table(name: str) -> tuple[Row, ...]:
    with (RESULTS / f"{name}.csv").open(newline="") as file:
        return tuple({key: _value(text) for key, text in row.items() if text} for row in csv.DictReader(file))


def rows(name: str, **of: Any) -> list[Row]:
    found = [row for row in table(name) if all(row.get(key) == value for key, value in of.items())]
    if not found:
        raise AssertionError(f"docs/results/{name}.csv has no line of {of}")
    return found


def one(name: str, what: str, **of: Any) -> Any:
    """The only figure of this name."""
    found = [row[what] for row in rows(name, **of) if what in row]
    if len(found) != 1:
        raise AssertionError(f"docs/results/{name}.csv has {len(found)} figures {what} of {of}")
    return found[0]


def every(name: str, what: str, **of: Any) -> list[Any]:
    return [row[what] for row in rows(name, **of) if what in row]


@cache
def bench(name: str) -> dict[tuple[str, str, str], Row]:
    """The lines of a benchmark, by section, subject and contender."""
    sections = json.loads((RESULTS / f"{name}.json").read_text())["sections"].values()
    return {
        (line["section"], line["subject"], line["contender"]): line
        for section in sections
        for line in section["lines"]
    }


def power(number: float) -> str:
    """A number of one digit and a power of ten."""
    digits, exponent = f"{number:.0e}".split("e")
    return f"{digits}·10{str(int(exponent)).translate(SUPERSCRIPTS)}"


def of_two(number: int) -> str:
    return str(number.bit_length() - 1).translate(SUPERSCRIPTS)


# -- docs/results/README.md -------------------------------------------------------------------------------


def _tuples() -> Iterable[float]:
    def least(who: str) -> int:
        return int(min(rows("memory", contender=who, ended="capacity"), key=_limit)["limit"])

    def resident(who: str) -> float:
        return float(min(rows("memory", contender=who, ended="capacity"), key=_limit)["peak_bytes"]) / MIB

    over = {least("amta-redis"), least("amta-rocksdb")}
    both = {least("amta"), least("lmta")}
    assert len(over) == len(both) == 1
    daba, stored = least("daba"), over.pop()
    yield from (stored, daba / 1024, daba / stored, both.pop() / 1024)
    yield from (resident("amta-redis"), resident("amta-rocksdb"), resident("daba"))


def _limit(row: Row) -> float:
    return float(row.get("limit", np.inf))


def _doubles() -> Iterable[float]:
    for who in ("amta-redis", "amta-rocksdb", "daba"):
        for numbers in (1 << 20, 1 << (25 if who == "daba" else 27)):
            yield one("memory", "peak_bytes", contender=who, numbers=numbers) / MIB


def _bulk() -> Iterable[float]:
    def ms(who: str) -> dict[int, float]:
        return {row["evicted"]: 1000 * row["median_seconds"] for row in rows("bulk-evict", contender=who)}

    naive, daba, redis, memory = map(ms, ("naive", "daba", "amta-redis", "amta"))
    most = max(redis)
    yield from (most, naive[most] / 1000, daba[most] / 1000, redis[most], memory[most])
    yield from (naive[most] / redis[most], daba[most] / redis[most])
    dearest = max(redis, key=lambda evicted: redis[evicted])
    yield from (dearest, redis[dearest], max(naive.values()) / redis[dearest])


def _remote() -> Iterable[float]:
    for delay in (0.5, 2.0):
        for ahead in ("read ahead", "nothing read ahead"):
            yield 100 * one("remote", "speed", batch=65536, delay_ms=delay, ahead=ahead)


def _dimensions() -> Iterable[float]:
    yield 50 * one("dimensions", "ns", dimensions=1) / one("dimensions", "ns", dimensions=50)


def _rates(phase: str, direct: bool = False) -> list[float]:
    return [rate / 1e6 for rate in every("billion", "rate", phase=phase, direct=direct)]


def _mean_rate(phase: str, direct: bool = False) -> float:
    return statistics.harmonic_mean(_rates(phase, direct))


def _ended(phase: str) -> float:
    return float(one("billion", "seconds", phase=phase, direct=False))


def _peak(direct: bool) -> float:
    return float(max(every("billion", "peak_bytes", direct=direct))) / 1e6


def _billion() -> Iterable[float]:
    yield from map(_mean_rate, ("fill", "slide", "extend"))
    yield from (_peak(False), 1000 * _ended("evict"), 1000 * _ended("restore"))
    closed = [
        row["seconds"] for row in rows("billion", direct=False) if row["phase"] == "close the directory"
    ]
    yield sum(closed) + _ended("open the directory")


def _billion_first() -> Iterable[float]:
    fill = rows("billion", phase="fill", direct=False)
    early = [row for row in fill if row["upto"] <= 250_000_000]
    late = [row for row in fill if row not in early]
    yield from (pick(row["rate"] for row in early) / 1e6 for pick in (min, max))
    yield from (pick(row["cpu_ns"] for row in part) for part in (early, late) for pick in (min, max))


def _billion_disk() -> Iterable[float]:
    full = [row for phase in ("slide", "extend") for row in rows("billion", phase=phase, direct=False)]
    for of in ("window_bytes", "named_bytes"):
        yield max(row["directory_bytes"] / row[of] for row in full)


def _billion_direct() -> Iterable[float]:
    fill = rows("billion", phase="fill", direct=True)
    yield from (pick(row["cpu_ns"] for row in fill) for pick in (min, max))
    yield _peak(True)
    yield from (_mean_rate(phase, True) for phase in ("fill", "slide", "extend"))


ANALYTICS = ("sum", "mean", "gmean", "stddev", "max", "runs")


def _analytics(who: str) -> Iterable[float]:
    for name in ANALYTICS:
        yield one("analytics", "ns", aggregate=name, contender=who) / one(
            "analytics", "ns", aggregate=name, contender="daba"
        )


def _latency() -> Iterable[float]:
    summaries = [row for row in table("latency") if "mean_ns" in row]
    operators = dict.fromkeys(row["operator"] for row in summaries)
    for operator in operators:
        mine = [row for row in summaries if row["operator"] == operator]
        assert min(mine, key=lambda row: row["mean_ns"])["contender"] == "two-stacks"
    at = {row["contender"]: row for row in summaries if row["operator"] == "sum"}
    yield from (at[who]["combines_max"] for who in ("two-stacks", "daba"))
    yield from (at["amta"]["combines_mean"], at["amta"]["combines_max"])


def _throughput() -> Iterable[float]:
    for who in ("two-stacks", "daba", "amta", "reactive"):
        for size in (1 << 14, 1 << 20):
            yield one("throughput", "ns", operator="sum", contender=who, size=size) / 1000


def _doubling(operator: str) -> float:
    mine = rows("reactive", part="figure-7", operator=operator)
    slope, _ = np.polyfit([np.log2(row["size"]) for row in mine], [row["ns"] / 1000 for row in mine], 1)
    return float(slope)


def _overtaken() -> Iterable[float]:
    """Where recalculation is, the earliest and the latest."""
    operators = dict.fromkeys(row["operator"] for row in rows("reactive", part="table-3"))
    found = {
        operator: size
        for operator in operators
        if (size := break_even(_times("table-3", operator), "ra", "iss")) is not None
    }
    assert {"count", "collect"} == operators.keys() - found.keys()
    ends = [pick(found, key=lambda operator: found[operator]) for pick in (min, max)]
    assert ends == ["stddev", "sum-double"], f"the words name other aggregates than {ends}"
    yield from (round(found[operator], -1) for operator in ends)


def _times(part: str, operator: str) -> dict[tuple[str, float], float]:
    return {(r["contender"], r["size"]): r["ns"] for r in rows("reactive", part=part, operator=operator)}


def _cells() -> Iterable[int]:
    at = {(r["operator"], r["size"], r["contender"]): r["ns"] for r in rows("reactive", part="table-4")}
    yield sum(at[operator, size, "aw"] < ns for (operator, size, who), ns in at.items() if who == "ra")


def _update() -> Iterable[float]:
    at = {row["contender"]: row["ns"] / 1000 for row in rows("constant-window", size=1 << 20)}
    yield at["naive"] / 1000
    yield from (at[who] for who in ("daba", "amta", "amta-redis", "lmta", "lmta-redis"))


def _as_fast_as_daba() -> Iterable[int]:
    """The size from which on Amortized MTA never takes longer than cached DABA."""
    at = {(row["contender"], row["size"]): row["ns"] for row in table("constant-window")}
    sizes = sorted({size for _, size in at})
    slower = [size for size in sizes if at["amta", size] > at["daba", size]]
    yield next(size for size in sizes if size > max(slower, default=0))


def _one_by_one() -> Iterable[float]:
    most = 10**7
    yield from (one("rivals-cpp", "ns", contender=who, window=most) for who in ("dabalite", "fiba"))
    yield one("rivals-cpp", "ns", contender="amta-push", window=10**6) / 1000


def _counted() -> Iterable[float]:
    def at(what: str, who: str, page: int = 0, size: int = 1 << 14) -> Any:
        return one("complexity", what, contender=who, page=page, size=size)

    yield from (at("combines", *of) for of in (("amta",), ("amta", 2), ("daba",), ("ra",)))
    yield from (at("entries", *of) for of in (("amta-redis",), ("amta-redis", 2), ("daba",)))
    for page in (0, 2):
        yield max(every("complexity", "bulk_reads", contender="amta-redis", page=page))


def _recovery() -> Iterable[float]:
    def median(who: str, size: int) -> float:
        return statistics.median(every("recovery", "seconds", contender=who, rows=1 << size))

    yield from (1000 * median("amta-rocksdb", 24), 1000 * median("amta-redis", 24))
    yield from (median("amta", 24), median("daba", 22))


def _drift() -> Iterable[Any]:
    def worst(aggregate: str, who: str) -> float:
        return float(max(every("drift", "after", aggregate=aggregate, contender=who)))

    yield from (power(worst("Sum", who)) for who in ("slide", "push"))
    frames = {power(worst("Sum", who)) for who in ("polars", "pandas")}
    assert len(frames) == 1
    yield from (frames.pop(), 100 * worst("Sum", "subtract"))
    yield from (worst("SampleStdDev", "pandas"), power(worst("SampleStdDev", "slide")))


def _slicing() -> Iterable[float]:
    for who in ("Slicing, lazy", "Slicing, a store"):
        found = every("slicing", "rate_a_second", part="windows", contender=who)
        yield from (min(found) / 1e6, max(found) / 1e6)
    buckets = every("slicing", "rate_a_second", part="windows", contender="Buckets")
    yield from (round(max(buckets), -3), min(buckets))
    batches = [_batch(f"Slicing, {kind}") / 1e6 for kind in ("lazy", "eager", "a store")]
    yield from (min(batches), max(batches), max(every("slicing", "local", part="pages")))


def _batch(who: str) -> float:
    return float(one("slicing", "rate_a_second", part="batches", contender=who))


def _rival(who: str, window: int, what: str = "ns") -> float:
    return float(one("rivals", what, contender=who, window=window))


def _rivals() -> Iterable[float]:
    most = 10**8
    yield from (_rival("amta-rocksdb", most), _rival("amta-rocksdb", most, "peak_bytes") / MIB)
    for who in ("amta", "polars", "pandas"):
        yield from (_rival(who, most), _rival(who, most, "peak_bytes") / GIB)


def _engines() -> Iterable[float]:
    yield from (_rival("flink", 10**5) / 1000, _rival("spark-tree", 10**5) / 1000)
    yield from (_rival("spark", 10**4) / 1000, _rival("duckdb", 10**6) / 1000)


def _ablation() -> Iterable[Any]:
    def ns(part: str, where: str, variant: str, what: str = "slide_ns") -> float:
        return float(one("ablation", what, part=part, where=where, variant=variant))

    best = {
        min(rows("ablation", part="pages", where=where), key=lambda row: row["slide_ns"])["page_size"]
        for where in ("in memory", "RocksDB", "Redis")
    }
    assert len(best) == 1
    far = "Redis, 0.5 ms away"
    yield from (of_two(best.pop()), ns("ahead", far, "nothing") / ns("ahead", far, "read ahead"))
    yield max(
        ns("encoding", where, "objects", what) / ns("encoding", where, "columns", what)
        for where in ("In memory", "RocksDB", "Redis")
        for what in ("slide_ns", "push_ns")
    )


IN_RESULTS = (
    Told(
        "docs/results/README.md",
        "may have {:,} MiB, over Redis and over RocksDB; cached DABA needs the limit of {:.0f} GiB, {:.0f} "
        "times as much, as in the paper, and both MTA in memory {:.0f} GiB. Resident are {:.0f} MiB over "
        "Redis, {:.0f} over RocksDB, and {:,.0f} with DABA.",
        _tuples,
    ),
    Told(
        "docs/results/README.md",
        "over Redis takes {:.0f} MiB at its peak with 2²⁰ of them, and {:.0f} with 2²⁷; over RocksDB {:.0f} "
        "and {:.0f}. DABA takes {:,.0f} MiB with 2²⁰ and {:,.0f} with 2²⁵.",
        _doubles,
    ),
    Told(
        "docs/results/README.md",
        "**Bulk eviction** of {:,} out of 2²² tuples, by medians: {:.1f} s by recomputation, {:.1f} s by "
        "DABA, {:.1f} ms by Amortized MTA over Redis and {:.1f} ms in memory: over Redis {:.0f} times less "
        "than recomputation (the paper: 400) and {:.0f} times less than DABA. The dearest over Redis, of "
        "{:,}, takes {:.1f} ms: {:.0f} times less than the dearest by recomputation.",
        _bulk,
    ),
    Told(
        "docs/results/README.md",
        "in batches of 65,536 rows keeps {:.0f} % of its speed, and {:.0f} % where nothing is read ahead; "
        "with 2 ms {:.0f} % and {:.0f} %.",
        _remote,
    ),
    Told("docs/results/README.md", "50 windows of one dimension take {:.1f} times as long", _dimensions),
    Told(
        "docs/results/README.md",
        "Filled at {:.1f} million rows a second, slid at {:.1f} with a result for each row and at {:.1f} "
        "with one for each batch, in {:.0f} MB at most; half of it evicted in {:.1f} ms, and restored in "
        "{:.1f} ms from the directory that was open. To close that directory, which gives back what is "
        "dead, and to open it again took {:.1f} s.",
        _billion,
    ),
    Told(
        "docs/results/README.md",
        "first 250 million rows come in at {:.0f} to {:.0f} million a second and take {:.0f} to {:.0f} ns of "
        "processor time each; later ones take {:.0f} to {:.0f}.",
        _billion_first,
    ),
    Told(
        "docs/results/README.md",
        "The directory had {:.2f} times the bytes of the window's elements, and {:.2f} times what",
        _billion_disk,
    ),
    Told(
        "docs/results/README.md",
        "Then filling takes {:.0f} to {:.0f} ns of processor time throughout, in {:.0f} MB, at {:.1f} "
        "million rows a second; the window slides at {:.1f} million with a result for each row, and at "
        "{:.1f} with one for each batch.",
        _billion_direct,
    ),
    *(
        Told(
            "docs/results/README.md",
            f"| {title} | " + " | ".join(["{:.2f}"] * 6) + " |\n| the paper",
            lambda who=who: _analytics(who),
        )
        for title, who in (("in memory", "amta"), ("over Redis", "amta-redis"))
    ),
    Told(
        "docs/results/README.md",
        "A round of Two-Stacks takes {:.2f} µs with 2¹⁴ elements (Sum) and {:.2f} µs with 2²⁰, of "
        "DABA {:.2f} and {:.2f}, of Amortized MTA {:.2f} and {:.2f}, of the Reactive Aggregator "
        "{:.1f} and {:.1f}.",
        _throughput,
    ),
    Told(
        "docs/results/README.md",
        "for all eight operators, and {:,} combines in its longest round; DABA has {} at most. Amortized "
        "MTA is between, with {:.1f} combines a round and {:,} in the longest.",
        _latency,
    ),
    Told(
        "docs/results/README.md",
        "overtaken at windows of {:.0f} (deviation) to {:.0f} (sum of doubles), and never for",
        _overtaken,
    ),
    Told(
        "docs/results/README.md", "From {} elements on Amortized MTA in memory is as fast", _as_fast_as_daba
    ),
    Told(
        "docs/results/README.md",
        "DABA Lite in C++ takes {:.0f} ns an element and FiBA(4) {:.0f} ns; our `push`, in Python, {:.1f} "
        "µs.",
        _one_by_one,
    ),
    Told(
        "docs/results/README.md",
        "grows by {:.1f} µs (Max) and {:.1f} µs (deviation) for each doubling.",
        lambda: map(_doubling, ("max", "stddev")),
    ),
    Told("docs/results/README.md", "B-Int is faster than RA in {} of the 15 cells of table 4", _cells),
    Told(
        "docs/results/README.md",
        "at 2²⁰: Naive {:.0f} ms, cached DABA {:.1f} µs, Amortized MTA {:.1f} µs in memory and {:.1f} over "
        "Redis, Log MTA {:.0f} and {:.0f}.",
        _update,
    ),
    Told(
        "docs/results/README.md",
        "a push takes {:.1f} combines by Amortized MTA ({:.1f} with pages of two), {:.0f} by cached DABA, "
        "{:.0f} by the Reactive Aggregator. Over a store the process has {:,} elements and partial results "
        "({:,} with pages of two) where DABA has {:,}. The worst bulk eviction makes {} round trips ({} "
        "with pages of two).",
        _counted,
    ),
    Told(
        "docs/results/README.md",
        "comes {:.0f} ms (RocksDB) and {:.0f} ms (Redis) after the imports of the new process with 2²⁴ "
        "rows, as with 2¹⁴; reading 2²⁴ rows again takes a window in memory {:.2f} s, and DABA {:.1f} s for "
        "2²².",
        _recovery,
    ),
    Told(
        "docs/results/README.md",
        "the sum is off by {} at most in `slide`, {} in `push`; polars and pandas {}; Subtract-on-Evict "
        "{:.0f} %. Of the deviation pandas' is off by a factor of {:.0f}, ours by {}.",
        _drift,
    ),
    Told(
        "docs/results/README.md",
        "lazy slices {:.2f} to {:.2f} million, slices in a store {:.2f} to {:.2f}, a bucket a window "
        "{:,.0f} to {:,.0f}. In batches {:.0f} to {:.0f} million. With up to a million slices in a window, "
        "{:,} are in the process.",
        _slicing,
    ),
    Told(
        "docs/results/README.md",
        "ours over RocksDB takes {:.0f} ns a row in {:.0f} MiB, in memory {:.0f} ns in {:.1f} GiB; polars "
        "{:.0f} ns in {:.1f} GiB, pandas {:.0f} ns in {:.1f} GiB.",
        _rivals,
    ),
    Told(
        "docs/results/README.md",
        "Flink's OVER takes {:.0f} µs a row at 10⁵, Spark's segment tree {:.0f}, Spark's default frame "
        "{:.0f} at 10⁴, DuckDB {:.1f} at 10⁶.",
        _engines,
    ),
    Told(
        "docs/results/README.md",
        "Pages of 2{} elements are fastest for batches, in memory and over both stores. At 0.5 ms a `slide` "
        "without reading ahead takes {:.1f} times as long. Objects in msgpack take up to {:.0f} times as "
        "long as columns.",
        _ablation,
    ),
)


# -- docs/slicing.md --------------------------------------------------------------------------------------

SLICED = ("Slicing, lazy", "Slicing, eager", "Slicing, a store")
OTHERS = ("Buckets", "FlatFAT without slicing", "Held, DABA a query", "Held, one B-Int")


def _thousand(part: str, who: str, **of: Any) -> float:
    return float(one("slicing", "rate_a_second", part=part, contender=who, **of)) / 1000


def _sliced(windows: int) -> Iterable[float]:
    others = OTHERS if windows <= 100 else OTHERS[:2]
    return [_thousand("windows", who, windows=windows) for who in (*SLICED, *others)]


def _side_by_side() -> Iterable[float]:
    found = {
        int(row["contender"].split()[0]): row["rate_a_second"] / 1000 for row in rows("slicing", part="flat")
    }
    yield from (found[windows] for windows in (1, 10, 100, 1000))
    yield 100 * (1 - found[1000] / found[1])


def _late() -> Iterable[float]:
    return [_thousand("late", who, late=50) for who in (SLICED[0], *OTHERS[:2])]


def _in_batches() -> Iterable[float]:
    lazy = _batch("Slicing, lazy")
    yield from (lazy / 1e6, lazy / _batch("Slicing, one by one"))
    yield from (_batch(f"Slicing, First{how}") / 1e6 for how in ("", ", one by one"))


IN_SLICING = (
    *(
        Told(
            "docs/slicing.md",
            f"| {windows:,} | "
            + " | ".join(["{:,.0f}"] * 3 + ["{:.3g}"] * (4 if windows <= 100 else 2))
            + " |",
            lambda windows=windows: _sliced(windows),
        )
        for windows in (1, 10, 100, 1000)
    ),
    Told(
        "docs/slicing.md",
        "lazy takes {:,.0f} thousand with 1 window, {:,.0f} with 10, {:,.0f} with 100 and {:,.0f} with "
        "1,000: {:.0f} % less",
        _side_by_side,
    ),
    Told("docs/slicing.md", "20 windows: lazy {:,.0f}, Buckets {:.0f}, FlatFAT {:.1f}.", _late),
    Told(
        "docs/slicing.md",
        "with 20 windows and 20 % late: {:.0f} million, {:.1f} times as many as one by one; of First, for "
        "which the order matters, {:.2f} million in batches and {:.2f} one by one.",
        _in_batches,
    ),
    Told(
        "docs/slicing.md",
        "as late ones may come: {:.0f} times slower, measured with First.",
        lambda: [_batch("Slicing, lazy") / _batch("Slicing, First")],
    ),
    Told(
        "docs/slicing.md",
        "With pages, {:,} slices are in the process",
        lambda: [max(every("slicing", "local", part="pages"))],
    ),
)


# -- what benchmarks measure: README.md and docs/spark.md -------------------------------------------------

GAPS = ("unit gaps", "random gaps")
FRAMES = ("in memory", "redis", "rocksdb", "polars", "pandas", "duckdb")
PUSHED = (
    *("AmortizedMTA", "AmortizedMTA, redis", "AmortizedMTA, rocksdb", "LogMTA"),
    *("DABA", "DABA, cached", "TwoStacks", "ReactiveAggregator"),
)
EVICTED = (
    *("AmortizedMTA", "AmortizedMTA, redis", "AmortizedMTA, rocksdb"),
    *("LogMTA", "LogMTA, redis", "DABA", "TwoStacks"),
)


def _value_of(section: str, subject: str, contender: str, bench_name: str = "engine") -> float:
    return float(bench(bench_name)[section, subject, contender]["value"])


def _note(aggregate: str, who: str) -> str:
    """Data frames have no argument of the maximum."""
    return ", only Max" if aggregate == "ArgMax" and who in ("polars", "pandas") else ""


def _slid(aggregate: str) -> Iterable[float]:
    return [_value_of("slide", f"{aggregate}, {gaps}", who) for who in FRAMES for gaps in GAPS]


def _beside_polars() -> Iterable[float]:
    """By processor time, of all aggregates that polars has."""
    lines = bench("engine")
    for where in (("in memory",), ("redis", "rocksdb")):
        for gaps in GAPS:
            subjects = [f"{aggregate}, {gaps}" for aggregate in ("Sum", "Max", "Mean", "SampleStdDev")]
            ratios = [
                lines["slide", subject, who]["cpu"] / lines["slide", subject, "polars"]["cpu"]
                for subject in subjects
                for who in where
            ]
            yield from (min(ratios), max(ratios))


def _evicted() -> Iterable[float]:
    return [1000 * _value_of("eviction", "evict(2,097,152)", who) for who in EVICTED]


def _ping() -> Iterable[float]:
    return [1000 * _value_of("eviction", "in round trips to Redis", "ping")]


def _resident(store: str) -> Iterable[float]:
    return [_value_of("memory", store, f"{count:,} elements") for count in (1 << 18, 1 << 24)]


def _spark() -> Iterable[float]:
    lines = bench("spark")
    yield lines["rolling", "rows a second", "constants"]["value"] / 1000
    for who in ("rolling, RocksDB", "rolling, Redis"):
        line = lines["rolling", "rows a second", who]
        yield from (line["value"] / 1000, line["ratio"])
    yield lines["window function", "rows a second", "segment tree"]["value"] / 1000
    yield lines["window function", "rows a second", "rolling, RocksDB"]["ratio"]


IN_BENCHMARKS = (
    *(
        Told(
            "README.md",
            f"| {aggregate} | "
            + " | ".join("{:,.0f}, {:,.0f}" + _note(aggregate, who) for who in FRAMES)
            + " |",
            lambda aggregate=aggregate: _slid(aggregate),
            "engine.json",
        )
        for aggregate in ("Sum", "Max", "Mean", "SampleStdDev", "ArgMax")
    ),
    Told(
        "README.md",
        "By processor time the window in memory takes {:.1f} to {:.1f} times as long as polars with a "
        "row every second, where polars counts rows, and {:.1f} to {:.1f} times with random gaps; over a "
        "store it takes {:.1f} to {:.1f} and {:.1f} to {:.1f} times as long.",
        _beside_polars,
        "engine.json",
    ),
    *(
        Told(
            "README.md",
            f"| {aggregate} | " + " | ".join(["{:,.0f}"] * len(PUSHED)) + " |",
            lambda aggregate=aggregate: [_value_of("push", aggregate, who) for who in PUSHED],
            "engine.json",
        )
        for aggregate in ("Sum", "Max")
    ),
    Told(
        "README.md",
        "| {:.2f} ms | {:.2f} ms | {:.1f} ms | {:.2f} ms | {:.2f} ms | {:,.0f} ms | {:,.0f} ms |",
        _evicted,
        "engine.json",
    ),
    Told("README.md", "A ping of the same Redis took {:.2f} ms.", _ping, "engine.json"),
    *(
        Told(
            "README.md",
            f"| over {title} | {{:.0f}} MB | {{:.0f}} MB |",
            lambda store=store: _resident(store),
            "engine.json",
        )
        for title, store in (("Redis", "redis"), ("RocksDB", "rocksdb"))
    ),
    Told(
        "docs/spark.md",
        "| a `mapInArrow` that appends three constants | {:.2f} million | | | `rolling`, RocksDB | "
        "{:.2f} million | {:.2f} of the constants | | `rolling`, Redis on the same machine | {:.2f} "
        "million | {:.2f} of the constants | | Spark's window function, "
        "`spark.sql.window.segmentTree.enabled=true` | {:.2f} million | `rolling` over RocksDB is {:.1f} "
        "times as fast |",
        _spark,
        "spark.json",
    ),
)


TOLD = (*IN_RESULTS, *IN_SLICING, *IN_BENCHMARKS)


def main() -> int:
    for document in dict.fromkeys(each.document for each in TOLD):
        path = ROOT / document
        text = path.read_text()
        for each in TOLD:
            if each.document == document and each.is_there():
                for difference in each.differences(text):
                    print(difference)
                text = each.corrected(text)
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
