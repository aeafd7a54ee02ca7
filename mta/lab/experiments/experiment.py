"""What an experiment is: cases that run in processes of their own, and the figures that are made of them."""

from __future__ import annotations

import argparse
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from mta.lab.own_process import FINISHED, in_own_process

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

#: What is run, what came of it, and a line of its measurements. All of it is written as JSON.
Case = dict[str, Any]
Record = dict[str, Any]
Row = dict[str, Any]

#: Called now and then with how far a case is. What was told last stays if the process dies.
Tell = Callable[[Row], None]


@dataclass(frozen=True)
class Scale:
    """How large an experiment is."""

    quick: bool = False
    #: pages of two entries, and the buffers of the paper
    paper: bool = False

    @property
    def suffix(self) -> str:
        return ("-paper" if self.paper else "") + ("-quick" if self.quick else "")


@dataclass(frozen=True)
class Compared:
    """A ratio of ours, beside what a paper reported."""

    what: str
    measured: float | None
    paper: float | None


@dataclass(frozen=True)
class Exhibit:
    """A figure, and what is said of it."""

    #: part of its file's name
    slug: str
    title: str
    draw: Callable[[Figure], object]
    #: a sentence on what is seen, made of what was measured
    seen: str
    compared: Sequence[Compared] = ()
    #: what was made smaller than in the paper, and to what
    cut: str = ""


class Experiment(ABC):
    """One experiment. `name` is what the user calls it by, and how its files begin."""

    name: ClassVar[str]
    #: packages whose versions are told with the results
    told: ClassVar[tuple[str, ...]] = ()
    #: whether `--paper` means something
    has_paper: ClassVar[bool] = False
    #: whether runs with other options than now stay, and are shown beside those of now
    adds_up: ClassVar[bool] = False

    @abstractmethod
    def cases(self, scale: Scale, options: argparse.Namespace) -> list[Case]:
        """The parameters of each run. A case that was run before is not run again."""

    def seconds(self, case: Case, options: argparse.Namespace) -> float:  # noqa: ARG002
        """How long a run may take."""
        return 900.0

    def needless(self, case: Case, records: Sequence[Record]) -> bool:  # noqa: ARG002
        """Whether earlier runs tell how this one would end, so that it is left out."""
        return False

    def perform(self, case: Case, seconds: float, tell: Tell) -> Record:
        """Runs a case: by default `measure` in a process of its own."""
        return in_own_process(self.name, case, seconds, tell)

    def measure(self, case: Case, tell: Tell) -> list[Row]:
        """What one run does, in its own process: its measurements, one after the other."""
        raise NotImplementedError

    def title(self, case: Case) -> str:
        """A case, on the line that says how its run goes on."""
        return text_of(case)

    def ended(self, record: Record) -> str:
        """How a run ended, on that line."""
        reason = f" ({record['reason'][:150]})" if record["reason"] else ""
        return f"{record['outcome']}, {record['seconds']:.1f} s{reason}"

    def check(self, records: Sequence[Record]) -> None:  # noqa: B027
        """Raises Disagreement if results differ that must be equal."""

    def rows(self, record: Record) -> list[Row]:
        """The measurements of a run, each with its case: the lines of the CSV file."""
        return [{**record["case"], **row} for row in record["rows"]]

    @abstractmethod
    def exhibits(self, records: Sequence[Record]) -> list[Exhibit]:
        """The figures of what was measured; none yet where a case is missing that they need."""

    def show(self, console: Console, records: Sequence[Record], scale: Scale) -> None:  # noqa: ARG002
        """What is printed in the end."""
        for exhibit in self.exhibits(records):
            console.print(exhibit.title, style="bold", markup=False, highlight=False)
            console.print(f"  {exhibit.seen}", markup=False, highlight=False)
        for record in records:
            if record["outcome"] != FINISHED:
                console.print(
                    f"{record['outcome']}: {text_of(record['case'])}: {record['reason']}"[:300], markup=False
                )


class Disagreement(Exception):
    """Contenders that must agree have other results."""


def text_of(case: Case) -> str:
    """A case on one line."""
    return ", ".join(_text(name, value) for name, value in case.items() if value is not False)


def _text(name: str, value: Any) -> str:
    if value is True:
        return name
    return f"{name} {value:,}" if isinstance(value, int) else f"{name} {value}"
