"""Who is compared in the MTA paper's experiments, and its monoid and policy (listings 2 and 3)."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from mta import AmortizedMTA, LogMTA, monoids, policies
from mta.baselines import DABA, ReactiveAggregator, Recalculate
from mta.lab.contents import discarded
from mta.lab.servers import redis_server
from mta.monoids.base import Monoid
from stores import Store, open_store

#: An element or partial result of listing 2: count, and the size that the window may have.
Element = tuple[int, int]

#: Elements of a page with `--paper`: a page is a pair, as in the paper.
PAPER_PAGE = 2
#: And as many elements as the paper has are buffered, cached, and left before the cache is filled again.
PAPER_BOUNDS = {"buffered": 512, "cached": 512, "refill_below": 256}


def combine(older: Element, younger: Element) -> Element:
    """Listing 2."""
    return older[0] + younger[0], younger[1]


def too_long(total: Element, old: Element) -> bool:
    """Listing 3."""
    return total[0] - old[0] >= total[1]


def monoid(function: Callable[[Any, Any], Any] = combine) -> Monoid:
    return monoids.from_function(function, (0, 0), name="count, maxSize")


def policy() -> policies.Policy:
    return policies.While(too_long, name="maxSize")


class Contender(NamedTuple):
    title: str
    #: an algorithm of `mta` or of `mta.baselines`
    kind: Callable[..., Any]
    #: its store: "", "redis" or "rocksdb"
    store: str = ""
    #: whether every push costs about the same
    steady: bool = False

    @property
    def is_mta(self) -> bool:
        return self.kind in (AmortizedMTA, LogMTA)


def naive(monoid: Monoid, policy: policies.Policy | None = None) -> Recalculate:
    return Recalculate(monoid, policy)


def cached_daba(monoid: Monoid, policy: policies.Policy | None = None) -> DABA:
    return DABA(monoid, policy, cached=True)


def reactive(monoid: Monoid, policy: policies.Policy | None = None) -> ReactiveAggregator:
    return ReactiveAggregator(monoid, policy)


CONTENDERS = {
    "naive": Contender("Naive", naive, steady=True),
    "ra": Contender("Reactive Aggregator", reactive, steady=True),
    "daba": Contender("DABA, cached", cached_daba),
    "lmta": Contender("Log MTA, in memory", LogMTA, steady=True),
    "amta": Contender("Amortized MTA, in memory", AmortizedMTA),
    "lmta-redis": Contender("Log MTA, Redis", LogMTA, "redis", steady=True),
    "amta-redis": Contender("Amortized MTA, Redis", AmortizedMTA, "redis"),
    "lmta-rocksdb": Contender("Log MTA, RocksDB", LogMTA, "rocksdb", steady=True),
    "amta-rocksdb": Contender("Amortized MTA, RocksDB", AmortizedMTA, "rocksdb"),
}

#: Those of the paper's figures 6 and 7 and of its table 2.
PAPERS = ("naive", "daba", "lmta", "amta", "lmta-redis", "amta-redis")


@contextmanager
def store_of(kind: str) -> Iterator[Store | None]:
    """A store of the run's own: "redis" starts a server; "" is none."""
    if not kind:
        yield None
    elif kind == "redis":
        with redis_server() as url, open_store(url) as store:
            yield store
    else:
        with (
            tempfile.TemporaryDirectory(prefix="mta-") as directory,
            open_store(f"{kind}://{directory}") as s,
        ):
            yield s


@contextmanager
def window_of(
    contender: Contender,
    monoid: Monoid,
    policy: policies.Policy,
    *,
    store: Store | None = None,
    paper: bool = False,
) -> Iterator[Any]:
    """A window of a contender's algorithm, which leaves nothing behind."""
    if not contender.is_mta:
        yield contender.kind(monoid, policy)
        return
    as_in_paper: dict[str, int] = {"page_size": PAPER_PAGE, **PAPER_BOUNDS} if paper else {}
    with discarded(contender.kind(monoid, policy, store=store, **as_in_paper)) as window:
        yield window
