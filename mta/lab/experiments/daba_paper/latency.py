"""Table 2 and figure 13 (top) of the DABA paper: how long single rounds take, and the longest of them."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from typing import Any

import numpy as np

from mta import monoids
from mta.lab.experiments.daba_paper.contenders import CONTENDERS, window_of
from mta.lab.experiments.daba_paper.latency_figures import Summaries, series_of, table
from mta.lab.experiments.experiment import Case, Exhibit, Experiment, Record, Row, Scale, Tell
from mta.lab.experiments.operators import OPERATORS, elements_of
from mta.lab.turns import uncollected
from mta.monoids.base import Array

WHICH = ("sum", "max", "argmax", "mincount", "mean", "stddev", "gmean", "bloom")
WHO = ("two-stacks", "foa", "ioa", "daba", "amta")
WINDOW, QUICK_WINDOW = 1 << 14, 1 << 8
ROUNDS, QUICK_ROUNDS = 1 << 19, 1 << 12
#: Turns that each contender has; operators of which there is a series, and the points in one.
TURNS, SERIES, POINTS = 8, ("sum", "gmean", "bloom"), 48


class Latency(Experiment):
    name = "latency"

    def cases(self, scale: Scale, options: argparse.Namespace) -> list[Case]:  # noqa: ARG002
        window, rounds = (QUICK_WINDOW, QUICK_ROUNDS) if scale.quick else (WINDOW, ROUNDS)
        return [{"operator": name, "window": window, "rounds": rounds} for name in WHICH]

    def title(self, case: Case) -> str:
        return f"{OPERATORS[case['operator']].title}, window {case['window']:,}, {case['rounds']:,} rounds"

    def measure(self, case: Case, tell: Tell) -> list[Row]:
        name, window, rounds = case["operator"], case["window"], case["rounds"]
        elements = elements_of(name)
        windows = {who: window_of(who, name) for who in WHO}
        streams = {who: cycle(elements) for who in WHO}
        for who in WHO:
            windows[who].extend(list(islice(streams[who], window)))
        found: dict[str, list[Array]] = {who: [] for who in WHO}
        with uncollected():
            for turn in range(TURNS):
                tell({"turn": turn})
                for who in WHO[turn % len(WHO) :] + WHO[: turn % len(WHO)]:
                    coming = list(islice(streams[who], rounds // TURNS))
                    found[who].append(np.array(_each_round(windows[who], coming)))
        clock = _clock()
        rows = []
        for who in WHO:
            # what reading the clock takes is none of theirs
            spent = np.maximum(np.concatenate(found[who]) - clock, 0)
            combines = _combines(who, window, rounds if rounds < WINDOW else 2 * WINDOW)
            rows.append({"contender": who, **_summary(spent), "clock_ns": clock, **combines})
            if name in SERIES:
                rows += [{"contender": who, **point} for point in _points(spent)]
        return rows

    def exhibits(self, records: Sequence[Record]) -> list[Exhibit]:
        rows = [row for record in records for row in self.rows(record)]
        if not rows:
            return []
        at: Summaries = {(row["operator"], row["contender"]): row for row in rows if "mean_ns" in row}
        there = [name for name in WHICH if (name, "daba") in at]
        cut = (
            "Processor time of rounds of evict, insert and query, less what reading the clock takes; "
            f"{rows[0]['rounds']:,} rounds, where the paper has a million, and a window of "
            f"{rows[0]['window']:,}."
        )
        points = [row for row in rows if "round" in row]
        return [*table(at, there, WHO, cut), *series_of(points, SERIES, cut)]


EXPERIMENT = Latency()


def _each_round(window: Any, coming: Sequence[Any]) -> list[int]:
    """Nanoseconds of processor time of each round."""
    evict, insert, query, clock = window.evict, window.insert, window.query, time.thread_time_ns
    found: list[int] = []
    note: Callable[[int], None] = found.append
    last = clock()
    for element in coming:
        evict()
        insert(element)
        query()
        now = clock()
        note(now - last)
        last = now
    return found


def _clock() -> float:
    """Nanoseconds that reading the clock takes."""
    read = [time.thread_time_ns() for _ in range(1 << 12)]
    return float(np.median(np.diff(read)))


def _summary(spent: Array) -> Row:
    return {
        "mean_ns": float(spent.mean()),
        "deviation_ns": float(spent.std()),
        "p999_ns": float(np.quantile(spent, 0.999)),
        "max_ns": float(spent.max()),
    }


def _points(spent: Array) -> list[Row]:
    parts = np.array_split(spent, POINTS)
    starts = np.cumsum([0, *map(len, parts)])
    return [
        {"round": int(start), "median_ns": float(np.median(part)), "longest_ns": float(part.max())}
        for start, part in zip(starts, parts, strict=False)
    ]


def _combines(who: str, size: int, rounds: int) -> Row:
    """Combines of a round, on average and at most: no other work on the machine can add to these."""
    count = 0

    def add(older: int, younger: int) -> int:
        nonlocal count
        count += 1
        return older + younger

    window = CONTENDERS[who].kind(monoids.from_function(add, 0, name="add"))
    window.extend([1] * size)
    found = []
    for _ in range(rounds):
        before = count
        window.evict()
        window.insert(1)
        window.query()
        found.append(count - before)
    return {"combines_mean": float(np.mean(found)), "combines_max": max(found)}
