"""What a call costs, counted and not timed."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any


def bytes_taken(call: Callable[[], object]) -> int:
    """How many bytes a call has at once, beside those from before: what is copied takes eight an entry.

    Garbage is not collected meanwhile, nor before, which takes long where other tests hold much.
    """
    collects = gc.isenabled()
    gc.disable()
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        if collects:
            gc.enable()


def lines_run(call: Callable[[], object]) -> int:
    """The number of lines of Python that a call executes, in the calls that it makes too."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:  # noqa: ARG001
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count
