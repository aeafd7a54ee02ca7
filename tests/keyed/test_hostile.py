"""Saved forms that nobody wrote are refused with a reason, or are as good as written ones."""

from __future__ import annotations

import random
from typing import Any

import msgpack
import numpy as np
import pytest
from damaged import hostile

from mta.durability.attempts import AttemptHold
from mta.durability.manifest import Version
from mta.encoding.untrusted import Malformed
from mta.errors import WindowError
from mta.keyed.block import Shape
from mta.keyed.codec import decode_block, decode_parts, encode_parts
from mta.keyed.directory import Directory
from mta.keyed.documents import Documents, SavedDocuments
from mta.keyed.long import SavedKey, SavedRows
from mta.keyed.table import KeyTable, SavedTable
from stores import open_store

NUMBERS = Shape(True, True, ((("x", np.dtype(np.float64)), ("i", np.dtype(np.int64))),))
MIXED = Shape(True, True, ((("x", np.dtype(np.float64)),), (("s", np.dtype(object)),)))


def content(shape: Shape) -> list[Any]:
    """A block of four keys, of which one has windows of its own."""
    keys = shape.keys(np.frombuffer(bytes(range(64)), "S16"), np.arange(4))
    keys.counts = np.array([2, -1, 0, 3])
    keys.times = np.array([1, 2, 1, 2, 3])
    texts = ["a", "b", "", "c", "d"]
    keys.values = [
        {name: texts if kind.kind == "O" else np.arange(5, dtype=kind) for name, kind in fields}
        for fields in shape.programs
    ]
    keys.long[1] = b"windows"
    (data,) = encode_parts(keys, [(0, 4)])
    found: list[Any] = msgpack.unpackb(data)
    return found


@pytest.mark.parametrize("shape", [NUMBERS, MIXED])
def test_blocks(shape: Shape) -> None:
    rng, good, refused = random.Random(1), content(shape), 0
    assert len(decode_block(msgpack.packb(good), shape)) == 4
    for number in range(600):
        data = msgpack.packb(hostile(rng, good)) if number % 4 else hostile(rng, msgpack.packb(good))
        try:
            if number % 2:
                decode_block(data, shape)
            else:
                decode_parts([data], shape)
        except Malformed:
            refused += 1
    assert refused > 350


def test_tables_and_documents() -> None:
    rng, refused = random.Random(2), 0
    table = [msgpack.packb(content(NUMBERS)), None, [[3, 7], [9, 8.5]]]
    documents = [9, None, [[5, 2, b"x\x9cc`\x80\x00\x00\x00\x08\x00\x01"]]]
    directory = list(Directory.whole().encode())

    def make_hold(name: str, page_size: int, base: Version | None) -> AttemptHold:
        return AttemptHold(store, name, page_size, base, batch=1, run="run", lease=60)

    with open_store("memory:") as store:
        for number in range(900):
            saved = [table, [None, directory, []], documents][number % 3]
            changed = hostile(rng, saved)
            try:
                if number % 3 == 2:
                    Documents("cards", store, make_hold, SavedDocuments.decode(changed))
                else:
                    empty = Documents("cards", store, make_hold, SavedDocuments())
                    KeyTable(NUMBERS, empty, SavedTable.decode(changed), None, by_clock=False)
            except (Malformed, WindowError):
                refused += 1
    assert refused > 500


def test_keys_with_windows_of_their_own() -> None:
    rng, refused = random.Random(3), 0
    rows = [
        "rows",
        2,
        ["<i8", [], bytes(16)],
        {"x": ["<f8", [], bytes(16)], "s": ["list", [], b"\x92\x01\x02"]},
    ]
    good = ["cards/key/1", [rows, ["window", 8, []]], ["cards/key/1/1"], [None, rows]]
    assert SavedKey.decode(msgpack.packb(good), 2).stored == ["cards/key/1/1"]
    for number in range(600):
        data = msgpack.packb(hostile(rng, good)) if number % 4 else hostile(rng, msgpack.packb(good))
        try:
            key = SavedKey.decode(data, 2)
            for window in key.windows:
                if window[0] == "rows":
                    SavedRows.decode(window)
            for noted in key.noted:
                if noted is not None:
                    SavedRows.decode(noted)
        except Malformed:
            refused += 1
    assert refused > 300


def test_a_block_of_keys_says_how_many_rows_it_has_in_few_bytes_and_is_refused() -> None:
    """Equal numbers take no bytes, however many they are."""
    shape = Shape(
        True, False, ((("x", np.dtype(np.float64)), ("i", np.dtype(np.int64))), (("s", np.dtype(float)),))
    )
    count, rows = 3000, 4096
    digests = np.arange(count, dtype=">u8").repeat(2).tobytes()
    steps = ["steps", [0, 0], b""]
    content = [count, digests, steps, None, ["steps", [rows, 0], b""], steps, [[steps] * 2, [steps]], []]
    data = msgpack.packb(content)
    assert len(data) < 50_000
    with pytest.raises(Malformed, match="3000 keys have 12288000 rows"):
        decode_block(data, shape)
