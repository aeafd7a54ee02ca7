"""What a call costs does not depend on the call before it: counted, in entries of runs and single states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mta import AmortizedMTA, LogMTA, monoids
from mta.core import log, states, tail
from mta.monoids import columns
from mta.policies import CountWindow, SumWindow, TimeWindow

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

    def __init__(self, kind: Any, monoid: Any, policy: Any, *, page: int = PAGE, value: Any = 1) -> None:
        self.window = kind(monoid, policy, page_size=page)
        #: of each element
        self.value = value
        self.count = 0
        self.extend(4 * page + PAST)

    def _times(self, count: int) -> Any:
        self.count += count
        return np.arange(self.count - count, self.count)

    def _values(self, count: int) -> Any:
        return [self.value] * count if isinstance(self.value, str) else np.full(count, self.value)

    def slide(self, count: int) -> Any:
        return self.window.slide(self._values(count), self._times(count))

    def extend(self, count: int) -> None:
        self.window.extend(self._values(count), self._times(count))

    def push(self) -> Any:
        return self.window.push(self.value, self._times(1).tolist()[0])

    def insert(self) -> None:
        self.window.insert(self.value, self._times(1).tolist()[0])


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


class Tally:
    """What a monoid did: single states made or combined, and entries of columns in how many calls."""

    def __init__(self) -> None:
        self.singles, self.entries, self.calls = 0, 0, 0

    def of(self, operation: Callable[[], Any]) -> tuple[int, int, int]:
        before = self.singles, self.entries, self.calls
        operation()
        return self.singles - before[0], self.entries - before[1], self.calls - before[2]


def tallied(kind: type[monoids.ColumnarMonoid], tally: Tally) -> monoids.ColumnarMonoid:
    class Tallied(kind):  # type: ignore[misc, valid-type]
        def combine(self, older: Any, younger: Any) -> Any:
            tally.singles += 1
            return super().combine(older, younger)

        def state_at(self, states: Any, index: int) -> Any:
            tally.singles += 1
            return super().state_at(states, index)

        def state_list(self, states: Any) -> Any:
            tally.singles += len(states[0])
            return super().state_list(states)

        def columns_of(self, states: Any) -> Any:
            tally.singles += len(states)
            return super().columns_of(states)

        def combine_columns(self, older: Any, younger: Any) -> Any:
            self._count(max(len(older[0]), len(younger[0])))
            return super().combine_columns(older, younger)

        def prefix_columns(self, states: Any) -> Any:
            self._count(len(states[0]))
            return super().prefix_columns(states)

        def suffix_columns(self, states: Any) -> Any:
            self._count(len(states[0]))
            return super().suffix_columns(states)

        def fold_columns(self, states: Any) -> Any:
            self._count(len(states[0]))
            return super().fold_columns(states)

        def _count(self, entries: int) -> None:
            tally.entries += entries
            tally.calls += 1

    return Tallied()


#: Long batches, and short calls after them.
LONG: dict[str, Callable[[Driven, int], Any]] = {
    "slide": lambda it, count: it.slide(count),
    "extend": lambda it, count: it.extend(count),
    "evict by leaps, extend": lambda it, count: (it.window.evict(count), it.extend(count)),
}
AFTER: dict[str, Callable[[Driven], Any]] = {
    "push": lambda it: it.push(),
    "evict, query": lambda it: (it.window.evict(), it.window.query()),
    "insert, evict, query": lambda it: (it.insert(), it.window.evict(), it.window.query()),
    "evict by a leap, query": lambda it: (it.window.evict(20), it.window.query()),
    "slide of one": lambda it: it.slide(1),
    "slide, push": lambda it: (it.slide(10), it.push()),
}


#: Rounds under a predicate, of calls that let go of more than the few oldest.
SUMS: dict[str, Callable[[Driven], Any]] = {
    "extend": lambda it: it.extend(30),
    "extend, query": lambda it: (it.extend(10), it.window.query()),
    "extend, push": lambda it: (it.extend(20), it.push()),
    "evict by leaps, extend": lambda it: (it.window.evict(20), it.extend(30)),
    "slide, extend": lambda it: (it.slide(10), it.extend(20)),
}


@pytest.mark.parametrize("kind", [LogMTA, AmortizedMTA])
@pytest.mark.parametrize("label", SUMS)
def test_what_a_sum_needs_is_not_added_up_in_every_call(label: str, kind: Any) -> None:
    tally, one_round = Tally(), SUMS[label]
    it = Driven(kind, tallied(monoids.Sum, tally), SumWindow(WIDTH))
    for _ in range(3):
        one_round(it)
    rounds = [tally.of(lambda: one_round(it)) for _ in range(40)]
    assert max(singles for singles, _, _ in rounds) <= 30 * 25
    assert max(entries for _, entries, _ in rounds) <= 30 * 16
    assert it.window.query() == len(it.window) <= WIDTH


@pytest.mark.parametrize("sums", ["one word", "two words"])
@pytest.mark.parametrize("fields", [1, 20])
@pytest.mark.parametrize("kind", [LogMTA, AmortizedMTA])
@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("batch", LONG)
def test_a_call_after_a_long_batch_makes_few_states(
    batch: str, after: str, kind: Any, fields: int, sums: str
) -> None:
    """It may work on all of a page and of the batch, in few calls, and once."""
    tally = Tally()
    subject, value = (monoids.Sum, 1) if sums == "one word" else (monoids.Mean, 1_700_000_000_000_000_000)
    each = {f"f{i}": tallied(subject, tally) for i in range(fields)}
    it = Driven(kind, monoids.Fields(**each), CountWindow(WIDTH), value=value)
    for count in (10_000, 1000, 100, 10_000, 3000, 10_000):
        LONG[batch](it, count)
        singles, entries, calls = tally.of(lambda: AFTER[after](it))
        assert singles <= fields * 400
        assert entries <= fields * (4 * PAGE + 3 * count)
        assert calls <= fields * 60
        more = [tally.of(lambda: AFTER[after](it)) for _ in range(3)]
        assert max(singles for singles, _, _ in more) <= fields * 400
        # one of them may be the first to ask for nodes of another page
        assert sorted(entries for _, entries, _ in more)[1] <= fields * 500
        result = it.window.query()[f"f{fields - 1}"]
        assert result == (len(it.window) if value == 1 else value)


@pytest.mark.parametrize("kind", [LogMTA, AmortizedMTA])
@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("batch", LONG)
def test_a_call_after_a_long_batch_of_objects(batch: str, after: str, kind: Any) -> None:
    """All objects of a page are combined where the head enters it, and those of a batch once more."""
    calls = 0

    def later(older: str, younger: str) -> str:
        nonlocal calls
        calls += 1
        return max(older, younger)

    def cost() -> int:
        before = calls
        AFTER[after](it)
        return calls - before

    page = 1024
    it = Driven(kind, monoids.from_function(later, ""), CountWindow(4 * page), page=page, value="x")
    for count in (700, 100, 600, 700, 700):
        LONG[batch](it, count)
        assert cost() <= 2 * page + 2 * count
        assert sorted(cost() for _ in range(5))[2] <= 120


@pytest.mark.parametrize("kind", [LogMTA, AmortizedMTA])
def test_a_head_that_walks_has_its_steps_made_in_few_calls(kind: Any) -> None:
    """As many at once as it has walked: a page of them in a few calls, and then whole pages."""
    it = Driven(kind, monoids.Max(), CountWindow(WIDTH))
    it.slide(5)
    made: list[int] = []
    view = it.window._view
    steps = type(view).make_steps

    def counting(self: Any, times: list[Any], *rest: Any) -> Any:
        made.append(len(times))
        return steps(self, times, *rest)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(type(view), "make_steps", counting)
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
        for module in (tail, states, log):
            patched.setattr(module, "joined", counting)
        for _ in range(rounds):
            FEW[label](it)
            runs = max(runs, len(it.window._log.tails[0]._runs))
    assert runs <= 60
    # four columns of three elements, in three sizes of runs
    assert joined <= 60 * rounds + 4 * PAGE
