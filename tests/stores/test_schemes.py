"""Stores of other packages: a small distribution with an entry point, installed into a directory."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from installed import FILE_STORE, ROOT, Installed

from stores import StoreConfigError, UnknownStore, open_store, store_class


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installed]:
    made = Installed(tmp_path / "packages")
    monkeypatch.syspath_prepend(made.directory)
    before = set(sys.modules)
    yield made
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(made.directory)):
            del sys.modules[name]


@pytest.fixture
def files(installed: Installed) -> Installed:
    installed.module("filestore", FILE_STORE)
    installed.distribution("file-store", "1.5", {"files": "filestore:FileStore"})
    return installed


WRITER = """
import sys
from mta import AmortizedMTA, monoids, policies
from stores import open_store
with open_store(sys.argv[1]) as store:
    window = AmortizedMTA(monoids.Sum(), policies.CountWindow(100), store=store, name="w", page_size=4)
    window.extend(range(1000))
    window.checkpoint(offset=1000)
    window.close()
"""


def test_a_store_opens_by_url_in_another_process_and_by_the_commands(
    files: Installed, tmp_path: Path
) -> None:
    url = f"files://{tmp_path}/data"
    done = files.run(WRITER, url)
    assert done.returncode == 0, done.stderr
    with open_store(url) as store:
        assert type(store).__module__ == "filestore"
        assert list(store.list_roots()) == ["w"]
    listed = files.process("-m", "mta", "ls", url, "--json")
    assert listed.returncode == 0, listed.stderr
    (window,) = json.loads(listed.stdout)
    assert (window["name"], window["offset"]) == ("w", 1000)
    verified = files.process("-m", "mta", "verify", url, "w")
    assert verified.returncode == 0, verified.stderr
    assert "nothing is wrong" in verified.stdout


def test_a_store_pickles_to_another_process(files: Installed, tmp_path: Path) -> None:
    with open_store(f"files://{tmp_path}/data") as store:
        store.put_many({"key": b"value"})
        code = f"import pickle; print(pickle.loads({pickle.dumps(store)!r}).get_many(['key']))"
    done = files.run(code)
    assert done.stdout.strip() == "[b'value']", done.stderr


def test_a_store_in_an_archive_opens(installed: Installed, tmp_path: Path) -> None:
    """As Spark sends packages to its workers."""
    installed.module("filestore", FILE_STORE)
    installed.distribution("file-store", "1.5", {"files": "filestore:FileStore"})
    archive = installed.archive(tmp_path / "packages.zip")
    elsewhere = Installed(tmp_path / "elsewhere")
    code = f"import sys; sys.path.append({str(archive)!r}); " + (
        f"from stores import open_store; print(open_store('files://{tmp_path}/data').get_many(['key']))"
    )
    done = elsewhere.run(code)
    assert done.stdout.strip() == "[None]", done.stderr


def test_schemes_of_any_case_are_found(files: Installed, tmp_path: Path) -> None:
    files.distribution("shouting", "1", {"LOUD": "filestore:FileStore"})
    for scheme in ("FILES", "loud", "Loud"):
        assert store_class(f"{scheme}://{tmp_path}").__name__ == "FileStore"


def test_an_unknown_scheme_tells_what_there_is_and_how_to_add_one(files: Installed) -> None:
    with pytest.raises(UnknownStore) as told:
        open_store("fils:///x")
    for part in ("'fils'", "rocksdb, redis", "files of the package file-store 1.5", "group mta.stores"):
        assert part in str(told.value)
    listed = files.process("-m", "mta", "ls", "fils:///x")
    assert listed.returncode == 2
    assert listed.stderr.startswith("mta: no store for the scheme 'fils'")


@pytest.mark.parametrize(
    ("module", "value", "reason"),
    [
        (
            "import no_such_package",
            "broken:FileStore",
            "ModuleNotFoundError: No module named 'no_such_package'",
        ),
        ("1 / 0", "broken:FileStore", "ZeroDivisionError"),
        ("def", "broken:FileStore", "SyntaxError"),
        ("", "broken:FileStore", "AttributeError"),
        ("", "nowhere:FileStore", "No module named 'nowhere'"),
        ("FileStore = dict", "broken:FileStore", "is not a subclass of stores.Store"),
        ("FileStore = 7", "broken:FileStore", "is not a subclass of stores.Store"),
        ("", "broken", "is not a subclass of stores.Store"),
    ],
)
def test_a_store_that_cannot_be_imported_says_whose_it_is(
    installed: Installed, module: str, value: str, reason: str
) -> None:
    installed.module("broken", module)
    installed.distribution("broken-store", "0.3", {"broken": value})
    with pytest.raises(StoreConfigError) as told:
        open_store("broken:///x")
    assert str(told.value).startswith(f"broken: the store {value} of the package broken-store 0.3 ")
    assert reason in str(told.value)
    listed = installed.process("-m", "mta", "ls", "broken:///x")
    assert listed.returncode == 2
    assert "broken-store 0.3" in listed.stderr
    assert "Traceback" not in listed.stderr


@pytest.mark.parametrize("points", [b"[mta.stores]\n\xff = x:y\n", b"[mta.stores]\nfoo\n"])
def test_entry_points_that_cannot_be_read(files: Installed, points: bytes) -> None:
    files.distribution("spoiled", "1", {})
    (files.directory / "spoiled-1.dist-info" / "entry_points.txt").write_bytes(points)
    assert open_store("memory:")
    with pytest.raises(StoreConfigError, match="the entry points of the installed package spoiled cannot be"):
        open_store("files:///x")
    listed = files.process("-m", "mta", "ls", "files:///x")
    assert listed.returncode == 2
    assert "spoiled" in listed.stderr
    assert "Traceback" not in listed.stderr


def test_two_packages_for_one_scheme(files: Installed) -> None:
    files.module("others", "from filestore import FileStore")
    files.distribution("others", "2.0", {"files": "others:FileStore"})
    with pytest.raises(StoreConfigError) as told:
        open_store("files:///x")
    assert "file-store 1.5" in str(told.value)
    assert "others 2.0" in str(told.value)


def test_the_schemes_of_this_project_stay_its_own(installed: Installed) -> None:
    installed.module("filestore", FILE_STORE)
    installed.distribution("greedy", "1", {"memory": "filestore:FileStore", "redis": "filestore:FileStore"})
    assert store_class("memory:").__name__ == "MemoryStore"
    assert store_class("redis://localhost").__name__ == "RedisStore"


def test_entry_points_of_other_groups_are_none_of_ours(installed: Installed) -> None:
    installed.module("filestore", FILE_STORE)
    installed.distribution("other", "1", {"files": "filestore:FileStore"}, group="others")
    with pytest.raises(UnknownStore):
        open_store("files:///x")


def test_a_package_without_metadata_hides_no_scheme(files: Installed, tmp_path: Path) -> None:
    bare = files.directory / "bare-1.0.dist-info"
    bare.mkdir()
    (bare / "entry_points.txt").write_text("[mta.stores]\nbare = filestore:FileStore\n")
    assert store_class(f"files://{tmp_path}").__name__ == "FileStore"
    assert store_class(f"bare://{tmp_path}").__name__ == "FileStore"
    with pytest.raises(UnknownStore, match="files of the package file-store"):
        open_store("fils:///x")


@pytest.mark.parametrize(
    "url", ["memory:", "rocksdb:///x", "redis://h", "valkeys+cluster://h", "couchbase://h"]
)
def test_a_tree_that_is_not_installed_opens_its_own(url: str, tmp_path: Path) -> None:
    """Without the metadata of this project on the path, as in a plain checkout."""
    code = (
        "import sys, importlib.metadata as found; sys.path.insert(0, sys.argv[1]);"
        "found.distributions = found.entry_points = None;"
        "from stores import open_store; print(type(open_store(sys.argv[2])).__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(ROOT), url],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.stdout.strip().endswith("Store"), done.stderr


def test_what_classes_say() -> None:
    said = {
        url: (kind.local, kind.shared_across_hosts, kind.exclusive, kind.credentials)
        for url in ("memory:x", "rocksdb:///x", "redis://h", "valkey+sentinel://h/s", "couchbases://h")
        for kind in (store_class(url),)
    }
    assert said == {
        "memory:x": (True, False, False, ""),
        "rocksdb:///x": (False, False, True, ""),
        "redis://h": (False, True, False, "REDIS"),
        "valkey+sentinel://h/s": (False, True, False, "VALKEY"),
        "couchbases://h": (False, True, False, "COUCHBASE"),
    }
