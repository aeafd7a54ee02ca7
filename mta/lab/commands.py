"""The lab's part of the `mta` command: `demo`, `soak`, `bench` and `experiment`.

Each subcommand imports its code when it runs, so that help is quick.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mta.cli.commands import add_command
from mta.cli.errors import need
from mta.cli.options import count, size
from mta.lab.experiments.command import add as add_experiments

SECTIONS = ("slide", "frames", "push", "calls", "policies", "eviction", "memory")
STREAM_SECTIONS = ("depth", "width", "known", "hot")


def add(commands: Any) -> None:
    _add_demo(commands)
    _add_soak(commands)
    bench = commands.add_parser("bench", help="measure, side by side with others")
    benchmarks = bench.add_subparsers(title="benchmarks", metavar="BENCHMARK", required=True)
    _add_benchmark(
        benchmarks, "engine", "the engine against data frames and in-memory algorithms", _engine, SECTIONS
    )
    _add_benchmark(benchmarks, "durability", "what checkpoints and restoring cost", _durability)
    frames = _add_benchmark(
        benchmarks, "frames", "a Parquet file larger than memory by mta.rolling, and by polars", _frames
    )
    frames.add_argument("--rows", type=count, metavar="N", help="rows of the file; 115 million by default")
    spark = _add_benchmark(
        benchmarks, "spark", "windows in a Spark job, and Spark's own window function", _spark
    )
    spark.add_argument("--rows", type=count, metavar="N", help="rows of the one key; 10 million by default")
    spark.add_argument("--window", type=count, metavar="N", help="rows in the window; 1 million by default")
    spark.add_argument("--rounds", type=count, default=3, metavar="N", help="repetitions; 3 by default")
    _add_benchmark(
        benchmarks, "stream", "micro-batches of a Spark stream: one hot key, many small ones", _stream,
        STREAM_SECTIONS,
    )  # fmt: skip
    add_experiments(commands)


def _add_benchmark(
    benchmarks: Any,
    name: str,
    about: str,
    run: Callable[[argparse.Namespace], None],
    sections: Sequence[str] = (),
) -> Any:
    parser = benchmarks.add_parser(name, help=about)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers to a file")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, only to see that everything runs")
    if sections:
        parser.add_argument(
            "--only",
            action="append",
            default=[],
            choices=sections,
            metavar="SECTION",
            help=f"one of {', '.join(sections)}; give it again for another",
        )
    parser.add_argument(
        "--redis", metavar="URL", help="a Redis to use; by default one is started, and stopped in the end"
    )
    parser.set_defaults(run=run)
    return parser


def _engine(options: argparse.Namespace) -> None:
    from mta.lab.bench.engine.run import run

    run(only=options.only, quick=options.quick, redis_url=options.redis, json_file=options.json)


def _durability(options: argparse.Namespace) -> None:
    from mta.lab.bench.durability import run

    run(quick=options.quick, redis_url=options.redis, json_file=options.json)


def _frames(options: argparse.Namespace) -> None:
    need("tables", "pyarrow")
    need("experiments", "polars")
    from mta.lab.bench.data_frames import run

    run(rows=options.rows, quick=options.quick, json_file=options.json)


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


def _stream(options: argparse.Namespace) -> None:
    need("spark", "pyspark", "pyarrow", "pandas")
    need("experiments", "psutil")
    from mta.lab.bench.spark.stream import run

    run(only=options.only, quick=options.quick, redis_url=options.redis, json_file=options.json)


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


def _add_soak(commands: Any) -> None:
    soak = add_command(
        commands, "soak", "kill writers at random moments, and see that nothing is lost", _soak
    )
    soak.add_argument("--kills", type=count, default=100, metavar="N", help="default: 100")
    soak.add_argument(
        "--seed", type=int, metavar="S", help="of the streams and the moments; default: another each time"
    )
    soak.add_argument("--json", type=Path, metavar="FILE", help="write all figures to a file")


def _soak(options: argparse.Namespace) -> int:
    from mta.lab.soak import run

    return run(options.url, kills=options.kills, seed=options.seed, json_file=options.json)
