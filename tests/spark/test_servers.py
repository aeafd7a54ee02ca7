"""Windows of a Spark job on servers: each policy and kind of window, and nothing is left on them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from unittest import mock
from urllib.parse import urlsplit, urlunsplit

import numpy as np
import pyarrow as pa
import pytest
from every_policy import AGGREGATES, NAMES, every_policy, pushed
from rolled import roll

from mta import monoids
from spark_integration import rolling
from stores import Store, open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


#: Rows of each key; those of the first fill pages of every window.
ROWS = {1: 1200, 2: 1, 3: 70}
PAGE_SIZE = 16
POLICIES = every_policy(rows=300, span=2000, most=3000)


@pytest.fixture(
    params=[
        "rocksdb",
        pytest.param("redis", marks=pytest.mark.redis),
        pytest.param("couchbase", marks=pytest.mark.couchbase),
    ]
)
def server(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[tuple[str, str]]:
    """The URL for Spark, and one to look into the store by; a password is only in the environment."""
    if request.param == "rocksdb":
        yield "rocksdb", ""
        return
    url: str = request.getfixturevalue(f"{request.param}_url")
    parts = urlsplit(url)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("USERNAME", parts.username), ("PASSWORD", parts.password)):
            if request.param == "couchbase":
                patch.setenv(f"COUCHBASE_{name}", value or "")
                patch.setitem(spark.sparkContext.environment, f"COUCHBASE_{name}", value or "")
        yield urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])), url


def make_data() -> pa.Table:
    """Peaks that come ever more rarely, so that the window since the last one grows."""
    rng = np.random.default_rng(8)
    keys = np.repeat(list(ROWS), list(ROWS.values()))
    x = rng.integers(0, 20, len(keys))
    x[rng.random(len(keys)) < 0.005] += 10
    return pa.table({"k": keys, "o": rng.integers(0, 8000, len(keys)), "r": np.arange(len(keys)), "x": x})


def check_nothing_is_left(url: str) -> None:
    """On a server; an embedded store is gone with its task."""
    if url:
        with open_store(url) as store:
            assert not list(store.list_keys("{spark/"))
            assert not list(store.list_roots("spark/"))


@pytest.mark.parametrize("name", NAMES)
def test_policies(server: tuple[str, str], name: str) -> None:
    url, looked_into = server
    data = make_data()
    how: dict[str, Any] = {"policy": POLICIES[name], "aggregates": AGGREGATES, "page_size": PAGE_SIZE}
    in_order = data.sort_by([("k", "ascending"), ("o", "ascending"), ("r", "ascending")])
    with mock.patch.object(Store, "put_many", autospec=True, side_effect=Store.put_many) as put_many:
        rows = roll(in_order, order_by=["o", "r"], store=url, chunk=50, **how).to_pylist()
    # several pages are written in one call where the background finds them together
    pages = sum(len(call.args[1]) for call in put_many.call_args_list)
    assert pages > 40
    by_key = [[row for row in in_order.to_pylist() if row["k"] == key] for key in ROWS]
    wanted = [each for mine in by_key for each in pushed(mine, POLICIES[name])]
    assert [row["r"] for row in rows] == in_order["r"].to_pylist()
    assert [{each: row[each] for each in AGGREGATES} for row in rows] == wanted
    check_nothing_is_left(looked_into)


def test_a_window_over_all_rows(spark: SparkSession, server: tuple[str, str]) -> None:
    url, looked_into = server
    count = 20_000
    x = np.random.default_rng(7).integers(0, 1_000_000, count)
    data = pa.table({"o": np.arange(count), "x": x})
    arguments: dict[str, Any] = {"order_by": "o", "rows": 8_000, "aggregates": {"peak": monoids.Max("x")}}
    out = rolling(spark.createDataFrame(data), **arguments, store=url, page_size=256)
    peaks = [row.peak for row in out.orderBy("o").collect()]
    views = np.lib.stride_tricks.sliding_window_view(np.concatenate([np.full(7_999, -1), x]), 8_000)
    assert peaks == views.max(axis=1).tolist()
    check_nothing_is_left(looked_into)
