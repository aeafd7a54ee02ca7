from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# For `rolled` and `frame_reference`, which the tests of this directory share.
sys.path.append(str(Path(__file__).parent))

pytest.importorskip("pyspark")


@pytest.fixture(scope="session")
def local_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Spark keeps its files, and the embedded store its windows."""
    return tmp_path_factory.mktemp("spark-local")


@pytest.fixture(scope="session")
def spark(local_directory: Path) -> Iterator[SparkSession]:
    """Two task slots, two tries a task, and a small heap; the Python workers are processes of their own."""
    import warnings

    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = (
            SparkSession.builder.master("local[2, 2]")
            .appName("tests")
            .config("spark.driver.memory", "2g")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.local.dir", str(local_directory))
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.shuffle.partitions", "3")
            .getOrCreate()
        )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
