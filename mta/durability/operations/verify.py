"""`mta verify`: reads all that the retained versions of a window name, and holds it against itself.

Each page and part has a checksum and says what it is. Beyond that, times must ascend from the head to the
tail, every page must be full, tails must begin where the pages end, and every entry of an upper tier must be
the aggregate of the page below it, which is computed again if the monoid is known.
"""

from __future__ import annotations

from mta.durability.coding import decode_root
from mta.durability.manifest import Root
from mta.durability.operations.version_check import MOST_PROBLEMS, GivenUp, Report, TooMany, VersionCheck
from mta.errors import ManifestCorrupt, ManifestMismatch, WindowNotFound
from mta.monoids.base import Monoid
from mta.monoids.expressions import BadExpression, monoid_from_text
from stores import Store


def verify(store: Store, name: str, monoid: Monoid | None = None) -> Report:
    """Without a monoid, the one that the manifest names is used if it is in the catalogue.

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
    if not root.retained:
        report.notes.append("the window has no checkpoint yet: there is nothing to verify")
        return report
    monoid = _monoid(root, monoid, report)
    report.monoid = None if monoid is None else monoid.fingerprint()
    for version in root.retained:
        check = VersionCheck(store, name, root, version, monoid, report)
        try:
            check.run()
            report.versions.append(version.number)
        except GivenUp:
            report.notes.append(f"version {version.number} was given up meanwhile")
        except TooMany:
            report.notes.append(f"after {MOST_PROBLEMS:,} problems the rest was not looked at")
            break
    return report


def _monoid(root: Root, monoid: Monoid | None, report: Report) -> Monoid | None:
    if monoid is None:
        try:
            monoid = monoid_from_text(root.monoid)
        except BadExpression as error:
            report.notes.append(
                f"aggregates are not computed again, since the monoid is not known ({error}): give it by "
                "--monoid if it is in the catalogue"
            )
            return None
        if monoid.fingerprint() != root.monoid:
            report.notes.append(
                f"aggregates are not computed again: {root.monoid} cannot be made of its name"
            )
            return None
    if monoid.fingerprint() != root.monoid:
        raise ManifestMismatch(
            f"the window {report.name!r} was checkpointed with the monoid {root.monoid}, "
            f"not {monoid.fingerprint()}"
        )
    return monoid
