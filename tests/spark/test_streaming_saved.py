"""States and documents that earlier code saved stay the same bytes, and their streams go on."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import msgpack
import pytest
from saved_streams import STREAMS, play, stream_of
from simulated import END

from spark_integration.streaming.backlog import WaitingRows
from spark_integration.streaming.packing import QUERY_KEY
from spark_integration.streaming.state import decode_state
from stores import Store, open_store

SAVED = msgpack.unpackb(
    zlib.decompress((Path(__file__).parents[1] / "keyed" / "saved.z").read_bytes()), strict_map_key=False
)


def restored(name: str, store: Store) -> Any:
    """The stream as it was when its states and documents were saved."""
    saved = SAVED[name]
    store.put_many(saved["documents"])
    for root, data in saved["roots"].items():
        store.swap_root(root, data, None)
    stream = stream_of(name, store)
    stream.states = {key: (blob, timeout) for key, (blob, timeout) in saved["states"].items()}
    stream.batch, stream.run = saved["played"]
    return stream


@pytest.mark.parametrize("name", STREAMS)
def test_a_saved_stream_goes_on(name: str) -> None:
    _, _, first = STREAMS[name]
    with open_store("memory:") as fresh_store, open_store("memory:") as store:
        fresh, stream = stream_of(name, fresh_store), restored(name, store)
        for number in range(first + 3):
            play(fresh, number)
        for number in range(first, first + 3):
            play(stream, number)
        for one in (fresh, stream):
            one.play(None, END)
        before = set(SAVED[name]["rows"])
        assert len(stream.rows) > 100
        assert stream.rows.keys() == fresh.rows.keys() - before
        assert stream.rows == {number: fresh.rows[number] for number in stream.rows}


@pytest.mark.parametrize("name", STREAMS)
def test_saved_states_are_encoded_to_the_same_bytes(name: str) -> None:
    with open_store("memory:") as store:
        identity = stream_of(name, store)._stream.identity
    blobs = [blob for key, (blob, _) in SAVED[name]["states"].items() if key != QUERY_KEY]
    assert blobs
    for blob in blobs:
        state = decode_state(blob, identity.fingerprint, identity.text)
        assert state.encode() == blob
        for each in state.backlog[0] if state.backlog else []:
            if type(each) is list:
                assert WaitingRows.decode(each).encode() == each
