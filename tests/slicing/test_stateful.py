"""A slicer from its first tuple to its last, with all that may happen, beside the plain reference."""

from __future__ import annotations

import math
from typing import Any
from uuid import uuid4

from chance import examples
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from plain_windows import Plain
from window_kinds import MONOIDS, Uneven, content, counted, known

from mta.slicing import ContentWindow, Punctuation, Slicer
from stores import open_store

VALUES, TIMES = st.integers(0, 30), st.integers(-30, 12)
BATCH = st.lists(st.tuples(VALUES, TIMES), max_size=20)


def third(value: int) -> int:
    return value % 3


class Changes:
    """A plain reference for `changes_only`: it never forgets a value."""

    def __init__(self) -> None:
        self.values: dict[Any, Any] = {}

    def of(self, results: list[Any]) -> list[Any]:
        kept = []
        for result in results:
            name, start, end, value, is_update = result
            reference = (name, start, end) if is_update else name
            if reference not in self.values or self.values[reference] != value:
                kept.append(result)
            self.values[name, start, end] = value
            if not is_update:
                self.values[name] = value
        return kept

    def without(self, name: str) -> None:
        self.values = {which: each for which, each in self.values.items() if name not in (which, which[0])}


class Life(RuleBasedStateMachine):
    slicer: Any = None

    @initialize(
        store=st.sampled_from(["lazy", "eager", "paged"]),
        monoid=st.sampled_from(sorted(MONOIDS)),
        option=st.sampled_from(["", "", "by", "in_order", "changes_only"]),
        lateness=st.integers(0, 40),
        pairs=st.lists(st.one_of(known(), known(), counted, content), max_size=20),
    )
    def begin(self, store: str, monoid: str, option: str, lateness: int, pairs: Any) -> None:
        self.kind, self.result = MONOIDS[monoid]
        self.paged = store == "paged"
        if self.paged:
            option = "" if option == "by" else option
            pairs = [pair for pair in pairs if not self._moves(pair[0])]
        self.by = {"by": third} if option == "by" else {}
        options: dict[str, Any] = {**self.by}
        if option in ("in_order", "changes_only"):
            options[option] = True
        lateness = 0 if option == "in_order" else lateness
        self.in_order = option == "in_order"
        self.store: Any = store
        if self.paged:
            self.store = open_store(f"memory:{uuid4().hex}")
            options |= {"page_size": 2, "local": 1, "name": "s"}
        named = {f"q{number}": pair for number, pair in enumerate(pairs)}
        mine = {name: pair[0] for name, pair in named.items()}
        self.slicer = Slicer(self.kind, mine, lateness=lateness, store=self.store, **options)
        self.plains = {
            key: Plain({name: pair[1] for name, pair in named.items()}, self.result, lateness, self.paged)
            for key in (range(3) if self.by else [None])
        }
        self.changes = Changes() if option == "changes_only" else None
        self.now = self.youngest = self.watermark = self.added = 0

    def _moves(self, kind: Any) -> bool:
        return isinstance(kind, ContentWindow) or getattr(kind, "measure", "time") == "count"

    def _taken(self, batch: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Tuples around now, or behind the tuple before; the reference gets them too."""
        taken = []
        for value, by in batch:
            time = self.now + by
            if self.in_order:
                self.youngest += abs(by) // 3
                time = self.youngest
            self.plains[third(value) if self.by else None].insert(value, time)
            taken.append((value, time))
        return taken

    @rule(value=VALUES, by=TIMES, on=st.integers(0, 4))
    def insert(self, value: int, by: int, on: int) -> None:
        self.now += on
        ((value, time),) = self._taken([(value, by)])
        self.slicer.insert(value, time=time)

    @rule(batch=BATCH, on=st.integers(0, 9))
    def extend(self, batch: list[tuple[int, int]], on: int) -> None:
        self.now += on
        taken = self._taken(batch)
        self.slicer.extend([value for value, _ in taken], [time for _, time in taken])

    @rule(behind=st.integers(0, 15))
    def pass_watermark(self, behind: int) -> None:
        self._compare(max(self.watermark, self.now - behind))

    def _compare(self, time: float) -> None:
        self.watermark = time
        results = self.slicer.watermark(time)
        got = [(r.query, r.start, r.end, r.value, r.is_update) for r in results]
        if self.by:
            expected = [(*row, key) for key, plain in self.plains.items() for row in plain.watermark(time)]
            got = [(*row, r.key) for row, r in zip(got, results, strict=True)]
            assert sorted(got, key=repr) == sorted(expected, key=repr)
            return
        expected = self.plains[None].watermark(time)
        assert got == (expected if self.changes is None else self.changes.of(expected))

    @precondition(lambda self: self.slicer is not None)
    @rule(
        pair=st.one_of(known(), counted, content), history=st.booleans(), own=st.none() | st.integers(0, 50)
    )
    def add(self, pair: Any, history: bool, own: int | None) -> None:
        if (self.paged and self._moves(pair[0])) or (history and isinstance(pair[0], ContentWindow)):
            return
        name = f"a{self.added}"
        self.added += 1
        own = None if self.in_order else own
        since = self.slicer.add(name, pair[0], history=history, lateness=own)
        if not history:
            times = [time for plain in self.plains.values() for time, _, _ in plain.tuples]
            now = max((plain.time for plain in self.plains.values()), default=-math.inf)
            assert since == max([now, *(math.nextafter(time, math.inf) for time in times)])
        for plain in self.plains.values():
            plain.queries[name], plain.since[name] = pair[1], since
            if own is not None:
                plain.own[name] = own

    @precondition(lambda self: self.slicer is not None and self.slicer.queries)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.slicer.queries)))
        self.slicer.remove(name)
        for plain in self.plains.values():
            plain.without(name)
        if self.changes is not None:
            self.changes.without(name)

    @precondition(lambda self: self.slicer is not None)
    @rule(other=st.sampled_from(["lazy", "eager"]), lost=st.booleans())
    def restart(self, other: str, lost: bool) -> None:
        functions = {
            name: kind
            for name, kind in self.slicer.queries.items()
            if isinstance(kind, (Uneven, Punctuation))
        }
        if not self.paged:
            self.slicer = Slicer.load(self.slicer.dump(), self.kind, functions, store=other, **self.by)
            return
        self.slicer.checkpoint()
        if lost and not self.in_order:
            self.slicer.extend([1, 2], [self.now, self.now - 3])
        self.slicer = Slicer.restore(self.store, "s", self.kind, functions, local=1)

    @invariant()
    def as_many_were_too_late(self) -> None:
        if self.slicer is not None:
            assert self.slicer.late_dropped == sum(plain.late_dropped for plain in self.plains.values())

    def teardown(self) -> None:
        if self.slicer is not None:
            self._compare(math.inf if self.watermark % 2 else self.watermark + 300)
            self.slicer.close()


Life.TestCase.settings = settings(
    max_examples=examples(150), stateful_step_count=30, suppress_health_check=[HealthCheck.too_slow]
)
TestLife = Life.TestCase
