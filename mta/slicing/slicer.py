"""Many queries over one stream that is out of order: what users hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn, Self
from uuid import uuid4

from mta.algorithms import AmortizedMTA
from mta.checks import check_kept, check_parts
from mta.encoding.untrusted import Malformed, printable
from mta.errors import ManifestMismatch, WindowError
from mta.monoids.base import Monoid
from mta.owned import own
from mta.slicing.aggregate_store import LOCAL, AggregateStore, Eager, Lazy, Paged, check_local, check_pages
from mta.slicing.keyed import KeyedStreams
from mta.slicing.lateness import Gate, Late
from mta.slicing.leaves import slice_states
from mta.slicing.queries import Queries, behind, checked_queries, cuts_all
from mta.slicing.saved import (
    FORMAT,
    loaded_queries,
    loaded_stream,
    opened,
    saved_queries,
    saved_stream,
    sealed,
)
from mta.slicing.schedule import Schedule
from mta.slicing.settings import By, Settings
from mta.slicing.sliced_stream import Stream
from mta.slicing.untrusted import a_number, a_time, a_watermark, some
from mta.slicing.windows import Time, Window
from mta.turns import CLOSED, FORKED, in_turn
from stores import Store

_IN_MEMORY: dict[str, Callable[[Monoid], AggregateStore]] = {"lazy": Lazy, "eager": Eager}


class Slicer(KeyedStreams):
    """Windows of any kinds over one stream of tuples, each of which is aggregated once, in one slice.

    Tuples come in any order. A watermark t says that those before t should have come: it gives out the
    windows that end by then. A tuple that comes later still counts in all of its windows that are not over:
    those that end less than `lateness` behind the watermark, and those that have not ended. `lateness` is
    one for all queries, or of some by their names. A tuple that is late for a query is handed to `on_late`,
    as a `Late`, before the call is done; a call that is made again tells it again.

    `store` is where slices are: "lazy" and "eager" keep all that windows need in the process. A store of
    `stores.open_store` gets those that cannot change, but for the last `local` of them, and checkpoints.
    """

    def __init__(
        self,
        monoid: Monoid,
        queries: Mapping[str, Window] | Iterable[tuple[str, Window]],
        *,
        lateness: float | Mapping[str, float] = 0,
        on_late: Callable[[Late], object] | None = None,
        store: str | Store = "lazy",
        by: By | None = None,
        in_order: bool = False,
        changes_only: bool = False,
        every_tuples: int | None = None,
        every_time: float | None = None,
        forget_after: float | None = None,
        name: str | None = None,
        page_size: int | None = None,
        local: int = LOCAL,
        retain: int = 2,
        lease: float | None = None,
    ) -> None:
        check_parts(monoid, None, None)
        if name is not None and (not isinstance(name, str) or not name):
            raise TypeError(f"the name of a slicer is a str that is not empty, got {name!r}")
        check_local(local)
        settings = Settings.checked(
            lateness, by, in_order, changes_only, every_tuples, every_time, forget_after
        )
        name = f"slicer-{uuid4().hex}" if name is None else name
        super().__init__(monoid, checked_queries(queries, lateness), settings, name, on_late)
        self._paged: Paged | None = None
        self._offset: Any = None
        self._in_memory: Callable[[Monoid], AggregateStore] = Lazy
        if isinstance(store, Store):
            self._check_paged(settings)
            options: Any = {"page_size": page_size, "retain": retain, "lease": lease}
            window = AmortizedMTA(slice_states(monoid), store=store, name=name, **options)
            self._keep_in(Paged(monoid, window, local))
        elif isinstance(store, str) and store in _IN_MEMORY:
            self._in_memory = _IN_MEMORY[store]
            check_kept(retain, lease, None, None, None)
            if page_size is not None or lease is not None:
                raise ValueError(f"page_size and lease go with a store of open_store(url), not {store!r}")
        else:
            raise ValueError(
                f'store is "lazy", "eager" or what stores.open_store(url) returns, got {store!r}'
            )

    @property
    def leaves(self) -> int:
        """How many slices are in the store."""
        return 0 if self._paged is None else len(self._paged.window)

    # -- life -------------------------------------------------------------------------------------------

    @in_turn
    def checkpoint(self, offset: Any = None) -> int:
        """Makes the slicer durable, with the caller's offset in its input, at once; returns the version."""
        if self._paged is None:
            raise WindowError(
                f"the slicer {self._name!r} has no store to make a checkpoint in; give it "
                "store=open_store(url), or keep what dump() returns"
            )
        self._tidy()
        window = self._paged.window
        version = window.checkpoint({"slicer": sealed(self._saved()), "offset": offset})
        self._offset = window.offset["offset"]
        return version

    @property
    def offset(self) -> Any:
        """The caller's offset in the last checkpoint; None before the first."""
        return own(self._offset)

    @property
    def version(self) -> int | None:
        """The number of the last checkpoint; None before the first."""
        return None if self._paged is None else self._paged.window.version

    @classmethod
    def restore(
        cls,
        store: Store,
        name: str,
        monoid: Monoid,
        queries: Mapping[str, Window] | None = None,
        *,
        on_late: Callable[[Late], object] | None = None,
        version: int | None = None,
        local: int = LOCAL,
        retain: int = 2,
        lease: float | None = None,
    ) -> Self:
        """The slicer as its last checkpoint left it, with its queries; its older writer is fenced.

        Of the queries only those that hold a function have to be given, as they were.
        """
        check_parts(monoid, None, store)
        check_local(local)
        given = checked_queries(queries or {})
        options: Any = {"version": version, "retain": retain, "lease": lease}
        window = AmortizedMTA.restore(store, name, slice_states(monoid), **options)
        try:
            offset = window.offset
            if not isinstance(offset, dict) or offset.keys() != {"slicer", "offset"}:
                raise ManifestMismatch(f"the window {name!r} was not checkpointed by a slicer")
            with opened(f"the slicer {name!r}", offset["slicer"]) as saved:
                slicer = cls._loaded(name, saved, monoid, given, None, on_late=on_late)
                slicer._offset = offset["offset"]
                # those of before did not tell, and had one lateness for all queries
                stored = a_time(saved.get("stored", -math.inf))
                if stored > slicer._watermark:
                    raise Malformed("slices in the store are said to be final after the watermark")
                slicer._keep_in(Paged(monoid, window, local), stored)
                slicer._load_streams(saved)
        except BaseException:
            window.close()
            raise
        return slicer

    @in_turn
    def dump(self) -> bytes:
        """All that a slicer in memory holds, for `load`."""
        if self._paged is not None:
            raise WindowError(
                f"the slicer {self._name!r} has its slices in a store: make a checkpoint instead"
            )
        self._tidy()
        return sealed(self._saved())

    @classmethod
    def load(
        cls,
        data: bytes,
        monoid: Monoid,
        queries: Mapping[str, Window] | None = None,
        *,
        store: str = "lazy",
        by: By | None = None,
        on_late: Callable[[Late], object] | None = None,
    ) -> Self:
        """The slicer that `dump` told of. Queries that hold a function have to be given, and `by`."""
        check_parts(monoid, None, None)
        given = checked_queries(queries or {})
        if not isinstance(store, str):
            raise ValueError(f'load takes store="lazy" or "eager", got {store!r}')
        with opened("the slicer", data) as saved:
            slicer = cls._loaded(saved["name"], saved, monoid, given, by, store=store, on_late=on_late)
            slicer._load_streams(saved)
        return slicer

    def close(self) -> None:
        """Ends what works in the background; what came after the last checkpoint is given up.

        Closing twice is fine. In a process that was forked from the slicer's own it does nothing.
        """
        if self._ended or self._closed == FORKED:
            return
        if self._busy:
            raise self._refusal()
        self._closed = CLOSED
        if self._paged is not None:
            self._paged.window.close()
        self._ended = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            f"the slicer {self._name!r} can be neither copied nor pickled: restore() a checkpoint where it "
            "is needed, or load() what dump() returns"
        )

    # -- inside -----------------------------------------------------------------------------------------

    def _keep_in(self, paged: Paged, stored: Time = -math.inf) -> None:
        self._paged, self._stored = paged, True
        self._gate = Gate(self._plan.queries, self._watermark, self._settings.lateness, stored)
        self._stays_in_this_process()

    def _new_store(self) -> AggregateStore:
        return self._in_memory(self._monoid) if self._paged is None else self._paged

    def _check_kind(self, name: str, kind: Window) -> None:
        if self._paged is not None:
            check_pages(name, kind)

    def _check_paged(self, settings: Settings) -> None:
        if settings.by is not None:
            raise ValueError(
                'by= goes with store="lazy" or "eager": a stream in a store has no keys of its own'
            )
        for name, query in self._plan.queries.items():
            check_pages(name, query.kind)

    def _history(self, kind: Window, since: Time) -> Time:
        """With what is in the store, if slices were cut there wherever such windows start or end."""
        stream = self._streams.get(None)
        oldest = None if self._paged is None else self._paged.window.oldest
        finer = [query.since for query in self._plan.queries.values() if cuts_all(query.kind, kind)]
        if oldest is None or stream is None or not finer:
            return since
        book = stream.book
        if book.firsts and since > max(book.firsts[0], behind(book.last_dropped)):
            return since
        return min(since, max(oldest, min(finer), behind(book.lost)))

    def _tidy(self) -> None:
        """Makes leaves of slices that cannot change, and lets go of those that nobody needs."""
        super()._tidy()
        paged, stream = self._paged, self._streams.get(None)
        if paged is None or stream is None:
            return
        if self._plan.manager.keeps_rows:
            self._plan.manager.forget_rows(stream.book, self._gate.floor)
        stream = self._dropped(stream, paged.known(stream.book))
        paged.let_go(stream.needed)
        final = min(self._plan.manager.final(stream.book, self._gate.floor), stream.looked_through)
        self._dropped(stream, paged.page_out(stream.book, final))

    def _dropped(self, stream: Stream, count: int) -> Stream:
        if count:
            stream = stream.shared()
            stream.book = stream.book.without(count, stored=True)
            self._streams = {None: stream}
        return stream

    def _saved(self) -> dict[str, Any]:
        return {
            "slicer": FORMAT,
            "name": self._name,
            "monoid": self._monoid.fingerprint(),
            "settings": self._settings.told(),
            "queries": saved_queries(self._plan.queries),
            "watermark": self._watermark,
            "late_dropped": self._late_dropped,
            "stored": self._gate.floor if self._stored else -math.inf,
            "forgotten": self._forgotten,
            "streams": [(key, saved_stream(self._monoid, stream)) for key, stream in self._streams.items()],
        }

    @classmethod
    def _loaded(
        cls, name: str, saved: Any, monoid: Monoid, queries: Queries, by: Any, **options: Any
    ) -> Self:
        """A slicer with nothing in it yet, as it was made."""
        settings = Settings(**{**saved["settings"], "by": by})
        what = f"the slicer {name!r}"
        compared = {
            "monoid": (saved["monoid"], monoid.fingerprint()),
            "by": (saved["settings"]["by"], settings.told()["by"]),
        }
        for told, (then, now) in compared.items():
            if then != now:
                raise ManifestMismatch(
                    f"{what} was saved with the {told} {printable(str(then))}, not {now}; restore it so"
                )
        slicer = cls(monoid, {}, name=name, **options, **vars(settings))
        slicer._resume(loaded_queries(what, saved["queries"], queries, settings.lateness), saved)
        return slicer

    def _resume(self, queries: Queries, saved: Any) -> None:
        self._plan = self._planned(queries)
        self._watermark, self._forgotten = a_watermark(saved["watermark"]), a_time(saved["forgotten"])
        if self._forgotten == math.inf:
            raise Malformed("the youngest tuple of keys that are forgotten is of no time")
        self._late_dropped = a_number(saved["late_dropped"])
        self._gate = self._gate_at(self._watermark, self._plan)

    def _load_streams(self, saved: Any) -> None:
        queries, watermark = self._plan.queries, self._watermark
        self._streams = {
            key: loaded_stream(self._monoid, self._new_store(), queries, watermark, stream)
            for key, stream in (some(each, "a stream", 2) for each in some(saved["streams"], "streams"))
        }
        for stream in self._streams.values():
            if stream.arrivals:
                self._settings.next_trigger(stream.youngest)
            stream.number = next(self._numbers)
        self._schedule = Schedule(self._streams)
