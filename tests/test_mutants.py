"""What `make mutants` breaks, and that it notices what dies."""

from __future__ import annotations

import ast
from pathlib import Path

import mutants
import pytest

MODULE = """\
def commit(lock, pages, head, tail):
    with lock:
        if head < tail and pages:
            pages.flush(head, tail, all=True)
        return tail - head
"""


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What the module becomes, by what is said of it."""
    (tmp_path / "module.py").write_text(MODULE)
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    return {str(each): ast.unparse(each.tree()) for each in mutants.mutants_of("module.py")}


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("head < tail and pages", "head <= tail and pages"),
        ("head < tail and pages", "pages"),
        ("head < tail and pages", "head < tail"),
        ("head < tail and pages", "head < tail or pages"),
        ("pages.flush(head, tail, all=True)", "pass"),
        ("pages.flush(head, tail, all=True)", "pages.flush(tail, head, all=True)"),
        ("pages.flush(head, tail, all=True)", "pages.flush(head, tail)"),
        ("all=True", "all=False"),
        ("tail - head", "tail + head"),
        ("tail - head", "tail"),
    ],
)
def test_what_is_broken(broken: dict[str, str], was: str, becomes: str) -> None:
    line = MODULE[: MODULE.index(was)].count("\n") + 1
    wanted = ast.unparse(ast.parse(MODULE.replace(was, becomes)))
    assert wanted in [text for said, text in broken.items() if said.startswith(f"module.py:{line}: ")]


def test_a_lock_is_dropped(broken: dict[str, str]) -> None:
    (without,) = (text for text in broken.values() if "lock:" not in text)
    assert without.splitlines()[1:] == [
        "    if head < tail and pages:",
        "        pages.flush(head, tail, all=True)",
        "    return tail - head",
    ]


def test_every_module_of_the_list_has_tests_that_there_are() -> None:
    for path, tests in mutants.TESTS.items():
        assert mutants.mutants_of(path)
        for test in tests:
            assert (mutants.ROOT / test).exists(), test
