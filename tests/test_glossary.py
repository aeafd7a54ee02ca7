"""The modules that docs/glossary.md names exist, and define the names that stand behind them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "glossary.md").read_text()
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in TEXT.splitlines()
    if line.startswith("| ") and not line.startswith(("| term |", "| question |", "| --- |"))
]
MODULE = re.compile(r"`([\w/]+\.py)`(?:: ((?:`\w+`(?:, )?)+))?")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_term_is_where_the_glossary_says(row: list[str]) -> None:
    assert len(row) == 3, "term, meaning, where"
    for path, names in MODULE.findall(row[2]):
        text = (ROOT / path).read_text()
        for name in re.findall(r"\w+", names):
            assert re.search(rf"^( *(def|class) {name}\b|{name}\b.* = )", text, re.MULTILINE), (path, name)


@pytest.mark.parametrize(("page", "heading"), re.findall(r"\]\(([\w./-]+\.md)(?:#([\w-]+))?\)", TEXT))
def test_links_lead_to_headings(page: str, heading: str) -> None:
    headings = re.findall(r"^#+ (.*)", (ROOT / "docs" / page).read_text(), re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings}
    assert not heading or heading in anchors


def test_no_term_stands_twice() -> None:
    terms = [row[0] for row in ROWS]
    assert len(terms) == len(set(terms))
    assert len(terms) > 100
