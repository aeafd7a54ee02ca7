"""The operator's commands: `mta ls`, `inspect`, `verify`, `gc`, `rm` and `soak`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from mta.operations import Collected, Inspection, Report, Summary

WRONG = 1


def add(commands: Any, count: Callable[[str], int]) -> None:
    """Adds the subcommands; each imports what it needs when it runs."""
    ls = _command(commands, "ls", "list the windows of a store", _ls)
    _json(ls)

    inspect = _command(commands, "inspect", "what a store has of a window; reads all of its pages", _inspect)
    inspect.add_argument("name", metavar="NAME")
    _json(inspect)

    verify = _command(
        commands, "verify", "read all of a window and check it; exit code 1 if it is wrong", _verify
    )
    verify.add_argument("name", metavar="NAME")
    verify.add_argument(
        "--monoid",
        metavar="TEXT",
        help="such as 'Fields(peak=Max(\"temp\"))', to compute aggregates again; by default the one that the "
        "window was checkpointed with, if it is in the catalogue",
    )
    _json(verify)

    gc = _command(
        commands, "gc", "clear away what crashes and removed windows have left; windows may be live", _gc
    )
    gc.add_argument("--dry-run", action="store_true", help="only say what would go")
    gc.add_argument(
        "--grace", type=_seconds, metavar="SECONDS", help="how long a lease must have run out (default: 60)"
    )
    _json(gc)

    rm = _command(commands, "rm", "remove a window with all its checkpoints", _rm)
    rm.add_argument("name", metavar="NAME")
    _json(rm)

    soak = _command(commands, "soak", "kill writers at random moments, and see that nothing is lost", _soak)
    soak.add_argument("--kills", type=count, default=100, metavar="N", help="default: 100")
    soak.add_argument(
        "--seed", type=int, metavar="S", help="of the streams and the moments; default: another each time"
    )
    soak.add_argument("--json", type=Path, metavar="FILE", help="write all figures to a file")


def _command(commands: Any, name: str, about: str, run: Callable[[argparse.Namespace], int]) -> Any:
    parser = commands.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")
    parser.add_argument("url", metavar="URL", help="such as rocksdb:///dir or redis://host:6379/0")
    parser.set_defaults(run=run)
    return parser


def _json(parser: Any) -> None:
    parser.add_argument("--json", action="store_true", help="for programs")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e12:
        raise argparse.ArgumentTypeError(f"expected a number of seconds, got {text!r}")
    return seconds


# -- commands -------------------------------------------------------------------------------------------


def _ls(options: argparse.Namespace) -> int:
    from mta.operations import survey

    with _store(options.url) as store:
        windows = list(survey(store))
    if options.json:
        return _print_json([asdict(window) for window in windows])
    if not windows:
        print("no windows")
        return 0
    table = _table("window", "versions", "elements", "epoch", "owner", "lease", "offset")
    for window in windows:
        if window.problem is None:
            table.add_row(_text(window.name), *_cells(window))
        else:
            table.add_row(_text(window.name), f"[red]{_text(window.problem)}[/]")
    _print(table)
    return 0


def _cells(window: Summary) -> list[str]:
    numbers = [str(number) for number in window.versions]
    owner = f"{window.owner} ({window.owner_is})" if window.owner else "nobody"
    offset = "" if window.offset is None else _text(json.dumps(_plain(window.offset), ensure_ascii=False))
    return [
        ", ".join(numbers) or "none",
        f"{window.elements:,}",
        str(window.epoch),
        _text(owner),
        _lease(window.lease),
        offset,
    ]


def _inspect(options: argparse.Namespace) -> int:
    from mta.operations import inspect

    with _store(options.url) as store:
        found = inspect(store, options.name)
    if options.json:
        return _print_json(asdict(found))
    _show_inspection(found)
    return 0


def _show_inspection(found: Inspection) -> None:
    window = found.summary
    head = _table("", "")
    head.show_header = False
    _, elements, epoch, owner, lease, offset = _cells(window)
    for label, cell in (
        ("window", _text(window.name)),
        ("elements", elements),
        ("monoid", _text(window.monoid)),
        ("policy", _text(window.policy)),
        ("page size", f"{window.page_size:,}"),
        ("epoch", epoch),
        ("owner", owner),
        ("lease", lease),
        ("offset", offset),
        ("manifest", _size(found.manifest_bytes)),
    ):
        head.add_row(label, cell)
    _print(head)
    table = _table("version", "head", "tail", "oldest", "youngest", "offset", "epoch to tail")
    for version in found.versions:
        ends = ", ".join(
            f"{epoch} to {'now' if end is None else f'{end:,}'}" for epoch, end in version.extents
        )
        table.add_row(
            str(version.number), f"{version.head:,}", f"{version.tail:,}", str(version.oldest),
            str(version.youngest), _text(json.dumps(_plain(version.offset))), ends,
        )  # fmt: skip
    _print(table)
    table = _table("tier", "pages", "bytes", "parts of the tail", "bytes", "entries in the manifest")
    inline = {tier: count for tier, _, _, count in found.versions[-1].tails} if found.versions else {}
    for tier in sorted({*found.tiers, *found.parts, *inline}):
        cells = []
        for held in (found.tiers.get(tier), found.parts.get(tier)):
            cells += [f"{held.pages:,}", _size(held.bytes)] if held else ["", ""]
        table.add_row(str(tier), *cells, f"{inline.get(tier, 0):,}")
    _print(table)
    for label, held in (("not committed yet", found.uncommitted), ("left over, for mta gc", found.leftovers)):
        if held.pages:
            print(f"{label}: {held.pages:,} pages, {_size(held.bytes)}")


def _verify(options: argparse.Namespace) -> int:
    from mta.operations import monoid_from_text, verify

    monoid = None if options.monoid is None else monoid_from_text(options.monoid)
    with _store(options.url) as store:
        report = verify(store, options.name, monoid)
    if options.json:
        _print_json({**asdict(report), "ok": report.ok})
    else:
        _show_report(report)
    return 0 if report.ok else WRONG


def _show_report(report: Report) -> None:
    versions = ", ".join(map(str, report.versions)) or "none"
    print(
        f"window {report.name}: versions {versions}; {report.pages:,} pages and {report.parts:,} parts read"
    )
    print(f"aggregates computed again: {report.recomputed:,} ({report.monoid or 'monoid not known'})")
    for note in report.notes:
        print(f"note: {note}")
    for problem in report.problems:
        print(f"wrong: {problem}")
    print("nothing is wrong" if report.ok else f"{len(report.problems):,} problems")


def _gc(options: argparse.Namespace) -> int:
    from mta.operations import collect
    from mta.operations.collect import GRACE

    with _store(options.url) as store:
        grace = GRACE if options.grace is None else options.grace
        found = collect(store, dry_run=options.dry_run, grace=grace)
    if options.json:
        return _print_json([asdict(each) for each in found])
    _show_collected(found, "would go" if options.dry_run else "deleted")
    return 0


def _show_collected(found: list[Collected], done: str) -> None:
    if any(each.pages or each.root or each.problem for each in found):
        table = _table("window", f"pages {done}", f"root {done}", "")
        for each in found:
            table.add_row(_text(each.name), f"{each.pages:,}", "yes" if each.root else "", _text(each.reason))
        _print(table)
    print(f"{sum(each.pages for each in found):,} pages, {sum(each.root for each in found):,} roots {done}")


def _rm(options: argparse.Namespace) -> int:
    from mta.operations import remove

    with _store(options.url) as store:
        removed = remove(store, options.name)
    if options.json:
        return _print_json(asdict(removed))
    print(f"removed the window {removed.name} with {removed.pages:,} pages")
    return 0


def _soak(options: argparse.Namespace) -> int:
    from mta.soak import run

    return run(options.url, kills=options.kills, seed=options.seed, json_file=options.json)


# -- output ---------------------------------------------------------------------------------------------


def _store(url: str) -> Any:
    from mta.bench.storage import BadStore, named_store

    parts = urlsplit(url)
    if parts.scheme == "rocksdb" and parts.path and not os.path.isdir(unquote(parts.path)):
        # opening it would make it, and a slip of the pen would look like an empty store
        raise BadStore(f"{url}: there is no directory {unquote(parts.path)}")
    return named_store(url)


def _table(*headings: str) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def _print(table: Any) -> None:
    from rich.console import Console

    # a pipe has no width; 80 columns would fold names that somebody greps for
    Console(width=None if sys.stdout.isatty() else 200).print(table)


def _text(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def _size(size: float) -> str:
    for unit in ("B", "KB", "MB"):
        if size < 1000:
            return f"{size:,.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"
        size /= 1000
    return f"{size:,.1f} GB"


def _lease(lease: float | None) -> str:
    if lease is None:
        return "none"
    return f"{datetime.fromtimestamp(lease, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _print_json(value: Any) -> int:
    print(json.dumps(_plain(value), indent=1, ensure_ascii=False))
    return 0


def _plain(value: Any) -> Any:
    """The value with what JSON lacks as text."""
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, bool) or value is None or isinstance(value, (int, str)):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    return repr(value)
