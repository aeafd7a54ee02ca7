"""Clearing away what no window needs: `mta gc` and `mta rm`.

Can run at any time beside live windows. What may go follows from a root and a key alone:

- A page of an epoch before the root's goes if no retained version names it. Later versions of the window name
  pages of older epochs only if the version that they go on from does, and that one is retained.
- A page of the root's epoch may belong to a commit that is under way. It goes if the first leaf that any
  retained version needs lies behind it, a part if it was given its number before the last commit; or, if its
  writer is surely dead, once the root's epoch was raised, so that a commit which the dead writer sent and
  which is still on its way comes too late.
- A page of an epoch after the root's is not touched: a newer writer came meanwhile.
- A page of a window without a root goes, if there is still no root after the page was seen: a writer swaps
  its root in before it writes its first page. Epochs are never used again, so this lets no zombie back in.
- A root that attempts share (`mta.attempts`) loses those that are surely gone without a version, and those
  that another run of the same batch has replaced. With them goes its epoch, so that it is not used on; then
  pages of epochs before the root's go that no version names and no attempt at work may have written.
- A root goes if it has no version and its writer is surely dead, or if its lease has run out: its root first,
  by its token, and then its pages, as above.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

from mta.attempts import is_gone
from mta.errors import ManifestCorrupt, WindowNotFound
from mta.manifest import PART, Attempt, Root, decode_root, encode_root
from mta.operations.survey import Needed
from mta.ownership import next_epoch, surely_dead
from stores import Conflict, PageKey, Store, Token, pages_of, parse_page_key

#: Keys that are looked at together, and roots that are remembered.
CHUNK, ROOTS = 1000, 256

#: Seconds that a lease must have run out, for clocks that differ.
GRACE = 60.0


@dataclass
class Collected:
    """What was, or would be, cleared away of one window."""

    name: str
    pages: int = 0
    root: bool = False
    #: why its root went, or why nothing did
    reason: str = ""
    problem: bool = False


@dataclass
class _Known:
    root: Root
    token: Token
    needed: Needed
    dead: bool


def collect(store: Store, *, dry_run: bool = False, grace: float = GRACE) -> list[Collected]:
    """Clears away what no window needs; what is left of removed windows, by name."""
    collector = _Collector(store, dry_run, grace)
    for name in store.list_roots():
        collector.visit_root(name)
    collector.visit_keys(store.list_keys(""))
    return [found for _, found in sorted(collector.found.items())]


def collect_window(store: Store, name: str) -> None:
    """`collect` for one window."""
    collector = _Collector(store, False, GRACE)
    collector.visit_root(name)
    collector.visit_keys(store.list_keys(pages_of(name)))


def remove(store: Store, name: str) -> Collected:
    """Removes a window with all its pages, whoever has it: its writer is fenced at its next commit."""
    result = Collected(name)
    while (found := store.read_root(name)) is not None:
        try:
            store.delete_root(name, found[1])
            result.root = True
        except Conflict:
            continue
    last = next_epoch(0, store.now())  # a window that begins from now on has a later epoch
    for chunk in _chunks(store.list_keys(pages_of(name))):
        mine = {key for key in chunk if parse_page_key(key).epoch < last}
        store.delete_many(mine)
        result.pages += len(mine)
    if not result.root and not result.pages:
        raise WindowNotFound(f"no window {name!r} in {store!r}")
    return result


class _Collector:
    def __init__(self, store: Store, dry_run: bool, grace: float) -> None:
        self._store, self._dry_run, self._grace = store, dry_run, grace
        self.found: dict[str, Collected] = {}
        #: roots that were read lately; what follows from one stays true as the window goes on
        self._known: OrderedDict[str, _Known] = OrderedDict()
        #: windows that would have no root if this were no dry run
        self._gone: set[str] = set()

    # -- roots ------------------------------------------------------------------------------------------

    def visit_root(self, name: str) -> None:
        """Removes the root of a window that nobody will come back to."""
        if name in self._gone:
            return
        try:
            known = self._read(name)
        except ManifestCorrupt as error:
            self.found[name] = Collected(name, reason=str(error), problem=True)
            return
        reason = "" if known is None else self._why_to_remove(known)
        if known is None:
            return
        if not reason:
            self._settle(name, known)
            return
        if not self._dry_run:
            try:
                self._store.delete_root(name, known.token)
            except Conflict:
                return  # somebody came back to it
        self._gone.add(name)
        self._of(name).root = True
        self._of(name).reason = reason

    def _settle(self, name: str, known: _Known) -> None:
        """Takes attempts out of a root that can come to nothing."""
        root = known.root
        latest = self._store.now() - self._grace
        lost = [each for each in root.attempts if _is_lost(each, root, latest)]
        if not lost:
            return
        kept = tuple(each for each in root.attempts if each not in lost)
        epoch = next_epoch(root.epoch, self._store.now())
        settled = replace(root, epoch=epoch, attempts=kept)
        if self._dry_run:
            self._known[name] = _Known(settled, known.token, Needed(settled), dead=False)
            return
        try:
            if not settled.retained and not kept:
                self._store.delete_root(name, known.token)
                self._of(name).root, self._of(name).reason = (
                    True,
                    "its writer died before the first checkpoint",
                )
            else:
                self._store.swap_root(name, encode_root(name, settled), known.token)
        except Conflict:
            pass  # the window goes on; next time
        self._known.pop(name, None)

    def _why_to_remove(self, known: _Known) -> str:
        lease = known.root.lease
        if lease is not None and lease < self._store.now() - self._grace:
            return "its lease ran out"
        if not known.root.retained and not known.root.attempts and known.dead:
            return "its writer died before the first checkpoint"
        return ""

    # -- keys -------------------------------------------------------------------------------------------

    def visit_keys(self, keys: Iterable[str]) -> None:
        for chunk in _chunks(keys):
            by_name: dict[str, list[tuple[str, PageKey]]] = {}
            for text in chunk:
                try:
                    key = parse_page_key(text)
                except ValueError:
                    continue  # not ours
                by_name.setdefault(key.name, []).append((text, key))
            for name, pairs in by_name.items():
                unneeded = self._unneeded(name, pairs)
                if unneeded:
                    if not self._dry_run:
                        self._store.delete_many(unneeded)
                    self._of(name).pages += len(unneeded)

    def _unneeded(self, name: str, pairs: list[tuple[str, PageKey]]) -> list[str]:
        """Those of a window's keys, seen just now, that may go."""
        if self._dry_run and name in self._gone:
            return [text for text, _ in pairs]
        try:
            known = self._lately_read(name)
        except ManifestCorrupt:
            return []  # which was said when its root was visited
        if known is None:
            return [text for text, _ in pairs]
        root = known.root
        at_work = [each for each in root.attempts if each.version is None]
        idle = [
            (text, key)
            for text, key in pairs
            if key not in known.needed and not any(each.has(key.epoch) for each in at_work)
        ]
        gone = [text for text, key in idle if key.epoch < root.epoch or _is_over(root, key)]
        current = [text for text, key in idle if root.has(key.epoch) and not _is_over(root, key)]
        if current and known.dead and self._fence(name, known):
            gone += current
        return gone

    def _fence(self, name: str, known: _Known) -> bool:
        """Raises the epoch above that of a writer that is surely dead; false if somebody was first."""
        if self._dry_run:
            return True
        epoch = next_epoch(known.root.epoch, self._store.now())
        root = replace(known.root, epoch=epoch, owner=("", 0, 0))
        try:
            token = self._store.swap_root(name, encode_root(name, root), known.token)
        except Conflict:
            self._known.pop(name, None)
            return False
        self._known[name] = _Known(root, token, known.needed, dead=False)
        return True

    def _lately_read(self, name: str) -> _Known | None:
        known = self._known.get(name)
        if known is None:
            known = self._read(name)  # that there is none is never remembered
        if known is not None:
            self._known[name] = known
            self._known.move_to_end(name)
            while len(self._known) > ROOTS:
                self._known.popitem(last=False)
        return known

    def _read(self, name: str) -> _Known | None:
        found = self._store.read_root(name)
        if found is None:
            return None
        root = decode_root(name, found[0])
        return _Known(root, found[1], Needed(root), surely_dead(root.owner))

    def _of(self, name: str) -> Collected:
        return self.found.setdefault(name, Collected(name))


def _is_lost(attempt: Attempt, root: Root, now: float) -> bool:
    """Whether an attempt is gone and left no version, or one that another run of its batch has replaced."""
    if not is_gone(attempt, now):
        return False
    return attempt.version is None or any(
        other.version is not None
        and other.batch == attempt.batch
        and other.run != attempt.run
        and other.epoch > attempt.epoch
        for other in root.attempts
    )


def _is_over(root: Root, key: PageKey) -> bool:
    """Whether no version to come will name a page or part of the root's epoch that none names now.

    So it is with a page that ends before the first leaf that a retained version needs, and with a part whose
    serial number was given before the last commit.
    """
    first = root.first_needed()
    if first is None or not root.has(key.epoch):
        return False
    if key.tier & PART:
        return key.number < root.next_part()
    shift = root.page_size.bit_length() - 1
    return (key.number + 1) << shift * (key.tier + 1) <= first


def _chunks(keys: Iterable[str]) -> Iterator[set[str]]:
    rest = iter(keys)
    while chunk := set(islice(rest, CHUNK)):
        yield chunk
