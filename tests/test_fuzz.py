"""What tests try by chance is the same in each run, and `make fuzz` tries something else."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
from chance import FUZZING, fresh

TESTS = Path(__file__).parent
#: Calls that are the same in no two runs, without arguments: `random.Random(7)` has a seed.
UNSEEDED = {"random.Random", "Random", "np.random.default_rng", "default_rng"}
#: Calls that are the same in no two runs, whatever their arguments: of the module's own generator.
OF_ALL = re.compile(
    r"(np\.)?random\.(?!Random$|SystemRandom$|Generator$|default_rng$|getstate$|seed$)[a-z]+|os\.urandom"
)
#: Which asks for new seeds.
FUZZ = "fuzz.py"


def by_chance(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if (called in UNSEEDED and not node.args) or OF_ALL.fullmatch(called):
                yield f"line {node.lineno}: {ast.unparse(node)}"
        # programs that tests run
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\nimport " in node.value:
            try:
                yield from (f"program of line {node.lineno}, {each}" for each in by_chance(node.value))
            except SyntaxError:
                continue


@pytest.mark.parametrize(
    "call",
    ["random.Random()", "np.random.default_rng()", "random.random()", "random.choice(x)", "os.urandom(8)"],
)
def test_a_call_without_a_seed_is_found(call: str) -> None:
    assert list(by_chance(f"a = 1\nb = {call}")) == [f"line 2: {call}"]
    assert list(by_chance(f'RUN = """\nimport x\nb = {call}\n"""')) == [f"program of line 1, line 3: {call}"]
    assert not list(by_chance("random.Random(1).random() + np.random.default_rng(2).random() + rng.random()"))


def test_all_that_tests_do_by_chance_has_a_seed() -> None:
    found = {
        f"{path.relative_to(TESTS)}, {each}"
        for path in TESTS.rglob("*.py")
        if path.name != FUZZ
        for each in by_chance(path.read_text())
    }
    assert found == set()


def output_of(*arguments: str) -> str:
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=TESTS, capture_output=True, text=True, check=True).stdout


def test_hypothesis_tries_the_same_examples_in_each_run() -> None:
    assert hypothesis.settings.default.derandomize is not FUZZING
    assert hypothesis.settings.default.database is None


def test_names_differ_and_are_the_same_in_each_run() -> None:
    code = "import os, chance; print(chance.fresh('w'), chance.fresh('w'))"
    runs = {output_of("-c", code) for _ in range(2)}
    (names,) = runs
    assert len(set(names.split())) == 2
    assert fresh() != fresh()


def test_fuzz_tells_its_seed_and_uses_it() -> None:
    words = ["--times", "2", "--seed", "700", "tests/monoids/test_runs.py", "-n", "0", "--collect-only"]
    first, *lines = output_of(FUZZ, *words).splitlines()
    assert first == "seed 700, 2 times as many examples as usual"
    assert len([line for line in lines if re.search(r"-7[0-3]\d\]$", line)]) == 80
    assert lines[-1] == "1 rounds, none of which failed"


def test_runs_under_load_are_counted() -> None:
    two = ["--runs", "2", "--at-once", "2", "--busy", "1"]
    one_test = ["tests/monoids/test_runs.py", "-k", "[True-1]"]
    *runs, last = output_of("under_load.py", *two, *one_test, "-n", "0", "-m", "not long").splitlines()
    told = sorted(re.sub(r"load [\d.]+: (.*),.*", r"load: \1", each) for each in runs)
    assert told == ["run 1, load: 1 passed", "run 2, load: 1 passed"]
    assert last == "2 of 2 runs without a failure"
