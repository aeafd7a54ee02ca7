"""Turns what a user typed into values: sizes, counts, directories, stores."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from mta.cli.errors import CommandFailed
from stores import Store, open_store


def size(text: str) -> int:
    """MiB of a size as Spark writes it."""
    number, unit = text[:-1], text[-1:].lower()
    if not number.isdigit() or unit not in ("m", "g") or not int(number):
        raise argparse.ArgumentTypeError(f"expected a size such as 512m or 4g, got {text!r}")
    return int(number) * (1024 if unit == "g" else 1)


def count(text: str) -> int:
    try:
        found = int(text.replace("_", "").replace(",", ""))
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a whole number, got {text!r}") from None
    if found < 1:
        raise argparse.ArgumentTypeError(f"expected 1 or more, got {text!r}")
    return found


def directory_with(pattern: str, what: str) -> Callable[[str], Path]:
    """A directory that is known by a file in it."""

    def directory(text: str) -> Path:
        found = Path(text).resolve()
        if not any(found.glob(pattern)):
            raise argparse.ArgumentTypeError(f"expected {what}, with {pattern} in it, got {text!r}")
        return found

    return directory


def named_store(url: str, *, create: bool = True, **options: bool) -> Store:
    """The store at a URL. Raises CommandFailed if the URL is wrong, and StoreError if the store fails.

    Operators do not create: a slip of the pen must not make a store that looks empty.
    """
    if ":" not in url:
        raise CommandFailed(f"{url!r} is no URL of a store; of a directory it is rocksdb:{url}")
    try:
        return open_store(url, create=create, **options)
    except (TypeError, ValueError) as error:
        raise CommandFailed(str(error)) from error
