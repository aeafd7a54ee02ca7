"""Readers in many processes beside a writer that checkpoints and evicts all the time."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import pytest
import reading
from chance import examples, fresh, generator

from mta import AmortizedMTA
from mta.durability.coding import decode_root
from mta.durability.manifest import Root
from mta.durability.operations import collect, verify
from stores import Store, open_store, pages_of

SCRIPT = str(Path(reading.__file__))


class Process:
    """A process that reads: each line that it is given lets it ask once more."""

    def __init__(self, url: str, name: str, seed: str, pins: bool) -> None:
        self.child = subprocess.Popen(
            [sys.executable, SCRIPT, url, name, seed, "pins" if pins else "no"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.answers: list[list[Any]] = []
        self.opened = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._talk)
        self._thread.start()

    def _talk(self) -> None:
        out: IO[str] = self.child.stdout  # type: ignore[assignment]
        into: IO[str] = self.child.stdin  # type: ignore[assignment]
        for line in out:
            if self.opened.is_set():
                self.answers.append(json.loads(line))
                if self._stop.is_set():
                    into.close()
                    break
                into.write("\n")
                into.flush()
            self.opened.set()
        self.opened.set()

    def end(self) -> str:
        """What it complained of; it has closed its reader, and with it ended its pin."""
        self._stop.set()
        self._thread.join()
        with self.child as child:
            return child.stderr.read()  # type: ignore[union-attr]

    def kill(self) -> None:
        """It leaves its pin, which expires."""
        self._stop.set()
        self._thread.join()
        with self.child as child:
            child.kill()


def held(store: Store, name: str) -> set[str]:
    return set(store.list_keys(pages_of(name)))


def root_of(store: Store, name: str) -> Root:
    return decode_root(name, (store.read_root(name) or (b"", b""))[0])


def named(store: Store, name: str) -> set[str]:
    return {key for version in root_of(store, name).retained for key in version.keys(name)}


@pytest.mark.parametrize(
    ("readers", "checkpoints"),
    # MTA_TIMES=10 makes a thousand checkpoints of the many
    [(4, 60), pytest.param(20, examples(100), marks=pytest.mark.long)],
    ids=["few", "many"],
)
def test_each_answer_is_that_of_the_version_it_names(store_url: str, readers: int, checkpoints: int) -> None:
    if store_url.startswith("memory:"):
        pytest.skip("its data is visible to one process only")
    pins, name, chance = not store_url.startswith("rocksdb:"), fresh("read"), generator()
    versions: dict[int, tuple[int, int]] = {}  # head and tail
    with open_store(store_url) as store, ExitStack() as ends:
        window = AmortizedMTA(reading.MONOID, reading.POLICY, store=store, name=name, page_size=4)
        ends.callback(window.close)
        count = 0

        def go_on() -> None:
            nonlocal count
            for _ in range(chance.choice([1, 9, 60])):
                window.push(reading.element(count), reading.time_of(count))
                count += 1
            window.evict(min(len(window), chance.choice([0, 1, 30])))
            # never fenced, whatever readers do
            versions[window.checkpoint(offset=count)] = (count - len(window), count)

        go_on()
        processes = [Process(store_url, name, f"{name}-{i}", pins) for i in range(readers)]
        ends.callback(lambda: [each.kill() for each in processes if each.child.poll() is None])
        for process in processes:
            assert process.opened.wait(300)
        for _ in range(checkpoints):
            go_on()
        slow = time.monotonic() + 300
        while min(len(process.answers) for process in processes) < 10 and time.monotonic() < slow:
            go_on()
        processes.pop().kill()
        for process in processes:
            assert process.end() == ""
            assert process.child.returncode == 0
        seen = set()
        for process in processes:
            assert len(process.answers) >= 10
            for answer in process.answers:
                check(answer, versions)
                seen.add(answer[0])
        assert len(seen) > 3
        assert verify(store, name).problems == []
        deadline = time.monotonic() + 300
        while root_of(store, name).pins and time.monotonic() < deadline:  # of the one that was killed
            go_on()
        go_on()
        window._log.pages._writer.finish()  # type: ignore[attr-defined]
        collect(store, grace=0)
        root = root_of(store, name)
        assert (root.pins, root.pinned) == ((), ())
        assert held(store, name) == named(store, name)
        window.close()
        assert held(store, name) == named(store, name)


def check(answer: list[Any], versions: dict[int, tuple[int, int]]) -> None:
    """An answer by plain recomputation of the version that it names."""
    number, offset, length, what, *rest = answer
    head, tail = versions[number]
    assert (offset, length) == (tail, tail - head)
    if what == "query":
        kept = range(head, tail)
    elif what == "at":
        moment = rest[0]
        if moment >= reading.time_of(tail - 1):
            kept = range(head, tail)
        else:
            end = sum(reading.time_of(i) <= moment for i in range(tail))
            kept = range(max(0, end - 200), end)
            assert not kept or kept[0] >= head
    elif what == "range":
        kept = range(head, tail)
        t0, t1 = rest[:2]
        kept = [i for i in kept if t0 <= reading.time_of(i) <= t1]  # type: ignore[assignment]
    else:
        assert what == "refused"
        return
    assert rest[-1] == "".join(map(reading.element, kept))
