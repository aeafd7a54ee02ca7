"""Scotty's own operator tests, one tuple at a time and in batches."""

from __future__ import annotations

from typing import Any

import pytest
from scotty_cases import CASES, Case

from mta import monoids
from mta.slicing import Slicer


@pytest.mark.parametrize("batches", [False, True])
@pytest.mark.parametrize("store", ["lazy", "eager"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_windows(case: Case, store: str, batches: bool) -> None:
    kind: Any = monoids.Sum()
    if isinstance(case.steps[0][0], tuple):
        kind = monoids.from_function(lambda a, b: a + b, 0, lift=lambda value: value[1], name="second")
    queries = {str(number): query for number, query in enumerate(case.queries)}
    slicer = Slicer(kind, queries, lateness=1000, store=store)
    batch: list[Any] = []
    for step in case.steps:
        if step[0] not in ("watermark", "add"):
            batch.append(step)
            continue
        if batches:
            slicer.extend([value for value, _ in batch], [time for _, time in batch])
        else:
            for value, time in batch:
                slicer.insert(value, time=time)
        batch = []
        if step[0] == "add":
            slicer.add(str(len(slicer.queries)), step[1], history=True)
            continue
        got = [(int(r.query), r.start, r.end, r.value) for r in slicer.watermark(step[1])]
        assert sorted(got) == sorted(step[2])


def test_as_many_as_scotty_has() -> None:
    assert len(CASES) == len({case.name for case in CASES}) == 57
