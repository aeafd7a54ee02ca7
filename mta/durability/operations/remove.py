"""Removal of windows: `mta rm`.

First the root is deleted, by its token, so that the window's writer is fenced at its next commit. Then the
pages are deleted by the rules of `mta gc`: a page is listed first, and deleted if there is no root after
that. If the window begins anew in between, it has a root, and only the pages of older epochs are deleted. So
no clock is needed, but for pins: a window stays while a reader has a version of it pinned.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

from mta.durability.coding import decode_root
from mta.durability.operations.collect import Collected, superseded
from mta.durability.operations.roots import Seen, Stored, by_window, read_roots
from mta.errors import ManifestCorrupt, WindowError, WindowNotFound
from stores import Store, pages_of
from stores.base import escape_name


def remove(store: Store, name: str, *, dry_run: bool = False) -> Collected:
    """Removes a window with all its pages, also if a process is writing it: that process is fenced.

    `dry_run` only counts. Raises WindowNotFound if there is neither a root nor a page, WindowError if readers
    have pinned versions, and StoreError. Reads the root and lists the keys of the window.
    """
    removal = _Removal(store, dry_run)
    removal.remove_roots([name])
    if name in removal.removed and removal.removed[name].problem:
        raise WindowError(removal.removed[name].reason)
    removal.remove_pages(store.list_keys(pages_of(name)), {name})
    if name not in removal.removed:
        raise WindowNotFound(f"no window {name!r} in {store!r}")
    return removal.removed[name]


def remove_all(store: Store, names: Sequence[str], prefix: str, *, dry_run: bool = False) -> list[Collected]:
    """Removes windows, whose names begin with `prefix`, with all their pages.

    Pages under the prefix whose windows have no root are removed too. Windows with versions that readers have
    pinned stay, and are a problem in the results. `dry_run` only counts. Returns one
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
        for found in read_roots(self._store, names):
            roots = self._not_pinned(found)
            while roots and not self._dry_run:
                kept = self._store.delete_roots({name: root.token for name, root in roots.items()})
                # those had a commit in between, or were pinned
                roots = self._not_pinned(next(read_roots(self._store, kept), {}))

    def _not_pinned(self, roots: dict[str, Stored]) -> dict[str, Stored]:
        """The roots that may go; those that readers have pinned are noted as problems."""
        free = {}
        for name, stored in roots.items():
            self._of(name).root = True
            with suppress(ManifestCorrupt):
                pins = decode_root(name, stored.data).pins
                now = self._store.now() if pins else 0.0
                if last := max((pin.until for pin in pins if pin.until > now), default=None):
                    readers = "1 reader has" if len(pins) == 1 else f"{len(pins)} readers have"
                    reason = (
                        f"{readers} pinned versions of the window {name!r}, for {last - now:,.0f} more "
                        "seconds: close them, or wait"
                    )
                    self.removed[name] = Collected(name, reason=reason, problem=True)
                    continue
            free[name] = stored
        return free

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
        pinned = seen.name in self.removed and self.removed[seen.name].problem
        if seen.root is None or (self._dry_run and seen.name in names and not pinned):
            return [text for text, _ in seen.keys]
        if seen.name not in names or pinned:
            return []
        try:
            return superseded(decode_root(seen.name, seen.root.data), seen)
        except ManifestCorrupt:
            return []  # this root came after the window was removed

    def _of(self, name: str) -> Collected:
        return self.removed.setdefault(name, Collected(name))
