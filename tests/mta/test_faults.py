"""A store that fails, is slow, or loses or damages pages: the right answer or an error, never a wrong one."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from chance import fresh
from reference import ALGORITHMS, SUBJECTS, Definition, check_rows, check_window, columns, same

from mta import AmortizedMTA, LogMTA, PageCorrupt, PageError, PagesLost, monoids, policies
from mta.paging.buffer import Buffer
from mta.policies import CountWindow, TimeWindow
from stores import Store, StoreError, WrapperStore, open_store, pages_of, parse_page_key
from stores.testing import FaultyStore, SlowStore, WriteOnceStore


@pytest.fixture(params=ALGORITHMS.values(), ids=ALGORITHMS)
def kind(request: Any) -> Any:
    return request.param


def forget(window: Any) -> None:
    """The next pages have to come from the store."""
    window._log.pages._cache.clear()


OTHERS = ["insert", "evict", "until", "range", "enforce"]
MIXES = {
    "push": [*OTHERS, *["push"] * 6],
    "slide": [*OTHERS, *["slide"] * 3],
    "extend": [*OTHERS, *["extend"] * 3],
}


class Trial:
    """A window over a store that fails at random, and its model."""

    def __init__(
        self, kind: Any, name: str, policy: Any, seed: int, after: bool, page_size: int, mix: str
    ) -> None:
        self.chance, self.luck = random.Random(seed), random.Random(seed)
        self.subject = SUBJECTS[name]
        self.store = FaultyStore(open_store("memory:"), self.fails, after=after)
        self.rate = 0.0
        self.choices = MIXES[mix]
        self.model = Definition(self.subject.make(), policy)
        self.window = kind(self.subject.make(), policy, store=self.store, page_size=page_size)
        self.failed = 0

    def fails(self, _call: str, _number: int) -> bool:
        return self.rate > self.luck.random()

    def seen(self) -> Any:
        return len(self.window), self.window.oldest, self.window.youngest

    def attempt(
        self, choice: str, operation: Callable[[Any], Any], agree: Callable[[Any, Any], None]
    ) -> None:
        """An operation under faults until it succeeds; where it fails, nothing has changed."""
        before = self.seen()
        for rate in (0.6, 0.6, 0.3, 0.0, 0.0):  # the first without may tell of a write before it
            self.rate = rate
            try:
                result = operation(self.window)
            except StoreError:
                self.failed += 1
                self.rate = 0.0
                assert self.seen() == before, choice
                check_window(self.window, self.model)
                forget(self.window)
                continue
            self.rate = 0.0
            agree(result, operation(self.model))
            return
        raise AssertionError("a store that works still failed")

    def batch(self, count: int) -> tuple[list[Any], list[Any]]:
        at = self.model.last_time if self.model.inserted else 0
        times = [at := at + self.chance.choice([0, 1, 2]) for _ in range(count)]
        return [self.subject.element(self.chance.randrange(99), moment) for moment in times], times

    def slide_in_parts(self, values: list[Any], times: list[Any]) -> None:
        """Under a predicate a batch may stop half-way: the error says where, and has the results so far."""
        while values:
            self.rate = self.luck.choice([0.5, 0.2, 0.0])
            try:
                results = self.window.slide(columns(self.model.monoid, values), times)
            except StoreError as error:
                self.failed += 1
                results = getattr(error, "results", ())  # before the first row there is none
            self.rate = 0.0
            done = len(results)
            if done:
                check_rows(results, self.model.slide(values[:done], times[:done]))
            check_window(self.window, self.model)
            forget(self.window)
            values, times = values[done:], times[done:]

    def step(self) -> None:
        chance, window, model = self.chance, self.window, self.model

        def equal(result: Any, expected: Any) -> None:
            assert same(result, expected), (result, expected)

        choice = chance.choice(self.choices)
        if choice in ("push", "insert"):
            for value, at in zip(*self.batch(chance.choice([1, 5, 20])), strict=True):
                self.attempt(choice, lambda w, value=value, at=at: getattr(w, choice)(value, at), equal)
        elif choice in ("extend", "slide"):
            values, times = self.batch(chance.choice([0, 1, 3, 17, 60]))
            if choice == "slide" and model.policy is not None and model.policy.limits().predicates:
                self.slide_in_parts(values, times)
                return
            self.attempt(
                choice,
                lambda w: getattr(w, choice)(columns(model.monoid, values) if w is window else values, times),
                equal if choice == "extend" else check_rows,
            )
        elif choice == "evict":
            k = chance.randint(0, len(model))
            self.attempt(choice, lambda w: w.evict(k), equal)
        elif choice == "until" and model.times:
            at = chance.choice(model.times[: len(model) // 2 + 1])
            self.attempt(choice, lambda w: w.evict_until(at), equal)
        elif choice == "range" and model.times:
            t0, t1 = sorted(chance.choices(model.times, k=2))
            self.attempt(choice, lambda w: w.range_query(t0, t1), equal)
        elif choice == "enforce":
            self.attempt(choice, lambda w: w.enforce(), equal)
        if chance.random() < 0.5:
            forget(window)
        if chance.random() < 0.3:
            self.attempt("query", lambda w: w.query(), equal)
        check_window(window, model)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("page_size", [2, 4])
@pytest.mark.parametrize(
    ("name", "policy"),
    [
        ("concat", CountWindow(40)),
        ("four fields", TimeWindow(60)),
        ("matrices", None),
        ("object fields", TimeWindow(25, closed="both") | CountWindow(30)),
        ("argmax", SUBJECTS["argmax"].predicates[0] | CountWindow(60)),
        ("concat", SUBJECTS["concat"].predicates[0]),
    ],
    ids=str,
)
@pytest.mark.parametrize("mix", MIXES)
def test_faults_at_random(kind: Any, name: str, policy: Any, page_size: int, after: bool, mix: str) -> None:
    faults = 0
    for seed in range(3):
        trial = Trial(kind, name, policy, seed, after, page_size, mix)
        with trial.window:
            for _ in range(60):
                trial.step()
            with suppress(StoreError):  # of a write in the background that failed under the last call
                trial.window._log.pages.flush(trial.window._log.tail)
            trial.window._log.pages.flush(trial.window._log.tail)
            forget(trial.window)
            check_window(trial.window, trial.model)
        faults += trial.store.faults
    assert faults


def test_pages_that_could_not_be_written_are_not_lost(kind: Any) -> None:
    down = True
    store = FaultyStore(open_store("memory:"), lambda call, _: down and call == "put_many")
    model = Definition(monoids.Concat())
    with kind(monoids.Concat(), store=store, page_size=2) as window:
        refused = 0
        for i in range(100):
            try:
                window.insert(f"{i}.", len(model))
            except StoreError:
                refused += 1
            else:
                model.insert(f"{i}.", len(model))
            check_window(window, model)
        # back-pressure: what cannot be written is refused and not piled up
        assert refused
        assert len(model) < 60
        down = False
        for i in range(100):
            window.insert(f"{i}.", len(model))
            model.insert(f"{i}.", len(model))
        window._log.pages.flush(window._log.tail)
        forget(window)
        check_window(window, model)
        for k in (1, 7, 30):
            window.evict(k)
            model.evict(k)
            check_window(window, model)


def push_often(window: Any) -> None:
    for _ in range(200):
        window.push(1)


def test_a_store_that_is_down_from_the_first_call_on(kind: Any) -> None:
    down = True
    store = FaultyStore(open_store("memory:"), lambda *_: down)
    window = kind(monoids.Sum(), CountWindow(50), store=store, page_size=4)
    with pytest.raises(StoreError, match="did not answer"):
        push_often(window)
    count = len(window)
    assert window.query() == count
    down = False
    for _ in range(200):
        window.push(1)
    assert window.query() == 50
    window.close()


def test_a_failing_read_ahead_is_not_an_error(kind: Any) -> None:
    """What is read in the background and fails is read again when it is needed."""
    failing = iter(range(10**9))
    store = FaultyStore(open_store("memory:"), lambda call, _: call == "get_many" and next(failing) % 2 == 0)
    window = kind(monoids.Sum(), store=store, page_size=4)
    window.extend(list(range(1000)))
    window._log.pages.flush(window._log.tail)
    forget(window)
    expected, head = sum(range(1000)), 0
    while head < 990:
        try:
            window.evict(1)
        except StoreError:
            continue
        expected -= head
        head += 1
        for _ in range(3):
            try:
                assert window.query() == expected
                break
            except StoreError:
                continue
    window.close()


def test_deletions_that_fail_are_made_up_for(kind: Any) -> None:
    down = True
    store = FaultyStore(open_store("memory:"), lambda call, _: down and call.startswith("delete"))
    with kind(monoids.Sum(), CountWindow(20), store=store, name="undeleted", page_size=2) as window:
        for _ in range(500):
            window.push(1)
        down = False
        for _ in range(300):
            window.push(1)
        assert window.query() == 20
        head = window._view.head
    left = [parse_page_key(key) for key in store.list_keys(pages_of("undeleted"))]
    assert [key for key in left if (key.number + 1) << (key.tier + 1) <= head] == []


def test_a_push_does_not_wait_for_the_writer(kind: Any) -> None:
    pushed = threading.Event()

    class Stuck(WrapperStore):
        """Writes nothing until all is pushed."""

        def _around(self, call: str, action: Callable[[], Any]) -> Any:
            if call == "put_many":
                assert pushed.wait(300)
            return action()

    with kind(monoids.Sum(), store=Stuck(open_store("memory:")), page_size=8) as window:
        for i in range(7 * 8):
            assert window.push(1) == i + 1
        pushed.set()


def test_the_buffer_is_bounded(kind: Any) -> None:
    """Once it is full, the caller waits."""
    store = SlowStore(open_store("memory:"), 0.02)
    with kind(monoids.Sum(), store=store, page_size=2) as window:
        most = 0
        for i in range(300):
            assert window.push(1) == i + 1
            most = max(most, len(window._log.pages._buffer))
        assert 3 <= most <= 8 + 10  # and one page a tier, filled by one element


def test_cached_pages_are_bounded(kind: Any) -> None:
    with (
        open_store("memory:") as store,
        kind(monoids.Sum(), CountWindow(5000), store=store, page_size=4) as window,
    ):
        for _ in range(30):
            window.slide([1] * 500)
            for _ in range(50):
                window.push(1)
            assert len(window._log.pages._cache) <= 2 * 64 + 4 + 8


def stored_window(kind: Any, store: Store, name: str, make: Any = monoids.Concat, n: int = 200) -> Any:
    window = kind(make(), store=store, name=name, page_size=4)
    window.extend([f"{i}." for i in range(n)] if make is monoids.Concat else list(range(n)))
    window._log.pages.flush(window._log.tail)
    forget(window)
    return window


DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "missing": lambda _: None,
    "empty": lambda _: b"",
    "truncated": lambda data: data[:-1],
    "half": lambda data: data[: len(data) // 2],
    "longer": lambda data: data + b"\0",
    "a bit": lambda data: (
        data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 4]) + data[len(data) // 2 + 1 :]
    ),
    "the last byte": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    "zeros": lambda data: bytes(len(data)),
    "other data": lambda _: b"{'some': 'other client'}",
}


@pytest.fixture
def name() -> Iterator[str]:
    return fresh("damaged")


@pytest.mark.parametrize("make", [monoids.Concat, monoids.Sum])
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("tier", [0, 1, 2])
def test_a_damaged_page_is_found_out(kind: Any, make: Any, damage: str, tier: int, name: str) -> None:
    with open_store("memory:") as store:
        window = stored_window(kind, store, name, make)
        model = Definition(make())
        for i in range(200):
            model.insert(f"{i}." if make is monoids.Concat else i)
        keys = {parse_page_key(key)[2:]: key for key in store.list_keys(pages_of(name))}
        number = 1
        key = keys[tier, number]
        (data,) = store.get_many([key])
        damaged = DAMAGES[damage](data)
        store.delete_many([key])
        if damaged is not None:
            store.put_many({key: damaged})
        first = (4 << 2 * tier) * number
        inside = first + (1 << 2 * tier) + 1
        error = PagesLost if damage == "missing" else PageCorrupt
        text = rf"page {number} of tier {tier} of window '{name}'"
        before = (len(window), window.oldest, window.youngest)
        calls = [
            lambda: window.range_query(inside if tier == 0 else first + 1, 199),
            lambda: window.evict(inside),
        ]
        if tier == 0:
            calls.append(lambda: window.evict_until(inside))
        for call in calls:
            forget(window)
            with pytest.raises(error, match=text):
                call()
            assert (len(window), window.oldest, window.youngest) == before
        # what does not need the page is still answered
        forget(window)
        assert window.range_query(150, 170) == model.range_query(150, 170)
        # and all is well once the page is back
        store.put_many({key: data})
        window.evict(inside)
        model.evict(inside)
        check_window(window, model)
        window.close()


def test_pages_that_were_swapped_are_found_out(kind: Any, name: str) -> None:
    with open_store("memory:") as store:
        window = stored_window(kind, store, name)
        other = stored_window(kind, store, name + "-other")
        mine = {parse_page_key(key)[2:]: key for key in store.list_keys(pages_of(name))}
        theirs = {parse_page_key(key)[2:]: key for key in store.list_keys(pages_of(name + "-other"))}
        for source in (mine[0, 2], mine[1, 1], theirs[0, 1]):
            (right, wrong) = store.get_many([mine[0, 1], source])
            store.put_many({mine[0, 1]: wrong})
            forget(window)
            with pytest.raises(PageCorrupt, match=f"page 1 of tier 0 of window '{name}'"):
                window.evict(5)
            assert len(window) == 200
            store.put_many({mine[0, 1]: right})
        window.evict(5)
        assert window.query() == "".join(f"{i}." for i in range(5, 200))
        window.close()
        other.close()


def test_walking_into_lost_pages_never_gives_a_wrong_answer(kind: Any, name: str) -> None:
    with open_store("memory:") as store:
        window = stored_window(kind, store, name)
        lost = [
            key
            for key in store.list_keys(pages_of(name))
            if parse_page_key(key)[2:] in {(0, 3), (0, 9), (1, 2)}
        ]
        store.delete_many(lost)
        answered = 0

        def walk() -> None:
            nonlocal answered
            for head in range(1, 200):
                window.evict()
                assert window.query() == "".join(f"{i}." for i in range(head, 200))
                answered = head

        with pytest.raises(PagesLost, match=f"of window '{name}'"):
            walk()
        assert answered >= 1
        with pytest.raises(PageError):
            window.range_query(12, 13)
        window.close()


@pytest.mark.parametrize("method", ["slide", "push", "extend"])
def test_a_lost_page_stops_a_policy_without_a_change(kind: Any, name: str, method: str) -> None:
    with open_store("memory:") as store:
        window = kind(monoids.Concat(), CountWindow(200), store=store, name=name, page_size=4)
        window.extend([f"{i}." for i in range(200)])
        window._log.pages.flush(window._log.tail)
        forget(window)
        store.delete_many([key for key in store.list_keys(pages_of(name)) if parse_page_key(key).tier == 0])
        before = (len(window), window.oldest, window.youngest)
        for _ in range(2):
            with pytest.raises(PagesLost):
                window.push("x") if method == "push" else getattr(window, method)(["x", "y", "z"])
            assert (len(window), window.oldest, window.youngest) == before
        window.close()


class Fuse:
    """Concatenation that fails on the combine that `left` counts down to."""

    def __init__(self) -> None:
        self.left = -1

    def __call__(self, older: str, younger: str) -> str:
        self.left -= 1
        if self.left == 0:
            raise ArithmeticError("the operator failed")
        return older + younger


@pytest.mark.parametrize("stored", [False, True], ids=["local", "stored"])
@pytest.mark.parametrize("page_size", [2, 4])
@pytest.mark.parametrize("policy", [None, CountWindow(25)], ids=str)
def test_an_operator_that_fails_leaves_a_window_that_is_right(
    kind: Any, page_size: int, policy: Any, stored: bool
) -> None:
    """Every state that it can be left in is the state of some window: nothing is counted twice, or lost."""
    chance = random.Random(page_size)
    failures = 0
    for _ in range(6):
        fuse = Fuse()
        store = open_store("memory:") if stored else None
        window = kind(monoids.from_function(fuse, ""), policy, store=store, page_size=page_size)
        held: list[str] = []
        inserted = 0
        for _ in range(250):
            operation = chance.choice(["insert", "push", "push", "evict", "extend", "slide", "query"])
            fuse.left = chance.choice([-1, 1, 2, 3, 5, 8, 20])
            batch = [f"{inserted + i}." for i in range(chance.choice([1, 4, 19]))]
            k = chance.randint(0, len(held))
            before = list(held)
            try:
                if operation in ("insert", "push"):
                    getattr(window, operation)(batch[0])
                    held.append(batch[0])
                elif operation == "evict":
                    window.evict(k)
                    del held[:k]
                elif operation == "query":
                    window.query()
                else:
                    getattr(window, operation)(batch)
                    held += batch
                if policy is not None and operation in ("push", "extend", "slide"):
                    del held[:-25]
            except ArithmeticError:
                failures += 1
                held = before
                if operation in ("push", "extend", "slide"):
                    # what goes may be gone, and what comes may have come, but nothing in between
                    fuse.left = -1
                    seen = window.query()
                    possible = [before + batch[:m] for m in range(len(batch) + 1)]
                    held = next(
                        some[k:]
                        for some in possible
                        for k in range(len(some) + 1)
                        if "".join(some[k:]) == seen
                    )
            fuse.left = -1
            assert len(window) == len(held), operation
            assert window.query() == "".join(held), operation
            inserted = window._log.tail
        window.close()
    assert failures > 50


@pytest.mark.parametrize("kind", [AmortizedMTA, LogMTA])
def test_only_the_window_says_which_pages_are_in(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slide under a predicate tries its rows on a fork, whose pages are not in the window."""
    said: list[int] = []
    take_back = Buffer.take_back

    def listening(buffer: Buffer, tail: int) -> None:
        said.append(tail)
        take_back(buffer, tail)

    monkeypatch.setattr(Buffer, "take_back", listening)

    class Failing(monoids.Monoid):
        identity = 0

        def lift(self, value: Any) -> Any:
            return value

        def combine(self, older: Any, younger: Any) -> Any:
            if (older, younger) == (10, 999):  # in the aggregate of a page that is full
                raise ArithmeticError("as the operator says")
            return older + younger

    never = policies.While(lambda total, old: False, name="never")  # noqa: ARG005
    inner = WriteOnceStore(open_store("memory:"))
    with kind(Failing(), never, store=inner, name="w", page_size=2) as window:
        window.slide([1] * 10)
        for _ in range(3):
            with pytest.raises(ArithmeticError):
                window.slide([10] * 11 + [999, 1])
        assert said
        assert set(said) == {10}
        window.slide([20] * 14)
        window.checkpoint()
    assert kind.restore(inner, "w", Failing(), never).query() == 10 + 14 * 20
    assert inner.refused == []
