"""A policy of each kind, and the aggregates that they ask for."""

from __future__ import annotations

from typing import Any

from mta import AmortizedMTA, monoids, policies
from mta.policies import Policy

AGGREGATES: dict[str, Any] = {
    "sum": monoids.Sum("x"),
    "top": monoids.Max("x"),
    "run": monoids.LongestIncreasingRun("x"),
}
NAMES = ("count", "time", "either", "sum", "sum or count", "maximum", "longest run")


def every_policy(rows: int, span: int, most: int) -> dict[str, Policy]:
    """By name; windows have up to so many rows, so much time, or so large a sum of x."""
    small = policies.While(lambda total, old: total["sum"] - old["sum"] > most)
    found = (
        policies.CountWindow(rows),
        policies.TimeWindow(span),
        policies.CountWindow(rows - 1) | policies.TimeWindow(span, closed="both"),
        small,
        small | policies.CountWindow(rows),
        policies.OlderThanMaximum("top"),
        policies.OlderThanLongestRun("run"),
    )
    return dict(zip(NAMES, found, strict=True))


def pushed(rows: list[dict[str, Any]], policy: Policy) -> list[dict[str, Any]]:
    """What a window in memory gives for the rows of one key, in order, with columns `o` and `x`."""
    window = AmortizedMTA(monoids.Fields(**AGGREGATES), policy)
    found = [window.push({"x": row["x"]}, row["o"]) for row in rows]
    return [each | {"run": each["run"]._asdict()} for each in found]
