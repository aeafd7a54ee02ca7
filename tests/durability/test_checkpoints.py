"""Checkpoints at any moment, crashes, and restoring of any retained version, against a plain list."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
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

from mta import AmortizedMTA, LogMTA, ManifestMismatch, WindowExists, WindowNotFound, monoids, policies
from mta.durability.coding import decode_root
from mta.durability.operations import collect, remove, verify
from mta.errors import WindowError
from mta.monoids.base import Monoid
from mta.policies import Policy
from mta.window import MonoidTreeAggregator
from stores import Store, open_store, pages_of

OFFSETS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
    | st.binary(max_size=5)
    | st.complex_numbers(allow_nan=False),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=3), inner, max_size=3)
        | st.frozensets(st.integers(), max_size=3)
    ),
    max_leaves=6,
)

WINDOWS: dict[str, tuple[Policy | None, type[MonoidTreeAggregator]]] = {
    "count": (policies.CountWindow(23), AmortizedMTA),
    "count-log": (policies.CountWindow(23), LogMTA),
    "one": (policies.CountWindow(1), AmortizedMTA),
    "time": (policies.TimeWindow(40), AmortizedMTA),
    "closed-time-log": (policies.TimeWindow(40, closed="both"), LogMTA),
    "predicate": (policies.While(lambda total, old: len(total) - len(old) >= 9), AmortizedMTA),
    "union": (policies.TimeWindow(60) | policies.CountWindow(15), LogMTA),
    "no policy": (None, AmortizedMTA),
}


@dataclass(frozen=True)
class State:
    """What a window holds, and the offset that its checkpoint has."""

    elements: tuple[tuple[float, str], ...] = ()
    inserted: int = 0
    clock: float = 0
    offset: Any = None


class Checkpoints(RuleBasedStateMachine):
    """Concat, so that a result shows every element and the order of them."""

    store: Store
    kind: str
    page_size: int | None

    @initialize(retain=st.integers(1, 4))
    def start(self, retain: int) -> None:
        self.policy, self.algorithm = WINDOWS[self.kind]
        self.name = fresh("state")
        self.retain = retain
        self.monoid = monoids.Concat()
        self.state = State()
        self.versions: dict[int, State] = {}
        self.lineage = 0
        self.window = self.new()

    def new(self) -> MonoidTreeAggregator:
        return self.algorithm(
            self.monoid,
            self.policy,
            store=self.store,
            name=self.name,
            page_size=self.page_size,
            retain=self.retain,
        )

    def restore(self, version: int | None) -> MonoidTreeAggregator:
        return self.algorithm.restore(
            self.store, self.name, self.monoid, self.policy, version=version, retain=self.retain
        )

    # -- the model --------------------------------------------------------------------------------------

    def kept(self, elements: tuple[tuple[float, str], ...]) -> tuple[tuple[float, str], ...]:
        limits = None if self.policy is None else self.policy.limits()
        if limits is None or not elements:
            return elements
        youngest = elements[-1][0]
        while elements:
            total = "".join(text for _, text in elements)
            age = youngest - elements[0][0]
            gone = limits.open_span is not None and age >= limits.open_span
            gone = gone or (limits.closed_span is not None and age > limits.closed_span)
            gone = gone or (limits.count is not None and len(elements) > limits.count)
            if not gone and not limits.rejects(total, elements[0][1]):
                break
            elements = elements[1:]
        return elements

    def add(self, texts: list[str], gap: float) -> list[float]:
        """The times of new elements, which the model gets too, without a policy."""
        state, times = self.state, []
        elements, clock = state.elements, state.clock
        for text in texts:
            clock += gap
            times.append(clock)
            elements = (*elements, (clock, text))
        self.state = State(elements, state.inserted + len(texts), clock, state.offset)
        return times

    def enforce(self) -> None:
        state = self.state
        self.state = State(self.kept(state.elements), state.inserted, state.clock, state.offset)

    # -- rules ------------------------------------------------------------------------------------------

    @rule(text=st.sampled_from("abcdef"), gap=st.integers(0, 50))
    def push(self, text: str, gap: int) -> None:
        (time,) = self.add([text], gap)
        self.enforce()
        assert self.window.push(text, time) == self.text()

    @rule(texts=st.text("uvwxyz", max_size=40), gap=st.integers(0, 5))
    def slide(self, texts: str, gap: int) -> None:
        before, results = self.state, []
        for text in texts:
            self.add([text], gap)
            self.enforce()
            results.append(self.text())
        times = [before.clock + (row + 1) * gap for row in range(len(texts))]
        assert list(self.window.slide(list(texts), times)) == results

    @rule(texts=st.text("mnopqr", max_size=70), gap=st.integers(0, 3))
    def extend(self, texts: str, gap: int) -> None:
        self.window.extend(list(texts), self.add(list(texts), gap))
        self.enforce()

    @rule(data=st.data())
    def evict(self, data: st.DataObject) -> None:
        count = data.draw(st.integers(0, len(self.state.elements)))
        self.window.evict(count)
        state = self.state
        self.state = State(state.elements[count:], state.inserted, state.clock, state.offset)

    @rule(offset=OFFSETS)
    def checkpoint(self, offset: Any) -> None:
        state = self.state
        self.state = State(state.elements, state.inserted, state.clock, offset)
        number = self.window.checkpoint(offset)
        assert number not in self.versions or number > self.lineage
        kept = {old: each for old, each in self.versions.items() if old <= self.lineage}
        kept[number] = self.state
        self.versions = dict(list(kept.items())[-self.retain :])
        self.lineage = number

    @rule(close=st.booleans())
    def crash(self, close: bool) -> None:
        """Restores the last version; the window before is closed, or forgotten with work under way."""
        if close:
            self.window.close()
        self.window._log.pages.close()  # what was under way is done, as far as this test goes
        if not self.versions:
            with pytest.raises(WindowNotFound, match="no checkpoint"):
                self.restore(None)
            self.state = State()
            self.window = self.new()
        else:
            self.go_on(None)

    @precondition(lambda self: self.versions)
    @rule(data=st.data())
    def go_back(self, data: st.DataObject) -> None:
        self.go_on(data.draw(st.sampled_from(sorted(self.versions))))

    def go_on(self, number: int | None) -> None:
        self.window._log.pages.close()
        self.window = self.restore(number)
        self.lineage = max(self.versions) if number is None else number
        self.state = self.versions[self.lineage]
        assert self.window.version == self.lineage
        assert self.window.offset == self.state.offset
        assert type(self.window.offset) is type(self.state.offset)

    @precondition(lambda self: self.versions)
    @rule()
    def other_versions_are_gone(self) -> None:
        with pytest.raises(WindowNotFound, match=r"no version 999 .* retained: "):
            self.restore(999)

    @rule()
    def clear_away(self) -> None:
        collect(self.store, grace=0)

    @precondition(lambda self: self.versions)
    @rule()
    def verify(self) -> None:
        report = verify(self.store, self.name)
        assert report.problems == []
        assert report.versions == sorted(self.versions)

    # -- what holds -------------------------------------------------------------------------------------

    def text(self) -> str:
        return "".join(text for _, text in self.state.elements)

    @invariant()
    def is_as_the_model(self) -> None:
        if not hasattr(self, "window"):
            return
        elements = self.state.elements
        assert self.window.query() == self.text()
        assert len(self.window) == len(elements)
        assert self.window.oldest == (elements[0][0] if elements else None)
        assert self.window.youngest == (elements[-1][0] if elements else None)
        if elements:
            middle = elements[len(elements) // 2][0]
            expected = "".join(text for time, text in elements if time <= middle)
            assert self.window.range_query(elements[0][0], middle) == expected

    def teardown(self) -> None:
        if not hasattr(self, "window"):
            return
        self.window.close()
        if self.versions:
            self.go_on(None)
            self.window.checkpoint()
            self.window.close()
            collect(self.store, grace=0)
            root = decode_root(self.name, (self.store.read_root(self.name) or (b"", b""))[0])
            named = {key for version in root.versions for key in version.keys(self.name)}
            assert set(self.store.list_keys(pages_of(self.name))) == named
        # a writer that was forgotten before its first checkpoint still counts as alive
        with suppress(WindowNotFound):
            remove(self.store, self.name)
        assert self.store.read_root(self.name) is None
        assert list(self.store.list_keys(pages_of(self.name))) == []


STORES = ["memory", "rocksdb", pytest.param("redis", marks=pytest.mark.redis)]


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[Store]:
    url = {"memory": "memory:", "rocksdb": f"rocksdb://{tmp_path}/db"}.get(request.param)
    with open_store(url or request.getfixturevalue("redis_url")) as store:
        yield store


@pytest.mark.random
@pytest.mark.parametrize("page_size", [2, 4, None])
@pytest.mark.parametrize("kind", list(WINDOWS))
def test_states(store: Store, kind: str, page_size: int | None) -> None:
    class Machine(Checkpoints):
        pass

    Machine.store, Machine.kind, Machine.page_size = store, kind, page_size
    examples = settings.default.max_examples // (5 if "memory" in store.url else 12)
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        Machine, settings=settings(max_examples=max(2, examples), stateful_step_count=25)
    )


# -- offsets, empty windows, mismatches ------------------------------------------------------------------


@pytest.mark.parametrize(
    "offset",
    [
        None, True, 0, -(2**63), 2**64 - 1, 10**40, 1.5, math.inf, 1 + 2j, "ü", b"\0\xff", [1, [2]],
        (1, (2, "x")), "", 2**20 * "x", {"file": "a", "at": (3, None)}, {1: {2: 3}}, {1, 2},
        frozenset({"a"}), [], {},
    ],
    ids=lambda offset: ascii(offset)[:20],
)  # fmt: skip
def test_offsets_come_back_as_they_were(any_store: Store, offset: Any) -> None:
    name = fresh()
    with AmortizedMTA(monoids.Sum(), store=any_store, name=name) as window:
        window.checkpoint(offset)
        window.push(1)
        window.checkpoint(offset)
    with AmortizedMTA.restore(any_store, name, monoids.Sum()) as window:
        assert window.offset == offset
        assert type(window.offset) is type(offset)
    remove(any_store, name)


def test_an_offset_that_is_an_array(any_store: Store) -> None:
    name, offset = fresh(), np.arange(6, dtype=np.float32).reshape(2, 3)
    with AmortizedMTA(monoids.Sum(), store=any_store, name=name) as window:
        window.checkpoint(offset)
    with AmortizedMTA.restore(any_store, name, monoids.Sum()) as window:
        assert window.offset.dtype == np.float32
        assert np.array_equal(window.offset, offset)
    remove(any_store, name)


def test_an_offset_that_cannot_be_kept_changes_nothing() -> None:
    with open_store("memory:") as store, AmortizedMTA(monoids.Sum(), store=store, name="w") as window:
        window.push(1)
        with pytest.raises(TypeError, match="cannot be kept in a store"):
            window.checkpoint(offset=object())
        assert store.read_root("w") is None
        assert window.checkpoint(offset=1) == 1


@pytest.mark.parametrize("policy", [None, policies.CountWindow(5), policies.TimeWindow(5)])
def test_an_empty_window(any_store: Store, policy: Policy | None) -> None:
    name = fresh()
    with AmortizedMTA(monoids.Max(), policy, store=any_store, name=name, page_size=2) as window:
        window.checkpoint(offset="never filled")
    with AmortizedMTA.restore(any_store, name, monoids.Max(), policy) as window:
        assert (len(window), window.oldest, window.youngest, window.query()) == (0, None, None, None)
        window.extend(range(37), range(37))
        window.evict(len(window))
        window.checkpoint(offset="emptied")
    for _ in range(3):
        with AmortizedMTA.restore(any_store, name, monoids.Max(), policy) as window:
            assert (len(window), window.oldest, window.youngest, window.query()) == (0, None, None, None)
            with pytest.raises(WindowError, match="is before 36"):
                window.push(1, time=35)
            window.checkpoint(offset="again")
    assert verify(any_store, name).problems == []
    assert list(any_store.list_keys(pages_of(name))) == []
    with AmortizedMTA.restore(any_store, name, monoids.Max(), policy) as window:
        assert window.push(7, time=37) == 7
    remove(any_store, name)


def test_no_store() -> None:
    with (
        AmortizedMTA(monoids.Sum()) as window,
        pytest.raises(WindowError, match="no store to make a checkpoint"),
    ):
        window.checkpoint()


def test_not_found(any_store: Store) -> None:
    with pytest.raises(WindowNotFound, match="no checkpoint of a window 'nobody'"):
        AmortizedMTA.restore(any_store, "nobody", monoids.Sum())


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"store": "memory:"}, "store is what stores.open_store"),
        ({"store": None}, "store is what stores.open_store|restore takes the window's store"),
        ({"monoid": monoids.Sum}, "the first argument is a monoid such as"),
        ({"policy": 3}, "policy is one of mta.policies"),
        *(
            ({"version": version}, "version is the whole number of a checkpoint")
            for version in ("1", True, 1.0)
        ),
    ],
)
def test_bad_arguments_of_restore(arguments: dict[str, Any], text: str) -> None:
    with open_store("memory:") as store:
        with AmortizedMTA(monoids.Sum(), store=store, name="w") as window:
            window.push(1)
            window.checkpoint()
            with pytest.raises(TypeError, match=text):
                AmortizedMTA.restore(
                    **{"store": store, "name": "w", "monoid": monoids.Sum(), "policy": None, **arguments}
                )
            window.checkpoint()  # nobody has taken it over
        assert AmortizedMTA.restore(store, "w", monoids.Sum(), version=1).query() == 1


def test_a_new_window_does_not_overwrite_checkpoints(any_store: Store) -> None:
    name = fresh()
    with AmortizedMTA(monoids.Sum(), store=any_store, name=name) as window:
        window.push(1)
        window.checkpoint()
    with AmortizedMTA(monoids.Sum(), store=any_store, name=name, page_size=2) as another:
        another.extend(range(7))
        with pytest.raises(WindowExists, match=r"has checkpoints .* restore\(\)"):
            another.checkpoint()
    with AmortizedMTA.restore(any_store, name, monoids.Sum()) as window:
        assert window.query() == 1
    remove(any_store, name)


MAX_OF_A, MAX_OF_B = monoids.Max("a"), monoids.Max("b")


@pytest.mark.parametrize(
    ("monoid", "policy", "page_size", "then", "now"),
    [
        (MAX_OF_B, policies.CountWindow(9), None, r"monoid Max\('a'\)", r"not Max\('b'\)"),
        (monoids.Min("a"), policies.CountWindow(9), 4, r"monoid Max\('a'\)", r"not Min\('a'\)"),
        (MAX_OF_A, policies.CountWindow(8), None, r"policy CountWindow\(9\)", r"not CountWindow\(8\)"),
        (MAX_OF_A, policies.TimeWindow(9), None, r"policy CountWindow\(9\)", r"not TimeWindow\(9"),
        (MAX_OF_A, None, None, r"policy CountWindow\(9\)", "not None"),
        (MAX_OF_A, policies.CountWindow(9), 8, "page size 4", "not 8"),
    ],
)
def test_restoring_as_something_else_names_the_difference(
    monoid: Monoid, policy: Policy | None, page_size: int | None, then: str, now: str
) -> None:
    with open_store("memory:") as store:
        window = AmortizedMTA(MAX_OF_A, policies.CountWindow(9), store=store, name="w", page_size=4)
        window.extend({"a": range(30)})
        window.checkpoint()
        with pytest.raises(ManifestMismatch, match=f"'w' was checkpointed with the {then}, {now}"):
            AmortizedMTA.restore(store, "w", monoid, policy, page_size=page_size)
        window.push({"a": 1})
        window.checkpoint()  # what was refused has fenced nobody


def test_one_algorithm_goes_on_with_what_the_other_left() -> None:
    with open_store("memory:") as store:
        window: MonoidTreeAggregator = AmortizedMTA(
            monoids.Concat(), policies.CountWindow(9), store=store, name="w", page_size=2
        )
        text = "".join(chr(97 + number % 26) for number in range(60))
        for start in range(0, 60, 4):
            for number in range(start, start + 4):
                assert window.push(text[number]) == text[max(0, number - 8) : number + 1]
            window.checkpoint()
            kind = LogMTA if start % 8 else AmortizedMTA
            window = kind.restore(store, "w", monoids.Concat(), policies.CountWindow(9))
