"""The C++ of IBM/sliding-window-aggregators: a program of ours, with the headers of a checkout."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

from mta.lab.experiments.experiment import Row
from mta.lab.experiments.rivals.programs import build, measured
from mta.lab.experiments.rivals.values import BATCH, values_of

#: What is looked for on the PATH.
COMPILERS = ("g++", "clang++", "c++")
#: Where a checkout has its headers.
HEADERS = "cpp/src"
SOURCE = Path(__file__).with_name("sliding.cc")
#: As in that repository's Makefile; two of its headers use a macro that the others define.
FLAGS = ("-std=gnu++17", "-O3", "-DNDEBUG", "-w", "-D_IFDEBUG(x)=")


class Structure(NamedTuple):
    header: str
    kind: str
    #: what one is made of: the operator, and mostly its identity
    made_of: str = "{Max(), Max::identity}"


STRUCTURES = {
    "dabalite": Structure("DABALite.hpp", "dabalite::Aggregate<Max>"),
    "daba": Structure("DABA.hpp", "daba::Aggregate<Max>"),
    "twostackslite": Structure("TwoStacksLite.hpp", "twostackslite::Aggregate<Max>"),
    "amta": Structure("AMTA.hpp", "amta::Aggregate<int64_t, Max>"),
    "bfinger4": Structure("FiBA.hpp", "btree::Aggregate<int64_t, 4, btree::finger, Max>", "{Max()}"),
    "bclassic4": Structure("FiBA.hpp", "btree::Aggregate<int64_t, 4, btree::classic, Max>", "{Max()}"),
}


def compiler() -> str | None:
    return next((found for name in COMPILERS if (found := shutil.which(name))), None)


def swag(name: str, rows: int, window: int, checkout: Path) -> Row:
    """One number at a time, in a process of its own; only what the structure does is timed."""
    with tempfile.TemporaryDirectory(prefix="mta-swag-") as directory:
        program = Path(directory) / name
        compile_to(program, STRUCTURES[name], checkout)
        return measured([str(program), str(window), str(rows), str(BATCH)], values_of(rows))


def compile_to(program: Path, structure: Structure, checkout: Path) -> None:
    found = compiler()
    if found is None:
        raise FileNotFoundError(f"none of {', '.join(COMPILERS)} is on the PATH")
    header, kind, made_of = structure
    defined = {"HEADER": f'"{header}"', "STRUCTURE": kind, "WITH": made_of}
    macros = (f"-D{name}={value}" for name, value in defined.items())
    build([found, *FLAGS, *macros, f"-I{checkout / HEADERS}", str(SOURCE), "-o", str(program)])
