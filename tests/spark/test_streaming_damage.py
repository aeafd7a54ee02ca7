"""States, and documents in the store, with bytes in them that nobody wrote."""

from __future__ import annotations

import random
import uuid
from contextlib import nullcontext
from typing import Any
from unittest import mock

import msgpack
import pandas as pd
import pyarrow as pa
import pytest
import xxhash
from damaged import hostile
from simulated import END, QUERY, SCHEMA, Simulated, StateOfSpark
from stream_reference import watermarks
from streams import opened
from test_streaming_attempts import HOW, files_of

from mta.durability.manifest import DOCUMENTS
from mta.encoding.untrusted import Malformed
from mta.errors import PageCorrupt, WindowError
from mta.keyed import segments, table
from mta.keyed.codec import decode_block, encode_parts
from mta.keyed.directory import Directory
from spark_integration.errors import DataError, RollingError
from spark_integration.streaming import backlog, function
from spark_integration.streaming.identity import decode_identity
from spark_integration.streaming.packing import QUERY_KEY
from spark_integration.streaming.state import decode_state
from spark_integration.streaming.storage import TaskAttempt
from stores import Store, StoreError, open_store, page_key
from stores.base import page_prefix


def a_state(store: Store) -> tuple[Simulated, list[pa.Table]]:
    """A stream whose states have keys, segments, windows of their own, and rows that wait."""
    files = files_of(1)
    stream = Simulated(SCHEMA, store, 1, buckets=2, **HOW)
    for file, mark in zip(files, watermarks(files, 40_000), strict=False):
        stream.play(file, mark)
    return stream, files


def call(stream: Simulated, store: Store, key: bytes, blob: bytes) -> list[Any]:
    """One more call of the function with a state."""
    state = StateOfSpark(blob, END, True)
    attempt = TaskAttempt(QUERY, str(stream.run), stream.batch, 0)
    stores = mock.Mock(store=lambda *_: nullcontext(store))
    empty = pd.DataFrame([], columns=["position", "packed"])
    with (
        mock.patch.object(TaskAttempt, "current", return_value=attempt),
        mock.patch.object(function, "OPEN_STORES", stores),
    ):
        return list(function.StreamFunction(stream._stream)((key,), iter([empty]), state))  # type: ignore[arg-type]


@pytest.mark.parametrize("inline", [True, False])
def test_a_state_that_nobody_wrote_is_refused_in_plain_words(inline: bool) -> None:
    """Whatever it is; or it is as good as one that was written, which nobody can tell."""
    rng = random.Random(4)
    with (
        open_store(f"memory:{uuid.uuid4().hex}") as store,
        mock.patch.object(table, "INLINE", 1 << 15 if inline else 200),
    ):
        stream, _ = a_state(store)
        refused, of_data = 0, list[str]()
        for key, (blob, _) in stream.states.items():
            if key == QUERY_KEY:
                continue
            content = msgpack.unpackb(blob, strict_map_key=False)
            for number in range(250):
                changed = msgpack.packb(hostile(rng, content)) if number % 5 else hostile(rng, blob)
                try:
                    call(stream, store, key, changed)
                except DataError as error:
                    of_data.append(str(error))
                except (RollingError, WindowError, StoreError):
                    refused += 1
        assert refused > 200
        # such text may have come with the rows, as far as anybody can tell
        assert all("holds text that is no UTF-8" in each and "\n" not in each for each in of_data)


def test_a_record_of_the_query_that_nobody_wrote_is_refused() -> None:
    rng = random.Random(5)
    with open_store(f"memory:{uuid.uuid4().hex}") as store:
        stream, _ = a_state(store)
        blob, _ = stream.states[QUERY_KEY]
        assert decode_identity(blob).parts["buckets"] == "2"
        content, refused = msgpack.unpackb(blob), 0
        for number in range(200):
            changed = msgpack.packb(hostile(rng, content)) if number % 3 else hostile(rng, blob)
            try:
                decode_identity(changed)
            except (RollingError, WindowError):
                refused += 1
        assert refused > 100


def test_a_segment_that_nobody_wrote_is_refused() -> None:
    rng = random.Random(6)
    with open_store(f"memory:{uuid.uuid4().hex}") as store, mock.patch.object(table, "INLINE", 200):
        stream, _ = a_state(store)
        shape = function.Tools(stream._stream).keyed.shape
        (blob, *_) = stream.blobs()
        state = decode_state(blob, stream._stream.identity.fingerprint, "")
        directory = Directory.decode(state.keys.directory)
        (document, *_) = directory.documents(directory.used)
        name = f"{state.name}/{state.bucket}/rows"
        key = next(
            key
            for key in store.list_keys("")
            if key.startswith("{" + name) and key.endswith(f"{document.number:016x}")
        )
        (data,) = store.get_many([key])
        assert data is not None
        content, refused = msgpack.unpackb(data[:-8], strict_map_key=False), 0
        block = decode_block(data[:-8], shape)
        assert encode_parts(block, [(0, len(block))]) == [data[:-8]]
        for _ in range(300):
            try:
                decode_block(msgpack.packb(hostile(rng, content)), shape)
            except Malformed:
                refused += 1
        assert refused > 150


@pytest.mark.parametrize("size", [200, 16_000])
def test_documents_of_rows_that_wait_are_refused_where_nobody_wrote_them(size: int) -> None:
    """Their checksums are right; so are those of lists of documents, where there are many."""
    rng = random.Random(7)
    with (
        open_store(f"memory:{uuid.uuid4().hex}") as store,
        mock.patch.object(backlog, "INLINE", 200),
        mock.patch.object(backlog, "DOCUMENT_ROWS", 20),
        mock.patch.object(backlog, "TABLE", size),
    ):
        stream, _ = a_state(store)
        ((key, (blob, _)), *_) = [each for each in stream.states.items() if each[0] != QUERY_KEY]
        (found,) = [opened(blob, [store])]
        keys = sorted(key for key in found.keys if f":{DOCUMENTS:02x}:" in key)
        kept = dict(zip(keys, store.get_many(keys), strict=True))
        roots = {name: store.read_root(name) for name in store.list_roots()}
        refused = 0
        for number in range(120):
            changed = keys[number % len(keys)]
            content = msgpack.unpackb(bytes(kept[changed] or b"")[:-8], strict_map_key=False)
            new = msgpack.packb(hostile(rng, content))
            with open_store(f"memory:{uuid.uuid4().hex}") as other:
                other.put_many({each: bytes(data or b"") for each, data in kept.items()})
                for name, root in roots.items():
                    other.swap_root(name, root[0] if root else b"", None)
                other.put_many({changed: new + xxhash.xxh3_64_digest(new)})
                try:
                    call(stream, other, key, blob)
                except PageCorrupt as error:
                    refused += "checksum is right" in str(error)
                except (RollingError, WindowError, StoreError):
                    pass
        assert refused > 60


def test_windows_of_others_are_not_removed_whatever_a_state_says() -> None:
    with open_store(f"memory:{uuid.uuid4().hex}") as store:
        stream, _ = a_state(store)
        ((key, (blob, _)), *_) = [each for each in stream.states.items() if each[0] != QUERY_KEY]
        content = msgpack.unpackb(blob, strict_map_key=False)
        content[-1] = ["orders"]
        store.swap_root("orders", b"somebody else's", None)
        with pytest.raises(WindowError, match="'orders' is no window of this query"):
            call(stream, store, key, msgpack.packb(content))
        assert store.read_root("orders") is not None


def test_segments_that_the_store_mixed_up_are_refused() -> None:
    """One has the keys of another; both are as they were written."""
    with (
        open_store(f"memory:{uuid.uuid4().hex}") as store,
        mock.patch.object(table, "INLINE", 200),
        mock.patch.object(segments, "BYTES", 60),
        mock.patch.object(segments, "DENSE_BYTES", 60),
    ):
        stream, _ = a_state(store)
        ((key, (blob, _)), *_) = [each for each in stream.states.items() if each[0] != QUERY_KEY]
        state = decode_state(blob, stream._stream.identity.fingerprint, "")
        directory = Directory.decode(state.keys.directory)
        documents = directory.documents(directory.used)
        assert len(documents) > 3
        name = f"{state.name}/{state.bucket}/rows"
        keys = [page_key(page_prefix(name, epoch, DOCUMENTS), number) for epoch, number in documents]
        first, second, *_ = found = [bytes(data or b"") for data in store.get_many(keys)]
        store.put_many(dict(zip(keys, [second, *found[1:]], strict=True)))
        assert first != second
        with pytest.raises(PageCorrupt, match=r"it has keys (that|of) another segment"):
            call(stream, store, key, blob)
