"""An algorithm that papers' experiments compare, and the store that its windows are in."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from mta import AmortizedMTA, LogMTA
from mta.lab.servers import redis_server
from stores import Store, open_store


class Contender(NamedTuple):
    title: str
    #: an algorithm of `mta` or of `mta.baselines`
    kind: Callable[..., Any]
    #: its store: "", "redis" or "rocksdb"
    store: str = ""
    #: whether all pushes, or all rounds, cost about the same
    steady: bool = False

    @property
    def is_mta(self) -> bool:
        return self.kind in (AmortizedMTA, LogMTA)


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
