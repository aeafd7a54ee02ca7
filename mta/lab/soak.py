"""`mta soak`: writers are killed at random moments, again and again, and nothing may be lost or wrong.

A child pushes a seeded stream through a window and makes checkpoints with its place in the stream. The
parent kills it, and the next child restores the window and goes on from the offset. Every result that any of
them has told must be that of a run without interruption, and no checkpoint that was told may be forgotten. In
the end the store must hold exactly what the retained versions name.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

from rich.console import Console

from mta.durability.coding import decode_root
from mta.durability.operations import collect, remove, verify
from mta.lab.signals import terminable, undivided
from mta.lab.soak_stream import (
    AIMED,
    CALLS,
    COMMITTED,
    FAILED,
    OPENED,
    RECORD,
    RESTORED,
    RESULT,
    Lane,
    Orders,
    clear_away,
    push,
)
from stores import Store, open_store, pages_of, store_class

#: Seconds that a child may take before it has opened its store.
PATIENCE = 60.0
#: A machine that is busy with other work gives a child so much less of its time, at worst.
SLOWEST = 64.0
#: Kills beyond what was asked for, until a checkpoint has been made and restored.
MOST_MORE = 1000
SHAPES: tuple[tuple[str, str, int | None, int, int], ...] = (
    # kind, algorithm, page size, steps that the window spans, rows of the largest batch
    ("ArgMax", "AmortizedMTA", 2, 40, 30),
    ("Concat", "AmortizedMTA", 4, 30, 20),
    ("LongestIncreasingRun", "LogMTA", 64, 100, 300),
    ("ArgMax", "AmortizedMTA", None, 60, 9000),
)


class SoakFailed(Exception):
    """What the soak was to find."""


@dataclass
class Figures:
    kills: Counter[str] = field(default_factory=Counter)
    restores: int = 0
    rewinds: int = 0
    checkpoints: int = 0
    results: int = 0
    seconds: float = 0.0


class Stream:
    """A lane, what its results are, and what was told of it."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self._model = lane.new(None)
        self._expected: list[int] = []
        #: the offset that the last checkpoint has at least
        self.floor = 0

    def expected(self, step: int) -> int:
        while len(self._expected) <= step:
            self._expected.append(self.lane.apply(self._model, len(self._expected)))
        return self._expected[step]


def run(url: str, *, kills: int = 100, seed: int | None = None, json_file: Path | None = None) -> int:
    """Prints a summary; 0 if nothing was lost or wrong, else 1."""
    seed = random.SystemRandom().getrandbits(32) if seed is None else seed
    if store_class(url).local:
        raise OSError(f"the store {url} dies with its process: give a rocksdb:, redis: or couchbase: URL")
    with warnings.catch_warnings(), terminable(), _Children() as children:
        warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)
        soak = Soak(url, kills, seed, children)
        problem = soak.run()
    record = soak.record(problem)
    if json_file is not None:
        json_file.write_text(json.dumps(record, indent=1) + "\n")
    out = Console(highlight=False)
    for key, value in record.items():
        text = ", ".join(f"{k} {v:,}" for k, v in value.items()) if isinstance(value, dict) else value
        out.print(f"{key.replace('_', ' ')}: {text}", markup=False)
    return 1 if problem else 0


class Soak:
    def __init__(self, url: str, kills: int, seed: int, children: _Children) -> None:
        self._url, self._kills, self._seed, self._children = url, kills, seed, children
        self._rng = random.Random(seed)
        self._one_process = store_class(url).exclusive
        run_id = uuid4().hex[:8]
        self.streams = [
            Stream(Lane(f"soak-{run_id}-{number}", *shape, seed=f"{seed}:{number}"))
            for number, shape in enumerate(SHAPES)
        ]
        self.figures = Figures()
        #: how many times longer than on an idle machine a child lives, so that it comes to something
        self._pace = 1.0
        self.found: dict[str, int] = {}

    def run(self) -> str | None:
        """What went wrong, if anything did."""
        started = time.monotonic()
        try:
            said = 0
            while self._goes_on(done := self.figures.kills.total()):
                if done >= said + max(1, self._kills // 20):
                    said = done
                    print(f"{done:,} of {self._kills:,} kills", file=sys.stderr, flush=True)
                self._round()
            self.figures.seconds = time.monotonic() - started
            self._finish()
        except SoakFailed as error:
            return str(error)
        return None

    def _goes_on(self, done: int) -> bool:
        """A soak in which no writer lived long enough has shown nothing."""
        shown = self.figures.restores and self.figures.checkpoints
        if not shown and done >= self._kills + MOST_MORE:
            raise SoakFailed(f"none of {done} writers lived long enough to commit and be restored")
        return done < self._kills or not shown

    def record(self, problem: str | None) -> dict[str, Any]:
        figures = self.figures
        return {
            "outcome": problem or "nothing was lost, wrong or left over",
            "store": self._url.partition("@")[2] or self._url,
            "seed": self._seed,
            "kills": dict(sorted(figures.kills.items())),
            "all_kills": figures.kills.total(),
            "seconds": round(figures.seconds, 1),
            "restores": figures.restores,
            "of_older_versions": figures.rewinds,
            "checkpoints": figures.checkpoints,
            "results_compared": figures.results,
            **self.found,
        }

    # -- rounds -----------------------------------------------------------------------------------------

    def _round(self) -> None:
        rng = self._rng
        collector = None
        if rng.random() < 0.2:
            collector = _Child(self._children, lambda _: clear_away(self._url))
            if self._one_process:
                self._kill_collector(collector)
                return
        draw = rng.random()
        aim = (rng.choice(CALLS), int(rng.expovariate(0.2))) if draw < 0.5 else None
        stream = rng.choice(self.streams)
        orders = Orders(
            stream.lane, str(rng.random()), rng.choice((0.02, 0.1, 0.5)), aim, rewind=rng.random() < 0.1
        )
        # what kills it if the call that was aimed at does not come: a moment after it started, or after it
        # had restored its window
        early = draw > 0.9
        life = rng.uniform(0, 0.05) if early else rng.uniform(0, 0.25) * self._pace
        child = _Child(self._children, lambda pipe: push(self._url, orders, pipe))
        if collector is not None:
            self._kill_collector(collector)
        how = self._watch(child, life, early)
        self.figures.kills[how] += 1
        self._check(stream, child)
        if not early:
            committed = any(kind == COMMITTED for kind, _, _ in child.told)
            self._pace = max(1.0, self._pace / 2) if committed else min(self._pace * 1.25, SLOWEST)

    def _kill_collector(self, collector: _Child) -> None:
        time.sleep(self._rng.uniform(0, 0.1))
        collector.kill()
        self.figures.kills["gc"] += 1

    def _watch(self, child: _Child, life: float, early: bool) -> str:
        """Reads what a child tells until its end has come; returns what it was killed in."""
        deadline = time.monotonic() + (life if early else PATIENCE)
        alive = False
        while (left := deadline - time.monotonic()) > 0 and child.read(left):
            kinds = {kind for kind, _, _ in child.fresh}
            if AIMED in kinds:
                time.sleep(self._rng.choice((0, 0, self._rng.uniform(0, 0.002))))
                break
            if RESTORED in kinds and not early:
                alive, deadline = True, time.monotonic() + life
        child.kill()
        if not early and not alive and not any(kind in (AIMED, OPENED, FAILED) for kind, _, _ in child.told):
            raise SoakFailed(f"a child did not open {self._url} within {PATIENCE:.0f} s")
        aimed = [call for kind, call, _ in child.told if kind == AIMED]
        if aimed:
            return CALLS[aimed[0]]
        return "any moment" if any(kind == RESTORED for kind, _, _ in child.told) else "open or restore"

    def _check(self, stream: Stream, child: _Child) -> None:
        name = stream.lane.name
        if child.failure is not None:
            raise SoakFailed(f"window {name}: a child failed instead of being killed:\n{child.failure}")
        for kind, first, second in child.told:
            if kind == RESTORED:
                self.figures.restores += first > 0
                self.figures.rewinds += second
                if first < stream.floor and not second:
                    raise SoakFailed(
                        f"window {name}: the checkpoint at {stream.floor} is lost, {first} is there"
                    )
                stream.floor = min(first, stream.floor)
            elif kind == COMMITTED:
                self.figures.checkpoints += 1
                stream.floor = first
            elif kind == RESULT:
                self.figures.results += 1
                if stream.expected(first) != second:
                    raise SoakFailed(f"window {name}: the result of step {first} is wrong")

    # -- the end ----------------------------------------------------------------------------------------

    def _finish(self) -> None:
        """The windows go on, are closed, and the store holds what they name and nothing else."""
        self.found = {"pages": 0, "leaked": 0, "missing": 0, "aggregates_verified": 0}
        with open_store(self._url) as store:
            for stream in self.streams:
                self._go_on(store, stream)
            collect(store, grace=3600)
            for stream in self.streams:
                self._compare(store, stream.lane.name)
            for stream in self.streams:
                report = verify(store, stream.lane.name)
                self.found["aggregates_verified"] += report.recomputed
                if not report.ok or report.monoid is None:
                    raise SoakFailed(f"window {stream.lane.name}: {report.problems + report.unchecked}")
            for stream in self.streams:
                remove(store, stream.lane.name)
                if list(store.list_keys(pages_of(stream.lane.name))):
                    raise SoakFailed(f"window {stream.lane.name}: pages are left after it was removed")

    def _go_on(self, store: Store, stream: Stream) -> None:
        lane = stream.lane
        found = store.read_root(lane.name)
        fresh = found is None or not decode_root(lane.name, found[0]).versions
        with lane.new(store) if fresh else lane.restore(store) as window:
            step = window.offset or 0
            if step < stream.floor:
                raise SoakFailed(
                    f"window {lane.name}: the checkpoint at {stream.floor} is lost, {step} is there"
                )
            for each in range(step, step + 30):
                if lane.apply(window, each) != stream.expected(each):
                    raise SoakFailed(f"window {lane.name}: the result of step {each} is wrong in the end")
            window.checkpoint(offset=step + 30)

    def _compare(self, store: Store, name: str) -> None:
        found = store.read_root(name)
        assert found is not None
        named = {key for version in decode_root(name, found[0]).versions for key in version.keys(name)}
        held = set(store.list_keys(pages_of(name)))
        self.found["pages"] += len(named)
        self.found["leaked"] += len(held - named)
        self.found["missing"] += len(named - held)
        if held != named:
            counts = f"{len(held - named)} pages leaked, {len(named - held)} missing"
            raise SoakFailed(f"window {name}: {counts}, such as {sorted(held ^ named)[:3]}")


class _Children:
    """The processes that were forked and not yet killed: none of them outlives this, nor this process."""

    def __init__(self) -> None:
        self.pids: set[int] = set()
        # its write end is closed when this process ends, however it does
        self._lifeline = os.pipe()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with undivided():
            for pid in tuple(self.pids):
                self.kill(pid)
            for end in self._lifeline:
                os.close(end)

    def kill(self, pid: int) -> None:
        with undivided():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            self.pids.remove(pid)

    def hang_on(self) -> None:
        """Has a child end with its parent."""
        read_end, write_end = self._lifeline
        os.close(write_end)

        def watch() -> None:
            os.read(read_end, 1)
            os.kill(os.getpid(), signal.SIGKILL)

        threading.Thread(target=watch, daemon=True).start()


class _Child:
    """A forked process, and what it tells through a pipe."""

    def __init__(self, children: _Children, work: Callable[[int], None]) -> None:
        self._children = children
        sys.stdout.flush()
        sys.stderr.flush()
        with undivided():
            self._read_end, write_end = os.pipe()
            self._pid = os.fork()
            if self._pid:
                children.pids.add(self._pid)
            else:
                code = 1
                try:
                    children.hang_on()
                    work(write_end)
                    code = 0
                finally:
                    os._exit(code)
            os.close(write_end)
        self._data = b""
        #: records, all of them and those that the last read brought
        self.told: list[tuple[int, int, int]] = []
        self.fresh: list[tuple[int, int, int]] = []
        self.failure: str | None = None

    def read(self, timeout: float) -> bool:
        """Waits for more; false at the end, or after an error."""
        self.fresh = []
        if not select.select([self._read_end], [], [], timeout)[0]:
            return True
        data = os.read(self._read_end, 1 << 16)
        self._data += data
        while len(self._data) >= RECORD.size and self.failure is None:
            kind, first, second = RECORD.unpack_from(self._data)
            self._data = self._data[RECORD.size :]
            self.fresh.append((kind, first, second))
            if kind == FAILED:
                self.failure = ""
        if self.failure is not None:
            self.failure += self._data.decode(errors="replace")
            self._data = b""
        self.told += self.fresh
        return bool(data)

    def kill(self) -> None:
        """Kills it, and reads what it still had told."""
        self._children.kill(self._pid)
        while self.read(1.0):
            pass
        os.close(self._read_end)
