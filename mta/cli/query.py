"""`mta query`: the result of a window as its last checkpoint left it, beside a live writer."""

from __future__ import annotations

import argparse
import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

from mta.cli.console import print_json, say, value_text
from mta.cli.errors import CommandFailed
from mta.cli.options import named_store

if TYPE_CHECKING:
    from mta import Reader
    from stores import Store


#: A negative number, which is a time and no option.
_NEGATIVE = re.compile(r"-\.?\d")


def add(parser: Any) -> None:
    """Adds the arguments of the command to its parser."""
    parser._negative_number_matcher = _NEGATIVE  # argparse's own takes -1e3 for an option
    when = parser.add_mutually_exclusive_group()
    when.add_argument(
        "--at", metavar="T", type=_time, help="the window as of a time; by default its last one"
    )
    when.add_argument(
        "--range", metavar=("T0", "T1"), type=_time, nargs=2, help="its elements from one time to another"
    )
    parser.add_argument("--version", metavar="N", type=int, help="a retained version; by default the last")


def _time(text: str) -> Any:
    for read in (int, float, datetime.fromisoformat):
        try:
            time: Any = read(text)
        except ValueError:
            continue
        if isinstance(time, datetime) or abs(time) < float("inf"):
            return time
    raise argparse.ArgumentTypeError(
        f"expected a time, which is a number or a date such as 2026-03-01T12:00+00:00, got {text!r}"
    )


def run(options: argparse.Namespace) -> int:
    with (
        named_store(options.url, create=False, read_only=True) as store,
        _opened(store, options.name, options.version) as reader,
    ):
        try:
            result = _plain(_asked(reader, options))
        except (TypeError, ValueError, OverflowError) as error:
            raise CommandFailed(str(error)) from error
        if options.json:
            print_json(
                {"window": reader.name, "version": reader.version, "offset": reader.offset, "result": result}
            )
        elif isinstance(result, dict):
            for name, each in result.items():
                say(f"{name}: {value_text(each)}")
        else:
            say(value_text(result))
    return 0


def _asked(reader: Reader, options: argparse.Namespace) -> Any:
    if options.at is not None:
        return reader.at(options.at)
    return reader.query() if options.range is None else reader.range_query(*options.range)


def _opened(store: Store, name: str, version: int | None) -> Reader:
    """A reader of a window, whose monoid and policy are made of their names in the manifest."""
    from mta import Reader
    from mta.durability.checkpoints import policy_and_keep
    from mta.durability.coding import decode_root
    from mta.errors import WindowNotFound
    from mta.monoids.expressions import BadExpression, monoid_from_text
    from mta.policy_texts import policy_from_text

    found = store.read_root(name)
    if found is None:
        raise WindowNotFound(f"no window {name!r} in {store!r}")
    root = decode_root(name, found[0])
    try:
        texts = root.monoid, policy_and_keep(root.policy)[0]
        made: list[Any] = [monoid_from_text(texts[0]), policy_from_text(texts[1])]
        for what, text, each in zip(("monoid", "policy"), texts, made, strict=True):
            if each is not None and each.fingerprint() != text:
                raise BadExpression(f"the {what} {text} cannot be made of its name")
    except BadExpression as error:
        raise CommandFailed(
            f"the monoid or the policy of the window {name!r} is not of the catalogue ({error}): in Python, "
            "mta.Reader.open(url, name, monoid, policy) takes any"
        ) from error
    return Reader.open(store, name, *made, version=version)


def _plain(result: Any) -> Any:
    """NumPy's numbers and arrays as Python's."""
    if isinstance(result, dict):
        return {name: _plain(each) for name, each in result.items()}
    return result.tolist() if hasattr(result, "tolist") else result
