"""What an operator sees of slicers: the caller's offset, and aggregates that are checked."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from window_kinds import Uneven

from mta import AmortizedMTA, monoids
from mta.cli.main import main
from mta.slicing import Session, Slicer, Sliding
from mta.slicing.leaves import slice_states
from stores import open_store


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"rocksdb://{tmp_path}/db"


def keep(url: str, kind: Any, queries: Any, value: Any = 1) -> None:
    with (
        open_store(url) as store,
        Slicer(kind, queries, lateness=20, store=store, name="s", page_size=4, local=0) as slicer,
    ):
        for time in range(0, 200, 2):
            slicer.insert(value, time=time)
        slicer.watermark(150)
        slicer.checkpoint(offset={"file": "ä", "row": 7})


QUERIES = {"long": Sliding(100, 3), "visit": Session(9)}


def test_the_offset_is_the_callers(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    keep(url, monoids.Sum(), QUERIES)
    for command in (["ls", url], ["inspect", url, "s"]):
        assert main(command) == 0
        out = capsys.readouterr().out
        assert '{"file": "ä", "row": 7}' in out
        assert "slicer" not in out
    assert main(["ls", "--json", url]) == 0
    assert json.loads(capsys.readouterr().out)[0]["offset"] == {"file": "ä", "row": 7}
    assert main(["inspect", "--json", url, "s"]) == 0
    (version,) = json.loads(capsys.readouterr().out)["versions"]
    assert version["offset"] == {"file": "ä", "row": 7}


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (monoids.Sum(), 1),
        (monoids.First(), 1),
        (monoids.Concat(), "a"),
        (monoids.Fields(n=monoids.Count(), m=monoids.Mean("x")), {"x": 3}),
    ],
    ids=repr,
)
def test_aggregates_of_slices_are_checked(
    kind: Any, value: Any, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(url, kind, QUERIES, value)
    assert main(["verify", url, "s"]) == 0
    assert capsys.readouterr().out.endswith("nothing is wrong\n")
    assert main(["verify", "--json", url, "s"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ok"]
    assert found["recomputed"] > 5
    assert found["monoid"] == f"slices of {kind!r}"
    assert main(["verify", url, "s", "--monoid", f"slices of {kind!r}"]) == 0


def test_what_cannot_be_checked_is_named(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    keep(url, monoids.from_function(max, 0, name="most"), QUERIES)
    assert main(["verify", url, "s"]) == 2
    out = capsys.readouterr().out
    assert "not checked: elements and aggregates, since the monoid is not known" in out
    assert "nothing is wrong\n" not in out


def test_queries_that_hold_functions_are_named(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    keep(url, monoids.Sum(), {"own": Uneven()})
    assert main(["verify", url, "s"]) == 2
    assert "not checked: open slices and queries" in capsys.readouterr().out


def test_a_slicer_whose_state_is_damaged(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    keep(url, monoids.Sum(), QUERIES)
    with open_store(url) as store, AmortizedMTA.restore(store, "s", slice_states(monoids.Sum())) as window:
        window.checkpoint({"slicer": window.offset["slicer"][:-9] + b"123456789", "offset": None})
    assert main(["verify", url, "s"]) == 1
    assert "wrong: the state of version 2: the slicer 's' is not what was written" in capsys.readouterr().out


def test_slices_watermark_and_queries_are_shown(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with (
        open_store(url) as store,
        Slicer(
            monoids.Sum(), {"long": Sliding(100, 10)}, store=store, name="s", page_size=4, local=0
        ) as slicer,
    ):
        slicer.checkpoint()
        slicer.extend([1] * 200, list(range(200)))
        slicer.checkpoint()
        slicer.watermark(155)
        slicer.checkpoint()
        stored = slicer.leaves
        assert 0 < stored < 14
    assert main(["inspect", "--json", url, "s"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["summary"]["elements"] == 14
    assert found["slicer"] == {
        "queries": {"long": Sliding(100, 10).fingerprint()},
        "watermark": 155,
        "slices": 14 - stored,
        "youngest": 199,
    }
    assert found["versions"][0]["youngest"] is None
    assert main(["inspect", url, "s"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert f"slices 14, of which {14 - stored} in the manifest" in out
    assert "query long Sliding(length=100, slide=10)" in out
    assert main(["ls", "--json", url]) == 0
    assert json.loads(capsys.readouterr().out)[0]["elements"] == 14


@pytest.mark.parametrize("zone", [UTC, None])
def test_dates_are_shown_as_people_write_them(
    zone: timezone | None, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    begin = datetime(2024, 5, 6, 7, tzinfo=zone)
    with (
        open_store(url) as store,
        Slicer(
            monoids.Sum(), {"q": Sliding("100 s", "10 s")}, store=store, name="s", page_size=4, local=0
        ) as slicer,
    ):
        slicer.extend([1] * 200, [begin + timedelta(seconds=second) for second in range(200)])
        slicer.watermark(begin + timedelta(seconds=155))
        slicer.checkpoint()
        slicer.watermark(math.inf)
        slicer.checkpoint()
    youngest = str(begin + timedelta(seconds=199))
    assert main(["inspect", "--json", url, "s"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["slicer"]["youngest"], found["slicer"]["watermark"]) == (youngest, "inf")
    oldest, last = found["versions"][0]["oldest"], found["versions"][0]["youngest"]
    assert str(begin) <= oldest < last <= youngest
    assert main(["inspect", url, "s"]) == 0
    out = capsys.readouterr().out
    assert f"youngest {youngest}" in " ".join(out.split())
    assert str(round(begin.replace(tzinfo=UTC).timestamp()))[:6] not in out


def test_windows_of_streams_are_not_said_to_be_right(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    class Nullable(monoids.Sum):  # it has the name of a monoid in Spark windows
        def fingerprint(self) -> str:
            return "Nullable(Sum('x'), 'x')"

    with open_store(url) as store, AmortizedMTA(Nullable(), store=store, name="w", page_size=2) as window:
        window.extend([1, 2, 3, 4, 5])
        window.checkpoint()
    assert main(["verify", url, "w"]) == 2
    out = capsys.readouterr().out
    assert "aggregates computed again: 0" in out
    assert "something was not" in out
    assert main(["verify", "--json", url, "w"]) == 2
    assert not json.loads(capsys.readouterr().out)["ok"]
