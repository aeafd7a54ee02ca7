"""An adversary who can compute checksums gets an error that names the page, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mta import AmortizedMTA, monoids


@pytest.mark.skipif(sys.platform != "linux", reason="needs limits on address space")
@pytest.mark.parametrize(
    ("what", "step", "least"), [("pages", 2, 15_000), ("roots", 5, 2_000), ("stored", 5, 2_000)]
)
def test_nothing_is_believed(what: str, step: int, least: int) -> None:
    """Pages and roots with one field changed are read in 200 MB more than the imports take."""
    done = subprocess.run(
        [sys.executable, Path(__file__).parent / "hostile.py", what, "200", str(step)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout) >= least


def test_a_page_size_that_no_manifest_may_name_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 1,048,576, got 2,097,152"):
        AmortizedMTA(monoids.Max(), page_size=1 << 21)
    AmortizedMTA(monoids.Max(), page_size=1 << 20)
