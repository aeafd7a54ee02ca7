"""Lines of a benchmark: what was measured, what it is held against, and how it went."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

FORMAT = 1
TIMES = "\u00d7"
SENSES = {"<=": "≤", ">=": "≥"}
VERDICTS = {True: "[green]pass[/]", False: "[red]fail[/]", None: ""}


@dataclass
class Line:
    """One figure. It passes if `value`, or `ratio` where there is one, keeps to the target."""

    section: str
    subject: str
    contender: str
    value: float
    unit: str
    cpu: float | None = None
    reference: str | None = None
    ratio: float | None = None
    #: "<=" or ">="
    sense: str = "<="
    target: float | None = None
    note: str = ""

    @property
    def passed(self) -> bool | None:
        if self.target is None:
            return None
        held = self.value if self.ratio is None else self.ratio
        return held <= self.target if self.sense == "<=" else held >= self.target

    def record(self) -> dict[str, Any]:
        return {**asdict(self), "passed": self.passed}


@dataclass
class Section:
    """The lines of one part of the benchmark, with the raw numbers under them."""

    name: str
    title: str
    lines: list[Line] = field(default_factory=list)
    raw: dict[str, Any] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)

    def add(self, subject: str, contender: str, value: float, unit: str, **more: Any) -> None:
        self.lines.append(Line(self.name, subject, contender, value, unit, **more))

    def record(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "lines": [line.record() for line in self.lines],
            "skipped": self.skipped,
            "raw": self.raw,
        }


def show(console: Console, section: Section) -> None:
    """A table that fits into 80 columns, and below it the notes."""
    with_cpu = any(line.cpu is not None for line in section.lines)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("", no_wrap=True)
    for heading in ("measured", *(["CPU"] if with_cpu else []), "ratio", "target", ""):
        table.add_column(heading, justify="right", no_wrap=True)
    notes: list[str] = []
    subject = None
    for line in section.lines:
        if line.subject != subject:
            subject = line.subject
            table.add_row(f"[bold]{escape(subject)}[/]")
        cells = [f"  {escape(line.contender)}{_mark(line.note, notes)}", figure(line.value, line.unit)]
        if with_cpu:
            cells.append("" if line.cpu is None else figure(line.cpu, line.unit))
        cells.append("" if line.ratio is None else f"{_short(line.ratio)}{TIMES} {line.reference}")
        cells.append("" if line.target is None else f"{SENSES[line.sense]} {_target(line)}")
        cells.append(VERDICTS[line.passed])
        table.add_row(*cells)
    console.print(f"[bold]{escape(section.name)}[/]: {escape(section.title)}", highlight=False)
    console.print(table)
    for number, note in enumerate(notes, 1):
        console.print(f"[{number}] {note}", markup=False, highlight=False)
    for reason in section.skipped:
        console.print(f"not measured: {reason}", markup=False, highlight=False)
    console.print()


def _mark(note: str, notes: list[str]) -> str:
    """The mark of a note, and of an equal one that was there before."""
    if not note:
        return ""
    if note not in notes:
        notes.append(note)
    return f" \\[{notes.index(note) + 1}]"


def _target(line: Line) -> str:
    target = f"{line.target:,g}"
    return f"{target}{TIMES}" if line.ratio is not None else figure(line.target or 0.0, line.unit)


def figure(value: float, unit: str) -> str:
    if unit == "s" and value < 1:
        value, unit = (value * 1e3, "ms") if value >= 1e-3 else (value * 1e6, "µs")
    return f"{_short(value)} {unit}".strip()


def _short(value: float) -> str:
    magnitude = abs(value)
    if magnitude >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if magnitude >= 10 else f"{value:.2f}"
