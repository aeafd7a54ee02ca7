"""`mta verify`: reads all that the retained versions of a window name, and looks for contradictions.

Each page and part has a checksum and says what it is. Beyond that, times must ascend from the head to the
tail, every page must be full, tails must begin where the pages end, and every entry of an upper tier must be
the aggregate of the page below it, which is computed again if the monoid is known.
"""

from __future__ import annotations

from collections.abc import Callable

from mta.durability import invariants
from mta.durability.coding import decode_root
from mta.durability.manifest import Root
from mta.durability.operations.agreement import holds_sketches
from mta.durability.operations.version_check import MOST_PROBLEMS, GivenUp, Report, TooMany, VersionCheck
from mta.errors import ManifestCorrupt, ManifestMismatch, WindowNotFound
from mta.monoids.base import Monoid
from mta.monoids.expressions import BadExpression, monoid_from_text
from stores import Store


def verify(
    store: Store,
    name: str,
    monoid: Monoid | None = None,
    build: Callable[[str], Monoid] = monoid_from_text,
) -> Report:
    """Without a monoid, the one that the manifest names is used if `build` can make it of its name.

    The window may be in use meanwhile. Reads a few pages at a time.
    """
    report = Report(name)
    found = store.read_root(name)
    if found is None:
        raise WindowNotFound(f"no window {name!r} in {store!r}")
    try:
        root = decode_root(name, found[0])
    except ManifestCorrupt as error:
        report.problems.append(str(error))
        return report
    # decoding has checked each version for itself
    report.problems += [f"the manifest: {violation}" for violation in invariants.of_root(root)]
    if not root.retained:
        report.unchecked.append("the window, which has no checkpoint yet")
        return report
    monoid = _monoid(root, monoid, build, report)
    report.monoid = None if monoid is None else monoid.fingerprint()
    if monoid is not None and holds_sketches(monoid):
        report.notes.append("aggregates of sketches are not compared, since they depend on chance")
    for version in root.retained:
        check = VersionCheck(store, name, root, version, monoid, report)
        try:
            check.run()
            report.versions.append(version.number)
        except GivenUp:
            report.unchecked.append(f"version {version.number}, which was given up meanwhile")
        except TooMany:
            report.unchecked.append(f"the rest, after {MOST_PROBLEMS:,} problems")
            break
    return report


def _monoid(
    root: Root, monoid: Monoid | None, build: Callable[[str], Monoid], report: Report
) -> Monoid | None:
    if monoid is None:
        try:
            monoid = build(root.monoid)
        except BadExpression as error:
            report.unchecked.append(
                f"elements and aggregates, since the monoid is not known ({error}): give it by --monoid if "
                "it is in the catalogue"
            )
            return None
        if monoid.fingerprint() != root.monoid:
            report.unchecked.append(
                f"elements and aggregates: the monoid {root.monoid} cannot be made of its name"
            )
            return None
    if monoid.fingerprint() != root.monoid:
        raise ManifestMismatch(
            f"the window {report.name!r} was checkpointed with the monoid {root.monoid}, "
            f"not {monoid.fingerprint()}"
        )
    return monoid
