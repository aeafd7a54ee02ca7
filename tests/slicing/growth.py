"""Which costs grow with which dimension: calls of two slicers, one of which is ten times as large in it.

`python tests/slicing/growth.py` lists the calls that run three times as many lines, or take three times as
many bytes, a result, though they should not depend on that dimension. Counted: each run says the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any
from uuid import uuid4

from costs import bytes_taken, lines_run

from mta import monoids
from mta.slicing import FixedBand, Session, Slicer, Sliding, Tumbling
from stores import open_store

KINDS: dict[str, Any] = {
    "tumbling": Tumbling(10),
    "sliding": Sliding(40, 10),
    "session": Session(3),
    "count": Tumbling(4, measure="count"),
    "band": FixedBand(0, 10**9),
}


def is_known(kind: str, store: str, call: str, what: str) -> bool:
    """Whether it is documented that a call looks at all."""
    if what == "bytes" and ("extend" in call or "insert" in call):
        return True  # a copy of the list of slices, or a list of slices that was full
    if store == "eager" and "watermark" in call:
        return True  # the tree is written from the first slice on that has changed
    return kind == "count"


def made(kind: str, store: str, queries: int, lateness: int, **options: Any) -> Slicer:
    named = {f"q{number}": KINDS[kind] for number in range(queries)}
    if store == "paged":
        options |= {"store": open_store(f"memory:{uuid4().hex}"), "local": 8}
    else:
        options |= {"store": store}
    return Slicer(monoids.Sum("n"), named, lateness=lateness, **options)


def row(key: int = 0) -> dict[str, int]:
    return {"n": 1, "key": key}


def calls(slicer: Slicer, now: int, back: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Each call is made in its turn. The first call of a kind pays for earlier ones, so it is not counted."""
    at = now
    for name in ("first", ""):
        at += 11
        yield f"{name}insert", lambda at=at: slicer.insert(row(), at)
        yield f"{name}insert late", lambda at=at: slicer.insert(row(), at - back)
        yield f"{name}watermark after late", lambda at=at: slicer.watermark(at)
        at += 11
        yield f"{name}extend", lambda at=at: slicer.extend([row()], [at])
        yield f"{name}watermark", lambda at=at: slicer.watermark(at)
        yield f"{name}extend late", lambda at=at: slicer.extend([row()] * 2, [at - back, at - 5])
        yield f"{name}idle watermark", lambda at=at: slicer.watermark(at)


def windows(kind: str, store: str, many: int, **options: Any) -> tuple[Slicer, int]:
    """Many that have ended and are not over, of one key."""
    slicer = made(kind, store, 1, 100 * many, **options)
    slicer.extend([row()] * many, range(0, 10 * many, 10))
    slicer.watermark(10 * many)
    return slicer, 10 * many


def ahead(kind: str, store: str, many: int) -> tuple[Slicer, int]:
    """Many slices behind the watermark's time, none of which has ended."""
    slicer = made(kind, store, 1, 100)
    slicer.extend([row()] * many, range(1000, 1000 + 10 * many, 10))
    slicer.watermark(100)
    return slicer, 200


def keys(kind: str, store: str, many: int) -> tuple[Slicer, int]:
    slicer = made(kind, store, 1, 100, by="key")
    slicer.extend([row(key) for key in range(many)], [1000] * many)
    slicer.watermark(1000)
    slicer.watermark(1001)
    return slicer, 1001


DIMENSIONS: dict[str, Any] = {
    "windows": (windows, 40),
    "windows, changes only": (lambda *each: windows(*each, changes_only=True), 40),
    "windows, early": (lambda *each: windows(*each, every_tuples=1), 40),
    "slices ahead": (ahead, 40),
    "keys": (keys, 40),
}


def cost(what: str, call: Callable[[], Any]) -> float:
    """Lines or bytes, a result."""
    results: list[Any] = []
    taken = (lines_run if what == "lines" else bytes_taken)(lambda: results.extend(call() or ()))
    return taken / (1 + len(results))


def costs(slicer: Slicer, now: int, what: str) -> dict[str, float]:
    found = {name: cost(what, call) for name, call in calls(slicer, now, 60)}
    return {name: each for name, each in found.items() if not name.startswith("first")}


def grown() -> list[str]:
    found = []
    for dimension, (make, many) in DIMENSIONS.items():
        for kind, store in product(KINDS, ("lazy", "eager", "paged")):
            if store == "paged" and (kind == "count" or dimension == "keys"):
                continue
            for what, least in (("lines", 100), ("bytes", 4000)):
                few, more = (costs(*make(kind, store, many * times), what) for times in (1, 10))
                found += [
                    f"{dimension}, {kind}, {store}: {name}: {few[name]:.0f} -> {more[name]:.0f} {what}"
                    for name in few
                    if more[name] > 3 * few[name] + least and not is_known(kind, store, name, what)
                ]
    return found


if __name__ == "__main__":
    print(*grown(), sep="\n")
