"""`mta experiment NAME` and `mta experiment all`: their options, and whether there is what they need."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mta.cli.errors import NotInstalled, need
from mta.cli.options import count, directory_with, size

#: What `mta experiment all` goes by.
EVERY = "all"
SPARK_JOBS = (
    *("rolling-rocksdb", "rolling-redis", "rolling-daba"),
    *("pandas", "spark-window", "spark-segment-tree"),
)
#: Exit code: a run failed.
FAILED = 1


def add(commands: Any) -> None:
    """Adds `mta experiment`, with a subcommand for each experiment."""
    from mta.lab.experiments.registry import ENTRIES

    parser = commands.add_parser("experiment", help="measure for longer, and draw a figure")
    experiments = parser.add_subparsers(title="experiments", metavar="EXPERIMENT", required=True)
    for name, entry in ENTRIES.items():
        _add(experiments, name, entry.about)
    _add(experiments, EVERY, "all of them, one after the other")


def _add(experiments: Any, name: str, about: str) -> None:
    parser = experiments.add_parser(name, help=about)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--quick", action="store_true", help="tiny sizes, only to see that everything runs")
    which.add_argument("--full", action="store_true", help="the sizes that the figures are made of (default)")
    parser.add_argument(
        "--paper",
        action="store_true",
        help="pages of two entries, and the paper's buffers and caches, where that means something",
    )
    parser.add_argument("--out", type=Path, default=Path("out"), metavar="DIR", help="by default out/")
    OPTIONS.get(name, lambda _: None)(parser)
    parser.set_defaults(run=_run, experiment=name)


def _spark_memory(parser: Any) -> None:
    parser.add_argument(
        "--rows", type=count, nargs="+", default=[], metavar="N",
        help="rows of the one key, of which the window has half; 20 million by default",
    )  # fmt: skip
    parser.add_argument(
        "--only", action="append", default=[], choices=SPARK_JOBS, metavar="JOB",
        help=f"one of {', '.join(SPARK_JOBS)}; give it again for another",
    )  # fmt: skip
    parser.add_argument("--heaps", type=size, nargs="+", default=[], metavar="SIZE", help="such as 512m 4g")
    parser.add_argument(
        "--workers", type=size, nargs="+", default=[], metavar="SIZE", help="limits of the Python workers"
    )
    parser.add_argument("--seconds", type=count, metavar="N", help="time limit of each run")


def _rivals(parser: Any) -> None:
    parser.add_argument(
        "--swag", metavar="DIR", type=directory_with("cpp/src/*.hpp", "a checkout"),
        help="a checkout of IBM/sliding-window-aggregators: its C++ is compiled and measured too",
    )  # fmt: skip
    parser.add_argument(
        "--flink", metavar="DIR", type=directory_with("lib/flink-dist*.jar", "a distribution of Flink"),
        help="a distribution of Flink; by default that of apache-flink-libraries, if it is installed",
    )  # fmt: skip


#: Experiments with options of their own. They are here, and not with the experiment, which may need Spark.
OPTIONS: dict[str, Callable[[Any], None]] = {"rivals": _rivals, "spark-memory": _spark_memory}


def _run(options: argparse.Namespace) -> int:
    from mta.lab.experiments.experiment import Scale
    from mta.lab.experiments.registry import ENTRIES, experiment
    from mta.lab.harness import run_experiments

    need("experiments", "matplotlib", "psutil")
    names = list(ENTRIES) if options.experiment == EVERY else [options.experiment]
    wanted, own = [], []
    for name in names:
        try:
            need(ENTRIES[name].extra, *ENTRIES[name].packages)
        except NotInstalled as error:
            if options.experiment != EVERY:
                raise
            print(f"mta: {name} is left out: {error}", file=sys.stderr)
            continue
        wanted.append(experiment(name))
        own.append(_options_of(name) if options.experiment == EVERY else options)
    good = run_experiments(wanted, Scale(options.quick, options.paper), options.out, own)
    return 0 if good else FAILED


def _options_of(name: str) -> argparse.Namespace:
    """The options of an experiment as they are by default."""
    parser = argparse.ArgumentParser()
    OPTIONS.get(name, lambda _: None)(parser)
    return parser.parse_args([])
