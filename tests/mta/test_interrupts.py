"""A call has happened or it has not, whatever raises at whatever call inside it, whatever signal comes."""

from __future__ import annotations

import random
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest
from chance import generator, seeds

from mta import AmortizedMTA, LogMTA, monoids, policies
from mta.window import MonoidTreeAggregator
from stores import Store, open_store

SPAN = 11
KINDS = [AmortizedMTA, LogMTA]
LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Injected(BaseException):
    """Like KeyboardInterrupt, so that nothing takes it for an error of its own."""


def fails(call: Callable[[], object], *numbers: int) -> bool:
    """Does a call with faults instead of the calls of these numbers in it, each counted from the one before.

    Returns whether one of them came out of it.
    """
    left, since = list(numbers), 0

    def profile(frame: FrameType, event: str, called: Any) -> None:
        nonlocal since
        if event not in ("call", "c_call") or frame.f_code.co_filename == __file__:
            return
        if event == "c_call" and called.__name__ == "__exit__":
            return  # CPython takes no signal between the end of a `with` and the release of its lock
        since += 1
        if left and since > left[0]:
            del left[0]
            since = 0
            raise Injected

    sys.setprofile(profile)
    try:
        call()
    except Injected:
        sys.setprofile(None)
        return True
    sys.setprofile(None)
    return False


def places() -> Iterator[int]:
    """Every call at first, and then ever fewer of them, with others in each run."""
    number, rng = 0, generator()
    while True:
        yield number
        number += 1 + rng.randrange(number // 6 + 1)


def window_of(kind: Any, store: Store | None, page_size: int, policy: Any = None) -> MonoidTreeAggregator:
    policy = policy or policies.CountWindow(SPAN)
    window: MonoidTreeAggregator = kind(monoids.Concat(), policy, store=store, name="w", page_size=page_size)
    window.slide([LETTERS[i % 26] for i in range(29)])
    if store is not None:
        window.checkpoint()
    for i in range(29, 33):
        window.push(LETTERS[i % 26])
    return window


def text_of(window: MonoidTreeAggregator) -> str:
    """What it holds, by each way there is to read it."""
    text: str = window.query()
    assert window.range_query(-1, 10**9) == text
    assert len(window) == len(text)
    if text:
        assert (window.youngest, window.oldest) == (window._log.tail - 1, window._log.tail - len(text))
    return text


CALLS: dict[str, tuple[Callable[[MonoidTreeAggregator], object], Callable[[str], str]]] = {
    "push": (lambda w: w.push("X"), lambda text: (text + "X")[-SPAN:]),
    "insert": (lambda w: w.insert("X"), lambda text: text + "X"),
    "extend": (lambda w: w.extend(list("UVWXY")), lambda text: (text + "UVWXY")[-SPAN:]),
    "extend by many": (lambda w: w.extend(list(LETTERS)), lambda text: (text + LETTERS)[-SPAN:]),
    "slide": (lambda w: w.slide(list("UVWXYZ")), lambda text: (text + "UVWXYZ")[-SPAN:]),
    "slide by many": (lambda w: w.slide(list(LETTERS)), lambda text: (text + LETTERS)[-SPAN:]),
    "evict": (lambda w: w.evict(), lambda text: text[1:]),
    "evict many": (lambda w: w.evict(7), lambda text: text[7:]),
    "evict all": (lambda w: w.evict(len(w)), lambda text: text[:0]),
    "evict_until": (lambda w: w.evict_until(w.oldest + 4), lambda text: text[5:]),
    "query": (lambda w: w.query(), lambda text: text),
    "enforce": (lambda w: w.enforce(), lambda text: text[-SPAN:]),
}


def goes_on(window: MonoidTreeAggregator, text: str) -> None:
    """The window is right from here on."""
    for item in "0123456789" * 3:
        text = (text + item)[-SPAN:]
        assert window.push(item) == text
    assert list(window.slide(list("+-*/") * 5))[-1] == (text + "+-*/" * 5)[-SPAN:]
    window.evict(2)
    assert text_of(window) == ("+-*/" * 5)[-SPAN:][2:]


# of generators that are closed by a fault in them
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("page_size", [2, 4, 256])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CALLS)
def test_a_fault_at_every_call(name: str, kind: Any, page_size: int, stored: bool) -> None:
    call, after = CALLS[name]
    for number in places():
        store = open_store("memory:") if stored else None
        window = window_of(kind, store, page_size)
        before = text_of(window)
        expected = after(before)
        # two faults: the second in what the first has set off, at times
        raised = fails(lambda: call(window), number, number % 7)  # noqa: B023
        text = text_of(window)
        assert text in ((before, expected) if raised else (expected,)), number
        goes_on(window, text)
        if store is not None:
            window.checkpoint()
            window.close()
            with kind.restore(store, "w", monoids.Concat(), policies.CountWindow(SPAN)) as again:
                assert text_of(again) == ("+-*/" * 5)[-SPAN:][2:]
            store.close()
        if not raised:
            assert number
            return


def as_many(total: str, old: str) -> bool:
    return len(total) - len(old) >= SPAN


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("page_size", [2, 256])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["slide", "slide by many"])
def test_a_fault_at_every_call_under_a_predicate(name: str, kind: Any, page_size: int, stored: bool) -> None:
    """None of the rows of a batch is in, or all of them, though they are asked about one by one."""
    call, after = CALLS[name]
    policy = policies.While(as_many, name="as many")
    for number in places():
        store = open_store("memory:") if stored else None
        window = window_of(kind, store, page_size, policy)
        before = text_of(window)
        raised = fails(lambda: call(window), number, number % 7)  # noqa: B023
        text = text_of(window)
        assert text in ((before, after(before)) if raised else (after(before),)), number
        goes_on(window, text)
        if store is not None:
            window.checkpoint()
            window.close()
            with kind.restore(store, "w", monoids.Concat(), policy) as again:
                assert text_of(again) == ("+-*/" * 5)[-SPAN:][2:]
            store.close()
        if not raised:
            return


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_at_every_call_of_a_slide_in_columns(kind: Any) -> None:
    policy = policies.SumWindow(40)
    for number in places():
        window = kind(monoids.Sum(), policy, page_size=4)
        window.slide([i % 9 for i in range(60)])
        before = len(window), window.query(), window.oldest
        raised = fails(lambda: window.slide([i % 7 for i in range(300)]), number, number % 7)  # noqa: B023
        found = len(window), window.query(), window.oldest
        if raised and found == before:
            window.slide([i % 7 for i in range(300)])
        other = kind(monoids.Sum(), policy, page_size=4)
        for value in [i % 9 for i in range(60)] + [i % 7 for i in range(300)]:
            other.push(value)
        assert (len(window), window.query(), window.oldest) == (len(other), other.query(), other.oldest)
        if not raised:
            return


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("page_size", [2, 4])
def test_a_fault_at_every_call_of_a_checkpoint(kind: Any, page_size: int) -> None:
    for number in places():
        with open_store("memory:") as store:
            window = window_of(kind, store, page_size)
            before = text_of(window)
            raised = fails(lambda: window.checkpoint(offset=1), number, number % 5)  # noqa: B023
            assert text_of(window) == before
            window.push("X")
            window.checkpoint(offset=2)
            window.close()
            with kind.restore(store, "w", monoids.Concat(), policies.CountWindow(SPAN)) as again:
                assert again.offset == 2
                assert text_of(again) == (before + "X")[-SPAN:]
            if not raised:
                return


# an interrupt inside a callback of the collector raises into nobody: the call goes on, and is compared
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("seed", seeds(3))
def test_signals_at_random(seed: int) -> None:
    rng = random.Random(seed)
    armed = False

    def interrupt(*_: object) -> None:
        if armed:
            raise Injected

    before_all = signal.signal(signal.SIGALRM, interrupt)
    hits = 0
    try:
        while hits < 2000:
            store = rng.choice([None, open_store("memory:")])
            window = window_of(rng.choice(KINDS), store, rng.choice([2, 4, 256]))
            for _ in range(50):
                text, (call, after) = text_of(window), CALLS[rng.choice(list(CALLS))]
                if len(text) < SPAN:
                    window.extend(["~"] * SPAN)
                    text = text_of(window)
                raised = False
                try:
                    signal.setitimer(signal.ITIMER_REAL, rng.random() * rng.choice([2e-5, 1e-4, 1e-3]) + 1e-6)
                    armed = True
                    call(window)
                    armed = False
                except Injected:
                    raised = True
                armed = False
                signal.setitimer(signal.ITIMER_REAL, 0)
                hits += raised
                assert text_of(window) in ((text, after(text)) if raised else (after(text),))
            window.close()
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before_all)
