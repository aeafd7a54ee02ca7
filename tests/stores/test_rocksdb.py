from __future__ import annotations

import errno
import itertools
import os
import pickle
import re
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import rocksdict
from chance import generator

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


@pytest.fixture
def direct(tmp_path: Path) -> str:
    url = f"rocksdb://{tmp_path}/direct?direct=true"
    try:
        with open_store(url) as store:
            store.get_many(["key"])
    except StoreConfigError:
        pytest.skip("the file system of temporary files does no direct I/O")
    return url


class TestRocksDBPastThePageCache(StoreContract):
    survives_fork = False

    @pytest.fixture
    def store(self, direct: str) -> Iterator[Store]:
        with open_store(direct) as store:
            yield store


def test_a_directory_is_written_as_it_was_opened(direct: str, tmp_path: Path) -> None:
    chance = generator()
    pages = {f"key{number}": chance.randbytes(1 << 17) for number in range(200)}
    for url, past in ((direct, 1), (f"rocksdb://{tmp_path}/direct", 0), (direct, 1)):
        with open_store(url) as store:
            store.put_many(pages)
            root = store.read_root("root")
            store.swap_root("root", b"x", root and root[1])
            assert store.get_many(list(pages)) == list(pages.values())
        told = (tmp_path / "direct" / "LOG").read_text()
        found = re.findall(r"Options\.use_direct_io_for_flush_and_compaction: (\d)", told)
        assert set(found) == {str(past)}


def test_a_file_system_that_does_no_direct_io(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = os.open

    def refused(path: Any, flags: int, mode: int = 0o777) -> int:
        if not flags & os.O_DIRECT:
            return made(path, flags, mode)
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)

    url = f"rocksdb://{tmp_path}/new"
    with monkeypatch.context() as patch, open_store(url, direct=True) as store:
        patch.setattr(os, "open", refused)
        with pytest.raises(
            StoreConfigError, match=r"direct=True: the file system of .*/new .* leave the option out"
        ):
            store.put_many({"key": b"x"})
        assert os.listdir(tmp_path / "new") == []
    with open_store(url) as store:
        token = store.swap_root("root", b"y", None)
    with monkeypatch.context() as patch, open_store(f"{url}?direct=yes") as store:
        patch.setattr(os, "open", refused)
        with pytest.raises(StoreConfigError):
            store.read_root("root")
    with open_store(url) as store:
        assert store.read_root("root") == (b"y", token)


def test_the_first_store_decides_for_a_directory(direct: str, tmp_path: Path) -> None:
    with open_store(f"rocksdb://{tmp_path}/direct") as first, open_store(direct) as second:
        first.put_many({"key": b"x"})
        assert second.get_many(["key"]) == [b"x"]


def test_data_outlives_the_store(tmp_path: Path) -> None:
    with open_store(f"rocksdb://{tmp_path}") as store:
        store.put_many({"key": b"x"})
        token = store.swap_root("root", b"y", None)
    with open_store(f"rocksdb://{tmp_path}") as store:
        assert store.get_many(["key"]) == [b"x"]
        assert store.read_root("root") == (b"y", token)


@pytest.mark.parametrize("directly", [False, True])
def test_data_outlives_a_killed_process(directly: bool, direct: str, tmp_path: Path) -> None:
    code = """
import os, signal, sys
from stores import open_store
store = open_store(sys.argv[1])
store.put_many({"key": b"x" * 100_000})
store.put_many({f"key{number}": b"x" * 100_000 for number in range(300)})  # more than goes through the log
store.swap_root("root", b"y", None)
os.kill(os.getpid(), signal.SIGKILL)
"""
    url = direct if directly else f"rocksdb://{tmp_path}/buffered"
    assert subprocess.run([sys.executable, "-c", code, url], check=False).returncode == -9
    with open_store(url) as store:
        assert store.get_many(["key", "key0", "key299"]) == [b"x" * 100_000] * 3
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


def test_patience_is_what_a_call_waits(tmp_path: Path) -> None:
    code = """
import sys, time
from stores import StoreUnavailable, open_store
store = open_store(sys.argv[1], patience=0.5)
begun = time.monotonic()
try:
    store.get_many(["key"])
except StoreUnavailable as error:
    print(error)
    assert time.monotonic() - begun >= 0.5
"""
    with open_store(f"rocksdb://{tmp_path}") as store:
        store.put_many({"key": b"x"})
        assert re.search(r"\(\d+ tries in [\d.]+ s\)", run(code, store.url))


def test_patience_ends_when_the_directory_is_closed(tmp_path: Path) -> None:
    code = "import sys; from stores import open_store; print(open_store(sys.argv[1]).get_many(['key']))"
    with open_store(f"rocksdb://{tmp_path}") as store:
        store.put_many({"key": b"x"})
        arguments = [sys.executable, "-c", code, f"{store.url}?patience=60"]
        waiting = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(1)
    assert waiting.communicate()[0].strip() == "[b'x']"


@pytest.mark.parametrize("url", ["rocksdb:{}", "rocksdb:{}/absent", "rocksdb:{}?patience=1"])
def test_a_store_that_is_only_looked_at_is_not_made(tmp_path: Path, url: str) -> None:
    (tmp_path / "something else").touch()
    with open_store(url.format(tmp_path), create=False) as store:
        for look in (store.list_roots, lambda: store.list_keys(""), lambda: [store.read_root("root")]):
            with pytest.raises(StoreError, match=r"no RocksDB database in .* create=False"):
                list(look())
        copy = pickle.loads(pickle.dumps(store))
        with pytest.raises(StoreError, match="create=False"):
            copy.put_many({"key": b"x"})
    assert [path.name for path in tmp_path.iterdir()] == ["something else"]


def test_a_store_that_is_there_can_be_looked_at(tmp_path: Path) -> None:
    with open_store(f"rocksdb:{tmp_path}") as store:
        store.put_many({"key": b"x"})
    with open_store(f"rocksdb:{tmp_path}?create=false") as store:
        assert store.get_many(["key"]) == [b"x"]
    with open_store("memory:", create=False) as store:
        assert list(store.list_roots()) == []


@pytest.mark.parametrize("name", ["a b", "100%", "%41", "Zürich 東京", "a?b", "a#b", "'\";", "x" * 200])
def test_directories_of_any_name(tmp_path: Path, name: str) -> None:
    with open_store(f"rocksdb://{quote(str(tmp_path / name))}") as store:
        store.swap_root("root", b"x", None)
        url = store.url
    assert [path.name for path in tmp_path.iterdir()] == [name]
    with open_store(url, create=False) as store:
        assert store.read_root("root") is not None


def test_a_symbolic_link_to_nothing_and_one_to_itself(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "data")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with open_store(f"rocksdb://{tmp_path}/link") as store:
        store.put_many({"key": b"x"})
    assert (tmp_path / "data" / "CURRENT").exists()
    with open_store(f"rocksdb://{tmp_path}/loop") as store, pytest.raises(StoreError, match="loop"):
        store.put_many({"key": b"x"})


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


def test_a_disk_that_was_full_and_has_room_again(tmp_path: Path) -> None:
    code = """
import resource, sys
from stores import StoreFull, open_store
store = open_store(sys.argv[1])
token = store.swap_root("root", b"kept", None)
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
try:
    for number in range(100):
        store.put_many({f"key{number}": bytes(1 << 18)})
        token = store.swap_root("root", b"%d" % number, token)
except StoreFull:
    print(number)
try:
    store.close()
except StoreFull:
    pass
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
with open_store(sys.argv[1]) as store:
    data, token = store.read_root("root")
    assert int(data) in (number - 1, number), data
    pages = store.get_many([f"key{each}" for each in range(int(data) + 1)])
    assert set(pages) == {bytes(1 << 18)}
    store.swap_root("root", b"again", token)
"""
    assert int(run(code, f"rocksdb://{tmp_path}")) > 0
    with open_store(f"rocksdb://{tmp_path}") as store:
        assert (store.read_root("root") or b"")[0] == b"again"


#: Calls of a store that a signal interrupts wherever it comes.
INTERRUPTED = """
import fcntl, os, random, signal, sys
from stores import open_store

url, rounds = sys.argv[1], int(sys.argv[2])

def calls(store):
    store.put_many({"key": b"x"})
    root = store.read_root("root")
    store.swap_root("root", b"y", root and root[1])
    store.delete_many(["other"])
    assert list(store.list_keys("")) == ["key"]

def is_free():
    child = os.fork()
    if not child:
        try:
            fcntl.lockf(open(url.removeprefix("rocksdb://") + "/LOCK", "r+b"), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0

class Stopped(BaseException):
    pass

def stop(*_):
    raise Stopped

signal.signal(signal.SIGALRM, stop)
with open_store(url) as store:
    calls(store)
stopped = 0
for each in range(rounds):
    store = open_store(url)
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, random.Random(each).uniform(0.0001, 0.03))
            calls(store)
            store.close()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except Stopped:
        stopped += 1
    store.close()
    with open_store(url) as store:
        calls(store)
    assert is_free(), each
print(stopped)
"""


def test_interrupts_leave_no_lock(tmp_path: Path) -> None:
    assert int(run(INTERRUPTED, f"rocksdb://{tmp_path}", "60")) > 5


def test_memory_does_not_grow_with_the_data(tmp_path: Path) -> None:
    code = """
import sys, psutil
from stores import open_store, page_key
process, page, prefix = psutil.Process(), bytes(range(256)) * 1024, "p"
with open_store(sys.argv[1]) as store:
    store.put_many({"warm": page})
    before, peaks = process.memory_info().rss, []
    for start in range(0, 3600, 1200):
        most = 0
        for number in range(start, start + 1200, 4):
            store.put_many((page_key(prefix, number + each), page) for each in range(4))
            assert store.get_many([page_key(prefix, number // 2)]) == [page]
            most = max(most, process.memory_info().rss - before)
        peaks.append(most >> 20)
    store.delete_range(prefix, 0, 3000)
    assert store.get_many([page_key(prefix, 2999), page_key(prefix, 3000)]) == [None, page]
    print(*peaks)
"""
    first, *later = map(int, run(code, f"rocksdb://{tmp_path}").split())
    # 300 MB each time: 24 of them are what the engine has not written yet, and malloc keeps as much
    assert first < 64
    assert max(later) < first + 24


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


def test_an_error_of_any_call_of_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = rocksdict.Rdict, 0

    class Faulty:
        """Fails in its last call; what it has open goes with it."""

        def __init__(self, *arguments: Any, **options: Any) -> None:
            count()
            self._inner = real(*arguments, **options)

        def __getattr__(self, name: str) -> Any:
            def call(*arguments: Any, **options: Any) -> Any:
                count()
                return getattr(self._inner, name)(*arguments, **options)

            return call

    def count() -> None:
        nonlocal calls
        calls += 1
        if calls == fail_at:
            raise Exception("IO error: injected")

    monkeypatch.setattr(rocksdict, "Rdict", Faulty)
    url, fail_at, committed = f"rocksdb://{tmp_path}/data", 0, b""
    for fail_at in itertools.count(1):
        calls = 0
        store = open_store(url)
        try:
            root = store.read_root("root")
            assert root is None or root[0] >= committed
            store.put_many({"key": b"x"})
            committed = root[0] if root else b""
            store.swap_root("root", b"%04d" % fail_at, root[1] if root else None)
            committed = b"%04d" % fail_at
            store.delete_many(["other"])
            store.delete_range("range", 0, 9)
            assert list(store.list_keys("")) == ["key"]
            store.close()
            break
        except StoreError as error:
            if "injected" not in str(error):
                raise
        with suppress(StoreError):
            store.close()
    assert fail_at > 15
