"""`mta bench engine`: everything in one run on one machine, so that ratios mean something."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from mta.lab.bench.engine import calls, eviction, frames, memory, policies, push, slide
from mta.lab.harness import Measure, run_benchmark

SECTIONS: dict[str, Measure] = {
    "slide": slide.measure,
    "frames": frames.measure,
    "push": push.measure,
    "calls": calls.measure,
    "policies": policies.measure,
    "eviction": eviction.measure,
    "memory": memory.measure,
}


def run(
    *,
    only: Sequence[str] = (),
    quick: bool = False,
    redis_url: str | None = None,
    json_file: Path | None = None,
    out: Console | None = None,
) -> dict[str, Any]:
    """Measures, prints tables to `out`, and returns what `json_file` gets."""
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    measures = [measure for name, measure in SECTIONS.items() if not only or name in only]
    return run_benchmark("engine", measures, quick=quick, redis_url=redis_url, json_file=json_file, out=out)
