"""Bytes that change and files that go: the newest version is there, or an error says that it is not."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mta import AmortizedMTA, Reader, monoids
from mta.errors import PageError
from mta.policies import CountWindow
from stores import StoreError, open_store

VERSIONS = 24

#: Two windows: one that has no checkpoint after the first flush, and one that goes on. Then the process dies.
WRITER = """
import os, signal, sys
from mta import AmortizedMTA, monoids
from mta.policies import CountWindow
from stores import open_store
from stores.rocksdb.sharing import acquire

store = open_store(f"rocksdb://{sys.argv[1]}")
flush = acquire(sys.argv[1], True, False, ("test",), lambda: None).rocks.flush
values = [float(i * 7919 % 99991) for i in range(20_000)]  # pages of 8 KB, which are in blob files
early = AmortizedMTA(monoids.Sum(), CountWindow(3000), store=store, name="early", page_size=1024)
early.extend(values[:5000])
early.checkpoint(offset="early")
flush(True)
late = AmortizedMTA(monoids.Sum(), CountWindow(3000), store=store, name="late", page_size=1024)
for version in range(int(sys.argv[2])):
    late.extend(values[version * 500 : version * 500 + 500])
    late.checkpoint(offset=version)
    if version == int(sys.argv[2]) // 2:
        flush(True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("written") / "data"
    done = subprocess.run([sys.executable, "-c", WRITER, str(directory), str(VERSIONS)], check=False)
    assert done.returncode == -9
    return directory


def opened(directory: Path, name: str, *, read_only: bool) -> Iterator[AmortizedMTA | Reader]:
    with open_store(f"rocksdb://{directory}", read_only=read_only) as store:
        how = Reader.open if read_only else AmortizedMTA.restore
        with how(store, name, monoids.Sum(), CountWindow(3000)) as window:
            yield window


def read(directory: Path, *, read_only: bool = False) -> str:
    """Opens both windows, and says what is wrong with what they hold."""
    for name, offset, tail in (("early", "early", 5000), ("late", VERSIONS - 1, VERSIONS * 500)):
        for window in opened(directory, name, read_only=read_only):
            if window.offset != offset:
                return f"{name} is at {window.offset}"
            if window.query() != sum(i * 7919 % 99991 for i in range(tail - 3000, tail)):
                return f"{name} has a wrong sum"
    return "right"


def outcomes(directory: Path) -> set[str]:
    """What a reader finds, which changes nothing, and then a writer."""
    found = set()
    for read_only in (True, False):
        try:
            found.add(read(directory, read_only=read_only))
        except (StoreError, PageError):
            found.add("error")
    return found


def damaged_copies(written: Path, into: Path, pattern: str) -> Iterator[tuple[str, Path]]:
    (file,) = written.glob(pattern)
    whole = file.read_bytes()
    places = {*range(0, len(whole), max(1, len(whole) // 12)), *range(max(0, len(whole) - 4), len(whole))}
    contents: dict[str, bytes | None] = {"lost": None}
    for place in sorted(places):
        contents[f"flipped at {place}"] = (
            whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :]
        )
        if place % 2 == 0:
            contents[f"cut at {place}"] = whole[:place]
    for number, (what, content) in enumerate(contents.items()):
        copy = into / str(number)
        shutil.copytree(written, copy)
        if content is None:
            (copy / file.name).unlink()
        else:
            (copy / file.name).write_bytes(content)
        yield what, copy
        shutil.rmtree(copy)


def test_what_a_killed_process_left_is_right(written: Path, tmp_path: Path) -> None:
    shutil.copytree(written, tmp_path / "copy")
    assert read(tmp_path / "copy") == "right"


@pytest.mark.parametrize(
    "pattern", ["*.log", "MANIFEST-*", "CURRENT", "COMMITS", "OPTIONS-*", "IDENTITY", "*.json"]
)
def test_a_damaged_file(written: Path, tmp_path: Path, pattern: str) -> None:
    seen = {what: outcomes(copy) for what, copy in damaged_copies(written, tmp_path, pattern)}
    assert set().union(*seen.values()) <= {"right", "error"}, seen
    if pattern in ("*.log", "CURRENT"):
        assert set().union(*seen.values()) == {"error"}


def test_damaged_files_of_keys_and_pages(written: Path, tmp_path: Path) -> None:
    seen = {}
    for suffix in ("sst", "blob"):
        files = sorted(written.glob(f"*.{suffix}"))
        assert files
        for file in files:
            for what, copy in damaged_copies(written, tmp_path, file.name):
                seen[file.name, what] = outcomes(copy)
    assert set().union(*seen.values()) <= {"right", "error"}, seen


def test_a_list_of_keys_that_ends_at_damage_is_an_error(written: Path, tmp_path: Path) -> None:
    def listed(directory: Path) -> list[str] | None:
        try:
            with open_store(f"rocksdb://{directory}") as store:
                return sorted(store.list_keys(""))
        except StoreError:
            return None

    shutil.copytree(written, tmp_path / "whole")
    whole = listed(tmp_path / "whole")
    assert whole
    for file in written.glob("*.sst"):
        for what, copy in damaged_copies(written, tmp_path, file.name):
            assert listed(copy) in (None, whole), what


def test_a_record_of_a_kind_that_the_engine_reads_for_ever(written: Path, tmp_path: Path) -> None:
    for pattern in ("*.log", "MANIFEST-*"):
        for kind in (0, *range(2, 16), 0x81):
            copy = tmp_path / f"{pattern[0]}{kind}"
            shutil.copytree(written, copy)
            (log,) = copy.glob(pattern)
            content = bytearray(log.read_bytes())
            content[6] = kind
            log.write_bytes(content)
            assert outcomes(copy) == {"error"}


def test_an_unfinished_tail_of_the_log_is_not_an_error(written: Path, tmp_path: Path) -> None:
    for tail in (b"\0", b"unfinished", bytes(5000), b"\xff" * 70_000):
        copy = tmp_path / str(len(tail))
        shutil.copytree(written, copy)
        (log,) = copy.glob("*.log")
        with log.open("ab") as file:
            file.write(tail)
        assert read(copy) == "right"


def test_what_came_after_the_last_commit_may_be_cut_off(tmp_path: Path) -> None:
    code = """
import os, signal, sys
from stores import open_store
store = open_store(f"rocksdb://{sys.argv[1]}")
store.swap_root("root", b"kept", None)
(log,) = [entry for entry in os.scandir(sys.argv[1]) if entry.name.endswith(".log")]
print(log.stat().st_size, flush=True)
store.put_many({"later": b"x" * 100})
store.delete_many(["none"])
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "data")], capture_output=True, text=True, check=False
    )
    committed = int(done.stdout)
    (log,) = (tmp_path / "data").glob("*.log")
    whole = log.read_bytes()
    for place in (*range(committed - 3, committed + 3), *range(committed, len(whole), 11), len(whole)):
        copy = tmp_path / "copy"
        shutil.copytree(tmp_path / "data", copy)
        (copy / log.name).write_bytes(whole[:place])
        with open_store(f"rocksdb://{copy}") as store:
            if place < committed:
                with pytest.raises(StoreError, match="commits were made"):
                    store.read_root("root")
            else:
                assert (store.read_root("root") or b"")[0] == b"kept"
        shutil.rmtree(copy)


def test_the_operator_may_go_on_with_what_is_left(written: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(written, copy)
    (log,) = copy.glob("*.log")
    log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])
    before = {path.name: path.read_bytes() for path in copy.iterdir() if not path.name.startswith("LOG")}
    with open_store(f"rocksdb://{copy}") as store, pytest.raises(StoreError, match="is damaged") as told:
        store.read_root("late")
    assert f"remove the file {copy}/COMMITS" in str(told.value)
    after = {path.name: path.read_bytes() for path in copy.iterdir() if not path.name.startswith("LOG")}
    assert after == before
    (copy / "COMMITS").unlink()
    (found,) = outcomes(copy)
    assert found.startswith("late is at")
    assert outcomes(copy) == {found}  # and it is a directory like any other again
    with open_store(f"rocksdb://{copy}") as store:
        assert sorted(store.list_roots()) == ["early", "late"]


def test_files_without_a_database_are_no_fresh_start(written: Path, tmp_path: Path) -> None:
    for lost in (("CURRENT",), ("CURRENT", "MANIFEST-*"), ("CURRENT", "MANIFEST-*", "COMMITS", "*.sst")):
        copy = tmp_path / str(len(lost))
        shutil.copytree(written, copy)
        for pattern in lost:
            for path in copy.glob(pattern):
                path.unlink()
        with open_store(f"rocksdb://{copy}") as store, pytest.raises(StoreError, match="is damaged"):
            store.put_many({"key": b"x"})


def test_a_first_opening_that_died_is_no_damage(tmp_path: Path) -> None:
    for name in ("IDENTITY", "LOCK", "LOG", "MANIFEST-000001", "000001.dbtmp"):
        (tmp_path / name).touch()
    with open_store(f"rocksdb://{tmp_path}") as store:
        store.put_many({"key": b"x"})
        assert store.get_many(["key"]) == [b"x"]
