"""The `mta` command. A subcommand imports what it needs when it runs, so that help is quick."""

from __future__ import annotations

import argparse
import importlib.util
import io
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from mta.commands import add as operator_commands
from mta.untrusted import printable

#: Exit codes: a mistake of the user's or of what was named, and Ctrl-C.
MISTAKE, INTERRUPTED = 2, 130
SECTIONS = ("slide", "push", "eviction", "memory")
SPARK_JOBS = (
    *("rolling-rocksdb", "rolling-redis", "rolling-daba"),
    *("pandas", "spark-window", "spark-segment-tree"),
)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line; `--help` has the rest."""
        self.exit(MISTAKE, f"{self.prog}: {printable(message)} (see {self.prog} --help)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    _open_streams()
    try:
        code = _run(arguments)
    finally:
        error = _end_output()
    if error is None or isinstance(error, BrokenPipeError):
        return code or int(error is not None)
    return _fail(f"the output could not be written: {error}", MISTAKE)


def _run(arguments: Sequence[str] | None) -> int:
    options = _parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], int | None] = options.run
    try:
        return run(options) or 0
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:
        return 1  # the reader of our output went away
    except _mistakes() as error:
        if os.environ.get("MTA_TRACEBACK"):
            raise
        return _fail(str(error), MISTAKE)


def _open_streams() -> None:
    """Whatever the caller has closed, what is printed goes nowhere else, and every text can be printed."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # or else a file of a store would get this number
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _end_output() -> OSError | None:
    """Writes what is left of the output; why that was not possible, if so."""
    try:
        sys.stdout.flush()
    except OSError as error:
        # Python would complain once more at its exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return error
    return None


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="mta", description="Sliding-window aggregation for windows bigger than the machine."
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_demo(commands)
    operator_commands(commands, _count)
    bench = commands.add_parser("bench", help="measure, side by side with others")
    benchmarks = bench.add_subparsers(title="benchmarks", metavar="BENCHMARK", required=True)
    _add_engine(benchmarks)
    _add_durability(benchmarks)
    _add_spark(benchmarks)
    _add_stream(benchmarks)
    experiment = commands.add_parser("experiment", help="measure for longer, and draw a figure")
    experiments = experiment.add_subparsers(title="experiments", metavar="EXPERIMENT", required=True)
    _add_spark_memory(experiments)
    return parser


def _add_demo(commands: Any) -> None:
    demo = commands.add_parser(
        "demo",
        help="a Spark job with windows larger than the memory of its workers",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    demo.add_argument("--rows", type=_count, default=24_000_000, metavar="N", help="rows of the stream")
    demo.add_argument(
        "--store", metavar="URL", help="where the windows live; by default RocksDB in a temporary directory"
    )
    demo.add_argument("--memory", type=_size, default="512m", metavar="SIZE", help="limit on a Python worker")
    demo.add_argument(
        "--picture", type=Path, default=Path("mta-demo.png"), metavar="FILE", help="where the plot goes"
    )
    demo.set_defaults(run=_demo)


def _demo(options: argparse.Namespace) -> None:
    from mta.demo import run

    run(options.rows, options.store, options.memory, options.picture)


def _add_engine(benchmarks: Any) -> None:
    engine = benchmarks.add_parser("engine", help="the engine against data frames and in-memory algorithms")
    engine.add_argument("--json", type=Path, metavar="FILE", help="write all numbers to a file")
    engine.add_argument("--quick", action="store_true", help="tiny sizes, only to see that everything runs")
    engine.add_argument(
        "--only",
        action="append",
        default=[],
        choices=SECTIONS,
        metavar="SECTION",
        help=f"one of {', '.join(SECTIONS)}; give it again for another",
    )
    engine.add_argument(
        "--redis", metavar="URL", help="a Redis to use; by default one is started, and stopped in the end"
    )
    engine.set_defaults(run=_engine)


def _engine(options: argparse.Namespace) -> None:
    from mta.bench.engine import run

    run(only=options.only, quick=options.quick, redis_url=options.redis, json_file=options.json)


def _add_durability(benchmarks: Any) -> None:
    durability = benchmarks.add_parser("durability", help="what checkpoints and restoring cost")
    durability.add_argument("--json", type=Path, metavar="FILE", help="write all numbers to a file")
    durability.add_argument(
        "--quick", action="store_true", help="tiny sizes, only to see that everything runs"
    )
    durability.add_argument(
        "--redis", metavar="URL", help="a Redis to use; by default one is started, and stopped in the end"
    )
    durability.set_defaults(run=_durability)


def _durability(options: argparse.Namespace) -> None:
    from mta.bench.durability import run

    run(quick=options.quick, redis_url=options.redis, json_file=options.json)


def _add_spark(benchmarks: Any) -> None:
    spark = benchmarks.add_parser("spark", help="windows in a Spark job, and Spark's own window function")
    spark.add_argument("--json", type=Path, metavar="FILE", help="write all numbers to a file")
    spark.add_argument("--quick", action="store_true", help="tiny sizes, only to see that everything runs")
    spark.add_argument(
        "--redis", metavar="URL", help="a Redis to use; by default one is started, and stopped in the end"
    )
    spark.add_argument("--rows", type=_count, metavar="N", help="rows of the one key; 10 million by default")
    spark.add_argument("--window", type=_count, metavar="N", help="rows in the window; 1 million by default")
    spark.add_argument("--rounds", type=_count, default=3, metavar="N", help="repetitions; 3 by default")
    spark.set_defaults(run=_spark)


def _spark(options: argparse.Namespace) -> None:
    _need("spark", "pyspark", "pyarrow", "pandas")
    _need("experiments", "psutil")
    from spark_integration.bench import run

    run(
        rows=options.rows,
        window=options.window,
        rounds=options.rounds,
        quick=options.quick,
        redis_url=options.redis,
        json_file=options.json,
    )


def _add_stream(benchmarks: Any) -> None:
    stream = benchmarks.add_parser(
        "stream", help="micro-batches of a Spark stream: one hot key, many small ones"
    )
    stream.add_argument("--json", type=Path, metavar="FILE", help="write all numbers to a file")
    stream.add_argument("--quick", action="store_true", help="tiny sizes, only to see that everything runs")
    stream.add_argument(
        "--redis", metavar="URL", help="a Redis to use; by default one is started, and stopped in the end"
    )
    stream.set_defaults(run=_stream)


def _stream(options: argparse.Namespace) -> None:
    _need("spark", "pyspark", "pyarrow", "pandas")

    from spark_integration.streaming.bench import run

    run(quick=options.quick, redis_url=options.redis, json_file=options.json)


def _add_spark_memory(experiments: Any) -> None:
    memory = experiments.add_parser(
        "spark-memory", help="which Spark jobs finish at which memory limits: rolling, and what it replaces"
    )
    memory.add_argument("--out", type=Path, default=Path("out"), metavar="DIR", help="by default out/")
    memory.add_argument("--quick", action="store_true", help="tiny sizes, only to see that everything runs")
    memory.add_argument(
        "--rows", type=_count, nargs="+", default=[], metavar="N",
        help="rows of the one key, of which the window has half; 20 million by default",
    )  # fmt: skip
    memory.add_argument(
        "--only", action="append", default=[], choices=SPARK_JOBS, metavar="JOB",
        help=f"one of {', '.join(SPARK_JOBS)}; give it again for another",
    )  # fmt: skip
    memory.add_argument("--heaps", type=_size, nargs="+", default=[], metavar="SIZE", help="such as 512m 4g")
    memory.add_argument(
        "--workers", type=_size, nargs="+", default=[], metavar="SIZE", help="limits of the Python workers"
    )
    memory.add_argument("--seconds", type=_count, metavar="N", help="time limit of each run")
    memory.set_defaults(run=_spark_memory)


def _spark_memory(options: argparse.Namespace) -> None:
    _need("spark", "pyspark", "pyarrow", "pandas")
    _need("experiments", "matplotlib", "psutil")
    from spark_integration.experiments.spark_memory import start

    start(
        options.rows,
        out=options.out,
        quick=options.quick,
        only=options.only,
        heaps=options.heaps,
        workers=options.workers,
        seconds=options.seconds,
    )


class NotInstalled(Exception):
    """A command needs an extra that is not there."""


def _need(extra: str, *packages: str) -> None:
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise NotInstalled(f"this needs {package}: pip install 'mta-windows[{extra}]'")


def _size(text: str) -> int:
    """MiB of a size as Spark writes it."""
    number, unit = text[:-1], text[-1:].lower()
    if not number.isdigit() or unit not in ("m", "g") or not int(number):
        raise argparse.ArgumentTypeError(f"expected a size such as 512m or 4g, got {text!r}")
    return int(number) * (1024 if unit == "g" else 1)


def _count(text: str) -> int:
    try:
        count = int(text.replace("_", "").replace(",", ""))
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a whole number, got {text!r}") from None
    if count < 1:
        raise argparse.ArgumentTypeError(f"expected 1 or more, got {text!r}")
    return count


def _mistakes() -> tuple[type[Exception], ...]:
    """What has a message for the user; anything else is a mistake of ours and keeps its traceback."""
    from mta.bench.servers import NoServer
    from mta.bench.storage import BadStore
    from mta.demo import DemoError
    from mta.errors import WindowError
    from mta.operations.expressions import BadExpression
    from stores import StoreError

    return (StoreError, WindowError, BadStore, NoServer, BadExpression, DemoError, NotInstalled, OSError)


def _fail(message: str, code: int) -> int:
    print(f"mta: {printable(' '.join(message.split()))}", file=sys.stderr)
    return code
