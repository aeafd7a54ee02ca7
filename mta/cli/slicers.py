"""Slicers among the windows of a store: their elements are slices, and their offsets hold the rest."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from mta.durability.coding import decode_root
from mta.encoding.packing import unpack
from mta.encoding.untrusted import Malformed
from mta.errors import ManifestCorrupt, ManifestMismatch
from mta.monoids.base import Monoid
from mta.monoids.expressions import monoid_from_text
from mta.slicing.aggregate_store import Lazy
from mta.slicing.leaves import slice_states
from mta.slicing.saved import deserialized, loaded_queries, loaded_stream, shown_time
from mta.slicing.untrusted import checked_list, checked_time

if TYPE_CHECKING:
    from mta.durability.operations import Inspection, Report, Summary
    from mta.durability.operations.survey import VersionSummary
    from stores import Store

#: how the fingerprint of a slicer's window begins
_SLICES = "slices of "


@dataclass(frozen=True)
class Open:
    """What the last version of a slicer has beside the slices in its pages."""

    #: name of a query to its window
    queries: dict[str, str]
    watermark: Any
    #: slices that tuples may still come into, or that no page holds yet
    slices: int
    #: the time of the youngest tuple
    youngest: Any


def monoid_of(text: str) -> Monoid:
    """The monoid that a manifest names, also that of a slicer."""
    if text.startswith(_SLICES):
        return slice_states(monoid_from_text(text.removeprefix(_SLICES)))
    return monoid_from_text(text)


def as_users_know(window: Summary) -> Summary:
    """With the caller's offset, and all slices."""
    return _with_open_part(window, _open_part(window))


def inspected(found: Inspection) -> tuple[Inspection, Open | None]:
    """As `as_users_know` in all versions, and what the last one of a slicer has beside its pages."""
    monoid, slicer = found.summary.monoid, _open_part(found.summary)
    versions = [_with_dates(monoid, each) for each in found.versions]
    return replace(found, summary=_with_open_part(found.summary, slicer), versions=versions), slicer


def _with_open_part(window: Summary, slicer: Open | None) -> Summary:
    elements = window.elements + (slicer.slices if slicer else 0)
    return replace(window, elements=elements, offset=_of_the_caller(window.monoid, window.offset))


def _with_dates(monoid: str, version: VersionSummary) -> VersionSummary:
    """A version with the caller's offset, and with the times of its slices as users have them."""
    oldest, youngest = version.oldest, version.youngest
    if monoid.startswith(_SLICES) and _is_slicers(version.offset):
        with (
            suppress(ManifestCorrupt, ManifestMismatch),
            deserialized(f"version {version.number}", version.offset["slicer"]) as saved,
        ):
            oldest, youngest = shown_time(saved, oldest), shown_time(saved, youngest)
    return replace(version, offset=_of_the_caller(monoid, version.offset), oldest=oldest, youngest=youngest)


def _open_part(window: Summary) -> Open | None:
    """None of what is no slicer, and of what cannot be read: `verify` says why."""
    if not (window.monoid.startswith(_SLICES) and _is_slicers(window.offset)):
        return None
    try:
        with deserialized(window.name, window.offset["slicer"]) as saved:
            streams = [stream for _, stream in saved["streams"]]
            youngest = max((checked_time(stream["youngest"]) for stream in streams), default=-math.inf)
            return Open(
                {name: fingerprint for name, _, fingerprint, *_ in saved["queries"]},
                shown_time(saved, checked_time(saved["watermark"])),
                sum(len(stream["slices"]) for stream in streams),
                shown_time(saved, youngest),
            )
    except (ManifestCorrupt, ManifestMismatch):
        return None


def check(store: Store, name: str, report: Report) -> None:
    """Reads what the versions of a slicer have beside its leaves: open slices, queries, what was given."""
    found = store.read_root(name)
    if found is None or report.monoid is None or not report.monoid.startswith(_SLICES):
        return
    monoid = monoid_from_text(report.monoid.removeprefix(_SLICES))
    for version in decode_root(name, found[0]).retained:
        what = f"version {version.number}: the slicer {name!r}"
        try:
            _check_state(what, monoid, unpack(version.offset))
        except (ManifestCorrupt, Malformed) as error:
            report.problems.append(str(error))
        except ManifestMismatch as error:
            report.unchecked.append(f"open slices and queries: {error}")


def _check_state(what: str, monoid: Monoid, offset: Any) -> None:
    if not _is_slicers(offset):
        raise Malformed(f"{what} has nothing beside its slices")
    with deserialized(what, offset["slicer"]) as saved:
        queries = loaded_queries(what, saved["queries"], {}, saved["settings"]["lateness"])
        watermark = checked_time(saved["watermark"])
        for each in checked_list(saved["streams"], "streams"):
            _, stream = checked_list(each, "a stream", 2)
            loaded_stream(monoid, Lazy(monoid), queries, watermark, stream)


def _of_the_caller(monoid: str, offset: Any) -> Any:
    return offset["offset"] if monoid.startswith(_SLICES) and _is_slicers(offset) else offset


def _is_slicers(offset: Any) -> bool:
    return isinstance(offset, dict) and offset.keys() == {"slicer", "offset"}
