"""Rivals in other languages: what there has to be, how they are built and fed, and that all agree."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mta.cli.options import directory_with
from mta.lab.bench.engine import rivals
from mta.lab.experiments.experiment import Record, Row, Scale
from mta.lab.experiments.rivals import entrants, flink, programs, swag
from mta.lab.experiments.rivals.contenders import pushed
from mta.lab.experiments.rivals.experiment import Rivals
from mta.lab.experiments.rivals.values import BATCH, last_of, values_of
from mta.lab.own_process import FAILED, FINISHED, in_own_process

compiled = pytest.mark.skipif(swag.compiler() is None, reason="there is no C++ compiler on the PATH")

#: A structure of that repository, as far as our program can tell; it keeps all numbers.
NAIVE = """
#include <deque>
namespace dabalite {
template <typename Operator> struct Aggregate {
    std::deque<double> held; Operator max; double identity;
    Aggregate(Operator max, double identity) : max(max), identity(identity) {}
    void insert(double value) { held.push_back(max.lift(value)); }
    void evict() { held.pop_front(); }
    double query() {
        double found = identity;
        for (double value : held) found = max.combine(found, value);
        return max.lower(found);
    }
};
}
"""


def checkout(directory: Path, header: str | None) -> Path:
    headers = directory / swag.HEADERS
    headers.mkdir(parents=True)
    if header is not None:
        (headers / "DABALite.hpp").write_text(header)
    return directory


def run(contender: str, place: Path | None = None, window: int = 5, rows: int = 300) -> Record:
    case = {"contender": contender, "window": window, "rows": rows}
    return in_own_process("rivals", case | ({"place": str(place)} if place else {}), 300, lambda _: None)


def row_of(record: Record) -> Row:
    assert record["outcome"] == FINISHED, record["reason"]
    (row,) = record["rows"]
    assert row["last"] == last_of(300, 5)
    assert row["ns"] > 0
    return dict(row)


# -- the numbers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "window"), [(5, 1), (5, 9), (BATCH + 3, 2), (BATCH + 3, 7), (BATCH + 3, BATCH)]
)
def test_what_the_last_result_has_to_be(rows: int, window: int) -> None:
    numbers = np.concatenate(list(values_of(rows)))
    assert len(set(numbers.tolist())) == rows
    assert last_of(rows, window) == max(numbers.tolist()[-window:])
    assert pushed(rows, window)["last"] == last_of(rows, window)


# -- data frames ------------------------------------------------------------------------------------------


class Called:
    """A library that notes what is asked of it, and does what the library does."""

    def __init__(self, real: Any, names: list[str]) -> None:
        self._real, self._names = real, names

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        self._names.append(name)
        return (lambda *a, **k: Called(found(*a, **k), self._names)) if name in ("col", "Series") else found


@pytest.mark.parametrize("library", ["polars", "pandas"])
@pytest.mark.parametrize("aggregate", ["Sum", "Max", "Mean", "SampleStdDev"])
def test_data_frames_slide_by_count_where_windows_are_by_count(
    library: str, aggregate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is up to twice as fast as by time, and has the same results from the first row on."""
    real = pytest.importorskip(library)
    names: list[str] = []
    monkeypatch.setattr(rivals, "load", lambda _: Called(real, names))
    make, times, values = getattr(rivals, library), np.arange(50), np.random.default_rng(3).random(50)
    by_count = make(aggregate, times, values, 7, True)()
    assert not {"rolling_sum_by", "rolling_max_by", "rolling_mean_by", "rolling_std_by"} & set(names)
    assert "DatetimeIndex" not in names
    by_time = make(aggregate, times, values, 7, False)()
    assert {f"rolling_{rivals.POLARS[aggregate]}_by", "DatetimeIndex"} & set(names)
    np.testing.assert_allclose(by_count, by_time, rtol=1e-9)


# -- programs ---------------------------------------------------------------------------------------------

SLIDES = """
import struct, sys
rows = int(sys.argv[1])
print("ready", flush=True)
numbers = struct.unpack(f"{rows}d", sys.stdin.buffer.read(8 * rows))
held = bytearray(1 << 25)
print(1.5, max(numbers), flush=True)
assert sys.stdin.buffer.read() == b""
"""


def python(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", code, *arguments]


def test_a_program_is_fed_and_its_memory_is_seen() -> None:
    row = programs.measured(python(SLIDES, "100000"), values_of(100_000))
    assert (row["seconds"], row["last"]) == (1.5, last_of(100_000, 100_000))
    assert 1 << 25 < row["held_bytes"] < row["program_bytes"]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import sys; sys.exit('no window of that size')", "ended with 1: no window of that size"),
        ("print('hello', flush=True); import time; time.sleep(100)", "ended with -9: without a word"),
        ("print('ready', flush=True); import sys; sys.stdin.close(); sys.exit('full')", "ended with 1: full"),
        ("print('ready', flush=True); import sys; sys.stdin.buffer.read(800_000)", "ended with 0: without"),
        ("print('ready', flush=True); print('lost'); raise SystemExit(3)", "ended with 3: without a word"),
    ],
)
def test_a_program_that_does_not_do_what_is_asked(code: str, said: str) -> None:
    with pytest.raises(programs.Broken, match=said):
        programs.measured(python(code), values_of(100_000))


def test_an_interrupt_ends_the_program() -> None:
    def interrupted() -> Any:
        yield np.zeros(1)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        programs.measured(python("print('ready', flush=True); import time; time.sleep(1000)"), interrupted())


def test_what_a_compiler_says() -> None:
    with pytest.raises(programs.Broken, match=r"ended with 1: b\.h:1: error: too old$"):
        programs.build(python("import sys; sys.exit('In a.cc:\\nb.h:1: error: too old\\n 1 | x')"))
    with pytest.raises(programs.Broken, match=r"ended with 4: without a word$"):
        programs.build(python("raise SystemExit(4)"))


# -- C++ --------------------------------------------------------------------------------------------------


@compiled
def test_a_structure_is_compiled_and_agrees(tmp_path: Path) -> None:
    row = row_of(run("dabalite", checkout(tmp_path, NAIVE)))
    assert row["program_bytes"] > 1 << 19
    assert row["held_bytes"] >= 0


@compiled
@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (None, r"error: DABALite\.hpp: No such file|'DABALite\.hpp' file not found"),
        ("#error another compiler\n", "error: .*another compiler"),
        ("namespace dabalite { }\n", "error: .*Aggregate"),
        (NAIVE.replace("pop_front", "pop_back"), r"AssertionError: dabalite ends with 0\.\d+, not with 0\."),
    ],
)
def test_a_structure_that_cannot_be_measured(header: str | None, reason: str, tmp_path: Path) -> None:
    record = run("dabalite", checkout(tmp_path, header))
    assert record["outcome"] == FAILED
    assert re.search(reason, record["reason"]), record["reason"]


@compiled
def test_results_do_not_say_where_the_checkout_is(tmp_path: Path) -> None:
    rivals = Rivals()
    options = argparse.Namespace(swag=checkout(tmp_path, NAIVE), flink=None)
    case = next(case for case in rivals.cases(Scale(quick=True), options) if case["contender"] == "dabalite")
    record = rivals.perform(case, 100, lambda _: None)
    assert record["outcome"] == FINISHED, record["reason"]
    assert record["case"] == case
    assert str(tmp_path) not in str(record)


@compiled
@pytest.mark.parametrize("contender", entrants.CPP)
def test_the_structures_of_a_checkout(contender: str) -> None:
    place = os.environ.get("MTA_TEST_SWAG")
    if not place:
        pytest.skip("MTA_TEST_SWAG names no checkout of IBM/sliding-window-aggregators")
    assert row_of(run(contender, Path(place)))["held_bytes"] >= 0


# -- Flink ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("contender", ["flink", "flink-event"])
def test_flink(contender: str) -> None:
    named = os.environ.get("MTA_TEST_FLINK")
    place = Path(named) if named else flink.installed()
    if place is None:
        pytest.skip("MTA_TEST_FLINK names no distribution of Flink, and apache-flink-libraries is not there")
    if flink.lacks():
        pytest.skip(str(flink.lacks()))
    row = row_of(run(contender, place))
    assert row["program_bytes"] > 1 << 26
    assert "held_bytes" not in row


@pytest.mark.skipif(flink.lacks() is not None, reason="there is no javac, or no java, on the PATH")
def test_a_distribution_without_what_flink_needs(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    record = run("flink", tmp_path)
    assert record["outcome"] == FAILED
    assert "error: package org.apache.flink" in record["reason"]


def test_the_flink_of_an_installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyflink" / "lib").mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "pyflink", raising=False)
    assert flink.installed() is None
    (tmp_path / "pyflink" / "lib" / "flink-dist-2.3.0.jar").write_bytes(b"")
    assert flink.installed() == tmp_path / "pyflink"
    assert entrants.places_of(None, None)["flink"] == tmp_path / "pyflink"
    assert entrants.places_of(None, Path("other"))["flink"] == Path("other")


# -- river ------------------------------------------------------------------------------------------------


def test_river() -> None:
    pytest.importorskip("river", reason="river is not installed")
    row_of(run("river"))


# -- who runs ---------------------------------------------------------------------------------------------


def test_who_is_left_out_and_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(flink.importlib.util, "find_spec", lambda _: None)
    cases = Rivals().cases(Scale(quick=True), argparse.Namespace(swag=None, flink=None))
    assert {case["contender"] for case in cases} == {"amta", "amta-push", "amta-rocksdb", "amta-redis"}
    said = capsys.readouterr().err
    assert "mta: left out, as no --swag DIRECTORY: DABA Lite, C++; DABA, C++; " in said
    assert "mta: left out, as no --flink DIRECTORY: Flink, by arrival; Flink, by event time\n" in said
    assert "mta: left out, as river is not installed: river\n" in said
    monkeypatch.setenv("PATH", str(tmp_path))
    places = {"swag": tmp_path, "flink": tmp_path}
    why = entrants.missing(places)
    assert "FiBA(4), C++" in why["none of g++, clang++, c++ is on the PATH"]
    assert "Flink, by arrival" in why["javac is not on the PATH"]
    for name in ("g++", "java", "javac"):
        program = tmp_path / name
        program.touch()
        program.chmod(0o755)
        assert shutil.which(name)
    assert entrants.missing(places).keys() == {
        f"{name} is not installed" for name in ("polars", "pandas", "duckdb", "pyspark", "river")
    }


def test_a_directory_is_known_by_what_is_in_it(tmp_path: Path) -> None:
    kind = directory_with("cpp/src/*.hpp", "a checkout")
    assert kind(str(checkout(tmp_path / "there", NAIVE))) == tmp_path / "there"
    for text in (str(tmp_path), str(tmp_path / "nowhere")):
        with pytest.raises(
            argparse.ArgumentTypeError, match=r"expected a checkout, with cpp/src/\*\.hpp in it"
        ):
            kind(text)


@pytest.mark.long
def test_figures_say_who_is_missing_and_how_far_each_went() -> None:
    rivals = Rivals()

    def record(contender: str, window: int, **more: int) -> Record:
        row = {"seconds": 1.0, "last": 0.5, "ns": 7.0, "stored_bytes": 0, **more}
        return {
            "case": {"contender": contender, "window": window, "rows": 10},
            "peak_bytes": 1,
            "rows": [row],
        }

    ours = [record("amta", size, held_bytes=9) for size in (10, 1000)]
    made = rivals.exhibits([*ours, record("flink", 10, program_bytes=1 << 20)])
    assert [each.slug for each in made] == ["time", "memory", "state"]
    assert (
        "10 rows in all, with those that fill it. To 10 only: Flink, by arrival. Not run: Amortized MTA, R"
        in made[0].cut
    )
    assert "CSV" in made[0].cut
    assert "Flink, by arrival: 1 MiB at 10" in made[1].seen
    assert "Flink" not in made[2].seen
    made = rivals.exhibits([*ours, record("daba", 10, held_bytes=9, program_bytes=1)])
    assert [each.slug for each in made] == ["time", "memory", "state", "cpp-time", "cpp-state"]
    assert "CSV" not in made[0].cut
    assert "DABA" not in made[0].seen
    assert made[3].seen == (
        "At the largest window of each: Amortized MTA, in memory: 7 ns at 1,000, DABA, C++: 7 ns at 10."
    )
    assert [each.slug for each in rivals.exhibits([record("amta-push", 10, held_bytes=9)])] == []
