"""Keys and documents that earlier code saved are decoded, and encoded to equal bytes."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest

from mta.durability.attempts import AttemptHold
from mta.durability.coding import pack_version, unpack_version
from mta.durability.manifest import Version
from mta.encoding.envelope import seal, unseal
from mta.keyed.block import LONG, Shape
from mta.keyed.codec import decode_block, encode_block, encode_parts
from mta.keyed.documents import Documents, SavedDocuments
from mta.keyed.long import SavedKey, SavedPages, SavedRows
from mta.keyed.table import KeyTable, SavedTable
from stores import Store, open_store

SAVED: dict[str, Any] = msgpack.unpackb(
    zlib.decompress((Path(__file__).parent / "saved.z").read_bytes()), strict_map_key=False
)
PROGRAMS = (
    (("i", np.dtype(np.int64)), ("x", np.dtype(np.float64))),
    (("s", np.dtype(object)),),
)


def shape_of(name: str) -> Shape:
    return Shape(whole=True, timed=name in ("in the state", "short again"), programs=PROGRAMS)


def states_of(name: str) -> Iterator[tuple[str, list[Any], list[Any]]]:
    """Of each bucket the name, and the saved documents and keys."""
    for key, (blob, _) in SAVED[name]["states"].items():
        if key:
            _, _, base, bucket, documents, keys, *_ = msgpack.unpackb(blob, strict_map_key=False)
            yield f"{base}/{bucket}/rows", documents, keys


def blocks_of(name: str) -> Iterator[tuple[bytes, bool]]:
    """The blocks of keys, and whether each is a segment."""
    for _, _, (block, _, _) in states_of(name):
        if block is not None:
            yield block, False
    for key, data in SAVED[name]["documents"].items():
        content = bytes(unseal(data))
        if ":7f:" in key and len(msgpack.unpackb(content, strict_map_key=False)) == 8:
            yield content, True


def opened(store: Store, name: str, saved: SavedDocuments) -> Documents:
    def make_hold(name: str, page_size: int, base: Version | None) -> AttemptHold:
        return AttemptHold(store, name, page_size, base, batch=9, run="run", lease=60)

    return Documents(name, store, make_hold, saved)


def unzipped(value: Any) -> Any:
    """The value with zlib's bytes as those that they stand for: zlib may pack more tightly some day."""
    if isinstance(value, (list, tuple)):
        return [unzipped(each) for each in value]
    if isinstance(value, bytes) and value[:1] == b"x":
        return zlib.decompress(value)
    return value


@pytest.mark.parametrize("name", SAVED)
def test_blocks_are_the_same_bytes(name: str) -> None:
    shape, long = shape_of(name), 0
    for content, is_segment in blocks_of(name):
        block = decode_block(content, shape)
        assert len(block)
        long += int((block.counts == LONG).sum())
        encoded = encode_parts(block, [(0, len(block))])[0] if is_segment else encode_block(block)
        assert encoded == content
    assert long or name in ("by the clock", "without a watermark")


@pytest.mark.parametrize("name", SAVED)
def test_windows_of_long_keys_are_the_same_bytes(name: str) -> None:
    for content, _ in blocks_of(name):
        for entry in decode_block(content, shape_of(name)).long:
            if entry is None:
                continue
            key = SavedKey.decode(entry, len(PROGRAMS))
            assert msgpack.packb(key) == entry
            for window in key.windows:
                if window[0] == "rows":
                    assert msgpack.packb(SavedRows.encode(SavedRows.decode(window))) == msgpack.packb(window)
                else:
                    _, size, version = window
                    unpacked = unpack_version(size.bit_length() - 1, version)
                    again = SavedPages("window", size, pack_version(unpacked))
                    assert msgpack.packb(again) == msgpack.packb(window)
            for noted in key.noted:
                if noted is not None:
                    assert msgpack.packb(SavedRows.encode(SavedRows.decode(noted))) == msgpack.packb(noted)


@pytest.mark.parametrize("name", SAVED)
def test_tables_and_documents_are_the_same_bytes(name: str) -> None:
    for bucket, saved_documents, saved_keys in states_of(name):
        with open_store("memory:") as store:
            store.put_many(SAVED[name]["documents"])
            table, saved = SavedTable.decode(saved_keys), SavedDocuments.decode(saved_documents)
            assert msgpack.packb(table) == msgpack.packb(saved_keys)
            assert msgpack.packb(saved) == msgpack.packb(saved_documents)
            documents = opened(store, bucket, saved)
            keys = KeyTable(shape_of(name), documents, table, 10.0, by_clock=name == "by the clock")
            assert unzipped(keys.save(None)) == unzipped(saved_keys)
            assert unzipped(documents.save(9, keys.ranges)) == unzipped(saved_documents)


def test_documents_are_envelopes() -> None:
    for saved in SAVED.values():
        for key, data in saved["documents"].items():
            if ":7f:" in key:
                assert seal(unseal(data)) == data
