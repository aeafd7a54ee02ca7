"""How far the tasks of a job are: from the counts that they send to the driver with every heartbeat."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: What Spark calls the rows that a task has written for the shuffle, and those that it has brought out.
SHUFFLED, OUT = "shuffle records written", "number of output rows"


class TaskRows:
    """A listener of Spark's for a job of two stages: one that shuffles rows, and one with the windows."""

    class Java:
        implements = ("org.apache.spark.scheduler.SparkListenerInterface",)

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark._jvm
        self._as_json = jvm.org.apache.spark.util.JsonProtocol.sparkEventToJsonString
        self._context: Any = spark.sparkContext._jsc.sc()
        self._lock = threading.Lock()
        #: of each task its stage and partition
        self._places: dict[int, tuple[int, int]] = {}
        self._shuffled: dict[int, int] = {}
        self._out: dict[int, int] = {}
        self._ended: set[int] = set()

    @contextmanager
    def listening(self) -> Iterator[None]:
        from pyspark import SparkContext
        from pyspark.java_gateway import ensure_callback_server_started

        ensure_callback_server_started(SparkContext._gateway)  # type: ignore[no-untyped-call]
        self._context.addSparkListener(self)
        try:
            yield
        finally:
            self._context.removeSparkListener(self)

    @property
    def shuffled(self) -> int:
        with self._lock:
            return sum(self._shuffled.values())

    @property
    def out(self) -> int:
        with self._lock:
            return sum(rows for task, rows in self._out.items() if self._with_windows(task))

    def running(self) -> dict[int, int]:
        """Rows out of each task with windows that has not ended, by its partition."""
        with self._lock:
            return {
                self._places[task][1]: rows
                for task, rows in self._out.items()
                if task not in self._ended and self._with_windows(task)
            }

    def _with_windows(self, task: int) -> bool:
        return task in self._places and self._places[task][0] > min(
            stage for stage, _ in self._places.values()
        )

    # -- what Spark calls ---------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("on"):
            return lambda *_: None  # of the many events, those below are enough
        raise AttributeError(name)

    def onTaskStart(self, event: Any) -> None:  # noqa: N802
        self._note(json.loads(self._as_json(event)))

    def onTaskEnd(self, event: Any) -> None:  # noqa: N802
        found = json.loads(self._as_json(event))
        self._note(found)
        task = found["Task Info"]["Task ID"]
        self._count(task, found["Task Info"]["Accumulables"])
        with self._lock:
            self._ended.add(task)

    def onExecutorMetricsUpdate(self, event: Any) -> None:  # noqa: N802
        for update in json.loads(self._as_json(event))["Metrics Updated"]:
            self._count(update["Task ID"], update["Accumulator Updates"])

    def _note(self, event: dict[str, Any]) -> None:
        info = event["Task Info"]
        with self._lock:
            self._places[info["Task ID"]] = event["Stage ID"], info["Index"]

    def _count(self, task: int, counts: list[dict[str, Any]]) -> None:
        with self._lock:
            for each in counts:
                rows = int(each["Update"]) if each.get("Name") in (SHUFFLED, OUT) else 0
                if rows:
                    # several operators of a stage count what they bring out; the windows pass on every row
                    known = self._shuffled if each["Name"] == SHUFFLED else self._out
                    known[task] = max(known.get(task, 0), rows)
