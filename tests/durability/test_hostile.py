"""An adversary who can compute checksums gets an error that names the page, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mta import AmortizedMTA, PageCorrupt, monoids
from mta.core.page import Page
from mta.core.states import layout_of
from mta.paging.codec import decode_page, encode_page


@pytest.mark.skipif(sys.platform != "linux", reason="needs limits on address space")
@pytest.mark.parametrize(
    ("what", "step", "least"),
    [("pages", 2, 15_000), ("roots", 5, 2_000), ("stored", 5, 2_000), ("used", 31, 1_000)],
)
def test_nothing_is_believed(what: str, step: int, least: int) -> None:
    """Pages and roots with one field changed are read in 200 MB more than the imports take."""
    done = subprocess.run(
        [sys.executable, Path(__file__).parent / "hostile.py", what, "200", str(step)],
        # the limit is on address space, of which glibc reserves 64 MB for each of some threads, as it comes
        env=os.environ | {"MALLOC_ARENA_MAX": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout) >= least


NUMBERS = [
    monoids.Count(),
    monoids.Sum(),
    monoids.Max(),
    monoids.MaxCount(),
    monoids.Mean(),
    monoids.GeometricMean(),
    monoids.SampleStdDev(),
    monoids.ArgMax(),
    monoids.from_ufunc(np.maximum, None),
    monoids.Fields(top=monoids.Max("x"), last=monoids.Last("x")),
]


@pytest.mark.parametrize("monoid", NUMBERS, ids=repr)
@pytest.mark.parametrize("evil", ["x", None, (1, 2), {"a": 1}, True])
def test_objects_are_no_states_of_a_monoid_of_numbers(monoid: Any, evil: Any) -> None:
    layout = layout_of(monoid)
    column = np.fromiter([1, evil], dtype=object, count=2)
    page = Page(1, np.arange(2), (column,) * monoid.width)
    with pytest.raises(PageCorrupt, match=r"page 0 of tier 1 .* though its checksum is right: .* numbers"):
        decode_page(layout, encode_page(layout, "w", 0, page), "w", 1, 0, 2)


def test_a_page_size_that_no_manifest_may_name_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 1,048,576, got 2,097,152"):
        AmortizedMTA(monoids.Max(), page_size=1 << 21)
    AmortizedMTA(monoids.Max(), page_size=1 << 20)
