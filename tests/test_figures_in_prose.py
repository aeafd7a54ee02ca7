"""The numbers in the documents are those of the measurements in docs/results."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import figures_in_prose as prose
import pytest

THERE = [each for each in prose.TOLD if each.is_there()]


def _name(told: prose.Told) -> str:
    return f"{Path(told.document).stem}: {told.words[:30]}"


@pytest.mark.parametrize("told", prose.TOLD, ids=_name)
def test_numbers_are_those_that_were_measured(told: prose.Told) -> None:
    text = (prose.ROOT / told.document).read_text()
    told.match(text)
    if not told.is_there():
        pytest.skip(f"docs/results has no {told.needs} yet")
    assert not told.differences(text), "python tests/figures_in_prose.py writes them anew"


@pytest.mark.parametrize("told", THERE, ids=_name)
def test_every_number_is_compared(told: prose.Told) -> None:
    """Another digit in any place of the sentence is noticed, and corrected."""
    text = (prose.ROOT / told.document).read_text()
    match = told.match(text)
    for group in range(1, len(match.groups()) + 1):
        start, stop = match.span(group)
        number = match[group]
        digits = "⁰¹²³⁴⁵⁶⁷⁸⁹" if number[0] in "⁰¹²³⁴⁵⁶⁷⁸⁹" else "0123456789"
        other = digits[(digits.index(number[0]) + 1) % 10]
        wrong = text[:start] + other + number[1:] + text[stop:]
        (said,) = told.differences(wrong)
        assert told.document in said
        assert number.rstrip(".,") in said
        assert told.corrected(wrong) == text


def test_another_measurement_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = tmp_path / "results"
    shutil.copytree(prose.RESULTS, results, ignore=shutil.ignore_patterns("*.svg"))
    table = results / "dimensions.csv"
    lines = table.read_text().splitlines()
    lines[-1] = re.sub(r",50,\d", ",50,9", lines[-1])
    table.write_text("\n".join(lines))
    monkeypatch.setattr(prose, "RESULTS", results)
    prose.table.cache_clear()
    told = next(each for each in prose.TOLD if "50 windows" in each.words)
    try:
        assert told.differences((prose.ROOT / told.document).read_text())
    finally:
        prose.table.cache_clear()


def test_a_sentence_that_is_no_more_is_noticed() -> None:
    told = prose.Told("README.md", "of {:d} words", lambda: [3])
    with pytest.raises(AssertionError, match="0 times"):
        told.match("nothing of that kind")
    with pytest.raises(AssertionError, match="2 times"):
        told.match("of 3 words, of 3 words")


@pytest.mark.parametrize(
    "document", ["README.md", "docs/slicing.md", "docs/results/README.md", "docs/spark.md"]
)
def test_every_document_is_covered(document: str) -> None:
    assert any(each.document == document for each in prose.TOLD)
