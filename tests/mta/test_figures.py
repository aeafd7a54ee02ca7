"""The figures 1, 2, 4 and 5 of the MTA paper, at two elements a page, where a tier is one of its levels.

Only the prose is left of the figures. What it says of each is replayed here, and quoted where a number is
from it. The paper's level l is tier l - 1, and a pair is a page. An entry of ours has a parent once its
pair is complete: so have the pairs of figures 4 and 5, while in figures 1 and 2 the right spine of a tree
has parents of what is there so far.
"""

from __future__ import annotations

from typing import Any

import pytest

from mta import AmortizedMTA, LogMTA, monoids
from mta.core.amortized_view import AmortizedView
from mta.core.log import Log
from mta.core.logarithmic_view import LogarithmicView
from mta.core.states import NOTHING, layout_of
from mta.core.view import View
from mta.paging.local import LocalPages
from mta.policies import While


def view_of(kind: type[View], values: list[int]) -> Any:
    monoid = monoids.Sum()
    view = kind(Log(layout_of(monoid), LocalPages(), 2))
    for time, value in enumerate(values):
        view.insert(value, value, time)
    return view


def levels(view: Any) -> list[list[int]]:
    """The entries of each level whose pair is complete, and those of its last pair, from the leaves up."""
    found = []
    for tier, tail in enumerate(view.log.tails):
        entries = []
        first = view.head >> tier
        for number in range(first >> 1, tail.start >> 1):
            page = view.log.page(tier, number)
            entries += page.run[0].tolist()[max(0, first - 2 * number) :]
        young = tail.page()
        entries += young.run[0].tolist()[max(0, first - tail.start) :]
        found.append(entries)
    return found


# -- figure 1: "the full binary Tree of a Log MTA performing a sum aggregation, with [1, 2, 1, 2, 1, 2]" ----


def test_figure_1_levels() -> None:
    """Its list of queues: the updates in pairs, and above them the aggregates of pairs.

    The pairs of the leaves are ⟨1, 2⟩ ⟨1, 2⟩ ⟨1, 2⟩; those above ⟨3, 3⟩ ⟨3, ⟩; then ⟨6, …⟩. The paper's
    root has the aggregate of all, 9: it is kept beside the view.
    """
    view = view_of(LogarithmicView, [1, 2, 1, 2, 1, 2])
    assert levels(view) == [[1, 2, 1, 2, 1, 2], [3, 3, 3], [6]]
    assert view.total() == 9


def test_figure_1_an_insertion_goes_up_from_leaf_to_root() -> None:
    """Algorithm 1 for each update: "the aggregation result" is in the root after every insertion."""
    view, total = view_of(LogarithmicView, []), 0
    for time, value in enumerate([1, 2, 1, 2, 1, 2]):
        view.insert(value, value, time)
        total += value
        assert view.total() == total


# -- figure 2: bulk eviction. "Monoid: max(x, y); WSP: total - old ≥ 4" -------------------------------------


@pytest.mark.parametrize("kind", [LogMTA, AmortizedMTA])
@pytest.mark.parametrize("times", [[1, 2, 3, 4], [0, 1, 2, 4], [2, 3, 4], [4]])
def test_figure_2(kind: Any, times: list[int]) -> None:
    """
    "timestamps are inserted to the window and the WSP only allows a window of 4 time units. When
    timestamp 8 is inserted it triggers the WSP enforcement to evict all the other updates in the window …
    leaving only the newest update." """
    window = kind(monoids.Max(), While(lambda total, old: total - old >= 4, name="4 units"), page_size=2)
    for time in times:
        window.push(time)
    assert len(window) == sum(times[-1] - time < 4 for time in times)
    assert window.push(8) == 8
    assert len(window) == 1


def test_figure_2_takes_a_few_steps() -> None:
    """
    "to evict all the other updates in the window in three steps": the predicate is asked from the root
    down, so of a few subtrees and not of every update."""
    asked: list[tuple[int, int]] = []

    def older(total: int, old: int) -> bool:
        asked.append((total, old))
        return total - old >= 4

    window = LogMTA(monoids.Max(), While(older, name="4 units"), page_size=2)
    window.extend([1, 2, 3, 4])
    asked.clear()
    assert window.push(8) == 8
    assert len(window) == 1
    assert len(asked) <= 3
    assert asked[0][0] == 8


# -- figure 4: "an Amortized MTA window performing a sum aggregation" of [1, 2, 1, 2, 1, 2, 1, 2] ------------


def test_figure_4_the_forest() -> None:
    """
    "the last ⟨1, 2⟩ pair in level 0 is not aggregated in level 1 and there is a [gap] at its tail
    instead": a pair has a parent once it is not the last of its level.

    Ours has one as soon as the pair is complete: so there is a fourth 3, in the last pair of its level,
    and no entry that covers a pair which is not complete.
    """
    view = view_of(AmortizedView, [1, 2, 1, 2, 1, 2, 1])
    assert levels(view) == [[1, 2, 1, 2, 1, 2, 1], [3, 3, 3], [6]]
    view.insert(2, 2, 7)
    assert levels(view) == [[1, 2, 1, 2, 1, 2, 1, 2], [3, 3, 3, 3], [6, 6], [12]]
    assert view.total() == 12


def figure_4() -> Any:
    """
    "R0 minus the update in the head": the pair is made where the leftmost view, of four updates, ends."""
    view = view_of(AmortizedView, [1, 2, 1, 2])
    view.flip()
    for time, value in enumerate([1, 2, 1, 2], 4):
        view.insert(value, value, time)
    return view


def test_figure_4_result_pair_and_stack() -> None:
    """
    "the Stack top element is 5, which is R0 minus the head element in the first level: 6 - 1 = 5.
    Likewise, the next element in the Stack is 3, which corresponds to R0 minus the head element in the
    second level: 6 - 3 = 3." """
    view = figure_4()
    assert (view.r0, view.r1) == (6, 6)
    assert view.steps[-1][1] == 5  # the top of the stack, for the page of leaves that the head is in
    assert view.front(2).r0 == 3  # the next one: of the frame that belongs to the second level
    assert view.total() == 12


def test_figure_4_an_insertion_and_an_eviction() -> None:
    """
    "inserting 1 to the data structure in Figure 4 would result on R1 = 6 + 1 = 7, while evicting the
    first element would pop 5 from the Stack and put it on R0." """
    view = figure_4()
    view.insert(1, 1, 8)
    assert (view.r0, view.r1) == (6, 7)
    view = figure_4()
    view.evict()
    assert (view.r0, view.r1) == (5, 6)


# -- figure 5: single evictions from [1, 3, 2, 1, 2, 1, 1, 0, 3, 1] "with result 15" ------------------------


def test_figure_5() -> None:
    """
    "When the first update is removed, the top of the Stack (6) is moved to R0 … The result is now 6 + 8 =
    14, which corresponds to 15 - 1 = 14. No further actions are required after this update removal. The
    same steps are followed for the second update removal, but in this case the head pair from the first
    level is removed … Also, ⟨2, 1⟩ is used to update the Stack (1 + [neutral] = 1)." """
    values = [1, 3, 2, 1, 2, 1, 1, 0, 3, 1]
    view = view_of(AmortizedView, values[:4])  # the leftmost tree: 1 + 3 + 2 + 1 = 7, and 7 + 8 = 15
    view.flip()
    for time, value in enumerate(values[4:], 4):
        view.insert(value, value, time)
    assert (view.r0, view.r1, view.total()) == (7, 8, 15)
    stack = view.stack

    view.evict()
    assert (view.r0, view.r1, view.total()) == (6, 8, 14)
    assert view.stack is stack  # it has only popped the step
    assert not view.steps

    view.evict()  # the pair ⟨1, 3⟩ is removed, and the steps of the pair ⟨2, 1⟩ are made
    assert (view.r0, view.total()) == (3, 11)
    assert [step[1] for step in view.steps] == [1]  # 1 + nothing

    view.evict()
    assert (view.r0, view.total()) == (1, 9)


def test_figure_5_to_its_end() -> None:
    """Until "the first tree has been completely removed and the second one took its place. Therefore R1
    needs to be recomputed": the pair is made anew when the head comes to where R0 ends."""
    values = [1, 3, 2, 1, 2, 1, 1, 0, 3, 1]
    view = view_of(AmortizedView, values[:4])
    view.flip()
    for time, value in enumerate(values[4:], 4):
        view.insert(value, value, time)
    for gone in range(1, len(values)):
        view.evict()
        assert view.total() == sum(values[gone:])
        if gone == 4:
            assert (view.r0, view.r1) == (8, NOTHING)
    view.evict()
    assert len(view) == 0
    assert view.total() == 0
