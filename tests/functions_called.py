"""The functions of the library that a call runs through, as `sys.setprofile` sees them.

Run as a script, it prints how many functions, and of how many modules, a few calls of a window over Redis run
through; with the name of a call also which:

    PYTHONPATH=.:tests python tests/functions_called.py [push fill enter restore]
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mta import AmortizedMTA, monoids, policies
from stores import open_store

ROOT = Path(__file__).parents[1]
PACKAGES = ("mta", "stores", "spark_integration")

SIZE, PAGES = 16, 40


def functions_called(call: Callable[[], Any]) -> Counter[tuple[str, str]]:
    """File and name of each function that runs in this thread during a call, and how often it runs."""
    seen: Counter[tuple[str, str]] = Counter()

    def profile(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            path = Path(frame.f_code.co_filename)
            if path.is_relative_to(ROOT):
                path = path.relative_to(ROOT)
                if path.parts[0] in PACKAGES:
                    seen[str(path), frame.f_code.co_qualname] += 1

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return seen


def calls_of_a_window(url: str) -> dict[str, list[Counter[tuple[str, str]]]]:
    """The functions of each push into a window that walks, by what the push does, and of `restore`.

    `push` neither fills a page nor enters one, `fill` fills one, under `enter` the head enters one.
    """
    found: dict[str, list[Counter[tuple[str, str]]]] = {"push": [], "fill": [], "enter": []}
    count = PAGES * SIZE + SIZE // 2
    policy = policies.CountWindow(count)
    with open_store(url) as store:
        with AmortizedMTA(monoids.Max(), policy, store=store, name="walk", page_size=SIZE) as window:
            window.extend(list(range(count)))
            window.checkpoint()
            view = window._view
            for row in range(count, count + 4 * PAGES * SIZE):
                tail, head = view.end // SIZE, view.head // SIZE
                seen = functions_called(lambda row=row: window.push(row))
                does = "fill" if view.end // SIZE > tail else "enter" if view.head // SIZE > head else "push"
                found[does].append(seen)
            window.checkpoint()
        restored: list[AmortizedMTA] = []
        found["restore"] = [
            functions_called(
                lambda: restored.append(AmortizedMTA.restore(store, "walk", monoids.Max(), policy))
            )
        ]
        restored[0].close()
    return found


def usual(seen: list[Counter[tuple[str, str]]]) -> Counter[tuple[str, str]]:
    """The call in the middle, by the number of functions that it runs through."""
    return sorted(seen, key=len)[len(seen) // 2]


def main(names: list[str]) -> None:
    from servers import redis_server

    with tempfile.TemporaryDirectory() as directory, redis_server(Path(directory)) as server:
        for does, seen in calls_of_a_window(server.url).items():
            middle = usual(seen)
            modules = len({file for file, _ in middle})
            lengths = sorted(map(len, seen))
            print(
                f"{does:8} {len(middle):4} functions of {modules} modules, {middle.total()} calls "
                f"({lengths[0]} to {lengths[-1]} functions in {len(seen)} calls)"
            )
            if does in names:
                for (file, name), times in middle.items():
                    print(f"    {times:4} {file} {name}")


if __name__ == "__main__":
    main(sys.argv[1:])
