"""The reader that users hold: what a checkpoint left of a window, in any process, beside a live writer.

A reader is a log whose pages are only read, with the view that a version says. It writes nothing, unless it
pins its version, and fences nobody. Each call answers from one version, the one that `version` names
afterwards. If the writer has dropped that version meanwhile, and with it a page that the call needs, the
reader reads the root again and answers from the newer version.
"""

from __future__ import annotations

import ast
import secrets
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, NoReturn, Self, TypeVar

from mta.checks import Clock, check_parts, unit_of
from mta.core.frame import Frame, frames_of
from mta.core.framed import FramedLog, view_of
from mta.core.log import Log
from mta.core.logarithmic_view import LogarithmicView
from mta.core.states import Layout, layout_of
from mta.durability import pins
from mta.durability.checkpoints import check_matches, check_views, policy_and_keep
from mta.durability.coding import decode_root
from mta.durability.manifest import Root, Version
from mta.durability.tails import load_tails, read_parts
from mta.encoding.packing import unpack
from mta.errors import PagesLost, WindowError, WindowNotFound
from mta.monoids.base import Monoid
from mta.monoids.nulls import Nulls
from mta.options import is_number, is_whole
from mta.paging.version_pages import KeptPages, VersionKeys, VersionPages
from mta.policies import Policy
from mta.times.durations import check_duration
from mta.turns import TakesTurns, in_turn
from stores import Store, StoreConfigError, StoreError, open_store
from stores.base import check_name

T = TypeVar("T")

#: How often a call begins anew, each time because the writer has dropped the version meanwhile.
TRIES = 16


class At(NamedTuple):
    """A version, its log and windows, and pages that were read of it or of versions before."""

    version: Version
    log: Log
    windows: FramedLog
    clock: Clock
    kept: KeptPages


class Reader(TakesTurns):
    """What a checkpoint left of a window: read-only, in any process, beside a live writer.

    `Reader.open` opens it. Each answer is that of the version which `version` names after the call. A reader
    follows its writer where it has to: if a page that it needs is gone, since its writer has dropped the
    version, it goes on to the last version. `refresh` does so at any time. A reader of a chosen version, or
    with a pin, stays where it is.

    >>> from mta import AmortizedMTA, Reader, monoids, policies
    >>> from stores import open_store
    >>> store, policy = open_store("memory:"), policies.TimeWindow(60)
    >>> window = AmortizedMTA(monoids.Sum(), policy, store=store, name="card-7")
    >>> window.extend([1, 2, 3], [0, 30, 70])
    >>> window.checkpoint(offset=3)
    1
    >>> reader = Reader.open(store, "card-7", monoids.Sum(), policy)
    >>> reader.query(), len(reader), reader.oldest, reader.youngest, reader.offset, reader.version
    (5, 2, 30, 70, 3, 1)
    >>> reader.at(95), reader.range_query(0, 40)
    (3, 2)
    >>> window.push(4, 80)
    9
    >>> window.checkpoint(offset=4)
    2
    >>> reader.query(), reader.refresh(), reader.query()
    (5, True, 9)
    """

    _kind = "reader of the window"
    _when_closed = "is closed; open another one"
    _when_forked = "belongs to the process that this one was forked from; open one here"

    def __init__(
        self, store: Store, name: str, parts: Parts, number: int | None, at: At, shared: Shared
    ) -> None:
        """Use `open` or `open_many`."""
        self._store, self._name, self._parts, self._shared = store, name, parts, shared
        #: the version that was asked for; None for the last one
        self._number = number
        self._at = at
        #: the id of the pin, whether it may be in the root, and until when it lasts if it is
        self._pin, self._may_be_pinned = secrets.token_hex(8), False
        self._pinned_until: float | None = None
        self._stays_in_this_process()

    # -- opening ----------------------------------------------------------------------------------------

    @classmethod
    def open(
        cls,
        store: Store | str,
        name: str,
        monoid: Monoid,
        policy: Policy | None = None,
        *,
        version: int | None = None,
        nulls: Nulls = "refuse",
    ) -> Self:
        """Reads the last version of a window, or a retained `version`.

        `store` is a store or a URL; with a URL the store is opened for reading only, and closed with the
        reader. A RocksDB directory can be opened so while another process writes it. `monoid`, `policy` and
        `nulls` must be those of the window: ManifestMismatch otherwise. Raises WindowNotFound if the store
        has no such window or version. Reads the root and the tails in at most two round trips, and pages when
        they are needed.
        """
        monoid = _check_opened(monoid, policy, store, version, nulls)
        return cls._open(store, [check_name(name)], monoid, policy, version)[name]

    @classmethod
    def open_many(
        cls,
        store: Store | str,
        names: Iterable[str],
        monoid: Monoid,
        policy: Policy | None = None,
        *,
        nulls: Nulls = "refuse",
    ) -> dict[str, Self]:
        """Readers of many windows of one monoid and policy, by name, in a few round trips for thousands.

        Raises the errors of `open`, and then opens none. A store that was given as a URL is closed with the
        last of the readers.
        """
        monoid = _check_opened(monoid, policy, store, None, nulls)
        if isinstance(names, str):
            raise TypeError(f"open_many takes several names, got the text {names!r}")
        return cls._open(store, list(dict.fromkeys(map(check_name, names))), monoid, policy, None)

    @classmethod
    def _open(
        cls,
        store: Store | str,
        names: list[str],
        monoid: Monoid,
        policy: Policy | None,
        number: int | None,
    ) -> dict[str, Self]:
        shared = Shared(open_store(store, create=False, read_only=True) if isinstance(store, str) else None)
        opened = shared.store or store
        assert isinstance(opened, Store)
        frames, unit = frames_of(monoid, policy), unit_of(monoid, policy, None)
        parts = Parts(monoid, policy, layout_of(monoid), frames, unit)
        try:
            found = _last(opened, names, parts, number)
            readers = {name: cls(opened, name, parts, number, at, shared) for name, at in found.items()}
        except BaseException:
            shared.close()
            raise
        shared.users.update(readers)
        return readers

    # -- what it holds ----------------------------------------------------------------------------------

    @property
    def monoid(self) -> Monoid:
        """What the window aggregates."""
        return self._parts.monoid

    @property
    def policy(self) -> Policy | None:
        """Which elements the window holds; None for all until they are evicted."""
        return self._parts.policy

    @property
    def store(self) -> Store:
        """Where the pages are."""
        return self._store

    @property
    def name(self) -> str:
        """The name of the window in its store."""
        return self._name

    @property
    def version(self) -> int:
        """The number of the version that the reader has."""
        return self._at.version.number

    @property
    def offset(self) -> Any:
        """The caller's offset in that version."""
        return unpack(self._at.version.offset)

    def __len__(self) -> int:
        return len(self._at.windows)

    @property
    def oldest(self) -> Any:
        """The time of the oldest element, or None."""
        oldest = self._at.windows.oldest
        return None if oldest is None else self._at.clock.shown(oldest)

    @property
    def youngest(self) -> Any:
        """The time of the youngest element, or None."""
        youngest = self._at.windows.youngest
        return None if youngest is None else self._at.clock.shown(youngest)

    # -- questions --------------------------------------------------------------------------------------

    @in_turn
    def query(self) -> Any:
        """The aggregate of the window, lowered; of an empty window, that of the identity.

        Reads at most the pages of one path of the tree for each frame, together, and none again.
        """
        return self._answer(lambda at: at.windows.total())

    @in_turn
    def at(self, t: Any) -> Any:
        """The result as of a moment, as `AmortizedMTA.at` has it, in O(log n).

        Past the youngest element time goes on, and elements expire. Raises ValueError if elements that are
        gone may have been in the window then, and for a policy with a predicate, unless the window as of t is
        that of `query`.
        """
        return self._answer(partial(self._as_of, t))

    def _as_of(self, t: Any, at: At) -> Any:
        moment = at.clock.asked(t, at.version.tail)
        limits = self._parts.frames[0].limits
        if not limits.predicates:
            return at.windows.at(moment)
        if moment >= at.log.youngest and at.windows.stays(limits, moment):
            return at.windows.total()
        raise ValueError(
            f"{self.policy!r} of the window {self._name!r} has a predicate, which decides when elements "
            f"come, so the window as of {t!r} is not known; as of {at.clock.shown(at.log.youngest)!r} it is"
        )

    @in_turn
    def range_query(self, t0: Any, t1: Any) -> Any:
        """The aggregate of the window's elements with t0 <= time <= t1, lowered, in O(log n).

        Raises ValueError if t0 > t1.
        """
        return self._answer(partial(self._between, t0, t1))

    def _between(self, t0: Any, t1: Any, at: At) -> Any:
        log = at.log
        first, last = at.clock.asked_range(t0, t1, at.version.tail)
        start, stop = log.first_positions(at.windows.first_of_range, [(first, "left"), (last, "right")])
        return self.monoid.lower(log.fold(start, stop) if start < stop else self.monoid.identity)

    # -- versions ---------------------------------------------------------------------------------------

    @in_turn
    def refresh(self) -> bool:
        """Goes on to the last version; whether the reader has moved. One round trip if it has not.

        A reader of a chosen version, or with a pin that has not expired, stays where it is. Raises
        WindowNotFound if the window was removed.
        """
        if not self._goes_on():
            return False
        before, newest = self._at, self._after(self._at)
        self._at, self._pinned_until = newest, None
        return newest is not before

    @property
    def _stays(self) -> bool:
        """Whether questions are answered from this version only, also once its pin has expired."""
        return self._number is not None or self._pinned_until is not None

    def _goes_on(self) -> bool:
        """Whether the reader may be moved to another version."""
        return self._number is None and (self._pinned_until is None or self._pin_expired())

    def _pin_expired(self) -> bool:
        return self._pinned_until is not None and self._store.now() >= self._pinned_until

    def _after(self, at: At) -> At:
        """The last version as it is now; the same object if it is still that one."""
        return _last(self._store, [self._name], self._parts, None, at)[self._name]

    def _answer(self, ask: Callable[[At], T]) -> T:
        """An answer from one version, or its ValueError; the reader is at that version then."""
        at = self._at
        for _ in range(TRIES):
            try:
                answer = ask(at)
            except PagesLost as lost:
                newest = self._instead_of(at, lost)
            except ValueError:  # the answer of this version is that there is none
                self._at = at
                raise
            else:
                self._at = at
                return answer
            at = newest
        raise PagesLost(
            f"the writer of the window {self._name!r} in {self._store!r} dropped {TRIES} versions one after "
            "the other while this call read them: have it retain more of them (retain=), or pin the version"
        )

    def _instead_of(self, at: At, lost: PagesLost) -> At:
        """The version to go on with where a page of another one is gone."""
        if not self._stays:
            newest = self._after(at)
            if newest is at:
                raise lost
            return newest
        found = self._store.read_root(self._name)
        root = None if found is None else decode_root(self._name, found[0])
        version = at.version
        if root is not None and root.readable(version.number) == version:
            raise lost
        if self._pin_expired():
            why = "its pin has expired: renew it in time by pin(), which takes seconds from then on"
            if self._number is None:
                why += "; refresh() goes on to the last version, and so does pin()"
        elif root is None:
            why = "the window was removed"
        else:
            kept = ", ".join(str(each.number) for each in root.retained)
            why = f"its writer has dropped it; retained: {kept}"
        raise WindowNotFound(
            f"version {version.number} of the window {self._name!r} is not in {self._store!r} any more: {why}"
        )

    # -- pins -------------------------------------------------------------------------------------------

    @in_turn
    def pin(self, seconds: float) -> None:
        """Keeps the version from garbage collection for some time, and the reader at this version.

        If the version is gone already, also after an earlier pin has expired, the reader goes on to the last
        one first. A second call prolongs or shortens the pin. It ends by `unpin`, by `close`, or when its
        time is up, by the store's clock. A pin is a note in the root: this call, `unpin` and `close` then
        write, and fence nobody. Raises WindowError if there are 64 pins already, and WindowNotFound if a
        chosen version is gone.
        """
        if not is_number(seconds) or not 0 < seconds <= pins.LONGEST:
            raise ValueError(f"pin takes seconds, above 0 and up to {pins.LONGEST:,.0f}, got {seconds!r}")
        if self._store.read_only:
            raise StoreConfigError(
                f"a pin is written, and {self._store!r} was opened for reading only: open the reader with a "
                "store that may be written, and not with a URL"
            )
        at = self._at
        for left in reversed(range(TRIES)):
            self._may_be_pinned = True
            try:
                until = pins.pin(self._store, self._name, self._pin, at.version, seconds)
            except WindowNotFound:
                if not left or not self._goes_on():
                    raise
                at = self._after(at)
            else:
                break
        self._at, self._pinned_until = at, until

    @in_turn
    def unpin(self) -> None:
        """Ends the pin, if there is one; the reader follows its writer again."""
        self._unpin()

    def _unpin(self) -> None:
        if self._may_be_pinned:
            pins.unpin(self._store, self._name, self._pin)
        self._may_be_pinned, self._pinned_until = False, None

    # -- life -------------------------------------------------------------------------------------------

    def _end(self) -> None:
        """Ends the pin, as far as the store can be reached, and closes a store that was given as a URL."""
        with suppress(StoreError, WindowError):
            self._unpin()
        self._at.log.pages.close()
        self._shared.closed(self._name)

    def close(self) -> None:
        """Ends the pin, and gives up the pages in memory.

        A second call does nothing, nor does a call in a process that was forked from this object's own.
        """
        super().close()

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            f"the reader of the window {self._name!r} can be neither copied nor pickled: open one where it "
            "is needed"
        )

    def __repr__(self) -> str:
        return (
            f"<Reader of version {self.version} of {self._name!r}, {len(self)} elements in {self._store!r}>"
        )


class Parts(NamedTuple):
    """What readers of windows of one monoid and policy share."""

    monoid: Monoid
    policy: Policy | None
    layout: Layout
    frames: Sequence[Frame]
    #: whether durations are in microseconds; None without durations
    in_microseconds: bool | None


class Shared:
    """A store that readers have opened for themselves; it is closed with the last of them."""

    def __init__(self, store: Store | None) -> None:
        self.store = store
        self.users: set[str] = set()

    def closed(self, name: str) -> None:
        self.users.discard(name)
        if not self.users:
            self.close()

    def close(self) -> None:
        if self.store is not None:
            self.store.close()


def windows_of(log: Log, version: Version, parts: Parts, keep: str | None) -> tuple[FramedLog, Clock]:
    """The windows that a version says, over its log, and the times that these have."""
    clock = Clock(parts.in_microseconds)
    clock.resume(version.youngest, version.tail, version.kind)
    views = [(frame, view_of(log, frame, lambda _: LogarithmicView)) for frame in parts.frames]
    kept = None if keep is None else check_duration(ast.literal_eval(keep), "keep").amount
    windows = FramedLog(log, views, kept, clock.shown)
    for view, saved in zip(windows.views, version.views, strict=True):
        view.resume(*saved)
    return windows, clock


def _last(
    store: Store, names: list[str], parts: Parts, number: int | None, before: At | None = None
) -> dict[str, At]:
    """Windows at their last version, or at one of a number; two calls of the store for all of them.

    `before` is the version that a reader has, of the only window: it is the same object if it is still the
    last one, and shares its pages if it is not.
    """
    chosen = {
        name: _chosen(store, name, found, parts, number)
        for name, found in zip(names, store.read_roots(names), strict=True)
    }
    if before is not None and chosen[names[0]][1] == before.version:
        return {names[0]: before}
    read = read_parts(store, {name: version for name, (_, version) in chosen.items()})
    opened: dict[str, At] = {}
    for name, (root, version) in chosen.items():
        try:
            tails = load_tails(store, name, parts.layout, version, read[name])
        except PagesLost:
            opened[name] = _again(store, name, parts, number, version)
        else:
            opened[name] = _at(store, name, parts, root, version, tails, before)
    return opened


def _again(store: Store, name: str, parts: Parts, number: int | None, version: Version) -> At:
    """A window whose writer went on between the reading of its root and of its tails."""
    for _ in range(TRIES):
        root, newer = _chosen(store, name, store.read_root(name), parts, number)
        same, version = newer == version, newer
        try:
            return _at(
                store, name, parts, root, version, load_tails(store, name, parts.layout, version), None
            )
        except PagesLost:
            if same:
                raise
    raise PagesLost(
        f"the writer of the window {name!r} in {store!r} dropped {TRIES} versions one after the other while "
        "they were opened: have it retain more checkpoints (retain=)"
    )


def _chosen(
    store: Store, name: str, found: tuple[bytes, Any] | None, parts: Parts, number: int | None
) -> tuple[Root, Version]:
    """The version to open, of a root as it was read."""
    if found is None:
        raise WindowNotFound(f"no window {name!r} in {store!r}")
    root = decode_root(name, found[0])
    if root.attempts:
        raise WindowNotFound(
            f"the window {name!r} in {store!r} is that of a streaming query, whose state says which version "
            "counts"
        )
    version = root.readable(number)
    if version is None:
        kept = ", ".join(str(each.number) for each in root.retained)
        raise WindowNotFound(
            f"no version {number} of the window {name!r} in {store!r}; retained: {kept}"
            if root.retained
            else f"no checkpoint of a window {name!r} in {store!r}"
        )
    keep = policy_and_keep(root.policy)[1]
    check_matches(name, parts.monoid, parts.policy, None, root, keep, call="open")
    check_views(name, version, parts.frames, parts.in_microseconds, keep is not None)
    return root, version


def _at(
    store: Store, name: str, parts: Parts, root: Root, version: Version, tails: list[Any], before: At | None
) -> At:
    kept = KeptPages() if before is None else before.kept
    shift = root.page_size.bit_length() - 1
    keys = VersionKeys(partial(version.extents.prefix, name))
    pages = VersionPages(store, name, parts.layout, keys, shift, kept)
    log = Log(parts.layout, pages, root.page_size)
    pages.reserve((2 * len(tails) + 4) * len(version.views))
    log.tails, log.tail, log.youngest = tails, version.tail, version.youngest
    windows, clock = windows_of(log, version, parts, policy_and_keep(root.policy)[1])
    return At(version, log, windows, clock, kept)


def _check_opened(monoid: object, policy: Any, store: object, version: object, nulls: object) -> Monoid:
    """Raises TypeError, or ValueError if the policy cannot read the monoid."""
    checked = check_parts(monoid, policy, None if isinstance(store, str) else store, nulls)
    if store is None:
        raise TypeError("a reader takes the window's store, what stores.open_store(url) returns, or its URL")
    if version is not None and not is_whole(version):
        raise TypeError(f"version is the whole number of a checkpoint or None for the last, got {version!r}")
    return checked
