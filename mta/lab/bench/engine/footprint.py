"""One window in a process of its own: `python -m mta.lab.bench.engine.footprint URL N` prints its size."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import numpy as np

from mta import AmortizedMTA, monoids, policies
from mta.lab.contents import contents, discarded
from mta.lab.machine import peak_resident, resident
from stores import open_store

BATCH = 1 << 16
#: Batches after the window is full.
STEADY = 8
LEAF_BYTES = 16


def main(arguments: list[str]) -> None:
    url, elements, page_size = arguments[0], int(arguments[1]), int(arguments[2])
    rng = np.random.default_rng(4)
    with open_store(url) as store:
        policy = policies.TimeWindow(elements)
        window = AmortizedMTA(monoids.Max(), policy, store=store, page_size=page_size or None)
        with discarded(window):
            batch = min(BATCH, elements)
            for start in range(0, elements + STEADY * batch, batch):
                window.slide(rng.random(batch), np.arange(start, start + batch))
            time.sleep(0.2)
            now, peak = resident(), peak_resident()
            held = contents(store, window.name)
    leaves = held.pages.get(0, 0) * window.page_size
    print(
        json.dumps(
            {
                "elements": elements,
                "resident_bytes": now,
                "peak_bytes": peak,
                "pages": held.pages,
                "stored_bytes": held.bytes,
                "stored_leaf_bytes": leaves * LEAF_BYTES,
            }
        )
    )


def footprint(url: str, elements: int, page_size: int | None) -> dict[str, object]:
    """What a window of so many elements takes, measured in a process that does nothing else."""
    command = [sys.executable, "-m", "mta.lab.bench.engine.footprint"]
    command += [url, str(elements), str(page_size or 0)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"a window of {elements} elements failed:\n{done.stderr.strip()}")
    found: dict[str, object] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
