"""Where tests get chance from: the same examples in each run, and others in `make fuzz`.

`tests/fuzz.py` sets MTA_SEED and MTA_TIMES. Without them the seed is 0, and each test tries its usual
number of examples.
"""

from __future__ import annotations

import os
from collections import Counter
from hashlib import sha256
from random import Random
from uuid import uuid4

SEED = int(os.environ.get("MTA_SEED") or 0)
TIMES = int(os.environ.get("MTA_TIMES") or 1)
FUZZING = "MTA_SEED" in os.environ


def examples(usual: int) -> int:
    """How many examples a test of Hypothesis tries, for `settings(max_examples=examples(80))`."""
    return usual * TIMES


def seeds(usual: int) -> range:
    """The seeds of a test that makes its own examples, for `parametrize("seed", seeds(8))`."""
    return range(SEED, SEED + usual * TIMES)


def generator() -> Random:
    """A generator of the test that runs, other than those of other tests."""
    return Random(f"{SEED} {_running()}")


_given: Counter[str] = Counter()


def fresh(prefix: str = "window") -> str:
    """A name that nothing else in this run has; it decides a slot, and is the same in each run."""
    test = _running()
    _given[test] += 1
    words = f"{SEED} {test} {_given[test]}"
    if os.environ.get("REDIS_URL") or os.environ.get("COUCHBASE_URL"):
        words += uuid4().hex  # a server that another run may use at the same time
    return f"{prefix}-{sha256(words.encode()).hexdigest()[:32]}"


def _running() -> str:
    """The name of the test, without its phase."""
    return os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
