"""Sliding-window aggregation for windows that are bigger than the machine."""

from mta import monoids, policies
from mta.algorithms import AmortizedMTA, LogMTA
from mta.errors import (
    ConcurrentUse,
    EmptyWindowError,
    Fenced,
    ManifestCorrupt,
    ManifestMismatch,
    OutOfOrderError,
    PageCorrupt,
    PageError,
    PagesLost,
    WindowClosed,
    WindowError,
    WindowExists,
    WindowNotFound,
)

__all__ = [
    "AmortizedMTA",
    "ConcurrentUse",
    "EmptyWindowError",
    "Fenced",
    "LogMTA",
    "ManifestCorrupt",
    "ManifestMismatch",
    "OutOfOrderError",
    "PageCorrupt",
    "PageError",
    "PagesLost",
    "WindowClosed",
    "WindowError",
    "WindowExists",
    "WindowNotFound",
    "monoids",
    "policies",
]
