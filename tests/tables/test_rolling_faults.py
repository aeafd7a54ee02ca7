"""A call of a Roller has happened or it has not, whatever raises wherever; nothing is left behind."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest
from chance import generator
from recomputed import Affine

import mta
from mta import monoids
from mta.tables import roller as roller_module
from mta.tables import tree
from mta.tables.scratch import OnDisk
from stores import Store, StoreUnavailable, open_store
from stores.testing import FaultyStore


class Injected(BaseException):
    """Like KeyboardInterrupt, so that nothing takes it for an error of its own."""


class Failing(Affine):
    """It raises at the combine of a number."""

    left = -1

    def combine(self, older: Any, younger: Any) -> Any:
        Failing.left -= 1
        if Failing.left == 0:
            raise Injected
        return super().combine(older, younger)


FEATURES = {
    "affine": Failing("a").over(20),
    "few": Failing("a").over(rows=3),
    "text": monoids.Concat("t").over(rows=4),
}

#: Key 0 gets long in the second batch; rows of a time come in the order of the frame.
BATCHES = [
    [(key, time) for time in range(3) for key in (0, 1, 2)],
    [(key, time) for time in range(3, 20) for key in (0, 1)],
    [(key, time) for time in range(20, 26) for key in (0, 0, 5, 2)],
    [(0, 30), (1, 31), (6, 31)],
]


def frame_of(batch: list[tuple[int, int]]) -> pa.Table:
    return pa.table(
        {
            "key": [key for key, _ in batch],
            "ts": [time for _, time in batch],
            "a": [7 * time + key for key, time in batch],
            "t": ["abcdefg"[(time + key) % 7] for key, time in batch],
        }
    )


def expected_of(batches: list[list[tuple[int, int]]]) -> list[dict[str, list[Any]]]:
    rows: dict[int, list[tuple[int, int, str]]] = {}
    found = []
    for batch in batches:
        columns: dict[str, list[Any]] = {name: [] for name in FEATURES}
        for key, time in batch:
            held = rows.setdefault(key, [])
            held.append((time, 7 * time + key, "abcdefg"[(time + key) % 7]))
            for name, some in (("affine", [row for row in held if row[0] > time - 20]), ("few", held[-3:])):
                b = 0
                for _, a, _ in some:
                    b = (b * (a % 97 + 1) + a % 89) % 10_007
                columns[name].append(b)
            columns["text"].append("".join(row[2] for row in held[-4:]))
        found.append(columns)
    return found


EXPECTED = expected_of(BATCHES)


class History:
    """The batches one after the other, each until it succeeds."""

    def __init__(self, stream: bool, store: Store | None) -> None:
        self.stream = stream
        self.roller = mta.Roller(on="ts", by="key", aggregates=FEATURES, store=store)

    def append(self, number: int) -> dict[str, list[Any]]:
        frame = frame_of(BATCHES[number])
        out = self.roller.append(frame.to_reader(max_chunksize=5) if self.stream else frame)
        table = out.read_all() if self.stream else out
        return {name: table[name].to_pylist() for name in FEATURES}

    def run(self, fails: Callable[[Callable[[], object]], bool]) -> bool:
        """`fails` does a call with a fault in it, and tells whether the fault came out of it."""
        failed = False
        with self.roller:
            for number, expected in enumerate(EXPECTED):
                before = len(self.roller)
                found: list[Any] = []
                while not found:
                    if fails(lambda: found.append(self.append(number))):  # noqa: B023
                        failed = True
                        if len(self.roller) > before:  # raised while its results were read
                            break
                    else:
                        assert found
                assert len(self.roller) == before + len(BATCHES[number])
                assert found in ([], [expected]), number
        return failed


def raises(error: type[BaseException]) -> Callable[[Callable[[], object]], bool]:
    """For `History.run`: whether a call raises an error."""

    def fails(call: Callable[[], object]) -> bool:
        try:
            call()
        except error:
            return True
        return False

    return fails


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "LEAF_ROWS", 24)
    monkeypatch.setattr(roller_module, "BLOCK_VALUES", 80)
    monkeypatch.setattr(roller_module, "SPARE_BYTES", 0)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def places() -> Iterator[int]:
    """Every call at first, and then ever fewer of them, with others in each run."""
    number, rng = 1, generator()
    while True:
        yield number
        number += 1 + rng.randrange(number // 2 + 1)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("stream", [False, True])
def test_a_fault_at_every_call_of_the_store(stream: bool, after: bool) -> None:
    for number in places():
        inner = open_store("memory:")
        store = FaultyStore(inner, lambda _, call: call in (number, number + 1), after=after)  # noqa: B023
        history = History(stream, store)
        failed = history.run(raises(StoreUnavailable))
        if not store.faults:
            assert number > 10
            return
        if failed:  # and not in the removal at the end, which is tried once
            assert not list(inner.list_roots()), number
            assert not list(inner.list_keys("")), number


@pytest.mark.parametrize("stream", [False, True])
def test_a_fault_at_every_combine(stream: bool) -> None:
    for number in places():
        Failing.left = number
        failed = History(stream, open_store("memory:")).run(raises(Injected))
        Failing.left = -1
        if not failed:
            assert number > 20
            return


@pytest.mark.usefixtures("temporary")
def test_a_full_disk_at_every_write(monkeypatch: pytest.MonkeyPatch) -> None:
    left, put = 0, OnDisk.put

    def full(self: OnDisk, value: Any) -> int:
        nonlocal left
        left -= 1
        if left == 0:
            raise OSError(28, "No space left on device")
        return put(self, value)

    monkeypatch.setattr(OnDisk, "put", full)

    for number in places():
        left = number
        if not History(True, open_store("memory:")).run(raises(OSError)):
            assert number > 20
            return


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("stream", [False, True])
def test_an_interrupt_at_every_call(stream: bool) -> None:
    number = 0
    rng = generator()
    while True:
        left = number

        def profile(frame: FrameType, event: str, called: Any) -> None:
            nonlocal left
            if event not in ("call", "c_call") or frame.f_code.co_filename == __file__:
                return
            if event == "c_call" and called.__name__ == "__exit__":
                return  # CPython takes no signal between the end of a `with` and the release of its lock
            left -= 1
            if left == 0:
                raise Injected

        def fails(call: Callable[[], object]) -> bool:
            sys.setprofile(profile)
            try:
                call()
            except Injected:
                return True
            finally:
                sys.setprofile(None)
            return False

        failed = History(stream, open_store("memory:")).run(fails)
        if number and left > 0:
            assert not failed
            return
        number += 1 + rng.randrange(number // 2 + 300)


# -- what is left behind ------------------------------------------------------------------------------------


FRAME = frame_of([row for batch in BATCHES for row in batch])


def is_open(directory: Path) -> list[str]:
    """The files of a directory that this process has open, with or without a name."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            place = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:
            continue
        if place.startswith(str(directory)):
            found.append(place)
    return found


def unread(reader: pa.RecordBatchReader) -> None:
    """Gives up a reader before its first row."""


def half_read(reader: pa.RecordBatchReader) -> None:
    reader.read_next_batch()


def failing_source(_: pa.RecordBatchReader) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield from FRAME.to_batches()
        raise RuntimeError("the source failed")

    with pytest.raises(RuntimeError, match="the source failed"):
        mta.rolling(
            pa.RecordBatchReader.from_batches(FRAME.schema, batches()),
            on="ts",
            by="key",
            aggregates=FEATURES,
        )


def not_closed(_: pa.RecordBatchReader) -> None:
    roller = mta.Roller(on="ts", by="key", aggregates=FEATURES)
    roller.append(FRAME.to_reader()).read_all()


def read_after_the_end(reader: pa.RecordBatchReader) -> None:
    with mta.Roller(on="ts", by="key", aggregates=FEATURES) as roller:
        first = roller.append(FRAME.to_reader())
        roller.append(frame_of([(0, 100)]).to_reader()).close()
    assert first.read_all() == reader.read_all()


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("use", [unread, half_read, failing_source, not_closed, read_after_the_end])
def test_no_file_is_left(use: Callable[[pa.RecordBatchReader], None], temporary: Path) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        use(mta.rolling(FRAME.to_reader(max_chunksize=5), on="ts", by="key", aggregates=FEATURES))
        gc.collect()
        assert not is_open(temporary)
    assert not caught, [str(each.message) for each in caught]
    assert not list(temporary.iterdir())


def test_a_child_process_removes_nothing_of_its_parent(temporary: Path) -> None:
    with mta.Roller(on="ts", by="key", aggregates={"n": monoids.Count().over(1000)}) as roller:
        roller.append(frame_of([(0, time) for time in range(40)]))
        there = list(temporary.iterdir())
        assert there
        child = os.fork()
        if not child:
            try:
                with pytest.raises(mta.errors.WindowClosed):
                    roller.append(FRAME)
                del roller
                gc.collect()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        assert list(temporary.iterdir()) == there
        assert roller.append(frame_of([(0, 50)]))["n"].to_pylist() == [41]
    assert not list(temporary.iterdir())


def test_two_rollers_share_a_store() -> None:
    store = open_store("memory:")
    rows = frame_of([(0, time) for time in range(40)])
    features = {"n": monoids.Count().over(1000)}
    with (
        mta.Roller(on="ts", by="key", aggregates=features, store=store) as one,
        mta.Roller(on="ts", by="key", aggregates=features, store=store) as other,
    ):
        for roller in (one, other, one, other):
            roller.append(rows if not len(roller) else frame_of([(0, 50)]))
        other.close()
        assert one.append(frame_of([(0, 60)]))["n"].to_pylist() == [42]
    assert not list(store.list_roots())
    assert not list(store.list_keys(""))
