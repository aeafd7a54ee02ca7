"""The rooms of docs/design.md have walls.

Who imports whom, how large rooms and modules are, and that no module reads another's underscore names.
"""

from __future__ import annotations

import ast
import graphlib
import statistics
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("mta", "stores", "spark_integration")

#: Rooms from the ground up: a module imports from its own room and from those before it.
ROOMS = (
    ("stores",),
    ("mta.kinds", "mta.options", "mta.errors", "mta.functions", "mta.owned", "mta.numbers"),
    ("mta.monoids",),
    ("mta.times",),
    ("mta.encoding", "mta.inputs"),
    ("mta.core",),
    ("mta.monoids.laws",),
    ("mta.policies",),
    ("mta.paging",),
    ("mta.durability",),
    ("mta",),
    ("mta.baselines",),
    ("mta.slicing",),
    ("spark_integration",),
    ("mta.cli", "mta.lab", "mta.__main__"),
)
#: What the paper's structure does without.
NOT_IN_CORE = {"stores", "threading", "concurrent", "os", "io", "pathlib", "socket", "subprocess", "time"}

FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
}
TREES = {name: ast.parse(path.read_text("utf-8")) for name, path in FILES.items()}
LINES = {name: len(path.read_text("utf-8").splitlines()) for name, path in FILES.items()}


def named_imports(name: str) -> set[str]:
    """All that a module's import statements could name, those behind TYPE_CHECKING and in functions too."""
    found: set[str] = set()
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert not node.level, f"{name}:{node.lineno} imports by dots; write the module's whole name"
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= inner & FILES.keys()
            if not inner <= FILES.keys():
                found.add(node.module)
    return found


IMPORTS = {name: {other for other in named_imports(name) if other in FILES} - {name} for name in FILES}


def room(name: str) -> int:
    """Where a module's room stands in ROOMS; the longest name that fits is its."""
    fitting = [
        (len(part), place)
        for place, parts in enumerate(ROOMS)
        for part in parts
        if name == part or name.startswith(f"{part}.")
    ]
    return max(fitting)[1]


def is_package(name: str) -> bool:
    return FILES[name].name == "__init__.py"


def underscore_reads() -> list[str]:
    """Attributes with one underscore that a module reads of what it does not define itself."""
    own = {
        name: {
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in ("self", "cls")
        }
        | {
            node.name
            for node in ast.walk(tree)
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        }
        for name, tree in TREES.items()
    }
    ours = set().union(*own.values())
    return [
        f"{name}:{node.lineno} reads {node.attr}"
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and node.attr in ours - own[name]
    ]


def imported_underscores() -> list[str]:
    """Names with one underscore that a module imports from another of ours."""
    return [
        f"{name}:{node.lineno} imports {alias.name} of {node.module}"
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in FILES
        for alias in node.names
        if alias.name.startswith("_") and not alias.name.startswith("__")
    ]


def test_no_module_imports_itself_by_way_of_others() -> None:
    # a package that only hands on names is no link of a chain
    graph = {
        name: {other for other in others if not is_package(other)}
        for name, others in IMPORTS.items()
        if not is_package(name)
    }
    graphlib.TopologicalSorter(graph).prepare()


def test_arrows_point_down() -> None:
    up = [
        f"{name} imports {other}"
        for name, others in IMPORTS.items()
        for other in others
        if room(other) > room(name) and not is_package(name)
    ]
    assert not up, "a room imports from one above it (see ROOMS):\n" + "\n".join(sorted(up))


def test_stores_know_nothing_of_aggregation() -> None:
    assert not [name for name in FILES if room(name) == 0 and any(room(other) for other in IMPORTS[name])]


def test_the_paper_is_alone() -> None:
    core = [name for name in FILES if name.startswith(("mta.core", "mta.monoids"))]
    assert core
    strangers = {name: named_imports(name) & NOT_IN_CORE for name in core}
    assert not {name: found for name, found in strangers.items() if found}


def test_rooms_are_not_crowded() -> None:
    packages: dict[Path, list[str]] = {}
    for name, path in FILES.items():
        if not is_package(name):
            packages.setdefault(path.parent, []).append(name)
    assert not {str(place): len(names) for place, names in packages.items() if len(names) > 16}


def test_modules_are_short() -> None:
    assert not {name: count for name, count in LINES.items() if count > 400}
    # those that only hand on names do not count
    assert statistics.median(count for count in LINES.values() if count > 8) <= 120


def test_underscore_names_stay_in_their_modules() -> None:
    assert not underscore_reads() + imported_underscores()
