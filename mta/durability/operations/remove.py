"""Removal of windows: `mta rm`.

First the root is deleted, by its token, so that the window's writer is fenced at its next commit. Then the
pages are deleted by the rules of `mta gc`: a page is listed first, and deleted if there is no root after
that. If the window begins anew in between, it has a root, and only the pages of older epochs are deleted. So
no clock is needed.
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
    """Removes a window with all its pages, also if a process is writing it: that process is fenced.

    `dry_run` only counts. Raises WindowNotFound if there is neither a root nor a page, and StoreError. Reads
    the root and lists the keys of the window.
    """
    removal = _Removal(store, dry_run)
    removal.remove_roots([name])
    removal.remove_pages(store.list_keys(pages_of(name)), {name})
    if name not in removal.removed:
        raise WindowNotFound(f"no window {name!r} in {store!r}")
    return removal.removed[name]


def remove_all(store: Store, names: Sequence[str], prefix: str, *, dry_run: bool = False) -> list[Collected]:
    """Removes windows, whose names begin with `prefix`, with all their pages.

    Pages under the prefix whose windows have no root are removed too. `dry_run` only counts. Returns one
    result a window, sorted by name. Raises StoreError. Reads the roots, and lists the keys under the prefix.
    """
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
                # those had a commit in between
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
            return []  # this root came after the window was removed

    def _of(self, name: str) -> Collected:
        return self.removed.setdefault(name, Collected(name))
