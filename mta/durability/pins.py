"""Pins: a reader keeps a version from being collected, for some time, by a note in the root.

A pin is set and removed by compare-and-swap, and fences nobody: the writer of the window finds its root
changed, sees that only pins differ, and goes on from there. A version that the writer gives up stays in the
root while a pin on it lasts, and so do its pages. Whoever swaps the root next takes expired pins out.
"""

from __future__ import annotations

from dataclasses import replace

from mta.durability import invariants
from mta.durability.coding import decode_root, encode_root
from mta.durability.manifest import MOST_PINS, Pin, Root, Version
from mta.errors import WindowError, WindowNotFound
from stores import Conflict, Store, Token

#: The longest time in seconds for which a version is pinned at once: thirty days.
LONGEST = 30 * 86400.0


def pin(store: Store, name: str, ident: str, version: Version, seconds: float) -> float:
    """Pins a version, or prolongs or moves the pin of this id; returns until when it lasts.

    Raises WindowNotFound if the version is not retained any more, and WindowError if the window has the most
    pins already.
    """
    while True:
        found = _read(store, name)
        if found is None or found[0].readable(version.number) != version:
            raise WindowNotFound(
                f"version {version.number} of the window {name!r} is not retained in {store!r} any more, and "
                "cannot be pinned"
            )
        root, token = found
        now = store.now()
        others = [each for each in root.pins if each.id != ident and each.until > now]
        if len(others) >= MOST_PINS:
            first = min(each.until for each in others) - now
            raise WindowError(
                f"the window {name!r} in {store!r} has {MOST_PINS} pins, which are the most; the next one "
                f"expires in {first:.0f} s: let readers unpin, or share a reader"
            )
        until = now + seconds
        if _swapped(store, name, root, token, (*others, Pin(ident, version.number, until)), now):
            return until


def unpin(store: Store, name: str, ident: str) -> None:
    """Removes a pin, if it is there."""
    while True:
        found = _read(store, name)
        if found is None or all(each.id != ident for each in found[0].pins):
            return
        root, token = found
        others = tuple(each for each in root.pins if each.id != ident)
        if _swapped(store, name, root, token, others, store.now()):
            return


def _read(store: Store, name: str) -> tuple[Root, Token] | None:
    found = store.read_root(name)
    return None if found is None else (decode_root(name, found[0]), found[1])


def _swapped(store: Store, name: str, root: Root, token: Token, pins: tuple[Pin, ...], now: float) -> bool:
    """Gives a root other pins; False if it was changed meanwhile."""
    changed = root.pinned_as(replace(root, pins=pins), now)
    invariants.check(name, changed, root.retained)
    try:
        store.swap_root(name, encode_root(name, changed), token)
    except Conflict:
        return False
    return True
