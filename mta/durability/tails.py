"""The partial last page of each tier, out of a version and the store. Reading needs no writer."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import count

from mta.core.states import Layout
from mta.core.tail import Tail
from mta.durability.manifest import Part, SavedTail, Version
from mta.errors import PagesLost
from mta.paging.codec import decode_run, encode_run
from stores import Store


def encode_tail(layout: Layout, name: str, tail: Tail, start: int) -> bytes:
    """The entries of a tail from `start` on, serialized."""
    young = tail.part(start, tail.stop)
    return encode_run(layout, [name, "tail", tail.tier, start], tail.tier, young.times, young.run)


def load_tails(
    store: Store, name: str, layout: Layout, version: Version, read: Mapping[Part, bytes | None] | None = None
) -> list[Tail]:
    """The tails that a version names; one round trip if they have parts, else none.

    `read` has the parts, if they were read already. Raises PagesLost if a part is not in the store, and
    PageCorrupt if one is not what was written.
    """
    found = {} if read is None else read
    if read is None and (parts := list(version.parts())):
        found = dict(zip(parts, store.get_many([part.key(name) for part in parts]), strict=True))
    load = partial(load_tail, store, name, layout, found)
    return list(map(load, count(), version.tails))


def read_parts(store: Store, versions: Mapping[str, Version]) -> dict[str, dict[Part, bytes | None]]:
    """The parts of versions of several windows, by name; one call of the store."""
    named = [(name, part) for name, version in versions.items() for part in version.parts()]
    found: dict[str, dict[Part, bytes | None]] = {name: {} for name in versions}
    if named:
        values = store.get_many([part.key(name) for name, part in named])
        for (name, part), data in zip(named, values, strict=True):
            found[name][part] = data
    return found


def load_tail(
    store: Store, name: str, layout: Layout, found: Mapping[Part, bytes | None], tier: int, saved: SavedTail
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
        entries = part.stop - part.start
        identity = [name, "tail", tier, part.start]
        tail = tail.followed(*decode_run(layout, data, identity, tier, what, entries))
    if saved.inline:
        what, identity = f"the tail of tier {tier} of window {name!r}", [name, "tail", tier, saved.saved]
        run = decode_run(layout, saved.inline, identity, tier, what, saved.inline_count)
        tail = tail.followed(*run)
    return tail
