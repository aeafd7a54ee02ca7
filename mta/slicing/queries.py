"""The queries of a slicer: what may be registered, and from when on a query sees the stream."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from mta.slicing.content import ContentWindow
from mta.slicing.stream_slicer import Query
from mta.slicing.windows import EdgeWindow, Session, Window

Queries: TypeAlias = dict[str, Query]


def checked_queries(queries: Mapping[str, Window] | Iterable[tuple[str, Window]]) -> Queries:
    pairs = list(queries.items() if isinstance(queries, Mapping) else queries)
    checked: Queries = {}
    for name, kind in pairs:
        check_query(checked, name, kind)
        checked[name] = Query(kind, -math.inf)
    return checked


def check_query(queries: Queries, name: Any, kind: Any) -> None:
    if not isinstance(name, str) or not name:
        raise TypeError(f"a query has a name, a str that is not empty, got {name!r}")
    if not isinstance(kind, (EdgeWindow, Session, ContentWindow)):
        raise TypeError(f"the query {name!r} is a kind of windows such as Tumbling(60), got {kind!r}")
    if name in queries:
        raise ValueError(
            f"there is a query {name!r} already, {queries[name].kind!r}; give this one another name"
        )
