"""The operator's commands from outside, and the expressions that they take."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mta import AmortizedMTA, monoids, policies
from mta.durability.coding import decode_root, encode_root
from mta.durability.operations import BadExpression, inspect, monoid_from_text, survey
from stores import open_store
from stores.base import pages_of

NAME = "sensor [7] ü"
FIELDS = monoids.Fields(peak=monoids.Max("t"), mean=monoids.Mean("u"))


def run(*arguments: str, typed: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    command = [
        os.fsencode(each) if each == "\udcff" else each for each in (sys.executable, "-m", "mta", *arguments)
    ]
    return subprocess.run(
        command, input=typed, capture_output=True, text=True, check=False, env={**os.environ, **variables}
    )


def mta(*arguments: str, code: int = 0) -> str:
    done = run(*arguments)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code < 2 else done.stderr


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store with a window of two versions, one whose writer died before a checkpoint, and an empty one."""
    url = f"rocksdb://{tmp_path}/db"
    program = (
        "import os, signal, sys\n"
        "from mta import AmortizedMTA, monoids, policies\n"
        "from stores import open_store\n"
        f"store = open_store({url!r})\n"
        f"window = AmortizedMTA(monoids.{FIELDS!r}".replace("=Max", "=monoids.Max").replace(
            "=Mean", "=monoids.Mean"
        )
        + f", policies.CountWindow(500), store=store, name={NAME!r}, page_size=8, lease=1e9)\n"
        "for start in range(0, 1500, 500):\n"
        "    rows = range(start, start + 500)\n"
        "    window.extend({'t': rows, 'u': rows})\n"
        "    window.checkpoint(offset={'file': 'ä', 'row': start + 500, 'raw': b'x'})\n"
        "window.extend({'t': range(100), 'u': range(100)})\n"
        "window._log.pages.flush(window._log.tail)\n"
        "dead = AmortizedMTA(monoids.Sum(), store=store, name='dead', page_size=2)\n"
        "dead.extend(range(100))\n"
        "dead._log.pages.flush(dead._log.tail)\n"
        "AmortizedMTA(monoids.Sum(), store=store, name='empty').checkpoint()\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=False)
    return url


def test_ls(url: str) -> None:
    out = mta("ls", url)
    assert NAME in out
    assert "2, 3" in out
    assert "(gone)" in out
    windows = json.loads(mta("ls", "--json", url))
    assert [window["name"] for window in windows] == ["dead", "empty", NAME]
    found = windows[2]
    assert (found["elements"], found["versions"], found["page_size"]) == (500, [2, 3], 8)
    assert found["offset"] == {"file": "ä", "row": 1500, "raw": "b'x'"}
    assert found["monoid"] == "Fields(peak=Max('t'), mean=Mean('u'))"
    assert found["owner_is"] == "gone"
    assert found["lease"] > 1e9
    assert windows[0]["versions"] == []


def test_ls_of_an_empty_store(tmp_path: Path) -> None:
    with open_store(f"rocksdb://{tmp_path}") as store:
        assert list(store.list_roots()) == []
    assert mta("ls", f"rocksdb://{tmp_path}").strip() == "no windows"
    assert json.loads(mta("ls", "--json", f"rocksdb://{tmp_path}")) == []


def test_inspect(url: str) -> None:
    out = mta("inspect", url, NAME)
    for text in (
        NAME,
        "Fields(peak=Max('t'), mean=Mean('u'))",
        "CountWindow(500)",
        "1,500",
        "not committed yet",
    ):
        assert text in out
    found = json.loads(mta("inspect", "--json", url, NAME))
    assert [version["tail"] for version in found["versions"]] == [1000, 1500]
    with open_store(url) as store:
        pages = sum(held["pages"] for kind in ("tiers", "parts") for held in found[kind].values())
        pages += found["uncommitted"]["pages"] + found["leftovers"]["pages"]
        assert pages == len(set(store.list_keys(pages_of(NAME))))
        assert inspect(store, NAME).summary == next(each for each in survey(store) if each.name == NAME)


def test_verify(url: str) -> None:
    out = mta("verify", url, NAME)
    assert "nothing is wrong" in out
    assert "versions 2, 3" in out
    found = json.loads(mta("verify", "--json", url, NAME))
    assert found["ok"]
    assert found["recomputed"] > 100
    named = json.loads(mta("verify", "--json", url, NAME, "--monoid", repr(FIELDS)))
    assert named == found
    unchecked = run("verify", url, "dead")
    assert (unchecked.returncode, "nothing is wrong\n" in unchecked.stdout) == (2, False)
    assert "not checked: the window, which has no checkpoint yet" in unchecked.stdout
    assert "nothing is wrong" in mta("verify", url, "empty")
    error = mta("verify", url, NAME, "--monoid", "Max('t')", code=2)
    assert "not Max('t')" in error
    with open_store(url) as store:
        keys = sorted(set(store.list_keys(pages_of(NAME))))
        store.delete_many(keys[70:71])
        store.put_many({keys[75]: b"x"})
    out = mta("verify", url, NAME, code=1)
    assert "is not in the store" in out
    assert "is damaged" in out
    assert "2 problems" in out or "4 problems" in out
    assert len(json.loads(mta("verify", "--json", url, NAME, code=1))["problems"]) >= 2


def test_gc_and_rm(url: str) -> None:
    with open_store(url) as store:
        before = set(store.list_keys(""))
    would = json.loads(mta("gc", "--dry-run", "--json", url))
    assert "would go" in mta("gc", "--dry-run", url)
    with open_store(url) as store:
        assert set(store.list_keys("")) == before
    done = json.loads(mta("gc", "--json", url))
    assert done == would
    assert [(each["name"], each["root"]) for each in done] == [("dead", True), (NAME, False)]
    assert "0 pages, 0 roots deleted" in mta("gc", url)
    with open_store(url) as store:
        assert len(before) - len(set(store.list_keys(""))) == sum(each["pages"] for each in done)
    assert "nothing is wrong" in mta("verify", url, NAME)
    assert "removed the window" in mta("rm", url, NAME)
    assert f"no window {NAME!r}" in mta("rm", url, NAME, code=2)
    assert "removed" in mta("rm", url, "empty")
    with open_store(url) as store:
        assert (list(store.list_keys("")), list(store.list_roots())) == ([], [])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["inspect", "URL", "nobody"], "no window 'nobody'"),
        (["verify", "URL", "nobody"], "no window 'nobody'"),
        (["verify", "URL", "nobody", "--monoid", "Mox()"], "Mox is not the name of a monoid"),
        (["ls", "nothing:x"], "no store for the scheme 'nothing'"),
        (["ls", "redis://127.0.0.1:1/0?max_tries=1"], "did not answer after 1 try"),
        (["gc", "URL", "--grace", "x"], "expected a number of seconds, got 'x'"),
        (["soak", "URL", "--kills", "0"], "expected 1 or more"),
        (["rm", "URL"], "one of the arguments NAME --prefix is required"),
        (["rm", "URL", "a", "--prefix", "b"], "not allowed with argument NAME"),
        (["rm", "URL", "--prefix", ""], "must not be empty"),
        (["rm", "URL", "--prefix", "nobody", "--yes"], "no window in RocksDBStore"),
        (["inspect", "URL", ""], "a name must not be empty"),
        (["verify", "URL", "x" * 201], "at most 200 UTF-8 bytes"),
        (["rm", "URL", "\udcff"], "valid Unicode"),
        (["inspect", "URL", "\x1b[31m"], "no window '\\x1b[31m'"),
        (["ls", "URL/typo"], "there is no RocksDB database in"),
        (["ls", "redis://[::1"], "URL is not valid"),
    ],
)
def test_a_mistake_is_one_line(arguments: list[str], says: str, tmp_path: Path) -> None:
    with open_store(f"rocksdb://{tmp_path}") as store:
        store.put_many({})
        list(store.list_roots())
    named = [each.replace("URL", f"rocksdb://{tmp_path}") for each in arguments]
    (line,) = mta(*named, code=2).splitlines()
    assert says in line


def test_what_only_reads_works_beside_a_writer(tmp_path: Path) -> None:
    url = f"rocksdb://{tmp_path}/db"
    with (
        open_store(url) as store,
        AmortizedMTA(monoids.Sum(), policies.CountWindow(50), store=store, name="w", page_size=4) as window,
    ):
        for version in range(1, 4):
            window.extend(range(100))
            assert window.checkpoint(offset=version) == version
            (found,) = json.loads(mta("ls", "--json", url))
            assert (found["name"], found["elements"], found["offset"]) == ("w", 50, version)
            of_versions = json.loads(mta("inspect", "--json", url, "w"))["versions"]
            assert of_versions[-1]["tail"] == 100 * version
            report = json.loads(mta("verify", "--json", url, "w"))
            assert report["ok"]
            assert report["versions"][-1] == version
            assert report["recomputed"] > 10
        for command in (["gc"], ["rm", "w"]):
            assert "is open in another process" in mta(command[0], url, *command[1:], code=2)
            assert "would" in mta(command[0], url, *command[1:], "--dry-run")
        assert "1 roots would go" in mta("rm", url, "--prefix", "w", "--dry-run")
        before = window.query()
        window.push(1)
        assert window.checkpoint() == 4
        assert window.query() == before + 1 - 50


def test_verify_finds_damage_of_a_directory_that_nobody_has_open(url: str) -> None:
    (log,) = Path(url.removeprefix("rocksdb://")).glob("*.log")
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 1
    log.write_bytes(content)
    for command in (["ls", url], ["inspect", url, NAME], ["verify", url, NAME]):
        assert "is damaged, and nothing in it was changed" in mta(*command, code=2)


@pytest.mark.parametrize(
    "command",
    [["ls"], ["gc"], ["inspect", "w"], ["verify", "w"], ["rm", "w"], ["rm", "--prefix", "w", "--yes"]],
)
def test_commands_make_no_store(command: list[str], tmp_path: Path) -> None:
    (line,) = mta(command[0], f"rocksdb://{tmp_path}", *command[1:], code=2).splitlines()
    assert "there is no RocksDB database in" in line
    assert list(tmp_path.iterdir()) == []


def test_rm_by_prefix(tmp_path: Path) -> None:
    url = f"rocksdb://{tmp_path}"
    with open_store(url) as store:
        for number in range(5):
            with AmortizedMTA(monoids.Sum(), store=store, name=f"q/{number}", page_size=2) as window:
                window.extend(range(10))
                window.checkpoint()
        store.swap_root("r", b"", None)
    assert "40 pages, 5 roots would go" in mta("rm", url, "--prefix", "q/", "--dry-run")
    asked = run("rm", url, "--prefix", "q/", typed="4\n")
    assert asked.returncode == 2
    assert "5 windows have names that begin with 'q/': q/0, q/1, q/2, …" in asked.stderr
    assert "nothing was removed" in asked.stderr
    assert run("rm", url, "--prefix", "q/").returncode == 2
    assert "would remove the window q/4" in mta("rm", url, "q/4", "--dry-run")
    assert "removed the window q/4" in mta("rm", url, "q/4")
    asked = run("rm", url, "--prefix", "q/", "--json", typed="4\n")
    assert asked.returncode == 0
    assert [each["name"] for each in json.loads(asked.stdout)] == ["q/0", "q/1", "q/2", "q/3"]
    with open_store(url) as store:
        assert (list(store.list_keys("")), list(store.list_roots())) == ([], ["r"])


# -- what others wrote, and where it is printed -------------------------------------------------------------

EVIL = "\x1b[31mw\x9b2J\u202e[bold]:warning:ü"
SAFE = "\\x1b[31mw\\x9b2J\\u202e[bold]:warning:ü"


@pytest.fixture
def evil(tmp_path: Path) -> str:
    """A store with a window all of whose texts are orders to a terminal."""
    url = f"rocksdb://{tmp_path}/db"
    deep: list[Any] = []
    for _ in range(40):
        deep = [deep]
    with open_store(url) as store:
        monoid = monoids.from_function(max, 0, name=EVIL)
        with AmortizedMTA(monoid, store=store, name=EVIL, page_size=2, lease=1e15) as window:
            window.extend(range(9))
            window.checkpoint(offset={EVIL: (EVIL, 10**5000, {(10**5000,)}, deep)})
        data, token = store.read_root(EVIL) or (b"", b"")
        root = decode_root(EVIL, data)
        store.swap_root(EVIL, encode_root(EVIL, replace(root, owner=(EVIL, 1, 1), policy=EVIL)), token)
        store.swap_root(f"{EVIL}damaged", b"x", None)
    return url


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_a_terminal_obeys_nothing_of_what_a_store_says(evil: str, flags: list[str]) -> None:
    for command in (
        ["ls"], ["inspect", EVIL], ["verify", EVIL], ["verify", f"{EVIL}damaged"],
        ["inspect", f"{EVIL}damaged"], ["gc"], ["rm", EVIL, "--dry-run"],
        ["rm", "--prefix", EVIL, "--dry-run"], ["rm", "--prefix", EVIL],
    ):  # fmt: skip
        done = run(command[0], evil, *command[1:], *flags)
        assert "Traceback" not in done.stderr
        for text in (done.stdout, done.stderr):
            assert all(each.isprintable() or each == "\n" for each in text), command
            assert text == "" or text.endswith(("\n", ": "))
    out = mta("ls", evil, *flags)
    if flags:
        found = {each["name"]: each for each in json.loads(out)}
        assert found[EVIL]["offset"][EVIL][0] == found[EVIL]["policy"] == EVIL
        assert "damaged" in found[f"{EVIL}damaged"]["problem"]
    else:
        assert SAFE in out
        assert "for ever" in out
    verified = run("verify", evil, EVIL)
    assert (verified.returncode, verified.stderr) == (2, "")  # its monoid is none of the catalogue
    assert verified.stdout.endswith("nothing is wrong of what was checked; something was not\n")
    assert verified.stdout.replace("\n", "").isprintable()


def test_any_stdout_will_do(evil: str) -> None:
    for variables in ({"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}):
        for flags in ([], ["--json"]):
            assert run("ls", evil, *flags, **variables).returncode == 0
    for redirected, code in ((">&-", 0), (">&- 2>&- <&-", 0), (">/dev/full", 2), ("| true", 0)):
        for command in ("ls", "ls --json"):
            line = f"{sys.executable} -m mta {command} {evil} {redirected}"
            done = subprocess.run(line, shell=True, capture_output=True, text=True, check=False)
            assert done.returncode == code
            assert len(done.stderr.splitlines()) <= 1
            assert "Traceback" not in done.stderr
            assert "Exception" not in done.stderr
    with open_store(evil) as store:
        assert decode_root(EVIL, (store.read_root(EVIL) or (b"",))[0]).policy == EVIL


# -- expressions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "monoid",
    [
        monoids.Max(),
        monoids.ArgMax("amount", "user"),
        monoids.BloomFilter("x", bits=128, hashes=3),
        monoids.DistinctCount("x", lg_k=10),
        monoids.LastK(3, "x"),
        monoids.Covariance("x", "y", ddof=0),
        monoids.LongestIncreasingRun("v", time="ts"),
        FIELDS,
        monoids.Fields(n=monoids.Count(), all=monoids.Collect()),
    ],
    ids=repr,
)
def test_a_fingerprint_is_an_expression(monoid: Any) -> None:
    again = monoid_from_text(monoid.fingerprint())
    assert type(again) is type(monoid)
    assert again.fingerprint() == monoid.fingerprint()


def test_sketches_are_in_the_catalogue() -> None:
    pytest.importorskip("datasketches")
    for monoid in (
        monoids.Quantiles("x", q=(0.5, 0.9)),
        monoids.HeavyHitters(),
    ):
        assert monoid_from_text(f" monoids.{monoid.fingerprint()} ").fingerprint() == monoid.fingerprint()


@pytest.mark.parametrize(
    "text",
    [
        "", "Max", "Max(", "1", "Max()()", "__import__('os').system('false')", "Max(open('/etc/passwd'))",
        "Monoid()", "ColumnarMonoid()", "from_function(max, 0)", "monoids.base.os()", "()" * 5000,
        "Fields(**{'a': Max()})", "Max(*'ab')", "Fields(a=[Max() for _ in 'a'])", "Max(lambda: 0)",
        "Fields()", "exec('1')", "BloomFilter(bits=-1)", "\0", "Max('a'); Max('b')", "Membership()", "Max(1)",
        "LongestRun(1, 2, 3, 4)",
    ],
    ids=lambda text: ascii(text)[:30],
)  # fmt: skip
def test_what_is_no_monoid_is_refused(text: str) -> None:
    with pytest.raises(BadExpression):
        monoid_from_text(text)


def test_a_monoid_of_somebody_elses_is_not_computed_again() -> None:
    with open_store("memory:") as store:
        monoid = monoids.from_function(max, 0, name="Max()")
        with AmortizedMTA(monoid, policies.CountWindow(9), store=store, name="w", page_size=2) as window:
            window.extend(range(20))
            window.checkpoint()
        from mta.durability.operations import verify

        report = verify(store, "w")
        assert report.ok
        assert report.monoid is None
        assert report.unchecked


@pytest.mark.redis
def test_bench_quick(redis_url: str, tmp_path: Path) -> None:
    file = tmp_path / "durability.json"
    out = mta("bench", "durability", "--quick", "--redis", redis_url, "--json", str(file))
    record = json.loads(file.read_text())
    assert (record["benchmark"], record["quick"]) == ("durability", True)
    assert list(record["sections"]) == ["checkpoint", "restore", "overhead"]
    for section in record["sections"].values():
        assert section["raw"]
        for line in section["lines"]:
            assert line["contender"] in out
            assert line["target"] is None
