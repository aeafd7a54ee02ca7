"""Sliding-window aggregation for windows that are bigger than the machine."""

from typing import TYPE_CHECKING, Any

from mta import monoids, policies
from mta.errors import (
    ConcurrentUse,
    EmptyWindowError,
    Fenced,
    ManifestCorrupt,
    ManifestMismatch,
    MissingTime,
    OutOfOrderError,
    PageCorrupt,
    PageError,
    PagesLost,
    WindowClosed,
    WindowError,
    WindowExists,
    WindowNotFound,
)
from mta.reader import Reader
from mta.window import AmortizedMTA, LogMTA

if TYPE_CHECKING:
    from mta.tables.roller import Roller, rolling

__all__ = [
    "AmortizedMTA",
    "ConcurrentUse",
    "EmptyWindowError",
    "Fenced",
    "LogMTA",
    "ManifestCorrupt",
    "ManifestMismatch",
    "MissingTime",
    "OutOfOrderError",
    "PageCorrupt",
    "PageError",
    "PagesLost",
    "Reader",
    "Roller",
    "WindowClosed",
    "WindowError",
    "WindowExists",
    "WindowNotFound",
    "monoids",
    "policies",
    "rolling",
]


def __getattr__(name: str) -> Any:
    if name in ("Roller", "rolling"):  # which need pyarrow, an optional package
        from mta.tables import roller

        return getattr(roller, name)
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _version()


def _version() -> str:
    """That of the tree which this is a part of, if it is one, and otherwise that of the installed package."""
    import tomllib
    from importlib import metadata
    from pathlib import Path

    try:
        project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
        if project["name"] == "mta-windows":
            return str(project["version"])
    except (OSError, KeyError, ValueError):
        pass  # no tree of this project
    try:
        return metadata.version("mta-windows")
    except metadata.PackageNotFoundError:
        return "unknown"  # the modules alone, as Spark may send them to its workers
