"""Lines of a benchmark: what was measured, what it is held against, and how it went."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

FORMAT = 1


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
    table = Table(title=section.title, title_justify="left", title_style="bold")
    table.add_column("what")
    table.add_column("contender")
    table.add_column("measured", justify="right")
    if any(line.cpu is not None for line in section.lines):
        table.add_column("CPU", justify="right")
    table.add_column("ratio", justify="right")
    table.add_column("target", justify="right")
    table.add_column("")
    before = None
    for line in section.lines:
        if before is not None and line.subject != before:
            table.add_section()
        cells = ["" if line.subject == before else line.subject, line.contender, figure(line.value, line.unit)]
        if any(other.cpu is not None for other in section.lines):
            cells.append("" if line.cpu is None else figure(line.cpu, line.unit))
        cells.append("" if line.ratio is None else f"{_short(line.ratio)}× {line.reference}")
        cells.append("" if line.target is None else f"{'≤' if line.sense == '<=' else '≥'} {_short(line.target)}")
        verdict = {True: "[green]pass[/]", False: "[red]fail[/]", None: ""}[line.passed]
        cells.append(f"{verdict}{' ' if verdict and line.note else ''}{line.note}")
        table.add_row(*cells)
        before = line.subject
    console.print(table)
    for reason in section.skipped:
        console.print(f"not measured: {reason}", markup=False)
    console.print()


def figure(value: float, unit: str) -> str:
    if unit == "s" and value < 1:
        value, unit = (value * 1e3, "ms") if value >= 1e-3 else (value * 1e6, "µs")
    return f"{_short(value)} {unit}".strip()


def _short(value: float) -> str:
    magnitude = abs(value)
    if magnitude >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if magnitude >= 10 else f"{value:.2f}"
