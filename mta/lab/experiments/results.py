"""What an experiment leaves in its directory: all runs as JSON and CSV, and its figures."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from mta.lab.experiments.experiment import Case, Exhibit, Experiment, Record, Scale
from mta.lab.experiments.plots import typeset
from mta.lab.machine import provenance
from mta.lab.own_process import FAILED, write_json

FORMAT = 1
QUICK = "Quick: tiny sizes, only to see that everything runs. The figures mean nothing."

#: Inches; so that the text is readable on a phone that is as wide as the figure.
WIDTH, HEIGHT = 5.2, 4.2


class Results:
    """The results of one experiment at one scale, in a directory."""

    def __init__(self, experiment: Experiment, scale: Scale, directory: Path) -> None:
        self.experiment, self.scale = experiment, scale
        self._stem = directory / f"{experiment.name}{scale.suffix}"
        self.content: dict[str, Any] = {
            "format": FORMAT,
            "experiment": experiment.name,
            "quick": scale.quick,
            "paper": scale.paper,
            **provenance(experiment.told),
            "runs": [],
        }

    @property
    def file(self) -> Path:
        return self._stem.with_name(f"{self._stem.name}.json")

    @property
    def records(self) -> list[Record]:
        found: list[Record] = self.content["runs"]
        return found

    def load(self) -> bool:
        """Reads what is there of an earlier run; false if there is nothing."""
        with suppress(FileNotFoundError):
            found = _parsed(self.file)
            if not _is_of(found, self.experiment.name):
                raise FileExistsError(
                    f"{self.file} is not of this experiment: remove it, or name another --out DIR"
                )
            self.content = found
            return True
        return False

    def resume(self, cases: Sequence[Case]) -> None:
        """Goes on with what an earlier run has written of these cases.

        Quick runs start anew, and so does what failed.
        """
        now = self.content
        if self.scale.quick or not self.load():
            return
        then = self.content
        for what in ("machine", "versions"):
            if then[what] != now[what]:
                raise FileExistsError(
                    f"{self.file} is of {_differences(then[what], now[what])}: runs on unlike ground are "
                    "not for one figure; remove it, or name another --out DIR"
                )
        then["runs"] = [
            record
            for record in then["runs"]
            if record["outcome"] != FAILED
            and (self.experiment.adds_up or any(_same(record["case"], case) for case in cases))
        ]

    def has(self, case: Case) -> bool:
        return any(_same(record["case"], case) for record in self.records)

    def add(self, record: Record) -> None:
        self.records.append(record)
        write_json(self.file, self.content, indent=1)

    def write(self) -> list[Path]:
        """Writes the CSV file and the figures, and returns the files."""
        files = [self.file, self._write_table()]
        for exhibit in self.experiment.exhibits(self.records):
            files += self._write_figure(exhibit)
        return files

    def _write_table(self) -> Path:
        rows = [row for record in self.records for row in self.experiment.rows(record)]
        columns = list(dict.fromkeys(column for row in rows for column in row))
        file = self._stem.with_name(f"{self._stem.name}.csv")
        with file.open("w", newline="") as opened:
            writer = csv.DictWriter(opened, columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        return file

    def _write_figure(self, exhibit: Exhibit) -> list[Path]:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot

        figure = pyplot.figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        try:
            # the same figure gives the same file
            with matplotlib.rc_context({"svg.hashsalt": exhibit.slug, "font.size": 9}):
                exhibit.draw(figure)
                note = " ".join(text for text in (exhibit.cut, QUICK if self.scale.quick else "") if text)
                if note:
                    figure.supxlabel(typeset(_wrapped(note)), fontsize=7, color="#555555", x=0.01, ha="left")
                files = [self.figure_file(exhibit, kind) for kind in ("svg", "png")]
                for file in files:
                    figure.savefig(file, dpi=200, metadata={"Date": None} if file.suffix == ".svg" else None)
        finally:
            pyplot.close(figure)
        return files

    def figure_file(self, exhibit: Exhibit, kind: str) -> Path:
        return self._stem.with_name(f"{self._stem.name}-{exhibit.slug}.{kind}")


def _parsed(file: Path) -> Any:
    try:
        return json.loads(file.read_text())
    except ValueError as error:
        raise FileExistsError(f"{file} is damaged ({error}): remove it, or name another --out DIR") from None


def _is_of(found: Any, name: str) -> bool:
    """Whether this is what an experiment of this name has written."""
    return (
        isinstance(found, dict)
        and (found.get("format"), found.get("experiment")) == (FORMAT, name)
        and all(isinstance(found.get(part), dict) for part in ("machine", "versions"))
        and isinstance(found.get("runs"), list)
        and all(isinstance(run, dict) and {"case", "outcome"} <= run.keys() for run in found["runs"])
    )


def _same(a: Case, b: Case) -> bool:
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


def _differences(then: dict[str, Any], now: dict[str, Any]) -> str:
    names = [name for name in {**then, **now} if then.get(name) != now.get(name)]
    return ", ".join(f"{name} {then.get(name)}, not {now.get(name)}" for name in names)


def _wrapped(text: str) -> str:
    import textwrap

    return "\n".join(textwrap.wrap(text, 95))
