"""What a worker fails with, in one line, and the message before any stack."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import TaskContext

from mta.errors import WindowError
from spark_integration.errors import DataError, RollingError, TaskStoreError
from spark_integration.running.storage import EMBEDDED
from stores import StoreError, store_class

#: Where Spark looks for whether to leave the stack of a worker's error out.
_HIDE = "SPARK_HIDE_TRACEBACK"

#: What is said of a password that is missing or wrong.
_REFUSED = re.compile(r"user or password|authenticat|noauth|wrongpass", re.IGNORECASE)


@contextmanager
def said_in_one_line(url: str) -> Iterator[None]:
    """In a worker: errors of data, stores and windows reach the driver without a stack before them."""
    try:
        yield
    except StoreError as error:
        _hide_stack()
        raise TaskStoreError(_with_what_to_set(url, error)) from error
    except (DataError, RollingError, WindowError, MemoryError):
        _hide_stack()
        raise


def _hide_stack() -> None:
    """By Spark's own switch; the worker ends with the error, so nobody else's is hidden."""
    if TaskContext.get() is not None:
        os.environ[_HIDE] = "1"


def _with_what_to_set(url: str, error: StoreError) -> str:
    server = "" if url == EMBEDDED else store_class(url).credentials
    if not (server and _REFUSED.search(str(error))):
        return str(error)
    there = "another" if os.environ.get(f"{server}_PASSWORD") else "no"
    return (
        f"the environment of this executor has {there} {server}_PASSWORD: set "
        f"spark.executorEnv.{server}_PASSWORD (and {server}_USERNAME, if there are users): {error}"
    )
