"""The envelope of stored bytes; pages, roots and saved slicers are envelopes as they stand."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import xxhash

from mta import monoids
from mta.core.page import Page
from mta.core.states import layout_of
from mta.durability.coding import encode_root
from mta.durability.manifest import Root
from mta.encoding.envelope import seal, unseal
from mta.encoding.untrusted import Malformed
from mta.paging.codec import encode_page
from mta.slicing.saved import serialized


@pytest.mark.parametrize("magic", [b"", b"MTAX"])
def test_a_payload_comes_back(magic: bytes) -> None:
    for payload in (b"", b"\0", b"payload" * 100):
        data = seal(payload, magic=magic)
        assert data == magic + payload + xxhash.xxh3_64_digest(magic + payload)
        assert bytes(unseal(data, magic)) == payload
        assert bytes(unseal(bytearray(data), magic)) == payload


def test_parts_are_one_payload() -> None:
    assert seal(b"one", memoryview(b"two"), b"", magic=b"M") == seal(b"onetwo", magic=b"M")


def test_each_changed_byte_is_found() -> None:
    data = seal(b"some payload", magic=b"MTAX")
    rng = random.Random(3)
    for index in range(len(data)):
        changed = bytearray(data)
        changed[index] ^= rng.randrange(1, 256)
        with pytest.raises(Malformed):
            unseal(bytes(changed), b"MTAX")
    for end in range(len(data)):
        with pytest.raises(Malformed):
            unseal(data[:end], b"MTAX")
    with pytest.raises(Malformed, match="do not begin"):
        unseal(data, b"MTAY")


@pytest.mark.parametrize("data", [None, 7, "text", [b"list"]])
def test_a_value_of_another_type_is_refused(data: Any) -> None:
    with pytest.raises(Malformed, match="where bytes should"):
        unseal(data)


def test_the_stored_formats_are_envelopes() -> None:
    layout = layout_of(monoids.Sum())
    times = np.arange(4)
    page = encode_page(layout, "w", 0, Page(0, times, layout.elements(np.arange(4.0))))
    for data, magic in (
        (page, b"MTA1"),
        (encode_root("w", Root(1, 16)), b"MTAR"),
        (serialized({"slicer": 1}), b""),
    ):
        assert seal(unseal(data, magic), magic=magic) == data
