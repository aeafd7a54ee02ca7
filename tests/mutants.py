"""Breaks the engine in one place at a time, and lists the mutants that its tests let live.

Our own: mutmut and cosmic-ray drop no statements, locks or halves of conditions and swap no arguments, and
start Python with all its libraries for each mutant; here a fork has them, so that most die in seconds.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib
import importlib.util
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil

ROOT = Path(__file__).parents[1]

#: Fast tests of many modules, the fastest first. Tests that start processes run what is on the disk.
ENGINE = tuple(
    f"tests/mta/test_{name}.py" for name in ("log", "batch", "policies", "early_pages", "stateful")
)
DURABILITY = tuple(
    f"tests/durability/test_{name}.py"
    for name in ("commits_in_doubt", "checkpoints", "twins", "gc", "writers", "corruption")
)
TESTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        (
            "core/logarithmic_view",
            "core/amortized_view",
            "core/view",
            "core/log",
            "core/stack",
            "core/batch",
            "policies",
        ),
        (*ENGINE, "tests/mta/test_combines.py"),
    ),
    "core/enforcement": (*ENGINE, "tests/mta/test_combines.py", "tests/mta/test_bad_input.py"),
    "window": (*ENGINE, "tests/mta/test_bad_input.py", *DURABILITY),
    **{
        f"paging/{part}": (f"tests/paging/test_{part}.py", *ENGINE, *DURABILITY, "tests/mta/test_faults.py")
        for part in ("buffer", "cache", "reaper")
    },
    **dict.fromkeys(
        ("paging/stored", "paging/page_reader", "paging/page_writer"),
        (*ENGINE, *DURABILITY, "tests/mta/test_faults.py"),
    ),
    "paging/read_ahead": ("tests/paging/test_read_ahead.py",),
    **dict.fromkeys(
        tuple(f"durability/{part}" for part in ("ownership", "writer", "checkpoints", "coding")), DURABILITY
    ),
    "durability/manifest": ("tests/durability/test_named.py", *DURABILITY),
    "durability/attempts": ("tests/durability/test_attempts.py", "tests/durability/test_gc.py"),
}
TESTS = {f"mta/{name}.py": tests for name, tests in TESTS.items()}
#: What a fork need not import: nothing of the project, which it imports with the mutant in.
LIBRARIES = ("hypothesis.stateful", "msgpack", "numpy", "rocksdict", "xxhash", "redis")
#: Seconds without any work after which a run has hung.
IDLE = 30
CHOSEN = "not redis and not couchbase"

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
OTHER_SIDE = {"left": "right", "right": "left", "min": "max", "max": "min"}
#: What takes its arguments in any order.
ANY_ORDER = ("min", "max")
#: Types, and what errors say.
LEFT_ALONE = ("annotation", "returns", "type_params", "decorator_list", "exc", "bases")


#: The way to a node from the root of its tree: fields, and places in them.
Place = tuple[str | int, ...]


@dataclass(frozen=True)
class Mutant:
    """The `number`-th thing that may stand in a place instead of what does."""

    path: str
    place: Place
    number: int
    line: int
    was: str
    becomes: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.was}  →  {self.becomes}"

    def tree(self) -> ast.Module:
        tree = ast.parse((ROOT / self.path).read_text())
        *way, last = self.place
        holder: Any = tree
        for step in way:
            holder = holder[step] if isinstance(step, int) else getattr(holder, step)
        was = holder[last] if isinstance(last, int) else getattr(holder, last)
        new = list(variants(was))[self.number]
        if isinstance(new, list):
            holder[last : last + 1] = new
        elif isinstance(last, int):
            holder[last] = new
        else:
            setattr(holder, last, new)
        return ast.fix_missing_locations(tree)


# -- what can be broken --------------------------------------------------------------------------------------


def changed(node: ast.AST, **fields: Any) -> Any:
    new = copy.copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


def expressions(node: ast.AST) -> Iterator[ast.expr]:
    """What may stand in the place of an expression."""
    match node:
        case ast.Compare(ops=[one]) if type(one) in COMPARISONS:
            yield changed(node, ops=[COMPARISONS[type(one)]()])
        case ast.BoolOp(op=op, values=values):
            yield changed(node, op=ast.And() if isinstance(op, ast.Or) else ast.Or())
            for left_out in values:
                rest = [value for value in values if value is not left_out]
                yield rest[0] if len(rest) == 1 else changed(node, values=rest)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.BinOp(op=op, left=left, right=right):
            if type(op) in OPERATORS:
                yield changed(node, op=OPERATORS[type(op)]())
            yield from (left, right)
        case ast.IfExp(body=body, orelse=orelse):
            yield from (body, orelse)
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield from (ast.Constant(value + 1), ast.Constant(value - 1))
        case ast.Constant(value=str(value)) if value in OTHER_SIDE:
            yield ast.Constant(OTHER_SIDE[value])
        case ast.Name(id=name) if name in OTHER_SIDE:
            yield changed(node, id=OTHER_SIDE[name])
        case ast.Call(func=function, args=arguments, keywords=keywords):
            swaps = 0 if ast.unparse(function) in ANY_ORDER else len(arguments) - 1
            for place in range(swaps):
                swapped = [*arguments]
                swapped[place : place + 2] = reversed(swapped[place : place + 2])
                yield changed(node, args=swapped)
            for keyword in keywords:
                yield changed(node, keywords=[each for each in keywords if each is not keyword])


def statements(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    """What may stand in the place of a statement."""
    nothing: list[ast.stmt] = [ast.Pass()]
    match node:
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Raise() | ast.Delete():
            yield nothing
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript(), *_]):
            yield nothing
        case ast.With(body=body):
            yield body
        case ast.If(test=test) if not isinstance(test, ast.Compare | ast.BoolOp):
            yield from ([changed(node, test=ast.Constant(value))] for value in (True, False))
        case ast.Continue():
            yield [ast.Break()]
        case ast.Break():
            yield nothing
        case ast.Return(value=ast.Compare() | ast.BoolOp()):
            yield from ([ast.Return(ast.Constant(value))] for value in (True, False))


def unbroken(node: ast.AST) -> bool:
    """What is left alone: words for people, types, and what says nothing of how the program works."""
    match node:
        case ast.JoinedStr() | ast.Assert() | ast.AnnAssign(value=None) | ast.Import() | ast.ImportFrom():
            return True
        case ast.FunctionDef(name=name):
            return name == "__repr__" or any("overload" in ast.dump(each) for each in node.decorator_list)
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Expr(value=ast.Constant()):
            return True
    return False


def variants(node: ast.AST) -> Iterator[Any]:
    yield from statements(node) if isinstance(node, ast.stmt) else expressions(node)


def mutants_of(path: str) -> list[Mutant]:
    """Every mutant of a module."""
    return list(mutants_below(path, ast.parse((ROOT / path).read_text()), ()))


def mutants_below(path: str, node: Any, here: Place) -> Iterator[Mutant]:
    if unbroken(node):
        return
    for number, new in enumerate(variants(node)):
        becomes = summary(new[0] if isinstance(new, list) else new)
        yield Mutant(path, here, number, node.lineno, summary(node), becomes)
    for name, value in ast.iter_fields(node):
        if name in LEFT_ALONE:
            continue
        for number, child in enumerate(value if isinstance(value, list) else ()):
            if isinstance(child, ast.AST):
                yield from mutants_below(path, child, (*here, name, number))
        if isinstance(value, ast.AST):
            yield from mutants_below(path, value, (*here, name))


def summary(node: ast.AST) -> str:
    line = " ".join(ast.unparse(node).split())
    return line if len(line) < 100 else f"{line[:97]}..."


# -- whether it dies -----------------------------------------------------------------------------------------


class Broken(MetaPathFinder, Loader):
    """Loads one module from a tree."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant
        self._name = mutant.path.removesuffix(".py").replace("/", ".")

    def find_spec(self, name: str, *_: Any) -> ModuleSpec | None:
        if name != self._name:
            return None
        return importlib.util.spec_from_file_location(name, ROOT / self._mutant.path, loader=self)

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self._mutant.tree(), str(ROOT / self._mutant.path), "exec"), vars(module))


def run_tests(tests: tuple[str, ...], mutant: Mutant | None) -> None:
    """In a process of its own: ends it, with pytest's exit code."""
    import hypothesis
    import pytest

    os.setsid()
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    hypothesis.settings.register_profile(
        "mutants", deadline=None, derandomize=True, database=None, max_examples=25,
        phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
    )  # fmt: skip
    if mutant is not None:
        sys.meta_path.insert(0, Broken(mutant))
    with tempfile.TemporaryDirectory() as directory:
        words = f"-x -q -p no:cacheprovider --hypothesis-profile=mutants --basetemp {directory}".split()
        early = "ignore::pytest.PytestAssertRewriteWarning"  # of libraries that are there already
        code = pytest.main([*words, "-W", early, "-m", CHOSEN, *tests])
    os._exit(int(code))


@dataclass(frozen=True)
class Job:
    """Tests that run in a process of their own, with a mutant in or without one."""

    tests: tuple[str, ...]
    mutant: Mutant | None
    #: of the processor, at most
    seconds: int

    def start(self) -> int:
        child = os.fork()
        if not child:
            try:
                resource.setrlimit(resource.RLIMIT_CPU, (self.seconds, self.seconds))
                run_tests(self.tests, self.mutant)
            finally:
                os._exit(1)
        return child


class Progress:
    """Whether a process still does something: one that waits for itself needs no processor."""

    def __init__(self, child: int) -> None:
        self._process = psutil.Process(child)
        self._used, self._since = 0.0, time.monotonic()

    def stopped(self) -> bool:
        used = sum(self._process.cpu_times()[:2])
        if used > self._used + 0.05:
            self._used, self._since = used, time.monotonic()
        return time.monotonic() > self._since + IDLE


def done(jobs: list[Job]) -> Iterator[tuple[Job, str, int]]:
    """What became of each job, and its seconds; as many run at a time as there are processors."""
    waiting = jobs[::-1]
    running: dict[int, tuple[Job, Progress]] = {}
    while waiting or running:
        while waiting and len(running) < (os.cpu_count() or 1):
            job = waiting.pop()
            child = job.start()
            running[child] = job, Progress(child)
        for child, (job, progress) in list(running.items()):
            stopped = progress.stopped()
            if stopped:
                os.killpg(child, signal.SIGKILL)
            ended, status, used = os.wait4(child, 0 if stopped else os.WNOHANG)
            if ended:
                del running[child]
                end = "hung" if os.WIFSIGNALED(status) else "died" if status else "lived"
                yield job, end, int(used.ru_utime + used.ru_stime)
        time.sleep(0.02)


def chosen_from(parser: argparse.ArgumentParser) -> tuple[list[Mutant], int]:
    """The mutants to try, and how many there are."""
    parser.add_argument(
        "modules", nargs="*", default=list(TESTS), help="such as mta/policies.py; all by default"
    )
    parser.add_argument("--count", type=int, default=40, help="a sample of so many (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (default %(default)s)")
    parser.add_argument("--only", default="", help="instead all whose line in the list has this in it")
    chosen = parser.parse_args()
    mutants = [each for path in chosen.modules for each in mutants_of(path) if chosen.only in str(each)]
    if chosen.only or len(mutants) <= chosen.count:
        return mutants, len(mutants)
    return random.Random(chosen.seed).sample(mutants, chosen.count), len(mutants)


def main() -> int:
    mutants, number = chosen_from(argparse.ArgumentParser(description=__doc__))
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    for name in LIBRARIES:
        importlib.import_module(name)
    files = sorted({file for each in mutants for file in TESTS[each.path]})
    seconds = {}
    for job, end, used in done([Job((file,), None, 600) for file in files]):
        if end != "lived":
            print(f"without a mutant, {job.tests[0]} {end}", file=sys.stderr)
            return 2
        seconds[job.tests[0]] = used
    print(f"{len(mutants)} of {number} mutants; these live:", flush=True)
    ends: Counter[str] = Counter()
    jobs = []
    for mutant in mutants:
        tests = TESTS[mutant.path]
        jobs.append(Job(tests, mutant, 10 + 3 * sum(map(seconds.__getitem__, tests))))
    for job, end, _ in done(jobs):
        ends[end] += 1
        if end == "lived":
            print(job.mutant, flush=True)
    print(f"{ends['lived']} lived, {ends['died']} died, {ends['hung']} hung or took too long")
    return int(ends["lived"] > 0)


if __name__ == "__main__":
    sys.exit(main())
