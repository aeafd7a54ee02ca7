"""What a call costs does not depend on the call before it: counted, in entries of runs and single states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mta import AmortizedMTA, LogMTA, monoids
from mta.core import forest, states, tail
from mta.monoids import columns
from mta.policies import CountWindow, TimeWindow

PAGE = 1 << 14
#: a window of four pages, and a head near the start of one
WIDTH = 4 * PAGE
PAST = 100


class Work:
    """How many entries a monoid has worked on, or made single states of."""

    def __init__(self) -> None:
        self.entries = 0

    def during(self, operation: Callable[[], Any]) -> int:
        before = self.entries
        operation()
        return self.entries - before


class Counted(monoids.Sum):
    """Sums that count entries."""

    def __init__(self, work: Work) -> None:
        super().__init__()
        self._work = work

    def combine(self, older: Any, younger: Any) -> Any:
        self._work.entries += 1
        return older + younger

    def combine_columns(self, older: Any, younger: Any) -> Any:
        self._work.entries += max(len(older[0]), len(younger[0]))
        return super().combine_columns(older, younger)

    def prefix_columns(self, states: Any) -> Any:
        self._work.entries += len(states[0])
        return super().prefix_columns(states)

    def suffix_columns(self, states: Any) -> Any:
        self._work.entries += len(states[0])
        return super().suffix_columns(states)

    def fold_columns(self, states: Any) -> Any:
        self._work.entries += len(states[0])
        return super().fold_columns(states)

    def state_list(self, states: Any) -> Any:
        self._work.entries += len(states[0])
        return super().state_list(states)


class Driven:
    """A window, and calls that have their own times."""

    def __init__(self, kind: Any, monoid: Any, policy: Any) -> None:
        self.window = kind(monoid, policy, page_size=PAGE)
        self.count = 0
        self.extend(WIDTH + PAST)

    def _times(self, count: int) -> Any:
        self.count += count
        return np.arange(self.count - count, self.count)

    def slide(self, count: int) -> Any:
        return self.window.slide(np.ones(count, dtype=int), self._times(count))

    def extend(self, count: int) -> None:
        self.window.extend(np.ones(count, dtype=int), self._times(count))

    def push(self) -> Any:
        return self.window.push(1, self._times(1).tolist()[0])

    def insert(self) -> None:
        self.window.insert(1, self._times(1).tolist()[0])


#: Alternations of short calls, each of 30 elements or fewer.
ROUNDS: dict[str, Callable[[Driven], Any]] = {
    "slide": lambda it: it.slide(10),
    "slide, query": lambda it: (it.slide(10), it.window.query()),
    "slide, push": lambda it: (it.slide(10), it.push()),
    "slide of one, push": lambda it: (it.slide(1), it.push()),
    "slide, evict": lambda it: (it.slide(10), it.window.evict()),
    "slide, evict, query": lambda it: (it.slide(10), it.window.evict(), it.window.query()),
    "slide, insert, query": lambda it: (it.slide(10), it.insert(), it.window.query()),
    "slide, extend, query": lambda it: (it.slide(10), it.extend(10), it.window.query()),
    "extend, evict by leaps, query": lambda it: (it.extend(10), it.window.evict(20), it.window.query()),
    "evict by leaps, slide of one": lambda it: (it.window.evict(20), it.extend(19), it.slide(1)),
    "evict by leaps, push": lambda it: (it.window.evict(20), it.extend(19), it.push()),
    "push": lambda it: it.push(),
    "extend of one, query": lambda it: (it.extend(1), it.window.query()),
}


@pytest.mark.parametrize("fields", [1, 20])
@pytest.mark.parametrize("policy", [CountWindow, TimeWindow])
@pytest.mark.parametrize("kind", [LogMTA, AmortizedMTA])
@pytest.mark.parametrize("label", ROUNDS)
def test_short_calls_do_not_work_on_pages(label: str, kind: Any, policy: Any, fields: int) -> None:
    """Some pages are scanned in the first rounds, and then none while the head stays in its page."""
    work, one_round = Work(), ROUNDS[label]
    monoid = (
        monoids.Fields(**{f"f{i}": Counted(work) for i in range(fields)}) if fields > 1 else Counted(work)
    )
    it = Driven(kind, monoid, policy(WIDTH))
    for _ in range(3):
        one_round(it)
    most = max(work.during(lambda: one_round(it)) for _ in range(40))
    assert most <= fields * 30 * 16
    result = it.window.query()
    assert (result if fields == 1 else result["f7"]) == len(it.window)


@pytest.mark.parametrize("kind", [LogMTA, AmortizedMTA])
def test_a_head_that_walks_has_its_steps_made_in_few_calls(kind: Any) -> None:
    """As many at once as it has walked: a page of them in a few calls, and then whole pages."""
    it = Driven(kind, monoids.Max(), CountWindow(WIDTH))
    it.slide(5)
    made: list[int] = []
    tree = it.window._tree
    steps = type(tree).steps

    def counting(self: Any, times: list[Any], *rest: Any) -> Any:
        made.append(len(times))
        return steps(self, times, *rest)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(type(tree), "steps", counting)
        for _ in range(2 * PAGE):
            it.push()
    assert made[0] <= 32
    assert len(made) <= 16
    assert sum(made) <= 4 * PAGE


def test_a_batch_of_many_columns_is_not_named_for_each_of_them() -> None:
    """What an error would say is said when there is one."""
    named = 0

    class Named(monoids.Sum):
        def fingerprint(self) -> str:
            nonlocal named
            named += 1
            return super().fingerprint()

    window = AmortizedMTA(monoids.Fields(**{f"f{i}": Named(f"x{i}") for i in range(20)}), CountWindow(5))
    named = 0
    for _ in range(10):
        window.slide({f"x{i}": [1, 2, 3] for i in range(20)})
    assert named == 0


#: Rounds of calls of few elements each, of which a window in the last page has many.
FEW: dict[str, Callable[[Driven], Any]] = {
    "extend": lambda it: it.extend(1),
    "slide": lambda it: it.slide(1),
    "slide, push": lambda it: (it.slide(1), it.push()),
    "slide, push, query": lambda it: (it.slide(1), it.push(), it.window.query()),
    "push, extend, query": lambda it: (it.push(), it.extend(2), it.window.query()),
    "slide, evict": lambda it: (it.slide(2), it.window.evict()),
}


@pytest.mark.parametrize("width", [PAGE // 4, 2 * PAGE])
@pytest.mark.parametrize("policy", [CountWindow, TimeWindow])
@pytest.mark.parametrize("kind", [LogMTA, AmortizedMTA])
@pytest.mark.parametrize("label", FEW)
def test_the_last_page_is_not_joined_for_every_call(label: str, kind: Any, policy: Any, width: int) -> None:
    """In whatever portions its entries came, they are copied a few times, and there are few runs of them."""
    joined, runs = 0, 0
    concatenate = columns.joined

    def counting(parts: Any) -> Any:
        nonlocal joined
        joined += sum(map(len, parts))
        return concatenate(parts)

    it = Driven(kind, monoids.Sum(), policy(width))
    it.extend(PAGE // 2 - PAST)
    rounds = 1500
    with pytest.MonkeyPatch.context() as patched:
        for module in (tail, states, forest):
            patched.setattr(module, "joined", counting)
        for _ in range(rounds):
            FEW[label](it)
            runs = max(runs, len(it.window._tree.forest.tails[0]._runs))
    assert runs <= 60
    # four columns of three elements, in three sizes of runs
    assert joined <= 60 * rounds + 4 * PAGE
