"""A standalone Spark cluster of real processes: a master, two workers on hosts of their own, and a driver."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pyspark
import servers

from spark_integration.running.storage import PREFIX

#: A second attempt of a task that goes on is made on another host only.
HOSTS = ("127.0.0.1", "127.0.0.2")

HOME = Path(pyspark.__file__).parent

#: Quick to start, as no process lives for long.
JAVA_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"

SETTINGS = {
    "spark.driver.host": HOSTS[0],
    "spark.driver.bindAddress": HOSTS[0],
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": JAVA_OPTIONS,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
    # a task for each executor, at once
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.locality.wait": "0",
    # executors that are gone are not waited for
    "spark.shuffle.io.maxRetries": "1",
    "spark.shuffle.io.retryWait": "200ms",
    # compiling takes longer than so few rows
    "spark.sql.codegen.wholeStage": "false",
    # many chunks of rows
    "spark.sql.execution.arrow.maxRecordsPerBatch": "2000",
    # a second attempt at once, in jobs that ask for it
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.quantile": "1.0",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "10ms",
}

T = TypeVar("T")


def wait_until(condition: Callable[[], T | None], what: str, seconds: float = 1200) -> T:
    """What the condition returns, once that is true."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds} seconds")
        time.sleep(0.02)
    return found


def has_ended(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


class Process:
    """A process that logs into a file. It ends with this one, however that ends."""

    def __init__(self, arguments: list[str], log: Path, **environment: str) -> None:
        conf = log.with_suffix(".conf")
        conf.mkdir()
        settings = {
            "SPARK_HOME": str(HOME),
            "SPARK_CONF_DIR": str(conf),  # empty: this machine's own settings do not count
            "SPARK_LAUNCHER_OPTS": JAVA_OPTIONS,
            "SPARK_DAEMON_MEMORY": "128m",
            "SPARK_DAEMON_JAVA_OPTS": f"{JAVA_OPTIONS} -Dspark.master.rest.enabled=false",
            "PYSPARK_PYTHON": sys.executable,
        }
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))
        }
        self._log = log
        tied = ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []
        with log.open("wb") as output:
            self._popen = subprocess.Popen(
                [*tied, *arguments],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=inherited | settings | environment,
            )
        self.pid = self._popen.pid

    def send(self, line: str) -> None:
        assert self._popen.stdin is not None
        with suppress(BrokenPipeError):  # whoever waits for an answer sees that the process ended
            self._popen.stdin.write(line.encode() + b"\n")
            self._popen.stdin.flush()

    def logs(self, pattern: str) -> re.Match[str]:
        """Waits until something is in the log."""
        return self.until(lambda: re.search(pattern, self._log.read_text(errors="replace")), pattern)

    def until(self, condition: Callable[[], T | None], what: str) -> T:
        """Waits for a condition, as long as the process lives; an error shows what it logged."""

        def holds() -> T | None:
            ended = self._popen.poll()
            found = condition()
            if not found and ended is not None:
                raise RuntimeError(f"{what}: the process ended with status {ended}")
            return found

        try:
            return wait_until(holds, what)
        except (RuntimeError, TimeoutError) as error:
            raise RuntimeError(f"{error}\n{self._log.read_text(errors='replace')[-8000:]}") from None

    def offspring(self) -> list[psutil.Process]:
        with suppress(psutil.NoSuchProcess):
            return list(psutil.Process(self.pid).children(recursive=True))
        return []

    def kill(self) -> None:
        """Ends the process at once, and all that it started."""
        offspring = self.offspring()
        self._popen.kill()
        self._end(offspring)

    def stop(self, gently: Callable[[], None] | None = None) -> None:
        offspring = self.offspring()
        (gently or self._popen.terminate)()
        with suppress(subprocess.TimeoutExpired):
            self._popen.wait(20)
        psutil.wait_procs(offspring, timeout=5)
        self._popen.kill()
        self._end(offspring)

    def _end(self, offspring: list[psutil.Process]) -> None:
        for process in offspring:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._popen.wait()
        self.close_input()

    def close_input(self) -> None:
        assert self._popen.stdin is not None
        with suppress(BrokenPipeError):
            self._popen.stdin.close()


class Cluster:
    """A master, and two workers of one core."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._stack = ExitStack()
        self._workers: list[Process] = []
        self.url = ""

    def start(self) -> None:
        master = self._daemon("master.Master", HOSTS[0])
        self.url = master.logs(r"Starting Spark master at (spark://\S+)\n")[1]
        for host in HOSTS:
            size = ["--cores", "1", "--memory", "1g", "--work-dir", str(self._of(host) / "work")]
            self._workers.append(self._daemon("worker.Worker", host, *size, self.url))

    def wait_for_workers(self) -> None:
        """A driver may start meanwhile."""
        for worker in self._workers:
            worker.logs("Successfully registered with master")

    def _daemon(self, name: str, host: str, *arguments: str) -> Process:
        local = self._of(host) / "local"
        local.mkdir(parents=True, exist_ok=True)
        process = Process(
            [
                f"{HOME}/bin/spark-class",
                f"org.apache.spark.deploy.{name}",
                *("--host", host, "--port", "0", "--webui-port", "0"),
                *arguments,
            ],
            self._of(host) / f"{name}.log",
            SPARK_LOCAL_IP=host,
            SPARK_LOCAL_DIRS=str(local),
        )
        self._stack.callback(process.stop)
        return process

    def _of(self, host: str) -> Path:
        return self._directory / host

    def stop(self) -> None:
        self._stack.close()

    def embedded(self, pid: int | str = "*") -> list[Path]:
        """The directories of embedded stores on all hosts, and files of rows; or those of one process."""
        found: list[Path] = []
        for host in HOSTS:
            for directory, _, _ in os.walk(self._of(host) / "local"):  # directories may go meanwhile
                found += Path(directory).glob(f"{PREFIX}-*-{pid}-*")
        return found


@contextmanager
def spark_cluster(directory: Path) -> Iterator[Cluster]:
    if (reason := _why_not()) is not None:
        servers.unreachable(f"no Spark cluster: {reason}")
    cluster = Cluster(directory)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def _why_not() -> str | None:
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java", path=f"{home}/bin" if home else None) is None:
        return "no java: install Java 17 or newer, or set JAVA_HOME"
    for host in HOSTS:
        with socket.socket() as probe:
            try:
                probe.bind((host, 0))
            except OSError as error:
                return f"no address {host}: {error}"
    return None


# -- jobs -------------------------------------------------------------------------------------------------


class Driver:
    """An application, which runs one job after another."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self._directory = directory
        self._jobs = 0
        settings = SETTINGS | {"spark.master": cluster.url, "spark.eventLog.dir": str(directory)}
        script = Path(__file__).with_name("cluster_job.py")
        self.process = Process(
            [sys.executable, str(script), json.dumps(settings)],
            directory / "driver.log",
            SPARK_LOCAL_IP=HOSTS[0],
            SPARK_LOCAL_DIRS=str(directory),
        )

    def submit(self, **job: Any) -> Job:
        for earlier in self._directory.glob("job-*"):
            (earlier / "open-all").touch()  # lest it waits for a test that failed
        self._jobs += 1
        directory = self._directory / f"job-{self._jobs}"
        directory.mkdir()
        self.process.send(json.dumps(job | {"directory": str(directory)}))
        return Job(self, directory)

    def events(self) -> list[dict[str, Any]]:
        """Spark's event log, as far as it was written."""
        log = next(self._directory.glob("app-*"))
        lines = log.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    @property
    def application(self) -> str:
        name: str = next(event["App ID"] for event in self.events() if "App ID" in event)
        return name

    def stop(self) -> None:
        self.process.stop(self.process.close_input)


class Job:
    """A job with gates: rows where each attempt waits until it is let on."""

    def __init__(self, driver: Driver, directory: Path) -> None:
        self._driver, self._directory = driver, directory

    def waiting(self, gate: int, attempt: int = 0) -> Attempt:
        """The attempt of this number, once it is at the gate."""
        path = self._directory / f"at-{gate}-{attempt}"
        self._driver.process.until(path.exists, f"attempt {attempt} at row {gate}")
        return Attempt(**json.loads(path.read_text()))

    def open(self, gate: int, attempt: int | None = None) -> None:
        """Lets on those who wait and those who are to come, or only the attempts of one number."""
        (self._directory / (f"open-{gate}" if attempt is None else f"open-{gate}-{attempt}")).touch()

    def answer(self) -> dict[str, Any]:
        """What came of it: the path of the rows, or an error that the driver found."""
        path = self._directory / "answer.json"
        self._driver.process.until(path.exists, "the end of the job")
        answer: dict[str, Any] = json.loads(path.read_text())
        return answer


class Attempt:
    """An attempt of a task that has come to a gate."""

    def __init__(self, pid: int, task: int, window: str) -> None:
        self.pid, self.task, self.window = pid, task, window
        self.worker = psutil.Process(pid)
        self.executor = next(
            process
            for process in self.worker.parents()
            if any("CoarseGrainedExecutorBackend" in argument for argument in process.cmdline())
        )
