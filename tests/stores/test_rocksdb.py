from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from stores import Store, StoreConfigError, StoreError, open_store
from stores.testing import StoreContract


def run(code: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


class TestRocksDB(StoreContract):
    survives_fork = False

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        with open_store(f"rocksdb://{tmp_path}/made/when absent") as store:
            yield store


def test_data_outlives_the_store(tmp_path: Path) -> None:
    with open_store(f"rocksdb://{tmp_path}") as store:
        store.put_many({"key": b"x"})
        token = store.swap_root("root", b"y", None)
    with open_store(f"rocksdb://{tmp_path}") as store:
        assert store.get_many(["key"]) == [b"x"]
        assert store.read_root("root") == (b"y", token)


def test_data_outlives_a_killed_process(tmp_path: Path) -> None:
    code = """
import os, signal, sys
from stores import open_store
store = open_store(sys.argv[1])
store.put_many({"key": b"x" * 100_000})
store.swap_root("root", b"y", None)
os.kill(os.getpid(), signal.SIGKILL)
"""
    url = f"rocksdb://{tmp_path}"
    assert subprocess.run([sys.executable, "-c", code, url], check=False).returncode == -9
    with open_store(url) as store:
        assert store.get_many(["key"]) == [b"x" * 100_000]
        assert store.read_root("root") is not None


def test_stores_of_one_process_share_the_directory(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "data")
    one, other = open_store(f"rocksdb://{tmp_path}/data"), open_store(f"rocksdb://{tmp_path}/link")
    one.put_many({"key": b"x"})
    assert other.get_many(["key"]) == [b"x"]
    one.close()
    assert other.get_many(["key"]) == [b"x"]
    other.close()
    assert (
        run(f"from stores import open_store; print(open_store({other.url!r}).get_many(['key']))") == "[b'x']"
    )


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    code = """
import sys
from stores import StoreUnavailable, open_store
store = open_store(sys.argv[1])
try:
    store.get_many(["key"])
except StoreUnavailable as error:
    print(error)
"""
    with open_store(f"rocksdb://{tmp_path}") as store:
        store.put_many({"key": b"x"})
        told = run(code, store.url)
    assert str(tmp_path) in told
    assert "open in another process" in told
    assert run(code, store.url) == ""


def test_opening_locks_nothing_until_the_first_call(tmp_path: Path) -> None:
    with open_store(f"rocksdb://{tmp_path}"):
        assert run(
            f"from stores import open_store; print(open_store('rocksdb://{tmp_path}').get_many(['k']))"
        )


def test_a_relative_directory_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert open_store("rocksdb:data").url == f"rocksdb://{tmp_path}/data"
    with pytest.raises(StoreConfigError, match="rocksdb:///absolute"):
        open_store("rocksdb://data")


def test_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with open_store(f"rocksdb://{tmp_path}/file") as store, pytest.raises(StoreError, match="file"):
        store.get_many(["key"])


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs users")
def test_a_read_only_directory(tmp_path: Path) -> None:
    code = """
import sys
from stores import StoreFull, open_store
store = open_store(f"rocksdb://{sys.argv[1]}")
with open_store(f"rocksdb://{sys.argv[2]}") as other:
    other.put_many({"key": b"x"})  # imports all it needs, which another user may not be allowed
if len(sys.argv) > 3:
    import os
    os.setuid(int(sys.argv[3]))  # root may write anywhere
try:
    store.put_many({"key": b"x"})
except StoreFull as error:
    print(error)
"""
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, stat.S_IRUSR | stat.S_IXUSR | stat.S_IROTH | stat.S_IXOTH)
        nobody = ["65534"] if os.geteuid() == 0 else []
        told = run(code, directory, str(tmp_path), *nobody)
        os.chmod(directory, stat.S_IRWXU)
    assert "cannot be written" in told
    assert directory in told


def test_a_full_disk(tmp_path: Path) -> None:
    # A limit on the size of files stands for a full disk.
    code = """
import resource, sys
from stores import StoreFull, open_store
store = open_store(sys.argv[1])
store.swap_root("root", b"kept", None)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
try:
    for number in range(100):
        store.put_many({f"key{number}": bytes(1 << 18)})
except StoreFull as error:
    print(error)
"""
    told = run(code, f"rocksdb://{tmp_path}")
    assert "make room" in told
    with open_store(f"rocksdb://{tmp_path}") as store:
        assert store.read_root("root") is not None


def test_memory_does_not_grow_with_the_data(tmp_path: Path) -> None:
    code = """
import sys, psutil
from stores import open_store, page_key
process, page, prefix = psutil.Process(), bytes(range(256)) * 1024, "p"
with open_store(sys.argv[1]) as store:
    store.put_many({"warm": page})
    before = most = process.memory_info().rss
    for number in range(0, 1200, 4):
        store.put_many((page_key(prefix, number + each), page) for each in range(4))
        assert store.get_many([page_key(prefix, number // 2)]) == [page]
        most = max(most, process.memory_info().rss)
    store.delete_range(prefix, 0, 1000)
    assert store.get_many([page_key(prefix, 999), page_key(prefix, 1000)]) == [None, page]
    print((most - before) >> 20)
"""
    assert int(run(code, f"rocksdb://{tmp_path}")) < 40


def test_a_child_forked_while_the_store_is_open_is_told(tmp_path: Path) -> None:
    code = """
import os, sys
from stores import StoreUnavailable, open_store
store = open_store(sys.argv[1])
store.put_many({"key": b"x"})
child = os.fork()
if not child:
    try:
        store.get_many(["key"])
    except StoreUnavailable as error:
        print(error)
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
assert store.get_many(["key"]) == [b"x"]
"""
    assert "before a fork" in run(code, f"rocksdb://{tmp_path}")
