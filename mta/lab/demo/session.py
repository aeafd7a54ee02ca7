"""A Spark of the demo's own: small, quiet, with a limit on its Python workers, and gone without a trace."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from mta.lab.demo.data import PARTITIONS
from mta.lab.processes import end_all
from mta.lab.signals import interrupted_later, not_interrupted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Seconds that Spark has for each step of its end.
PATIENCE = 5.0
HEAP = "1g"


class SparkFailed(Exception):
    """What Spark said when it did not start, or did not do what it was asked."""


class Running(NamedTuple):
    spark: SparkSession
    #: the session of the operating system's that all processes of this Spark are in
    processes: int


@contextmanager
def session(directory: Path, log: IO[bytes], memory: int) -> Iterator[Running]:
    """Spark with its files in a directory, its words in a log, and so many MiB for a Python worker."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    # it has a word on every Ctrl-C, and another under the name of the root
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_not_of_py4j)
    conf = SparkConf().setAll(list(_settings(directory, memory).items()))
    gateway: Any = None
    try:
        with interrupted_later():
            # Ctrl-C while compiled modules are imported is lost; Spark would import these when first called
            import pandas  # noqa: F401

            # in a session of its own, Ctrl-C reaches only the driver, which then stops the others
            gateway = launch_gateway(  # type: ignore[no-untyped-call]
                conf, {"stdout": log, "stderr": log, "start_new_session": True}
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Spark about its pandas
            yield Running(SparkSession(SparkContext(conf=conf, gateway=gateway)), gateway.proc.pid)
    except (PySparkException, Py4JError) as error:
        # its words may have to be fetched from Java, so while there is one
        raise SparkFailed(str(error)) from error
    finally:
        if gateway is not None:
            with not_interrupted():
                _end(gateway)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """What py4j logs it raises too. Ctrl-C in the midst of a call to Java is one of several errors to it."""
    return "py4j" not in Path(record.pathname).parts


def _settings(directory: Path, memory: int) -> dict[str, str]:
    cores = max(2, min(PARTITIONS, os.cpu_count() or 1))
    return {
        "spark.master": f"local[{cores}]",
        "spark.app.name": "mta demo",
        "spark.driver.memory": HEAP,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": str(directory),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.executor.pyspark.memory": f"{memory}m",
        # these reserve address space that they do not use, and the limit is one on address space
        "spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL": "system",
        "spark.executorEnv.MALLOC_ARENA_MAX": "1",
        "spark.executorEnv.OPENBLAS_NUM_THREADS": "1",
        # few partitions, of which the driver knows what is in them
        "spark.sql.shuffle.partitions": str(PARTITIONS),
        "spark.sql.adaptive.enabled": "false",
        "spark.executor.heartbeatInterval": "1s",
    }


def _end(gateway: Any) -> None:
    """Stops Spark, or kills it where that takes too long; returns when its processes are gone."""
    from pyspark import SparkContext

    java: subprocess.Popen[bytes] = gateway.proc
    _within(PATIENCE, _stop)
    _within(PATIENCE, gateway.shutdown)
    with suppress(OSError):
        assert java.stdin is not None
        java.stdin.close()
    try:
        java.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        java.kill()
        java.wait()
    end_all(java.pid, PATIENCE)
    # so that another session can be had in this process
    SparkContext._gateway = SparkContext._jvm = None


def _stop() -> None:
    from pyspark import SparkContext

    if SparkContext._active_spark_context is not None:
        SparkContext._active_spark_context.stop()


def _within(seconds: float, work: Callable[[], Any]) -> None:
    def quietly() -> None:
        with suppress(Exception):
            work()

    thread = threading.Thread(target=quietly, daemon=True)
    thread.start()
    thread.join(seconds)
