"""One directory has one open database, whatever its paths, for as long as it stays in its place."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stores import Store, StoreError, open_store


def opened(path: Path) -> Store:
    return open_store(f"rocksdb://{path}")


#: Runs its last arguments where the second path leads to the directory of the first, for them alone.
MOUNTED = 'mount --bind "$0" "$1" || exit 77; shift; exec "$@"'


def run(code: str, kind: str, place: Path, other: Path) -> str:
    """What a process prints that has two paths of one directory, which cannot be told apart by their text."""
    place.mkdir()
    command = [sys.executable, "-c", code, str(place), str(other)]
    if kind == "mount":
        other.mkdir()
        if not shutil.which("unshare"):
            pytest.skip("no program to mount with")
        command = ["unshare", "-m", "sh", "-c", MOUNTED, str(place), str(other), *command]
    else:
        other.symlink_to(place)
        command[2] = "import os\nos.path.realpath = os.path.abspath\n" + code
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if kind == "mount" and ("unshare" in done.stderr or done.returncode == 77):
        pytest.skip("this user cannot mount")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


SHARED = """
import subprocess, sys
from stores import Conflict, open_store

IS_FREE = '''
import fcntl, sys
try:
    fcntl.lockf(open(sys.argv[1] + "/LOCK", "r+b"), fcntl.LOCK_EX | fcntl.LOCK_NB)
    print("free")
except BlockingIOError:
    print("locked")
'''

def lock():
    return subprocess.check_output([sys.executable, "-c", IS_FREE, sys.argv[2]], text=True).strip()

one, other = (open_store(f"rocksdb://{path}") for path in sys.argv[1:])
token = one.swap_root("root", b"one", None)
assert other.read_root("root") == (b"one", token)
try:
    other.swap_root("root", b"other", None)
    raise AssertionError
except Conflict:
    pass
for number in range(40):
    one.put_many({f"one{number}": bytes(1 << 14)})
    other.put_many({f"other{number}": bytes(1 << 14)})
    token = (one, other)[number % 2].swap_root("root", b"%d" % number, token)
other.close()
assert lock() == "locked"
one.put_many({"last": b"x"})
one.close()
assert lock() == "free"
for path in sys.argv[1:]:
    with open_store(f"rocksdb://{path}") as store:
        assert store.read_root("root") == (b"39", token)
        assert len(list(store.list_keys(""))) == 81
print("shared")
"""

FORKED = """
import os, sys
from stores import StoreUnavailable, open_store

one, other = (open_store(f"rocksdb://{path}") for path in sys.argv[1:])
one.put_many({"key": b"x"})
child = os.fork()
if not child:
    try:
        other.get_many(["key"])
    except StoreUnavailable as error:
        print(error)
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.parametrize("kind", ["link", "mount"])
def test_two_paths_of_one_directory_share_its_database(kind: str, tmp_path: Path) -> None:
    assert run(SHARED, kind, tmp_path / "place", tmp_path / "other") == "shared"


@pytest.mark.parametrize("kind", ["link", "mount"])
def test_a_child_is_told_whichever_path_it_takes(kind: str, tmp_path: Path) -> None:
    assert "before a fork" in run(FORKED, kind, tmp_path / "place", tmp_path / "other")


def remove(place: Path) -> None:
    shutil.rmtree(place)


def make_anew(place: Path) -> None:
    shutil.rmtree(place)
    place.mkdir()


def replace(place: Path) -> None:
    place.rename(place.with_name("moved"))
    shutil.copytree(place.with_name("moved"), place)


def rename(place: Path) -> None:
    place.rename(place.with_name("moved"))


def unlock(place: Path) -> None:
    """Another process could lock a new file of this name."""
    (place / "LOCK").unlink()


ROOT = """
import sys
from stores import open_store
with open_store(f"rocksdb://{sys.argv[1]}") as store:
    found = store.read_root("root")
    print(found and found[0].decode())
    store.swap_root("root", b"again", found and found[1])
"""


@pytest.mark.parametrize("change", [remove, make_anew, replace, rename, unlock])
def test_a_database_that_is_not_in_its_place_writes_nothing(
    change: Callable[[Path], None], tmp_path: Path
) -> None:
    place = tmp_path / "place"
    store = opened(place)
    store.put_many({"key": b"x"})
    token = store.swap_root("root", b"before", None)
    store.put_many({"other": b"x"})
    change(place)
    files = sorted(tmp_path.rglob("*"))
    calls: list[Callable[[], object]] = [
        lambda: store.swap_root("root", b"after", token),
        lambda: store.delete_root("root", token),
        lambda: store.put_many({"key": b"x"}),
        lambda: store.delete_many(["key"]),
        lambda: store.delete_range("key", 0, 9),
        lambda: opened(place).read_root("root"),
    ]
    if change is rename:
        calls.append(lambda: opened(place.with_name("moved")).read_root("root"))
    for call in calls:
        with pytest.raises(StoreError, match=r"was removed, renamed or replaced.*start this process again"):
            call()
    store.close()
    with pytest.raises(StoreError, match="was removed, renamed or replaced"):
        opened(place).read_root("root")
    assert sorted(tmp_path.rglob("*")) == files
    kept = place.with_name("moved") if change is rename else place
    done = subprocess.run([sys.executable, "-c", ROOT, kept], capture_output=True, text=True, check=False)
    if change is rename:  # it has the lock of this process still
        assert "moved is open in another process" in done.stderr
    else:
        assert (done.stdout.strip(), done.stderr) == ("before" if change in (replace, unlock) else "None", "")


def test_a_database_that_is_put_back_goes_on(tmp_path: Path) -> None:
    place = tmp_path / "place"
    with opened(place) as store:
        token = store.swap_root("root", b"before", None)
        rename(place)
        with pytest.raises(StoreError, match="was removed, renamed or replaced"):
            store.put_many({"key": b"x"})
    place.with_name("moved").rename(place)
    with opened(place) as store:
        assert store.read_root("root") == (b"before", token)
        store.put_many({"key": b"x"})
    with opened(place) as store:
        assert store.get_many(["key"]) == [b"x"]
