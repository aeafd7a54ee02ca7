"""The `mta` command. A subcommand imports what it needs when it runs, so that help is quick."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from mta.commands import add as operator_commands

#: Exit codes: a mistake of the user's or of what was named, and Ctrl-C.
MISTAKE, INTERRUPTED = 2, 130
SECTIONS = ("slide", "push", "eviction", "memory")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line; `--help` has the rest."""
        self.exit(MISTAKE, f"{self.prog}: {message} (see {self.prog} --help)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], int | None] = options.run
    try:
        return run(options) or 0
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # the reader of our output went away; Python would complain once more at its exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except _mistakes() as error:
        if os.environ.get("MTA_TRACEBACK"):
            raise
        return _fail(str(error), MISTAKE)


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
    return parser


def _add_demo(commands: Any) -> None:
    demo = commands.add_parser(
        "demo",
        help="slide a window over a time series, and see what memory it takes",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    demo.add_argument("--rows", type=_count, default=10_000_000, metavar="N", help="rows of the series")
    demo.add_argument("--window", type=_count, default=8_000_000, metavar="N", help="rows in the window")
    demo.add_argument(
        "--store", metavar="URL", help="where the window lives; by default RocksDB in a temporary directory"
    )
    demo.set_defaults(run=_demo)


def _demo(options: argparse.Namespace) -> None:
    from mta.demo import run

    run(options.rows, options.window, options.store)


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
    from mta.errors import WindowError
    from mta.operations.expressions import BadExpression
    from stores import StoreError

    return (StoreError, WindowError, BadStore, NoServer, BadExpression, OSError)


def _fail(message: str, code: int) -> int:
    print(f"mta: {' '.join(message.split())}", file=sys.stderr)
    return code
