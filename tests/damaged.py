"""Saved values with damage in them, for tests of what reads them."""

from __future__ import annotations

import random
from typing import Any


def hostile(rng: random.Random, value: Any, depth: int = 0) -> Any:
    """The value with something in it that is another."""
    if isinstance(value, list) and value and depth < 6 and rng.random() < 0.9:
        index = rng.randrange(len(value))
        return [*value[:index], hostile(rng, value[index], depth + 1), *value[index + 1 :]]
    if isinstance(value, bytes) and value:
        index = rng.randrange(len(value))
        return rng.choice([value[:index], value[:index] + rng.randbytes(1) + value[index + 1 :], b""])
    others = [
        None,
        -1,
        0,
        1 << 62,
        -(1 << 63),
        2**64 - 1,
        1.5,
        float("nan"),
        "text",
        b"bytes",
        [],
        {},
        [[]],
        True,
    ]
    return rng.choice(others)
