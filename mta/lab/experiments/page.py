"""report.html: every figure of a directory beside what its paper reported, in one file without any other."""

from __future__ import annotations

import base64
from html import escape
from pathlib import Path
from typing import Any

from mta.lab.experiments.experiment import Compared, Exhibit, Scale, text_of
from mta.lab.experiments.registry import ENTRIES, experiment
from mta.lab.experiments.results import QUICK, Results
from mta.lab.own_process import FINISHED

NAME = "report.html"
STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; padding: 1rem;
  max-width: 46rem; color: #1c2430; }
h1 { font-size: 1.5rem; margin: 0 0 .5rem; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 .25rem; border-top: 1px solid #d5dbe1; padding-top: 1.25rem; }
h3 { font-size: 1.05rem; margin: 1.5rem 0 .25rem; }
img { width: 100%; height: auto; border: 1px solid #e3e8ec; border-radius: 4px; background: white; }
table { border-collapse: collapse; width: 100%; margin: .5rem 0; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .25rem .4rem; border-bottom: 1px solid #e3e8ec; vertical-align: top; }
th { font-weight: 600; } th:first-child, td:first-child { text-align: left; }
.about, .cut { color: #55606c; margin: .25rem 0; } .cut { font-size: .85rem; }
.wide { overflow-x: auto; } nav a { margin-right: .75rem; white-space: nowrap; }
"""


def write_page(directory: Path) -> Path:
    """Writes the page of all results that are in a directory, and returns its file."""
    stems, sections = [], []
    for name, scale in _there(directory):
        stems.append(f"{name}{scale.suffix}")
        sections.append(_shown(name, scale, directory))
    links = "".join(f'<a href="#{escape(stem)}">{escape(stem)}</a> ' for stem in stems)
    page = (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Experiments of mta-windows</title><style>{STYLE}</style></head><body>"
        f"<h1>Experiments of mta-windows</h1><nav>{links}</nav>{''.join(sections)}</body></html>\n"
    )
    file = directory / NAME
    file.write_text(page, encoding="utf-8")
    return file


def _there(directory: Path) -> list[tuple[str, Scale]]:
    """Experiments of which the directory has results."""
    scales = [Scale(quick, paper) for quick in (False, True) for paper in (False, True)]
    return [
        (name, scale)
        for name in ENTRIES
        for scale in scales
        if (directory / f"{name}{scale.suffix}.json").exists()
    ]


def _shown(name: str, scale: Scale, directory: Path) -> str:
    """The section of an experiment, which need not be the one that was run just now."""
    try:
        results = Results(experiment(name), scale, directory)
        results.load()
        return _section(results)
    except (ImportError, LookupError, TypeError, ValueError, FileExistsError) as error:
        stem = escape(f"{name}{scale.suffix}")
        reason = escape(f"{type(error).__name__}: {error}")
        return (
            f'<h2 id="{stem}">{stem}</h2><p>Cannot be shown: its results are of another version of the '
            f"experiment, or a package is missing ({reason}).</p>"
        )


def _section(results: Results) -> str:
    one = results.experiment
    parts = [f'<h2 id="{escape(results.file.stem)}">{escape(results.file.stem)}</h2>']
    parts.append(f'<p class="about">{escape(ENTRIES[one.name].about)}</p>')
    if results.scale.quick:
        parts.append(f'<p class="cut">{QUICK}</p>')
    parts += [_exhibit(results, exhibit) for exhibit in one.exhibits(results.records)]
    other = [record for record in results.records if record["outcome"] != FINISHED]
    if other:
        rows = "".join(
            f"<tr><td>{escape(text_of(each['case']))}</td><td>{escape(each['outcome'])}</td></tr>"
            for each in other
        )
        parts.append(f'<div class="wide"><table><tr><th>run</th><th>ended</th></tr>{rows}</table></div>')
    parts.append(f'<p class="cut">{escape(_ground(results.content))}</p>')
    return "".join(parts)


def _exhibit(results: Results, exhibit: Exhibit) -> str:
    file = results.figure_file(exhibit, "svg")
    image = base64.b64encode(file.read_bytes()).decode() if file.exists() else ""
    return "".join(
        (
            f"<h3>{escape(exhibit.title)}</h3>",
            f'<img alt="{escape(exhibit.title)}" src="data:image/svg+xml;base64,{image}">' if image else "",
            f"<p>{escape(exhibit.seen)}</p>",
            _compared(list(exhibit.compared)),
            f'<p class="cut">{escape(exhibit.cut)}</p>' if exhibit.cut else "",
        )
    )


def _compared(lines: list[Compared]) -> str:
    if not lines:
        return ""
    rows = "".join(
        f"<tr><td>{escape(each.what)}</td><td>{_number(each.measured)}</td><td>{_number(each.paper)}</td></tr>"
        for each in lines
    )
    return f"<table><tr><th></th><th>measured</th><th>the paper</th></tr>{rows}</table>"


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}×" if abs(value) >= 100 else f"{value:.3g}×"


def _ground(content: dict[str, Any]) -> str:
    """The machine and the versions, on a line."""
    machine = content["machine"]
    memory = machine.get("memory_bytes")
    packages = ", ".join(f"{name} {found}" for name, found in content["versions"].items() if found)
    return (
        f"Started {content['started']}. {machine['processor']}, {machine['cores']} cores, "
        f"{'' if memory is None else f'{memory / 2**30:.0f} GiB, '}{machine['system']}, "
        f"Python {machine['python']}; {packages}."
    )
