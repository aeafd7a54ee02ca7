"""The operator's commands: `mta ls`, `inspect`, `verify`, `query`, `gc` and `rm`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from mta.cli import query
from mta.cli.console import add as add_row
from mta.cli.console import lease_text, print_json, say, show, size_text, table, value_text
from mta.cli.options import named_store

if TYPE_CHECKING:
    from mta.cli.slicers import Open
    from mta.durability.operations import Collected, Inspection, Report, Summary
    from stores import Store

#: Exit codes: what was verified is wrong, and what was asked for was not done, or in part.
WRONG, NOT_DONE = 1, 2


def add(commands: Any) -> None:
    """Adds the subcommands; each imports what it needs when it runs."""
    ls = add_command(commands, "ls", "list the windows of a store", _ls)
    about = "what a store has of a window; reads all of its pages"
    inspect = add_command(commands, "inspect", about, _inspect)
    about = "read all of a window and check it; exit code 1 if it is wrong, 2 if something was not checked"
    verify = add_command(commands, "verify", about, _verify)
    for parser in (inspect, verify):
        parser.add_argument("name", metavar="NAME", type=_window)
    verify.add_argument(
        "--monoid",
        metavar="TEXT",
        help="such as 'Fields(peak=Max(\"temp\"))', to compute aggregates again; by default the one that the "
        "window was checkpointed with, if it is in the catalogue",
    )
    about = "the result of a window, as its last checkpoint left it; a writer may be at work"
    ask = add_command(commands, "query", about, query.run)
    ask.add_argument("name", metavar="NAME", type=_window)
    query.add(ask)
    about = "clear away what crashes and removed windows have left; windows may be live"
    gc = add_command(commands, "gc", about, _gc)
    gc.add_argument("--dry-run", action="store_true", help="only say what would go")
    gc.add_argument(
        "--grace", type=_seconds, metavar="SECONDS", help="how long a lease must have run out (default: 60)"
    )
    rm = add_command(commands, "rm", "remove windows with all their checkpoints", _rm)
    which = rm.add_mutually_exclusive_group(required=True)
    which.add_argument("name", metavar="NAME", type=_window, nargs="?", help="one window")
    which.add_argument(
        "--prefix", metavar="P", type=_window, help="all windows whose names begin so; asks for their number"
    )
    rm.add_argument("--yes", action="store_true", help="do not ask")
    rm.add_argument("--dry-run", action="store_true", help="only say what would go")
    for parser in (ls, inspect, verify, ask, gc, rm):
        parser.add_argument("--json", action="store_true", help="for programs")


def add_command(commands: Any, name: str, about: str, run: Callable[[argparse.Namespace], int]) -> Any:
    parser = commands.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")
    parser.add_argument("url", metavar="URL", help="such as rocksdb:///dir or redis://host:6379/0")
    parser.set_defaults(run=run)
    return parser


def _window(text: str) -> str:
    from stores.base import check_name

    try:
        return check_name(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e12:
        raise argparse.ArgumentTypeError(f"expected a number of seconds, got {text!r}")
    return seconds


def _ls(options: argparse.Namespace) -> int:
    from mta.cli.slicers import as_users_know
    from mta.durability.operations import survey

    with named_store(options.url, create=False, read_only=True) as store:
        windows = list(map(as_users_know, survey(store)))
    if options.json:
        print_json([asdict(window) for window in windows])
    elif not windows:
        say("no windows")
    else:
        listed = table("window", "versions", "elements", "epoch", "owner", "lease", "offset")
        for window in windows:
            if window.problem is None:
                add_row(listed, window.name, *_cells(window))
            else:
                add_row(listed, window.name, window.problem, style="red")
        show(listed)
    return 0


def _cells(window: Summary) -> list[str]:
    return [
        ", ".join(map(str, window.versions)) or "none",
        f"{window.elements:,}",
        str(window.epoch),
        f"{window.owner} ({window.owner_is})" if window.owner else "nobody",
        lease_text(window.lease),
        "" if window.offset is None else value_text(window.offset),
    ]


def _inspect(options: argparse.Namespace) -> int:
    from mta.cli.slicers import inspected
    from mta.durability.operations import inspect

    with named_store(options.url, create=False, read_only=True) as store:
        found, slicer = inspected(inspect(store, options.name))
    if options.json:
        print_json({**asdict(found), "slicer": slicer and asdict(slicer)})
    else:
        _show_window(found, slicer)
        _show_versions(found)
        _show_tiers(found)
    return 0


def _show_window(found: Inspection, slicer: Open | None) -> None:
    window = found.summary
    of_the_slicer = []
    if slicer:
        of_the_slicer = [
            ("slices", f"{window.elements:,}, of which {slicer.slices:,} in the manifest"),
            ("youngest", str(slicer.youngest)),
            ("watermark", str(slicer.watermark)),
            *((f"query {name}", window) for name, window in slicer.queries.items()),
        ]
    listed = table("", "")
    listed.show_header = False
    _, elements, epoch, owner, lease, offset = _cells(window)
    for row in (
        ("window", window.name),
        *(of_the_slicer or [("elements", elements)]),
        ("monoid", window.monoid),
        ("policy", window.policy),
        ("page size", f"{window.page_size:,}"),
        ("epoch", epoch),
        ("owner", owner),
        ("lease", lease),
        *(("pinned", f"version {number}, {lease_text(until)}") for number, until in window.pins),
        ("offset", offset),
        ("manifest", size_text(found.manifest_bytes)),
    ):
        add_row(listed, *row)
    show(listed)


def _show_versions(found: Inspection) -> None:
    listed = table("version", "head", "tail", "oldest", "youngest", "offset", "epoch to tail")
    for version in found.versions:
        ends = ", ".join(
            f"{epoch} to {'now' if end is None else f'{end:,}'}" for epoch, end in version.extents
        )
        add_row(
            listed, str(version.number), f"{version.head:,}", f"{version.tail:,}", str(version.oldest),
            str(version.youngest), value_text(version.offset), ends,
        )  # fmt: skip
    show(listed)


def _show_tiers(found: Inspection) -> None:
    listed = table("tier", "pages", "bytes", "parts of the tail", "bytes", "entries in the manifest")
    inline = {tier: count for tier, _, _, count in found.versions[-1].tails} if found.versions else {}
    for tier in sorted({*found.tiers, *found.parts, *inline}):
        cells = []
        for held in (found.tiers.get(tier), found.parts.get(tier)):
            cells += [f"{held.pages:,}", size_text(held.bytes)] if held else ["", ""]
        add_row(listed, str(tier), *cells, f"{inline.get(tier, 0):,}")
    show(listed)
    for label, held in (("not committed yet", found.uncommitted), ("left over, for mta gc", found.leftovers)):
        if held.pages:
            say(f"{label}: {held.pages:,} pages, {size_text(held.bytes)}")


def _verify(options: argparse.Namespace) -> int:
    from mta.cli.slicers import check, monoid_of
    from mta.durability.operations import verify

    monoid = None if options.monoid is None else monoid_of(options.monoid)
    with named_store(options.url, create=False, read_only=True) as store:
        report = verify(store, options.name, monoid, monoid_of)
        if report.ok:
            check(store, options.name, report)
    if options.json:
        print_json({**asdict(report), "ok": report.ok and not report.unchecked})
    else:
        _show_report(report)
    return WRONG if not report.ok else NOT_DONE if report.unchecked else 0


def _show_report(report: Report) -> None:
    versions = ", ".join(map(str, report.versions)) or "none"
    say(f"window {report.name}: versions {versions}; {report.pages:,} pages and {report.parts:,} parts read")
    say(f"aggregates computed again: {report.recomputed:,} ({report.monoid or 'monoid not known'})")
    found = {"note": report.notes, "wrong": report.problems, "not checked": report.unchecked}
    for label, lines in found.items():
        for line in lines:
            say(f"{label}: {line}")
    if not report.ok:
        say(f"{len(report.problems):,} problems")
    elif report.unchecked:
        say("nothing is wrong of what was checked; something was not")
    else:
        say("nothing is wrong")


def _gc(options: argparse.Namespace) -> int:
    from mta.durability.operations import collect
    from mta.durability.operations.collect import GRACE

    with named_store(options.url, create=False, read_only=options.dry_run) as store:
        grace = GRACE if options.grace is None else options.grace
        found = collect(store, dry_run=options.dry_run, grace=grace)
    return _print_collected(found, options)


def _print_collected(found: list[Collected], options: argparse.Namespace) -> int:
    if options.json:
        print_json([asdict(each) for each in found])
        return 0
    done = "would go" if options.dry_run else "deleted"
    if any(each.pages or each.root or each.problem for each in found):
        listed = table("window", f"pages {done}", f"root {done}", "")
        for each in found:
            add_row(listed, each.name, f"{each.pages:,}", "yes" if each.root else "", each.reason)
        show(listed)
    say(f"{sum(each.pages for each in found):,} pages, {sum(each.root for each in found):,} roots {done}")
    return 0


def _rm(options: argparse.Namespace) -> int:
    from mta.durability.operations import remove

    with named_store(options.url, create=False, read_only=options.dry_run) as store:
        if options.prefix is not None:
            return _rm_prefix(store, options)
        removed = remove(store, options.name, dry_run=options.dry_run)
    if options.json:
        print_json(asdict(removed))
    else:
        done = "would remove" if options.dry_run else "removed"
        say(f"{done} the window {removed.name} with {removed.pages:,} pages")
    return 0


def _rm_prefix(store: Store, options: argparse.Namespace) -> int:
    from mta.durability.operations import remove_all, window_names
    from mta.errors import WindowNotFound

    names = sorted(window_names(store, options.prefix))
    if not names:
        raise WindowNotFound(f"no window in {store!r} has a name that begins with {options.prefix!r}")
    if not (options.yes or options.dry_run or _confirmed(names, options.prefix)):
        return NOT_DONE
    return _print_collected(remove_all(store, names, options.prefix, dry_run=options.dry_run), options)


def _confirmed(names: list[str], prefix: str) -> bool:
    """Whether the operator knows how many windows go."""
    from mta.encoding.untrusted import printable, shown

    some = ", ".join(map(printable, names[:3])) + (", …" if len(names) > 3 else "")
    count = (
        "1 window has a name that begins"
        if len(names) == 1
        else f"{len(names):,} windows have names that begin"
    )
    print(f"{count} with {shown(prefix)}: {some}", file=sys.stderr)
    print(f"type {len(names)} to remove all that belongs to them: ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline() if sys.stdin is not None else ""
    if answer.strip().replace(",", "") == str(len(names)):
        return True
    print("mta: nothing was removed; --yes removes without asking", file=sys.stderr)
    return False
