"""The rooms of tests/rooms.py have walls: who imports whom, and that underscore names stay in their modules.

`python tests/test_rooms.py` draws the picture in CONTRIBUTING.md, and says what tests/rooms.py must declare.
"""

from __future__ import annotations

import ast
import graphlib
import sys
from pathlib import Path

from rooms import ROOMS

ROOT = Path(__file__).parents[1]
PACKAGES = ("mta", "stores", "spark_integration")
CONTRIBUTING = ROOT / "CONTRIBUTING.md"

#: What the paper's structure does without.
NOT_IN_CORE = {"stores", "threading", "concurrent", "os", "io", "pathlib", "socket", "subprocess", "time"}

#: Spark and its packages, and the rooms that may import them.
SPARK = {"spark_integration", "pyspark", "py4j", "pyarrow", "pandas"}
WITH_SPARK = {"spark_integration", "lab"}
#: The other room that may import Arrow, and the other module, which is imported with the first Arrow column.
ROOM_WITH_ARROW, WITH_ARROW = "tables", "mta.encoding.arrow"

#: The rooms that may import `mta.keyed`.
DRIVERS = {"spark_integration", "cli", "lab", "tables", "mta"}

FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
}
TREES = {name: ast.parse(path.read_text("utf-8")) for name, path in FILES.items()}


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


def modules_of(name: str) -> list[str]:
    """The packages and modules of a room."""
    return ROOMS[name].modules.split() or [name if name in FILES else f"mta.{name}"]


HOME = {module: name for name in ROOMS for module in modules_of(name)}
DECLARED = {name: set(room.imports.split()) for name, room in ROOMS.items()}


def room_of(name: str) -> str:
    """The room of a module: its own, or that of the innermost package around it that has one."""
    part = name
    # `mta` stands for its __init__.py, and not for what is in the package
    while part not in HOME or (part == "mta" and part != name):
        part, dot, _ = part.rpartition(".")
        assert dot, f"{name} is in no room: add it to tests/rooms.py"
    return HOME[part]


def imported_rooms() -> dict[str, set[str]]:
    """The rooms that the modules of each room import."""
    found: dict[str, set[str]] = {name: set() for name in ROOMS}
    for name, others in IMPORTS.items():
        found[room_of(name)] |= {room_of(other) for other in others} - {room_of(name)}
    return found


def differences() -> list[str]:
    """How the declared imports and the actual ones differ."""
    return [
        f"{name} should declare {' '.join(sorted(actual))!r}: "
        f"{sorted(actual - DECLARED[name])} are imported and not declared, "
        f"{sorted(DECLARED[name] - actual)} are declared and not imported"
        for name, actual in imported_rooms().items()
        if actual != DECLARED[name]
    ]


def reached(name: str) -> set[str]:
    """The rooms that a room imports, or that the rooms that it imports do."""
    return DECLARED[name].union(*map(reached, DECLARED[name]))


def picture() -> str:
    """The declared rooms as a Mermaid graph, without the arrows that follow from others."""
    nodes = [f'    {identifier(name)}["{title(name)}<br>{room.about}"]' for name, room in ROOMS.items()]
    arrows = [
        f"    {identifier(name)} --> {identifier(other)}"
        for name, others in DECLARED.items()
        for other in sorted(others.difference(*map(reached, others)))
    ]
    return "\n".join(["flowchart TD", *reversed(nodes), *reversed(arrows), ""])


def identifier(name: str) -> str:
    return name.replace(".", "_")


def title(name: str) -> str:
    """Where a room is: the path of its first module, and the names of the others in the same package."""
    first, *others = ["mta.__init__" if module == "mta" else module for module in modules_of(name)]
    return ", ".join([first.replace(".", "/"), *(other.rpartition(".")[2] for other in others)])


def drawn() -> tuple[str, str, str]:
    """CONTRIBUTING.md before its picture, the picture, and the rest."""
    before, opening, rest = CONTRIBUTING.read_text("utf-8").partition("```mermaid\n")
    found, closing, after = rest.partition("```")
    return before + opening, found, closing + after


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


def test_each_room_imports_the_rooms_that_it_declares() -> None:
    assert not differences()


def test_each_room_has_modules() -> None:
    assert not HOME.keys() - FILES.keys()


def test_no_room_imports_itself_by_way_of_others() -> None:
    graphlib.TopologicalSorter(DECLARED).prepare()


def test_the_picture_in_contributing_is_of_these_rooms() -> None:
    assert drawn()[1] == picture(), "python tests/test_rooms.py draws it"


def test_no_module_imports_itself_by_way_of_others() -> None:
    # a package that only hands on names is no link of a chain
    graph = {
        name: {other for other in others if not is_package(other)}
        for name, others in IMPORTS.items()
        if not is_package(name)
    }
    graphlib.TopologicalSorter(graph).prepare()


def test_spark_is_known_to_its_rooms_only() -> None:
    strangers = {
        name: {each.partition(".")[0] for each in named_imports(name)}
        & (SPARK - {"pyarrow"} if room_of(name) == ROOM_WITH_ARROW else SPARK)
        for name in FILES
        if room_of(name) not in WITH_SPARK
    }
    assert strangers.pop(WITH_ARROW) == {"pyarrow"}
    assert not {name: found for name, found in strangers.items() if found}


def test_keyed_windows_are_driven_from_above() -> None:
    assert {name for name, others in DECLARED.items() if "keyed" in others} <= DRIVERS


def test_nothing_imports_the_lab() -> None:
    assert not [name for name, others in DECLARED.items() if "lab" in others]


def test_the_paper_is_alone() -> None:
    core = [name for name in FILES if name.startswith(("mta.core", "mta.monoids"))]
    assert core
    strangers = {name: named_imports(name) & NOT_IN_CORE for name in core}
    assert not {name: found for name, found in strangers.items() if found}


def test_underscore_names_stay_in_their_modules() -> None:
    assert not underscore_reads() + imported_underscores()


if __name__ == "__main__":
    before, _, after = drawn()
    CONTRIBUTING.write_text(before + picture() + after, "utf-8")
    sys.exit("\n".join(differences()))
