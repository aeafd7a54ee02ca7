"""What is timed has its share of the rounds that are dear: all of them where there is one in a million."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from matplotlib import pyplot

from mta import AmortizedMTA, LogMTA, monoids, policies
from mta.baselines import DABA, FunctionalOkasaki, ImperativeOkasaki, Recalculate, TwoStacks
from mta.lab import turns as lab_turns
from mta.lab.bench.engine import calls
from mta.lab.bench.engine import policies as programmed
from mta.lab.experiments import plots
from mta.lab.experiments.operators import OPERATORS
from mta.lab.experiments.paper import complexity
from mta.lab.experiments.paper.bulk_evict import EXPERIMENT as BULK_EVICT
from mta.lab.experiments.paper.contenders import CONTENDERS as PAPERS
from mta.lab.experiments.paper.dimensions import PUSHES, SIZE, TURNS
from mta.lab.turns import Rounds, SameElement, Turn, push_in_turns, pushes_of, rounds_in_turns, rounds_within


class Counted:
    """A monoid that counts what it combines."""

    def __init__(self) -> None:
        self.count = 0
        self.monoid = monoids.from_function(self._add, 0, name="add")

    def _add(self, older: int, younger: int) -> int:
        self.count += 1
        return older + younger


def window_of(kind: Any, counted: Counted) -> Any:
    return kind(counted.monoid, page_size=16) if kind is AmortizedMTA else kind(counted.monoid)


def a_round(kind: Any, size: int, batch: int) -> float:
    """Combines of a round of a window that goes on for long."""
    counted = Counted()
    window = window_of(kind, counted)
    window.extend([1] * size)
    window.query()
    turnovers = 64
    for _ in range(2):  # the first half brings it to where it goes on and on
        before = counted.count
        for _ in range(turnovers * size // batch):
            window.evict(batch)
            for _ in range(batch):
                window.insert(1)
            window.query()
    return (counted.count - before) / (turnovers * size // batch)


@pytest.mark.parametrize("kind", [TwoStacks, FunctionalOkasaki, ImperativeOkasaki, DABA, AmortizedMTA])
@pytest.mark.parametrize(("size", "batch"), [(1, 1), (96, 1), (512, 1), (512, 4)])
def test_each_turn_has_its_share_of_the_dear_rounds(
    kind: Any, size: int, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted, turns = Counted(), []
    run = Rounds.run

    def counting(self: Rounds, count: int) -> float:
        before = counted.count
        nanoseconds = run(self, count)
        turns.append((counted.count - before) / count)
        return nanoseconds

    monkeypatch.setattr(Rounds, "run", counting)
    rounds_in_turns({"window": Rounds(window_of(kind, counted), [1], size, batch)}, 0.0)
    measured = turns[-lab_turns.TURNS :]
    assert len(measured) == lab_turns.TURNS
    assert measured == pytest.approx([a_round(kind, size, batch)] * lab_turns.TURNS, rel=0.1)


class Clockwork(Rounds):
    """A window whose clock is not this machine's: rounds of a microsecond, and a flip once in all of them."""

    FLIP = 500_000.0

    def __init__(self, size: int, steady: bool = False) -> None:
        super().__init__(Recalculate(monoids.Sum()), [1], size, steady=steady)
        self.size, self.done = size, 0

    def run(self, count: int) -> float:
        flips = -(-(self.done + count) // self.size) - -(-self.done // self.size)
        self.done += count
        return 1000.0 * count + flips * self.FLIP


@pytest.mark.parametrize("size", [1, 10, 1000, 1 << 20])
def test_a_flip_in_the_first_rounds_is_not_taken_for_all_rounds(size: int) -> None:
    clockwork = Clockwork(size)
    (ns,) = rounds_in_turns({"it": clockwork}, 0.4).values()
    assert ns == pytest.approx(1000 + Clockwork.FLIP / size)


def test_rounds_are_as_many_as_take_the_time_and_whole_periods() -> None:
    assert rounds_within(Clockwork(1000), 0.08) in range(50_000, 56_000, 1000)
    assert rounds_within(Clockwork(1 << 20), 0.08) == 1 << 20
    assert Clockwork(1 << 20, steady=True).period == 1


@pytest.mark.parametrize(("size", "batch", "period"), [(100, 1, 128), (100, 30, 4), (17, 4, 5), (64, 64, 1)])
def test_a_period_is_whole_pages_and_whole_batches(size: int, batch: int, period: int) -> None:
    window = AmortizedMTA(monoids.Sum(), page_size=64 if batch == 1 else 2)
    assert Rounds(window, [1], size, batch).period == period


@pytest.mark.parametrize("name", ["daba", "amta"])
def test_pushes_are_whole_windows_and_whole_pages(name: str) -> None:
    counted, size = Counted(), 300
    policy = policies.CountWindow(size)
    contender = PAPERS[name]
    assert not contender.steady
    window = (
        AmortizedMTA(counted.monoid, policy, page_size=16)
        if contender.kind is AmortizedMTA
        else contender.kind(counted.monoid, policy)
    )
    window.extend([1] * size, range(size))
    pushes = pushes_of(window, size, 10, None)
    assert pushes >= size
    before = counted.count
    push_in_turns({name: Turn(window, pushes // 4, SameElement(1, size))}, 4)
    measured = (counted.count - before) / pushes
    more = 50 * size
    before = counted.count
    for at in range(2 * size + 8, 2 * size + 8 + more):
        window.push(1, at)
    assert measured == pytest.approx((counted.count - before) / more, rel=0.15)


def test_pushes_that_all_cost_the_same_may_be_fewer() -> None:
    steady = {name for name, each in PAPERS.items() if each.steady}
    assert steady == {"naive", "ra", "lmta", "lmta-redis", "lmta-rocksdb"}
    assert pushes_of(LogMTA(monoids.Sum()), 1 << 20, 1, 1 << 14) == 1 << 14
    assert pushes_of(AmortizedMTA(monoids.Sum()), 1 << 20, 1, None) == 1 << 20
    assert pushes_of(AmortizedMTA(monoids.Sum()), 4, 1, None) == AmortizedMTA(monoids.Sum()).page_size


def test_stretches_are_whole_pages() -> None:
    page = AmortizedMTA(monoids.Sum()).page_size
    assert calls.PAGE % page == programmed.PAGE % page == 0
    assert PUSHES * TURNS >= SIZE
    assert PUSHES * TURNS % page == 0


def test_bulk_evictions_are_compared_by_medians_and_at_the_worst() -> None:
    """And not the least of several with the only one of another."""
    medians = {"naive": (1.0, 8.0), "daba": (0.5, 6.0)}
    records = [
        {
            "case": {"contender": name, "power": 4, "paper": False},
            "rows": [
                {"evicted": evicted, "seconds": 1e-6, "median_seconds": median, "times": 3}
                for evicted, median in zip((3, 15), medians.get(name, (0.04, 0.02)), strict=True)
            ],
        }
        for name in ("naive", "daba", "lmta", "amta", "lmta-redis", "amta-redis")
    ]
    compared = {each.what: each.measured for each in BULK_EVICT.exhibits(records)[0].compared}
    assert compared["Naive / Amortized MTA, Redis, 15 evicted"] == pytest.approx(400)
    assert compared["Naive / Amortized MTA, Redis, the worst of each"] == pytest.approx(200)
    assert compared["DABA, cached / Amortized MTA, Redis, 15 evicted"] == pytest.approx(300)


@pytest.mark.parametrize("size", [1 << 8, 1 << 10])
def test_what_happens_once_is_not_counted_for_each_of_a_few_pushes(size: int) -> None:
    """A Reactive Aggregator that is full doubles its tree at the first push, and never again."""
    counted = complexity._counted(PAPERS["ra"], False, size, 1 << 9)
    assert counted["most_combines"] < 3 * size.bit_length()
    assert counted["combines"] < 2.5 * size.bit_length()


# -- figures ----------------------------------------------------------------------------------------------


def test_names_under_bars_do_not_lie_on_each_other() -> None:
    figure = pyplot.figure(figsize=(5.2, 4.2), layout="constrained")
    titles = ("sum", "max", "argmax", "mincount", "mean", "stddev", "gmean", "bloom")
    axes = plots.bars(
        figure, {OPERATORS[name].title: {"one": 1.0, "other": 200.0} for name in titles}, y="µs"
    )
    figure.canvas.draw()
    boxes = [label.get_window_extent() for label in axes.get_xticklabels()]
    assert len(boxes) == len(titles)
    assert not any(a.overlaps(b) for a, b in pairwise(boxes))
    pyplot.close(figure)


@pytest.mark.parametrize(
    ("most", "shown"),
    [(900.0, {"200", "500"}), (1e7, {"1000", "$10^{4}$", "$10^{6}$"}), (0.9, {"0.2", "0.5"})],
)
def test_numbers_at_an_axis_are_plain(most: float, shown: set[str]) -> None:
    figure = pyplot.figure()
    points = [(1.0, most / 9), (2.0, most)] if most < 1e6 else [(1.0, 10.0), (2.0, most)]
    axes = plots.lines(figure, {"one": points}, x="x", y="y")
    figure.canvas.draw()
    told = {label.get_text() for label in axes.get_yticklabels()}
    assert shown <= told
    assert not any("times" in text for text in told)
    pyplot.close(figure)


def test_powers_of_two_are_typeset_where_they_are_shown() -> None:
    assert plots.typeset("Out of 2^22 elements; 32^2") == "Out of $2^{22}$ elements; 32^2"
