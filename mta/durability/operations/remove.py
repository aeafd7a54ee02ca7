"""Removing windows: `mta rm`.

The root goes first, by its token, so that whoever writes the window is fenced at its next commit. Then its
pages go, by the rules of `mta gc`: those that were seen before there was found to be no root. If the window
begins anew meanwhile there is one, and only what its new writer has superseded goes. So no clock is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mta.durability.coding import decode_root
from mta.durability.operations.collect import Collected, superseded
from mta.durability.operations.roots import Seen, by_window, read_roots
from mta.errors import ManifestCorrupt, WindowNotFound
from stores import Store, pages_of
from stores.base import escape_name


def remove(store: Store, name: str, *, dry_run: bool = False) -> Collected:
    """Removes a window with all its pages, whoever has it."""
    removal = _Removal(store, dry_run)
    removal.remove_roots([name])
    removal.remove_pages(store.list_keys(pages_of(name)), {name})
    if name not in removal.removed:
        raise WindowNotFound(f"no window {name!r} in {store!r}")
    return removal.removed[name]


def remove_all(store: Store, names: Sequence[str], prefix: str, *, dry_run: bool = False) -> list[Collected]:
    """Removes windows whose names have a prefix, with all their pages, and those that have no root."""
    removal = _Removal(store, dry_run)
    removal.remove_roots(names)
    removal.remove_pages(store.list_keys(f"{{{escape_name(prefix)}"), set(names))
    return [found for _, found in sorted(removal.removed.items())]


class _Removal:
    def __init__(self, store: Store, dry_run: bool) -> None:
        self._store, self._dry_run = store, dry_run
        self.removed: dict[str, Collected] = {}

    def remove_roots(self, names: Iterable[str]) -> None:
        for roots in read_roots(self._store, names):
            for name in roots:
                self._of(name).root = True
            while roots and not self._dry_run:
                kept = self._store.delete_roots({name: root.token for name, root in roots.items()})
                # a writer has committed meanwhile
                roots = next(read_roots(self._store, kept), {})

    def remove_pages(self, keys: Iterable[str], names: set[str]) -> None:
        for windows in by_window(self._store, keys):
            gone = []
            for seen in windows:
                unneeded = self._unneeded(seen, names)
                if unneeded:
                    self._of(seen.name).pages += len(unneeded)
                    gone += unneeded
            if not self._dry_run:
                self._store.delete_many(gone)

    def _unneeded(self, seen: Seen, names: set[str]) -> list[str]:
        if seen.root is None or (self._dry_run and seen.name in names):
            return [text for text, _ in seen.keys]
        if seen.name not in names:
            return []
        try:
            return superseded(decode_root(seen.name, seen.root.data), seen)
        except ManifestCorrupt:
            return []  # whatever it is, it came after the window was removed

    def _of(self, name: str) -> Collected:
        return self.removed.setdefault(name, Collected(name))
