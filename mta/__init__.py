"""Sliding-window aggregation for windows that are bigger than the machine."""

from mta import monoids, policies
from mta.amortized import AmortizedMTA
from mta.errors import (
    EmptyWindowError,
    OutOfOrderError,
    PageCorrupt,
    PageError,
    PagesLost,
    WindowClosed,
    WindowError,
)
from mta.log import LogMTA

__all__ = [
    "AmortizedMTA",
    "EmptyWindowError",
    "LogMTA",
    "OutOfOrderError",
    "PageCorrupt",
    "PageError",
    "PagesLost",
    "WindowClosed",
    "WindowError",
    "monoids",
    "policies",
]
