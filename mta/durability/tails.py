"""The partial last page of each tier, out of a version and the store. Reading needs no writer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mta.core.states import Layout
from mta.core.tail import Tail
from mta.durability.manifest import Part, SavedTail, Version
from mta.errors import PagesLost
from mta.paging.codec import decode_run, encode_run
from stores import Store


def encode_tail(layout: Layout, name: str, tail: Tail, start: int) -> bytes:
    """The entries of a tail from `start` on, serialized."""
    young = tail.part(start, tail.stop)
    return encode_run(layout, _identity(name, tail.tier, start), tail.tier, young.times, young.run)


def load_tails(store: Store, name: str, layout: Layout, version: Version) -> list[Tail]:
    """The tails that a version names; one round trip if they have parts, else none.

    Raises PagesLost if a part is not in the store, PageCorrupt if one is not what was written.
    """
    parts = list(version.parts())
    keys = [part.key(name) for part in parts]
    found = dict(zip(parts, store.get_many(keys), strict=True)) if keys else {}
    return [load_tail(store, name, layout, tier, saved, found) for tier, saved in enumerate(version.tails)]


def load_tail(
    store: Store, name: str, layout: Layout, tier: int, saved: SavedTail, found: Mapping[Part, bytes | None]
) -> Tail:
    """A tier's tail, of the bytes that were found for its parts and of its entries in the version."""
    tail = Tail(layout, tier, saved.start)
    for part in saved.parts:
        data = found[part]
        what = f"part {part.start} of tier {tier} of window {name!r}"
        if data is None:
            raise PagesLost(
                f"{what} is not in {store!r} (key {part.key(name)!r}); the store "
                "lost it: restore another version, or start the window anew"
            )
        tail = _followed(layout, tail, data, name, part.stop, what)
    if saved.inline:
        stop, what = saved.saved + saved.inline_count, f"the tail of tier {tier} of window {name!r}"
        tail = _followed(layout, tail, saved.inline, name, stop, what)
    return tail


def _followed(layout: Layout, tail: Tail, data: bytes, name: str, stop: int, what: str) -> Tail:
    """A tail followed by the entries up to `stop`, out of their bytes."""
    identity = _identity(name, tail.tier, tail.stop)
    return tail.followed(*decode_run(layout, data, identity, tail.tier, what, stop - tail.stop))


def _identity(name: str, tier: int, start: int) -> list[Any]:
    return [name, "tail", tier, start]
