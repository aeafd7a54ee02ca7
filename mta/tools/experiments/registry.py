"""The experiments by name. Each is imported when it is asked for, so that help is quick."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from mta.tools.experiments.experiment import Experiment


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
    "spark-memory": Entry(
        "spark_memory.experiment",
        "which Spark jobs finish at which memory limits: rolling, and what it replaces",
        ("pyspark", "pyarrow", "pandas"),
        "spark",
    ),
}


def experiment(name: str) -> Experiment:
    found: Experiment = import_module(f"mta.tools.experiments.{ENTRIES[name].module}").EXPERIMENT
    return found
