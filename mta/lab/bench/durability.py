"""`mta bench durability`: what checkpoints write and cost, and what restoring reads and costs."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from mta import AmortizedMTA, monoids, policies
from mta.lab.bench.report import Section
from mta.lab.contents import discard, discarded
from mta.lab.harness import Setting, run_benchmark
from mta.lab.turns import Timings, interleaved
from mta.window import MonoidTreeAggregator
from stores import CountingStore, Store

NEW_ROWS = (1, 100, 100_000)
#: Bytes that a checkpoint after one row may write, whatever the window.
ONE_ROW = 4096
#: How much longer a slide may take with a checkpoint after each batch.
OVERHEAD = 1.10
BATCH = 1 << 16


def run(
    *,
    quick: bool = False,
    redis_url: str | None = None,
    json_file: Path | None = None,
    out: Console | None = None,
) -> dict[str, Any]:
    """Measures, prints tables to `out`, and returns what `json_file` gets."""
    measures = (_checkpoints, _restore, _overhead)
    return run_benchmark(
        "durability", measures, quick=quick, redis_url=redis_url, json_file=json_file, out=out
    )


def _sizes(setting: Setting) -> tuple[int, int]:
    return (1 << 8, 1 << 12) if setting.quick else (1 << 10, 1 << 24)


def _of(rows: int) -> str:
    power = rows.bit_length() - 1
    return f"window of 2^{power}"


def _filled(store: Store, rows: int, page_size: int | None) -> MonoidTreeAggregator:
    policy = policies.CountWindow(rows)
    window = AmortizedMTA(monoids.Max(), policy, store=store, page_size=page_size)
    rng = np.random.default_rng(6)
    for start in range(0, rows, BATCH):
        window.extend(rng.random(min(BATCH, rows - start)))
    window.checkpoint()
    return window


# -- what a checkpoint writes ----------------------------------------------------------------------------


def _checkpoints(setting: Setting) -> Section:
    section = Section("checkpoint", "bytes, calls to the store and time of a checkpoint after some new rows")
    section.raw = {"window": {}}
    costs: dict[tuple[int, int], dict[str, list[Any]]] = {}
    all_new = NEW_ROWS[: 2 if setting.quick else 3]
    for rows in _sizes(setting):
        setting.say(f"checkpoint: {_of(rows)}")
        store = CountingStore(setting.redis)
        raw = section.raw["window"][str(rows)] = {}
        with discarded(_filled(store, rows, setting.page_size)) as window:
            for new in all_new:
                raw[str(new)] = costs[rows, new] = _checkpoint_costs(store, window, new)
    small, large = _sizes(setting)
    for new in all_new:
        subject = f"after {new:,} new row{'s' * (new > 1)}"
        for rows in (small, large):
            measured = costs[rows, new]
            target = ONE_ROW if new == 1 and not setting.quick else None
            section.add(subject, f"{_of(rows)}, most bytes", max(measured["bytes"]), "B", target=target)
            section.add(subject, f"{_of(rows)}, most calls", max(measured["calls"]), "")
            section.add(subject, f"{_of(rows)}, time", statistics.median(measured["seconds"]), "s")
    medians = [statistics.median(costs[rows, 1]["bytes"]) for rows in (small, large)]
    section.add(
        "after 1 new row", "difference of the windows", abs(medians[0] - medians[1]), "B",
        target=None if setting.quick else ONE_ROW / 4,
        note="of the medians: entries of upper tiers that stand in the manifest",
    )  # fmt: skip
    subjects = list(dict.fromkeys(line.subject for line in section.lines))
    section.lines.sort(key=lambda line: subjects.index(line.subject))
    return section


def _checkpoint_costs(store: CountingStore, window: MonoidTreeAggregator, new: int) -> dict[str, list[Any]]:
    rng = np.random.default_rng(new)
    found: dict[str, list[Any]] = {"bytes": [], "calls": [], "seconds": []}
    for number in range(100 if new < 1000 else 10):
        values = rng.random(new)
        store.reset()
        window.extend(values)
        begin = time.perf_counter()
        window.checkpoint(offset=number)
        found["seconds"].append(time.perf_counter() - begin)
        found["bytes"].append(store.bytes_written)
        found["calls"].append(store.calls["put_many"] + store.calls["swap_root"])
        time.sleep(0.001)
    return found


# -- restoring -------------------------------------------------------------------------------------------


def _restore(setting: Setting) -> Section:
    section = Section("restore", "time, and pages read, until a restored window has given its first result")
    section.raw = {"window": {}}
    for rows in _sizes(setting):
        for name, inner in (("rocksdb", setting.rocksdb), ("redis", setting.redis)):
            setting.say(f"restore: {_of(rows)}, {name}")
            store = CountingStore(inner)
            window = _filled(store, rows, setting.page_size)
            window.close()
            seconds, pages = [], []
            for _ in range(3 if setting.quick else 20):
                store.reset()
                gc.collect()
                begin = time.perf_counter()
                again = AmortizedMTA.restore(store, window.name, monoids.Max(), window.policy)
                again.push(0.5)
                seconds.append(time.perf_counter() - begin)
                pages.append(store.keys_read)
                again.close()
            discard(inner, window.name)
            section.raw["window"].setdefault(str(rows), {})[name] = {"seconds": seconds, "pages": pages}
            section.add(_of(rows), f"{name}, time", statistics.median(seconds), "s")
            section.add(_of(rows), f"{name}, pages read", max(pages), "")
    return section


# -- what checkpoints cost a stream ----------------------------------------------------------------------


def _overhead(setting: Setting) -> Section:
    window, batch = (1 << 14, 1 << 12) if setting.quick else (1 << 20, BATCH)
    repetitions = 2 if setting.quick else 7
    section = Section(
        "overhead", f"slide over a window of {window:,} rows, with a checkpoint each {batch:,} rows; per row"
    )
    section.raw = {"window": window, "batch": batch, "timings": {}}
    for name, store in (("rocksdb", setting.rocksdb), ("redis", setting.redis)):
        setting.say(f"overhead: {name}")
        timings = {kind: Timings(window) for kind in ("without", "with")}
        with ExitStack() as stack:
            streams: dict[str, Callable[[int], Callable[[], None]]] = {}
            for kind in timings:
                made = AmortizedMTA(
                    monoids.Max(), policies.CountWindow(window), store=store, page_size=setting.page_size
                )
                stack.enter_context(discarded(made))
                streams[kind] = _stream(made, window, batch, checkpoints=kind == "with")
                streams[kind](0)()  # fills the window
            for _ in interleaved(streams, timings, repetitions):
                gc.collect()
        section.raw["timings"][name] = {kind: timing.record() for kind, timing in timings.items()}
        section.add(name, "without", timings["without"].ns, "ns", cpu=timings["without"].cpu_ns)
        section.add(
            name, "with checkpoints", timings["with"].ns, "ns", cpu=timings["with"].cpu_ns,
            reference="without", ratio=timings["with"].ratio(timings["without"]),
            target=None if setting.quick else OVERHEAD,
        )  # fmt: skip
    return section


def _stream(
    window: MonoidTreeAggregator, rows: int, batch: int, *, checkpoints: bool
) -> Callable[[int], Callable[[], None]]:
    values = np.random.default_rng(8).random(rows)

    def ready(_: int) -> Callable[[], None]:
        def work() -> None:
            for start in range(0, rows, batch):
                window.slide(values[start : start + batch])
                if checkpoints:
                    window.checkpoint(offset=start)

        return work

    return ready
