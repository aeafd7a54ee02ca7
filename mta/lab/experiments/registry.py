"""The experiments by name. Each is imported when it is asked for, so that help is quick."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from mta.lab.experiments.experiment import Experiment


class Entry(NamedTuple):
    """Where an experiment is, and what is known of it without importing it."""

    #: below this package; `EXPERIMENT` in it is the experiment
    module: str
    about: str
    #: what else it needs: packages, and the extra that brings them
    packages: tuple[str, ...] = ()
    extra: str = "experiments"


#: In the order in which `mta experiment all` runs them.
ENTRIES = {
    "complexity": Entry("paper.complexity", "the MTA paper's table 1, counted: combines, entries, reads"),
    "constant-window": Entry(
        "paper.constant_window", "the MTA paper's figure 6: the latency of an update, by the window's size"
    ),
    "bulk-evict": Entry(
        "paper.bulk_evict", "the MTA paper's figure 7: the latency of a bulk eviction, by what goes"
    ),
    "dimensions": Entry(
        "paper.dimensions", "the MTA paper's figure 9: one window of 1 to 50 dimensions, or as many windows"
    ),
    "memory": Entry("paper.memory", "the MTA paper's figure 8: the window reached, by the memory allowed"),
    "analytics": Entry(
        "paper.analytics", "the MTA paper's table 2: six aggregates over two years of a machine's memory use"
    ),
    "latency": Entry(
        "daba_paper.latency", "the DABA paper's table 2 and figure 13 (top): single rounds, and the longest"
    ),
    "throughput": Entry(
        "daba_paper.throughput",
        "the DABA paper's figure 13 (bottom): elements a second, by the window",
    ),
    "break-even": Entry(
        "daba_paper.break_even", "the DABA paper's table 3: the window from which on recalculation is slower"
    ),
    "reactive": Entry(
        "reactive_paper.experiment", "the Reactive Aggregator paper's figures 6 to 12, and its tables 3 and 4"
    ),
    "slicing": Entry(
        "slicing", "Scotty's figure 5: tuples a second, by concurrent windows and by what is late"
    ),
    "remote": Entry(
        "ours.remote", "one slide over a store at 0, 0.1, 0.5 and 2 ms: what reading ahead hides"
    ),
    "recovery": Entry("ours.recovery", "seconds to the first right answer after a kill -9, by window size"),
    "billion": Entry(
        "ours.billion", "one window of 10^9 numbers over RocksDB: filled, sliding, half evicted, opened again"
    ),
    "drift": Entry("ours.drift", "errors of sums and deviations after a spike: ours, polars, pandas, DuckDB"),
    "ablation": Entry(
        "ours.ablation", "what the size of a page, reading ahead, and columns are worth, each taken away"
    ),
    "rivals": Entry(
        "rivals.experiment",
        "ours, polars, pandas, DuckDB, Spark, Flink, river, C++, by the window: time, memory, state",
    ),
    "spark-memory": Entry(
        "spark_memory.experiment",
        "which Spark jobs finish at which memory limits: rolling, and what it replaces",
        ("pyspark", "pyarrow", "pandas"),
        "spark",
    ),
}


def experiment(name: str) -> Experiment:
    found: Experiment = import_module(f"mta.lab.experiments.{ENTRIES[name].module}").EXPERIMENT
    return found
