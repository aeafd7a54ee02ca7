"""The demo from its beginning to its end."""

from __future__ import annotations

import importlib.util
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from rich.console import Console

from mta.cli.errors import CommandFailed
from mta.durability.operations import remove
from mta.lab.demo.data import PARTITIONS, SENSORS, Stream
from mta.lab.demo.expected import expected
from mta.lab.demo.figure import save_figure
from mta.lab.demo.job import Job, fresh_worker, sensors_of_partitions
from mta.lab.demo.listener import TaskRows
from mta.lab.demo.progress import progress
from mta.lab.demo.report import Findings, introduction, summary
from mta.lab.demo.sampler import Sampler
from mta.lab.demo.session import SparkFailed, session
from mta.lab.demo.terminal_plot import terminal_plot
from mta.lab.signals import terminable
from spark_integration.call.stores import check_store
from spark_integration.errors import StoreNotUsable
from spark_integration.running.storage import embedded_in
from stores import StoreError, open_store

#: The part of the stream, in percent, that a window spans.
SPAN = 80
#: Bytes that Spark and the store need on disk for a row.
DISK = 150
#: Seconds between two looks at the job.
GLANCE = 0.25


def run(rows: int, url: str | None, memory: int, picture: Path, console: Console | None = None) -> None:
    """Runs the job under a limit of so many MiB, shows what it took, and checks its results."""
    console = console or Console(highlight=False)
    store = _checked(url or "rocksdb")
    _check_picture(picture)
    stream = Stream(rows, max(1, rows * SPAN // 100))
    picture.parent.mkdir(parents=True, exist_ok=True)
    introduction(console, stream, store, memory)
    with terminable(), tempfile.TemporaryDirectory(prefix="mta-demo-", ignore_cleanup_errors=True) as name:
        _check_disk(Path(name), rows)
        with _log(picture.with_suffix(".log")) as log:
            findings, job = _measured(console, Path(name), log, stream, store, memory)
    with _waiting(console, "checking the results in NumPy"):
        wanted = expected(stream)
    findings.settle(wanted)
    seconds, resident, window = findings.curves()
    limit = findings.worker.limit / 1e6
    console.print(terminal_plot(seconds, resident, window, limit, min(console.width, 100)))
    if importlib.util.find_spec("matplotlib") is None:
        findings.picture = "none without matplotlib: pip install 'mta-windows[demo]'"
    else:
        title = f"{rows:,} rows of {SENSORS:,} sensors; windows in {findings.store_name}"
        save_figure(picture, seconds, resident, window, limit, title)
        findings.picture = str(picture)
    mistakes = job.mistakes(wanted)
    console.print()
    console.print(summary(findings, mistakes), markup=False, soft_wrap=True)
    if mistakes:
        raise CommandFailed(f"{len(mistakes)} results are wrong, the first: {mistakes[0]}")


def _measured(
    console: Console, directory: Path, log: IO[bytes], stream: Stream, store: str, memory: int
) -> tuple[Findings, Job]:
    """What the job did; Spark has ended then."""
    with (
        _tidy(store) as tidy,
        _waiting(console, "starting Spark") as waiting,
        session(directory, log, memory) as running,
    ):
        spark = running.spark
        tidy.append(f"spark/{spark.sparkContext.applicationId}/")
        worker = fresh_worker(spark, stream.expected_window_bytes)
        sensors = sensors_of_partitions(spark, SENSORS, PARTITIONS)
        rows, job = TaskRows(spark), Job(spark, stream, store)
        sampler = Sampler(running.processes, rows.running)
        waiting.stop()
        with rows.listening(), sampler.running(), progress(console, stream.rows) as show:
            job.start()
            while not job.done_within(GLANCE):
                show(rows.shuffled, rows.out, sampler.resident)
            if job.error is not None:
                raise job.error
            show(stream.rows, stream.rows, sampler.resident)
        return Findings(stream, store, worker, sensors, job.summary, job.seconds, sampler), job


# -- around it --------------------------------------------------------------------------------------------


def _checked(url: str) -> str:
    """The store's URL, if it can be used; nothing has been started yet."""
    try:
        return check_store(url, {}, several_processes=False, reachable=True)
    except StoreNotUsable as error:
        raise CommandFailed(str(error)) from error


def _check_picture(picture: Path) -> None:
    """Refuses what matplotlib could not write after the job."""
    if importlib.util.find_spec("matplotlib") is None:
        return
    from matplotlib.backend_bases import FigureCanvasBase

    if picture.suffix.removeprefix(".").lower() not in FigureCanvasBase.get_supported_filetypes():
        raise CommandFailed(f"--picture {picture}: give it a name that ends in .png, .svg or .pdf")


def _check_disk(directory: Path, rows: int) -> None:
    free, needed = shutil.disk_usage(directory).free, rows * DISK
    if free < needed:
        raise CommandFailed(
            f"{directory.parent} has {free / 1e9:.1f} GB free, and {rows:,} rows need about "
            f"{needed / 1e9:.1f} GB: name another directory with TMPDIR, or give fewer --rows"
        )


@contextmanager
def _waiting(console: Console, text: str) -> Iterator[Any]:
    """A word on a terminal that something is under way, until the end or its `stop`."""
    status = console.status(text)
    if console.is_terminal:
        status.start()
    try:
        yield status
    finally:
        status.stop()


@contextmanager
def _log(path: Path) -> Iterator[IO[bytes]]:
    """A file for what Spark says, which stays if something fails."""
    try:
        with path.open("wb") as log:
            yield log
    except SparkFailed as error:
        raise CommandFailed(f"{_reason(str(error))}; what Spark said is in {path}") from error
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    path.unlink(missing_ok=True)


def _reason(words: str) -> str:
    """The line of Spark's words that says what happened."""
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    causes = [line for line in lines if re.match(r"[A-Za-z_.]*(Error|Unavailable|StoreFull): ", line)]
    if re.search(r"MemoryError|failed to map segment|exited unexpectedly \(crashed\)", words):
        return "a Python worker found no memory below its limit, of which --memory gives it more"
    if causes:
        return f"the job failed: {causes[-1]}"
    return f"Spark failed: {lines[0] if lines else 'without a word'}"


@contextmanager
def _tidy(store: str) -> Iterator[list[str]]:
    """Windows whose names begin so are removed if something fails: killed workers leave them on a server."""
    prefixes: list[str] = []
    try:
        yield prefixes
    except BaseException:
        if embedded_in(store) is None:
            with suppress(StoreError), open_store(store, max_tries=1) as opened:
                for name in [name for prefix in prefixes for name in opened.list_roots(prefix)]:
                    remove(opened, name)
        raise
