"""A store of another package, in the workers of Spark: they get the package as an archive."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from installed import FILE_STORE, Installed

from mta import monoids
from spark_integration import rolling
from spark_integration.call.stores import check_store
from spark_integration.running.storage import embedded_at, embedded_in
from stores import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The same store for one process at a time, which leaves a file beside what it is given.
OWN = """
from filestore import FileStore


class OwnStore(FileStore):
    exclusive = True

    def __init__(self, url, **options):
        super().__init__(url, **options)
        with (self._pages.parent.parent / "opened").open("a") as file:
            file.write(f"{url}\\n")
"""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("installed")
    packages = Installed(directory / "packages")
    packages.module("filestore", FILE_STORE)
    packages.module("ownstore", OWN)
    packages.distribution("file-store", "1.5", {"files": "filestore:FileStore", "own": "ownstore:OwnStore"})
    path = packages.archive(directory / "packages.zip")
    before = list(sys.path)
    sys.path.append(str(path))
    yield path
    sys.path[:] = before
    for name in ("filestore", "ownstore"):
        sys.modules.pop(name, None)


def _sums(spark: SparkSession, store: str) -> list[tuple[int, int]]:
    rows = [(key, number, number * number) for key in (1, 2, 3) for number in range(200)]
    frame = spark.createDataFrame(rows, "k long, n long, x long")
    found = rolling(
        frame, partition_by="k", order_by="n", rows=50, aggregates={"s": monoids.Sum("x")},
        store=store, page_size=4,
    )  # fmt: skip
    return sorted((row["k"], row["s"]) for row in found.collect())


WANTED = sorted(
    (key, sum(each * each for each in range(max(0, number - 49), number + 1)))
    for key in (1, 2, 3)
    for number in range(200)
)


def test_a_store_that_many_processes_share(spark: SparkSession, archive: Path, tmp_path: Path) -> None:
    spark.sparkContext.addPyFile(str(archive))
    assert _sums(spark, f"files://{tmp_path}/data") == WANTED
    assert (tmp_path / "data" / "pages").is_dir()
    with open_store(f"files://{tmp_path}/data") as store:
        assert not list(store.list_keys(""))
        assert not list(store.list_roots())


def test_a_store_of_one_process_gets_a_directory_a_task(
    spark: SparkSession, archive: Path, tmp_path: Path
) -> None:
    spark.sparkContext.addPyFile(str(archive))
    spark.conf.set("spark.sql.adaptive.enabled", "false")  # or else few rows are one task
    try:
        assert _sums(spark, f"own://{tmp_path}") == WANTED
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")
    opened = set((tmp_path / "opened").read_text().split())
    assert len(opened) >= 2
    assert all(url.startswith(f"own://{tmp_path}/mta-rolling-") for url in opened)
    assert not list(tmp_path.glob("mta-rolling-*"))


@pytest.mark.parametrize(
    ("url", "directory", "at"),
    [
        ("rocksdb", Path(), "rocksdb:///x%20y"),
        ("rocksdb:///mnt/a%20disk", Path("/mnt/a disk"), "rocksdb:///x%20y"),
        ("rocksdb:///mnt?patience=5", Path("/mnt"), "rocksdb:///x%20y?patience=5"),
        ("own:///mnt", Path("/mnt"), "own:///x%20y"),
        ("files:///mnt", None, None),
        ("redis://host", None, None),
        ("memory:x", None, None),
    ],
)
@pytest.mark.usefixtures("archive")
def test_directories_of_tasks(url: str, directory: Path | None, at: str | None) -> None:
    assert embedded_in(url) == directory
    if at is not None:
        assert embedded_at(url, Path("/x y")) == at


@pytest.mark.usefixtures("archive")
def test_what_a_job_may_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def check(url: str) -> str:
        return check_store(url, {}, several_processes=True, reachable=True)

    assert check(f"own://{tmp_path}") == f"own://{tmp_path}"
    with pytest.raises(ValueError, match="as in own:///mnt/disk"):
        check("own:data")
