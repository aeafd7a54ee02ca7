"""Two writers of one window: exactly one goes on, and nobody ever sees a mixture."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chance import fresh
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from mta import AmortizedMTA, Fenced, LogMTA, monoids, policies
from mta.durability.coding import decode_root
from mta.durability.operations import collect, remove, verify
from mta.window import MonoidTreeAggregator
from stores import open_store, pages_of

WHO = st.integers(0, 1)
LIMIT = 30


class Twins(RuleBasedStateMachine):
    """Each twin has its own store, and inserts letters of its own."""

    url: str
    page_size: int

    @initialize(kinds=st.lists(st.sampled_from([AmortizedMTA, LogMTA]), min_size=2, max_size=2))
    def start(self, kinds: list[type[MonoidTreeAggregator]]) -> None:
        self.kinds = kinds
        self.name = fresh("twins")
        self.stores = [open_store(self.url) for _ in range(2)]
        self.policy = policies.CountWindow(LIMIT)
        self.windows: list[MonoidTreeAggregator | None] = [
            AmortizedMTA(
                monoids.Concat(), self.policy, store=self.stores[0], name=self.name, page_size=self.page_size
            ),
            None,
        ]
        self.windows[0].checkpoint()  # type: ignore[union-attr]
        #: what each twin takes the window for, and what is committed, by version
        self.texts = ["", ""]
        self.versions = {1: ""}
        self.owner = 0

    def failed(self, who: int) -> None:
        """A twin was fenced: which must not have been the owner."""
        assert who != self.owner
        window, self.windows[who] = self.windows[who], None
        assert window is not None
        window.close()
        window._log.pages.close()

    @rule(who=WHO, count=st.integers(1, 12))
    def push(self, who: int, count: int) -> None:
        window = self.windows[who]
        if window is None:
            return
        for number in range(count):
            letter = "abcdefghijkl"[number] if who else "ABCDEFGHIJKL"[number]
            self.texts[who] = (self.texts[who] + letter)[-LIMIT:]
            try:
                result = window.push(letter)
            except Fenced:
                self.failed(who)
                return
            assert result == self.texts[who]

    @rule(who=WHO, count=st.integers(1, 60))
    def slide(self, who: int, count: int) -> None:
        window = self.windows[who]
        if window is None:
            return
        text = ("uvwxyz" if who else "UVWXYZ") * 10
        text, before = text[:count], self.texts[who]
        self.texts[who] = (before + text)[-LIMIT:]
        try:
            results = list(window.slide(list(text)))
        except Fenced:
            self.failed(who)
            return
        assert results == [(before + text[: row + 1])[-LIMIT:] for row in range(count)]

    @rule(who=WHO)
    def read(self, who: int) -> None:
        window = self.windows[who]
        if window is None:
            return
        try:
            found = [window.query(), window.range_query(-1, 10**9)]
        except Fenced:
            self.failed(who)
            return
        assert found == [self.texts[who]] * 2

    @rule(who=WHO)
    def checkpoint(self, who: int) -> None:
        window = self.windows[who]
        if window is None:
            return
        if who != self.owner:
            with pytest.raises(Fenced, match="another writer took over"):
                window.checkpoint()
            self.failed(who)
            return
        lineage = window.version or 0
        number = window.checkpoint(offset=self.texts[who])
        kept = {old: text for old, text in self.versions.items() if old <= lineage}
        self.versions = dict(list({**kept, number: self.texts[who]}.items())[-2:])

    @rule(who=WHO, older=st.booleans())
    def restore(self, who: int, older: bool) -> None:
        before = self.windows[who]
        if before is not None:
            before._log.pages.close()
        number = min(self.versions) if older else max(self.versions)
        window = self.kinds[who].restore(
            self.stores[who], self.name, monoids.Concat(), self.policy, version=number
        )
        self.windows[who], self.texts[who], self.owner = window, self.versions[number], who
        assert window.query() == self.versions[number]

    @rule(who=WHO)
    def close(self, who: int) -> None:
        window, self.windows[who] = self.windows[who], None
        if window is not None:
            window.close()

    @rule()
    def clear_away(self) -> None:
        collect(self.stores[0], grace=0)

    @precondition(lambda self: self.windows[1 - self.owner] is not None)
    @rule(count=st.integers(40, 100))
    def a_zombie_wakes_up_after_gc_and_changes_nothing(self, count: int) -> None:
        zombie = 1 - self.owner
        collect(self.stores[zombie], grace=0)
        root = self.stores[0].read_root(self.name)
        self.slide(zombie, min(count, 60))
        self.close(zombie)
        assert self.stores[0].read_root(self.name) == root

    @invariant()
    def what_is_committed_is_whole(self) -> None:
        if not hasattr(self, "versions"):
            return
        report = verify(self.stores[0], self.name)
        assert report.problems == []
        assert report.versions == sorted(self.versions)

    def teardown(self) -> None:
        if not hasattr(self, "versions"):
            return
        for window in self.windows:
            if window is not None:
                window.close()
        last = AmortizedMTA.restore(self.stores[1], self.name, monoids.Concat(), self.policy)
        assert last.query() == self.versions[max(self.versions)]
        assert last.range_query(-1, 10**9) == last.query()
        last.checkpoint()
        last.close()
        collect(self.stores[0], grace=0)
        root = decode_root(self.name, (self.stores[0].read_root(self.name) or (b"", b""))[0])
        named = {key for version in root.versions for key in version.keys(self.name)}
        assert set(self.stores[0].list_keys(pages_of(self.name))) == named
        remove(self.stores[0], self.name)
        for store in self.stores:
            store.close()


@pytest.fixture(params=["memory", "rocksdb", pytest.param("redis", marks=pytest.mark.redis)])
def url(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[str]:
    url = {"memory": f"memory:{uuid.uuid4().hex}", "rocksdb": f"rocksdb://{tmp_path}/db"}.get(request.param)
    with open_store(url or request.getfixturevalue("redis_url")):
        yield url or request.getfixturevalue("redis_url")


@pytest.mark.random
@pytest.mark.parametrize("page_size", [2, 4])
def test_twins(url: str, page_size: int) -> None:
    class Machine(Twins):
        pass

    Machine.url, Machine.page_size = url, page_size
    examples = settings.default.max_examples * (2 if url.startswith("memory") else 1) // 2
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        Machine, settings=settings(max_examples=examples, stateful_step_count=30)
    )


# -- two processes ---------------------------------------------------------------------------------------

PROGRAM = """
import json, random, sys
from pathlib import Path
from mta import AmortizedMTA, Fenced, monoids, policies
from stores import open_store

url, name, letter, directory = sys.argv[1:]
rng, log = random.Random(letter), []
enough, end = Path(directory, f"enough {letter}"), Path(directory, "end")
with open_store(url) as store:
    while not end.exists():
        window = AmortizedMTA.restore(store, name, monoids.Concat(), policies.CountWindow(40))
        text, before, committed = window.offset, window.version, window.offset
        try:
            assert window.query() == text
            for _ in range(rng.randint(1, 30)):
                for _ in range(rng.randint(1, 20)):
                    text = (text + letter)[-40:]
                    assert window.push(letter) == text
                if rng.random() < 0.5:
                    version = window.checkpoint(offset=text)
                    log.append([before, version, committed, text])
                    before, committed = version, text
        except Fenced:
            log.append(None)
        window.close()
        if None in log and len(log) > log.count(None) + 2:
            enough.touch()
print(json.dumps(log))
"""


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("redis", marks=pytest.mark.redis),
        pytest.param("couchbase", marks=[pytest.mark.couchbase, pytest.mark.long]),
    ],
)
def test_two_processes(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    url, name = request.getfixturevalue(f"{kind}_url"), fresh("twins")
    with open_store(url) as store:
        with AmortizedMTA(
            monoids.Concat(), policies.CountWindow(40), store=store, name=name, page_size=4
        ) as window:
            window.checkpoint(offset="")
        twins = [
            subprocess.Popen(
                [sys.executable, "-c", PROGRAM, url, name, letter, str(tmp_path)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for letter in "ab"
        ]
        # both have been fenced now and then, and both have gone on
        while len(list(tmp_path.glob("enough *"))) < 2 and all(twin.poll() is None for twin in twins):
            collect(store, grace=0)
        (tmp_path / "end").touch()
        outputs = [twin.communicate() for twin in twins]
        assert [error for _, error in outputs] == ["", ""]
        logs = [json.loads(text) for text, _ in outputs]
        commits = sorted(commit for log in logs for commit in log if commit is not None)
        # one line of versions: each goes on from the one before
        assert [version for _, version, _, _ in commits] == list(range(2, len(commits) + 2))
        text = ""
        for before, version, begin, end in commits:
            assert (before, begin) == (version - 1, text)
            text = end
        with AmortizedMTA.restore(store, name, monoids.Concat(), policies.CountWindow(40)) as window:
            assert window.query() == text
            window.checkpoint(offset=text)
        collect(store, grace=0)
        assert verify(store, name).problems == []
        remove(store, name)
