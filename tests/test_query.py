"""`mta query` from outside, and the texts that it makes policies of."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mta import AmortizedMTA, monoids, policies
from mta.monoids.expressions import BadExpression
from mta.policy_texts import policy_from_text
from stores import open_store

FEATURES = monoids.Fields(n=monoids.Count(), mean=monoids.Mean("amount"))
POLICY = policies.TimeWindow(60) | policies.CountWindow(100)


def mta(*arguments: str, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "mta", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"rocksdb://{tmp_path}/db"


def test_a_window_is_queried_while_it_is_written(url: str) -> None:
    """The directory is open in this process, with elements since the last checkpoint."""
    with (
        open_store(url) as store,
        AmortizedMTA(FEATURES, POLICY, store=store, name="card 7", page_size=4) as window,
    ):
        for time in range(0, 200, 10):
            window.push({"amount": time / 2}, time)
        window.checkpoint(offset="x")
        window.push({"amount": 1e9}, 200)
        assert mta("query", url, "card 7") == "n: 6\nmean: 82.5\n"
        assert mta("query", url, "card 7", "--at", "200") == "n: 5\nmean: 85.0\n"
        assert mta("query", url, "card 7", "--range", "150", "160.5") == "n: 2\nmean: 77.5\n"
        assert mta("query", url, "card 7", "--range", "-1e3", "-.5e3", "--json").count('"n": 0')
        assert "as of -1000.0 may" in mta("query", url, "card 7", "--at", "-1e3", code=2)
        assert json.loads(mta("query", url, "card 7", "--json")) == {
            "window": "card 7", "version": 1, "offset": "x", "result": {"n": 6, "mean": 82.5},
        }  # fmt: skip
        assert "as of 100 may have had elements that are gone" in mta(
            "query", url, "card 7", "--at", "100", code=2
        )
        assert "no version 3" in mta("query", url, "card 7", "--version", "3", code=2)
        assert "no window 'card 8'" in mta("query", url, "card 8", code=2)
        window.checkpoint()
        assert json.loads(mta("query", url, "card 7", "--json"))["version"] == 2
        assert json.loads(mta("query", url, "card 7", "--version", "1", "--json"))["version"] == 1
    assert "not allowed with" in mta("query", url, "w", "--at", "1", "--range", "1", "2", code=2)
    assert "expected a time" in mta("query", url, "w", "--at", "noon", code=2)
    assert "no RocksDB database" in mta("query", f"{url}-none", "w", code=2)


def total_is_large(total: Any, old: Any) -> bool:
    return bool(total - old > 10)


@pytest.mark.parametrize(
    ("monoid", "policy"),
    [
        (monoids.from_function(max, 0), None),
        (monoids.Sum(), policies.While(total_is_large, name="large")),
        (monoids.Sum(), policies.While(total_is_large)),
    ],
)
def test_functions_of_users_need_python(url: str, monoid: Any, policy: Any) -> None:
    with open_store(url) as store, AmortizedMTA(monoid, policy, store=store, name="w") as window:
        window.extend([1, 2, 3])
        window.checkpoint()
    assert "is not of the catalogue" in mta("query", url, "w", code=2)
    assert "mta.Reader.open(url, name, monoid, policy) takes any" in mta("query", url, "w", code=2)


@pytest.mark.parametrize(
    "policy",
    [
        None,
        policies.CountWindow(10**12),
        policies.TimeWindow(2.5),
        policies.TimeWindow(10**15, closed="both"),
        policies.SumWindow(10, "a"),
        policies.SumWindow(0.1),
        policies.OlderThanMaximum(),
        policies.OlderThanLongestRun("runs"),
        policies.CountWindow(3) | policies.TimeWindow(2) | policies.OlderThanMaximum("x"),
    ],
    ids=str,
)
def test_a_policy_is_made_of_its_name(policy: Any) -> None:
    assert policy_from_text(str(policy)) == policy


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("While(large)", "expected literals"),
        ("While('large')", "While takes a function"),
        ("Policy()", "not the name of a policy"),
        ("_FieldPolicy()", "not the name of a policy"),
        ("Limits(3)", "not the name of a policy"),
        ("math.inf", "expected a call"),
        ("CountWindow(__import__('os').getpid())", "expected literals"),
        ("CountWindow(0)", "at least 1 element"),
        ("CountWindow(**{})", "expected name=value"),
        ("CountWindow(1) + CountWindow(2)", "expected a call"),
        ("CountWindow(", "not a policy such as"),
        ("Union(1, 2)", "not the name of a policy"),
        (" | ".join(["CountWindow(1)"] * 4000), "not a policy"),
        ("x" * 100_000, "a text of 100,000 characters"),
    ],
)
def test_other_texts_are_refused(text: str, reason: str) -> None:
    with pytest.raises(BadExpression, match=reason):
        policy_from_text(text)
