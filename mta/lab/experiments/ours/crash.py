"""Two programs for `recovery`: one slides a window until it is killed, the other one gives its answer again.

`python -m … write SOURCE STORE ROWS` says how far it is, a number a line. `python -m … recover SOURCE STORE
ROWS WHO UPTO` says the answer for the window that ends at row UPTO, and the seconds since its imports. Both
read the rows from the file SOURCE, as from a log that is kept.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np

from mta import AmortizedMTA, monoids, policies
from mta.baselines import DABA, Recalculate
from mta.monoids.base import Array
from stores import open_store

NAME = "crashed"
BATCH = 1 << 14
#: Batches between two checkpoints.
BETWEEN = 4


def write(values: Array, url: str, rows: int) -> None:
    """Fills a window of so many rows and goes on, with a checkpoint now and then, until it is killed."""
    with open_store(url) as store:
        window = AmortizedMTA(monoids.Max(), policies.CountWindow(rows), store=store, name=NAME)
        for number, start in enumerate(range(0, len(values), BATCH), 1):
            part = values[start : start + BATCH]
            window.slide(part)
            if number % BETWEEN == 0:
                window.checkpoint(start + len(part))
            print(start + len(part), flush=True)
        time.sleep(3600)


def restored(values: Array, url: str, rows: int, upto: int) -> tuple[float, int]:
    """The answer of a window that is restored and catches up, and how many rows it had to read again."""
    window = AmortizedMTA.restore(open_store(url), NAME, monoids.Max(), policies.CountWindow(rows))
    behind = upto - window.offset
    if behind:
        window.extend(values[window.offset : upto])
    return window.query(), behind


def replayed(values: Array, who: str, rows: int, upto: int) -> tuple[float, int]:
    """The answer of a window in memory that all its rows are read into again."""
    values = values[max(0, upto - rows) : upto]
    if who == "amta":
        window: Any = AmortizedMTA(monoids.Max())
        window.extend(values)
    else:
        window = DABA(monoids.Max(), cached=True) if who == "daba" else Recalculate(monoids.Max())
        for value in values.tolist():
            window.insert(value)
    return window.query(), len(values)


def recover(values: Array, url: str, rows: int, who: str, upto: int) -> None:
    began = time.perf_counter()
    answer, read = restored(values, url, rows, upto) if url else replayed(values, who, rows, upto)
    print(json.dumps({"answer": answer, "seconds": time.perf_counter() - began, "read": read}), flush=True)


if __name__ == "__main__":
    what, source, url, size, *more = sys.argv[1:]
    log = np.memmap(source, dtype=np.float64, mode="r")
    if what == "write":
        write(log, url, int(size))
    else:
        recover(log, url, int(size), more[0], int(more[1]))
