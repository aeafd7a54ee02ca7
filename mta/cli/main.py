"""The `mta` command. A subcommand imports what it needs when it runs, so that help is quick."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import mta
from mta.cli.commands import add as operator_commands
from mta.cli.needs import NotInstalled, need
from mta.cli.options import count, size
from mta.encoding.untrusted import printable
from mta.lab.experiments.command import add as experiment_commands

#: Exit codes: a mistake of the user's or of what was named, and Ctrl-C.
MISTAKE, INTERRUPTED = 2, 130
SECTIONS = ("slide", "push", "calls", "policies", "eviction", "memory")
STREAM_SECTIONS = ("depth", "width", "known", "hot")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line; `--help` has the rest."""
        self.exit(MISTAKE, f"{self.prog}: {printable(message)} (see {self.prog} --help)\n")


class _Version(argparse.Action):
    """Looks the version up only if it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(f"mta-windows {mta.__version__}")
        parser.exit()


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
    except BrokenPipeError as error:
        if _after_interrupt(error):
            return _fail("interrupted", INTERRUPTED)
        return 1  # the reader of our output went away
    except _mistakes() as error:
        if os.environ.get("MTA_TRACEBACK"):
            raise
        return _fail(str(error), MISTAKE)


def _after_interrupt(error: BaseException | None) -> bool:
    """Whether an error came while Ctrl-C was being obeyed, which also ends those who read our output."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


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
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version, and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_demo(commands)
    operator_commands(commands, count)
    bench = commands.add_parser("bench", help="measure, side by side with others")
    benchmarks = bench.add_subparsers(title="benchmarks", metavar="BENCHMARK", required=True)
    _add_engine(benchmarks)
    _add_durability(benchmarks)
    _add_spark(benchmarks)
    _add_stream(benchmarks)
    experiment_commands(commands)
    return parser


def _add_demo(commands: Any) -> None:
    demo = commands.add_parser(
        "demo",
        help="a Spark job with windows larger than the memory of its workers",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    demo.add_argument("--rows", type=count, default=24_000_000, metavar="N", help="rows of the stream")
    demo.add_argument(
        "--store",
        metavar="URL",
        default=argparse.SUPPRESS,
        help="where the windows live; by default RocksDB in a temporary directory",
    )
    demo.add_argument("--memory", type=size, default="512m", metavar="SIZE", help="limit on a Python worker")
    demo.add_argument(
        "--picture", type=Path, default=Path("mta-demo.png"), metavar="FILE", help="where the plot goes"
    )
    demo.set_defaults(run=_demo)


def _demo(options: argparse.Namespace) -> None:
    from mta.lab.demo.needs import check

    check()
    from mta.lab.demo.run import run

    run(options.rows, getattr(options, "store", None), options.memory, options.picture)


def _add_engine(benchmarks: Any) -> None:
    engine = benchmarks.add_parser("engine", help="the engine against data frames and in-memory algorithms")
    engine.add_argument("--json", type=Path, metavar="FILE", help="write all numbers to a file")
    _add_sections(engine, SECTIONS)
    engine.add_argument(
        "--redis", metavar="URL", help="a Redis to use; by default one is started, and stopped in the end"
    )
    engine.set_defaults(run=_engine)


def _add_sections(bench: argparse.ArgumentParser, sections: Sequence[str]) -> None:
    bench.add_argument("--quick", action="store_true", help="tiny sizes, only to see that everything runs")
    bench.add_argument(
        "--only",
        action="append",
        default=[],
        choices=sections,
        metavar="SECTION",
        help=f"one of {', '.join(sections)}; give it again for another",
    )


def _engine(options: argparse.Namespace) -> None:
    from mta.lab.bench.engine.run import run

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
    from mta.lab.bench.durability import run

    run(quick=options.quick, redis_url=options.redis, json_file=options.json)


def _add_spark(benchmarks: Any) -> None:
    spark = benchmarks.add_parser("spark", help="windows in a Spark job, and Spark's own window function")
    spark.add_argument("--json", type=Path, metavar="FILE", help="write all numbers to a file")
    spark.add_argument("--quick", action="store_true", help="tiny sizes, only to see that everything runs")
    spark.add_argument(
        "--redis", metavar="URL", help="a Redis to use; by default one is started, and stopped in the end"
    )
    spark.add_argument("--rows", type=count, metavar="N", help="rows of the one key; 10 million by default")
    spark.add_argument("--window", type=count, metavar="N", help="rows in the window; 1 million by default")
    spark.add_argument("--rounds", type=count, default=3, metavar="N", help="repetitions; 3 by default")
    spark.set_defaults(run=_spark)


def _spark(options: argparse.Namespace) -> None:
    need("spark", "pyspark", "pyarrow", "pandas")
    need("experiments", "psutil")
    from mta.lab.bench.spark.rolling import run

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
    _add_sections(stream, STREAM_SECTIONS)
    stream.add_argument(
        "--redis", metavar="URL", help="a Redis to use; by default one is started, and stopped in the end"
    )
    stream.set_defaults(run=_stream)


def _stream(options: argparse.Namespace) -> None:
    need("spark", "pyspark", "pyarrow", "pandas")
    need("experiments", "psutil")
    from mta.lab.bench.spark.stream import run

    run(only=options.only, quick=options.quick, redis_url=options.redis, json_file=options.json)


def _mistakes() -> tuple[type[Exception], ...]:
    """What has a message for the user; anything else is a mistake of ours and keeps its traceback."""
    from mta.cli.named_store import BadStore
    from mta.errors import WindowError
    from mta.lab.bench.servers import NoServer
    from mta.lab.demo.needs import DemoError
    from mta.monoids.expressions import BadExpression
    from stores import StoreError

    return (StoreError, WindowError, BadStore, NoServer, BadExpression, DemoError, NotInstalled, OSError)


def _fail(message: str, code: int) -> int:
    print(f"mta: {printable(' '.join(message.split()))}", file=sys.stderr)
    return code
