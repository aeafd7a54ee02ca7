"""What `slide` costs under a predicate does not depend on values: counted, and as a push for each row."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from reference import ALGORITHMS

from mta import AmortizedMTA, LogMTA, monoids
from mta.numbers.wide import Words, widened
from mta.policies import OlderThanMaximum, Policy, SumWindow, While

KINDS = list(ALGORITHMS.values())
SIZES = [2, 4, None]
WORD = 2**63


class Work:
    def __init__(self) -> None:
        #: calls for columns, entries in them, single combines, and the longest column of objects
        self.calls = self.entries = self.singles = self.objects = 0


class Counted(monoids.Mean):
    """Means that count what is done for them: sums of whole numbers of any size, in results that fit."""

    def __init__(self, work: Work, *fields: str) -> None:
        super().__init__(*fields)
        self._work = work

    def _made(self, states: Any) -> Any:
        self._work.calls += 1
        self._work.entries += len(states[0])
        longest = max((len(column) for column in states if column.dtype == object), default=0)
        self._work.objects = max(self._work.objects, longest)
        return states

    def combine(self, older: Any, younger: Any) -> Any:
        self._work.singles += 1
        return super().combine(older, younger)

    def combine_columns(self, older: Any, younger: Any) -> Any:
        return self._made(super().combine_columns(older, younger))

    def prefix_columns(self, states: Any) -> Any:
        self._work.entries += len(states[0])
        return self._made(super().prefix_columns(states))

    def suffix_columns(self, states: Any) -> Any:
        self._work.entries += len(states[0])
        return self._made(super().suffix_columns(states))


def difference(n: float, field: str, part: int | None = None) -> While:
    def least(total: Any, old: Any) -> Any:
        total, old = total[field], old[field]
        return total - old >= n if part is None else total[part] - old[part] >= n

    return While(least, columns=True, name=f"{field} {n}")


def total(result: Any) -> Any:
    return {name: column.tolist() for name, column in result.items()}


# -- as a push for each row -----------------------------------------------------------------------------


def fields() -> Any:
    """Sums with outliers, means of whole numbers past 64 bits and of either sign, and a maximum."""
    return monoids.Fields(
        spent=monoids.Mean("x"), wide=monoids.Mean("y"), mixed=monoids.Mean("z"), top=monoids.Max("x"),
        n=monoids.Count(),
    )  # fmt: skip


#: In units of 128 all sums are exact in floats, up to those of some outliers of 1e18.
POLICIES: dict[str, Callable[[], Policy]] = {
    "sum": lambda: difference(128 * 500, "spent", 1),
    "SumWindow": lambda: SumWindow(128 * 500, "top_sum"),
    "wide sum": lambda: difference(70 * 2**62, "wide", 1),
    "large steps": lambda: difference(2**62, "wide", 1),
    "count": lambda: difference(90, "n"),
    "maximum": lambda: OlderThanMaximum("top"),
    "either": lambda: While(
        lambda total, old: (total["n"] - old["n"] >= 120) | (total["spent"][1] - old["spent"][1] >= 64_000),
        columns=True,
        name="either",
    ),
}


def rows(chance: random.Random, count: int, outliers: float, whole: bool) -> dict[str, Any]:
    x = [
        128.0 * chance.randrange(20)
        if chance.random() >= outliers
        else 128.0 * (chance.choice([1e15, 1e16, 1e17, 1e18]) // 128)
        for _ in range(count)
    ]
    y = [chance.choice([2**62, 2**61 + 1, WORD - 1, 0]) for _ in range(count)]
    z = [chance.choice([-WORD, WORD - 1, 5, -(2**62)]) for _ in range(count)]
    return {
        "x": np.array(x, dtype=np.int64 if whole else float),
        "y": np.array(y, dtype=np.int64),
        "z": np.array(z, dtype=np.int64),
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("page_size", SIZES)
@pytest.mark.parametrize("label", POLICIES)
def test_slide_is_a_push_for_each_row(label: str, page_size: int | None, kind: Any) -> None:
    for seed in range(2):
        chance = random.Random(f"{label} {seed}")
        outliers, whole = chance.choice([0.0, 0.002, 0.02]), chance.random() < 0.5
        monoid, policy = fields(), POLICIES[label]()
        if label == "SumWindow":
            monoid = monoids.Fields(**monoid.monoids, top_sum=Small("x"))
        one, other = (kind(monoid, policy, page_size=page_size) for _ in range(2))
        for _ in range(6):
            batch = rows(chance, chance.choice([3, 50, 150, 400]), outliers, whole)
            pushed = [
                one.push(dict(zip(batch, row, strict=True)))
                for row in zip(*(c.tolist() for c in batch.values()), strict=True)
            ]
            slid = total(other.slide(batch))
            assert len(one) == len(other)
            assert slid["n"] == [row["n"] for row in pushed]
            for name in ("spent", "wide", "mixed", "top"):
                assert slid[name] == pytest.approx([row[name] for row in pushed], rel=1e-12)


class Small(monoids.Sum):
    """Sums of any size, of which no result is refused."""

    def lower(self, state: Any) -> Any:
        return float(state)

    def lower_columns(self, states: Any) -> Any:
        return np.array([float(value) for value in self.state_list(states)])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("page_size", SIZES)
@pytest.mark.parametrize("outlier", [1e15, 1e16, 1e17, 1e18])
@pytest.mark.parametrize("policy", [difference(100, "s"), SumWindow(100, "s")])
def test_what_is_lost_beside_an_outlier_is_found_when_it_has_left(
    policy: Policy, outlier: float, page_size: int | None, kind: Any
) -> None:
    """Halves vanish in sums with an outlier, of a push too. Once it has left, no element more stays than has
    to, and when the window is full again, it is that of a push."""
    n = 100
    for seed in (0, 3):
        chance = random.Random(f"{outlier} {seed}")
        one, other = (
            kind(monoids.Fields(s=monoids.Sum("x"), n=monoids.Count()), policy, page_size=page_size)
            for _ in range(2)
        )
        values = [chance.randrange(8) / 2 for _ in range(2000)]
        for place in [chance.randrange(600, 1400), *(chance.randrange(len(values)) for _ in range(seed))]:
            values[place] = outlier
        pushed = [one.push({"x": value})["n"] for value in values]
        slid: list[int] = []
        while len(slid) < len(values):
            batch = values[len(slid) : len(slid) + chance.choice([90, 300, 1100])]
            slid += other.slide({"x": np.array(batch)})["n"].tolist()
        compared = 0
        for row, (found, wanted) in enumerate(zip(slid, pushed, strict=True)):
            kept = values[row + 1 - found : row + 1]
            if outlier not in kept:
                assert sum(kept[1:]) < n, row
            if outlier not in values[max(0, row - 400) : row + 1]:
                compared += 1
                assert found == wanted, row
        assert compared > 300


def test_a_row_that_keeps_as_many_as_it_says() -> None:
    """Where windows start goes up and down with the rows: what has gone does not come back."""
    asked = monoids.Fields(n=monoids.Count(), last=monoids.Last("x"))
    policy = While(
        lambda total, old: total["n"] - old["n"] >= np.maximum(total["last"], 1), columns=True, name="last"
    )
    chance = random.Random(3)
    for size in SIZES:
        one, other = (AmortizedMTA(asked, policy, page_size=size) for _ in range(2))
        for _ in range(8):
            values = [chance.choice([3, 40, 200, 300]) for _ in range(chance.choice([150, 700]))]
            pushed = [one.push({"x": value})["n"] for value in values]
            assert other.slide({"x": values})["n"].tolist() == pushed


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_let_go_of_much_or_of_themselves(kind: Any) -> None:
    """Rows among others that have to be pushed: more leaves go than are looked at, or the row itself."""
    both = monoids.Fields(s=monoids.Sum("x"), last=monoids.Last("x"))
    policy = While(
        lambda total, old: (total["s"] - old["s"] >= 10_000) | (total["last"] == 7), columns=True, name="7"
    )
    one, other = (kind(both, policy, page_size=4) for _ in range(2))
    for values in ([1] * 9000, [1] * 300 + [9000] + [1] * 300, [700] * 250, [1] * 5000, [7, 100] * 300):
        pushed = [one.push({"x": value})["s"] for value in values]
        assert other.slide({"x": values})["s"].tolist() == pushed
        assert len(one) == len(other)


# -- counted --------------------------------------------------------------------------------------------

BATCH, WIDTH = 20_000, 5000


def spikes(every: int) -> Any:
    values = np.full(BATCH, 0.5)
    if every:
        values[every // 2 :: every] = 1e17
    return values


def slid(monoid: Any, policy: Policy, column: Any, kind: Any = AmortizedMTA) -> Any:
    window = kind(monoid, policy)
    window.slide({"x": column})
    return window


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("every", [BATCH, 997, 101])
def test_an_outlier_costs_no_pushes(every: int, kind: Any) -> None:
    found = []
    for column in (spikes(0), spikes(every)):
        work, calls = Work(), 0

        def least(total: Any, old: Any) -> Any:
            nonlocal calls
            calls += 1
            return total["s"][1] - old["s"][1] >= WIDTH / 2

        policy = While(least, columns=True, name="least")
        window = slid(monoids.Fields(s=Counted(work, "x")), policy, column, kind)
        before, calls = (work.singles, work.entries), 0
        for _ in range(3):
            window.slide({"x": column})
        found.append((work.singles - before[0], work.entries - before[1], calls))
    singles, entries, calls = found[1]
    assert singles <= found[0][0] + 2000
    assert entries <= 30 * found[0][1]
    assert calls <= 600


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "column",
    [spikes(BATCH), 1_700_000_000_000_000_000 + np.arange(BATCH), np.full(BATCH, WORD - 1)],
    ids=["outlier", "timestamps", "greatest"],
)
def test_a_field_that_is_not_read_costs_what_it_costs_without_a_predicate(column: Any, kind: Any) -> None:
    work = Work()
    monoid = monoids.Fields(s=Counted(work, "x"), n=monoids.Count())
    window = slid(monoid, difference(WIDTH, "n"), column, kind)
    before, work.objects = (work.singles, work.entries), 0
    window.slide({"x": column})
    assert work.singles - before[0] <= 200
    assert work.entries - before[1] <= 16 * BATCH
    assert work.objects <= 60
    assert len(window) == WIDTH


@pytest.mark.parametrize("kind", KINDS)
def test_sums_past_64_bits_under_a_sum_window_are_in_words(kind: Any) -> None:
    work = Work()

    class InWords(Small):
        def combine_columns(self, older: Any, younger: Any) -> Any:
            made = super().combine_columns(older, younger)
            work.objects = max([work.objects, *(len(column) for column in made if column.dtype == object)])
            return made

        def combine(self, older: Any, younger: Any) -> Any:
            work.singles += 1
            return older + younger

        def lower_columns(self, states: Any) -> Any:
            return np.zeros(len(states[0]))

        def state_list(self, states: Any) -> Any:
            work.singles += len(states[0])
            return super().state_list(states)

        def shaped(self, states: Any) -> Any:
            made = super().shaped(states)
            if isinstance(made, np.ndarray) and made.dtype == object:
                work.objects = max(work.objects, len(made))
            return made

    window = kind(monoids.Fields(s=InWords("x")), SumWindow(WIDTH * 2**62, "s"))
    column = {"x": np.full(BATCH, 2**62)}
    window.slide(column)
    work.objects = work.singles = 0
    window.slide(column)
    assert len(window) == WIDTH
    assert work.objects <= 60
    assert work.singles <= 300


@pytest.mark.parametrize("n", [1, 2**62, 2**63, 2.0**64, 3 * 2**62 + 1, 1e30, 1e300, 0.5])
def test_words_are_compared_exactly(n: float) -> None:
    values = [
        0,
        1,
        -1,
        2**62,
        WORD - 1,
        WORD,
        WORD + 1,
        2**64,
        2**64 - 1,
        -WORD,
        -(2**70),
        2**100,
        3 * 2**62 + 1,
    ]
    column = widened(np.array(values, dtype=object))
    assert column is not None
    assert (Words(column) >= n).tolist() == [value >= n for value in values]
    assert (Words(column) >= -n).tolist() == [value >= -n for value in values]


@pytest.mark.parametrize(
    "policy", [difference(WIDTH, "f0", 0), SumWindow(WIDTH, "f0"), OlderThanMaximum("f0")]
)
@pytest.mark.parametrize("fields", [1, 3, 20])
@pytest.mark.parametrize("kind", KINDS)
def test_no_size_of_a_batch_is_much_dearer_a_row(kind: Any, fields: int, policy: Policy) -> None:
    """Rows are pushed as long as that takes less than columns of them: neither depends on pages."""
    work = Work()
    window = kind(monoids.Fields(**{f"f{i}": Counted(work, "x") for i in range(fields)}), policy)
    window.slide({"x": np.ones(BATCH)})
    costs = []
    sizes = [1, 4, 16, 40, 64, 100, 128, 200, 256, 300, 512, 700, 1000]
    for size in sizes:
        work.calls = work.singles = 0
        for _ in range(4):
            window.slide({"x": np.ones(size)})
        # a call for columns takes as long as some ten single combines
        costs.append((work.singles + 10 * work.calls) / size / fields)
    for smaller, larger in pairwise(costs):
        assert larger <= 10 * smaller + 10, dict(zip(sizes, costs, strict=True))


@pytest.mark.parametrize(
    "policy", [difference(WIDTH, "f0", 0), SumWindow(WIDTH, "f0"), OlderThanMaximum("f0")]
)
@pytest.mark.parametrize("rows", [100, 300, 1000])
@pytest.mark.parametrize("kind", KINDS)
def test_a_search_works_on_the_field_that_is_read(kind: Any, rows: int, policy: Policy) -> None:
    """Of twenty fields of a state, of which a push of a hundred rows would take many times as long."""
    work = Work()
    window = kind(monoids.Fields(**{f"f{i}": Counted(work, "x") for i in range(20)}), policy)
    window.slide({"x": np.ones(BATCH)})
    window.slide({"x": np.ones(rows)})
    work.calls = work.singles = 0
    window.slide({"x": np.ones(rows)})
    assert work.singles <= 20 * 60
    assert work.calls <= 20 * 25


@pytest.mark.parametrize(
    "policy", [OlderThanMaximum(), SumWindow(7), While(lambda t, o: t - o >= 7, columns=True)]
)
@pytest.mark.parametrize("kind", KINDS)
def test_batches_of_any_size(kind: Any, policy: Policy) -> None:
    """Rows are searched in steps: no size falls between them."""
    sizes = [*range(30, 70), 127, 128, 129, 1023, 1024, 1025, 2048, 16384, 17407, 17408, 17409]
    monoid = monoids.Max() if isinstance(policy, OlderThanMaximum) else monoids.Sum()
    for size in sizes:
        column = np.array([number * 7919 % 5 for number in range(size)])
        pushed, window = kind(monoid, policy), kind(monoid, policy)
        window.slide([3, 1])
        pushed.slide([3, 1])
        assert window.slide(column).tolist() == [pushed.push(value) for value in column.tolist()], size
        assert len(window) == len(pushed)


@pytest.mark.parametrize("size", [32, 33, 64])
def test_few_rows_of_many_columns(size: int) -> None:
    monoid = monoids.Fields(**{f"f{i}": monoids.Sum("x") for i in range(45)})
    policy = While(lambda total, old: total["f3"] - old["f3"] >= 7, columns=True, name="f3")
    window = LogMTA(monoid, policy)
    found = window.slide({"x": np.ones(size, dtype=int)})
    assert found["f44"].tolist() == [min(number, 7) for number in range(1, size + 1)]
