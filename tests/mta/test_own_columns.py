"""Columns of a monoid of one's own, of any type: stored as they are, or refused before anything changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mta import AmortizedMTA, LogMTA, monoids
from mta.core.page import Page
from mta.core.states import layout_of
from mta.durability.operations import verify
from mta.errors import PageCorrupt
from mta.monoids.columns import joined
from mta.paging.codec import decode_page, encode_page
from mta.policies import CountWindow
from stores import open_store

KEPT = ["?", "i1", "<i2", "<i4", "<i8", "u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8", "<c8", "<c16"]
REFUSED = ["<M8[s]", "<m8[ns]", "<U3", "S3", "V4", "i4,f8", "longdouble"]


class First(monoids.ColumnarMonoid):
    """The oldest element, in columns of a type; neither commutes nor inverts."""

    def __init__(self, dtype: str, at: str = "rows") -> None:
        super().__init__()
        self.dtype, self.at = np.dtype(dtype), at

    def fingerprint(self) -> str:
        return f"First({self.dtype.str}, {self.at})"

    def lift_columns(self, inputs: Any) -> Any:
        return (inputs[0].astype(self.dtype),) if self.at == "lift" else inputs

    def check_columns(self, inputs: Any) -> Any:
        return (
            (np.asarray(inputs[0]).astype(self.dtype),)
            if self.at == "rows"
            else super().check_columns(inputs)
        )

    def combine(self, older: Any, younger: Any) -> Any:  # noqa: ARG002
        return older

    def combine_columns(self, older: Any, younger: Any) -> Any:
        first = np.broadcast_to(older[0], np.broadcast(older[0], younger[0]).shape)
        return (first.astype(self.dtype) if self.at == "combine" else first,)


@pytest.mark.parametrize("algorithm", [LogMTA, AmortizedMTA])
@pytest.mark.parametrize("page_size", [2, 4, None])
@pytest.mark.parametrize("at", ["rows", "lift", "combine"])
@pytest.mark.parametrize("dtype", KEPT)
def test_numbers_of_any_size_and_truth_are_stored(
    algorithm: Any, page_size: Any, at: str, dtype: str
) -> None:
    values = np.array([0, 1, 1, 0, 0, 1, 0] * 6, dtype=dtype)
    wanted = [values[max(0, row - 9)].item() for row in range(len(values))]
    given = values if at == "rows" else values.real.astype(np.int64)

    def make() -> Any:
        return First(dtype, at)

    with open_store("memory:") as store:
        window = algorithm(make(), CountWindow(10), store=store, name="own", page_size=page_size)
        found = window.slide(given[:15]).tolist()
        window.checkpoint()
        assert verify(store, "own", make()).problems == []
        window.close()
        window = algorithm.restore(store, "own", make(), CountWindow(10))
        for row in range(15, 20):
            window.extend(given[row : row + 1])
            found.append(window.query())
        found += (
            [window.push(given[row].item()) for row in range(20, 25)] if np.dtype(dtype).kind != "c" else []
        )
        found += window.slide(given[len(found) :]).tolist()
        assert found == wanted
        window.checkpoint()
        assert verify(store, "own", make()).problems == []
        window.close()
        with algorithm.restore(store, "own", make(), CountWindow(10)) as again:
            for row in range(len(values) - 10, len(values)):
                assert again.query() == values[row].item()
                again.evict()


@pytest.mark.parametrize("at", ["rows", "lift", "combine"])
@pytest.mark.parametrize("dtype", REFUSED)
def test_other_columns_are_refused_before_anything_changed(at: str, dtype: str) -> None:
    with open_store("memory:") as store:
        window = AmortizedMTA(First(dtype, at), CountWindow(9), store=store, name="own", page_size=4)
        for call in (window.extend, window.slide):
            with pytest.raises(TypeError, match=r"cannot be kept in a store|could not be promoted"):
                call(np.zeros(7, dtype=np.int64))
            assert len(window) == 0


def test_a_truth_that_is_none_is_damage() -> None:
    layout = layout_of(First("?"))
    page = Page(0, np.arange(3), (np.array([0, 2, 1], dtype=np.uint8).view(np.bool_),))
    with pytest.raises(PageCorrupt, match="truth"):
        decode_page(layout, encode_page(layout, "w", 3, page), "w", 0, 3)


@pytest.mark.parametrize(
    "parts",
    [
        [np.array([2**64 - 1, 3], np.uint64), np.array([-5])],
        [np.array([2**63 + 1], np.uint64), np.array([0.5])],
        [np.array([1 + 2j]), np.array([2**53 + 1])],
        [np.array([True, False]), np.array([7])],
        [np.array([True, False]), np.array([0.25])],
        [np.array(["a", "bc"]), np.array([1])],
        [np.array([0.1], np.float32), np.array([2**53 + 1])],
    ],
    ids=repr,
)
def test_columns_of_several_types_keep_their_values_side_by_side(parts: list[Any]) -> None:
    assert joined(parts).tolist() == [value for part in parts for value in part.tolist()]
