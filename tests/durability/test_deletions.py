"""What is to be deleted: that it goes, and that somebody hears of it where it does not."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import pytest
import redis
import servers
from chance import fresh

from mta import AmortizedMTA, LogMTA, monoids, policies
from mta.durability.coding import decode_root
from mta.durability.operations import verify
from stores import Store, StoreConfigError, StoreUnavailable, open_store, pages_of
from stores.testing import FaultyStore

POLICY = policies.CountWindow(100)
DELETIONS = ("delete_many", "delete_range")


def named(store: Store, name: str) -> set[str]:
    found = store.read_root(name)
    assert found is not None
    return {key for version in decode_root(name, found[0]).retained for key in version.keys(name)}


@pytest.mark.parametrize("kind", [AmortizedMTA, LogMTA])
def test_pages_written_after_going_back_go_with_the_window(any_store: Store, kind: Any) -> None:
    """Retained versions name pages of the same numbers, which are others."""
    name = fresh("back")
    with kind(monoids.Sum(), POLICY, store=any_store, name=name, page_size=4) as window:
        for _ in range(3):
            window.extend(range(200))
            window.checkpoint()
    with kind.restore(any_store, name, monoids.Sum(), POLICY, version=2) as window:
        window.extend(range(300))
        window._log.pages.flush(window._log.tail)
        assert set(any_store.list_keys(pages_of(name))) > named(any_store, name)
    assert set(any_store.list_keys(pages_of(name))) == named(any_store, name)
    assert verify(any_store, name).problems == []


def test_a_store_that_refuses_to_delete_is_heard_of(caplog: pytest.LogCaptureFixture) -> None:
    refuses = False
    with open_store("memory:") as inner:
        store = FaultyStore(inner, lambda call, _: refuses and call in DELETIONS)
        window = AmortizedMTA(monoids.Sum(), POLICY, store=store, name="w", page_size=4)
        window.extend(range(100))
        window.checkpoint()
        refuses = True
        with caplog.at_level(logging.WARNING, logger="stores"):
            window.extend(range(1000))
            window.checkpoint()
            window.extend(range(1000))
            window.checkpoint() if window._log.pages._reaper.failure is None else None
            window._log.pages._writer.finish()
        assert "'w'" in caplog.text
        assert "injected fault" in caplog.text
        with pytest.raises(StoreUnavailable, match="delete"):
            window.checkpoint(offset=3)
        assert window.offset is None
        refuses = False
        window.checkpoint(offset=4)
        window.extend(range(100))
        window.checkpoint()
        window.close()
        assert set(inner.list_keys("")) == named(inner, "w")


@pytest.mark.redis
def test_a_user_that_may_not_delete(tmp_path: Path) -> None:
    with servers.redis_server(tmp_path / "redis") as server:
        with redis.Redis(port=server.port) as client:
            client.execute_command(
                "ACL", "SETUSER", "writer", "on", ">secret", "~*", "+@all", "-unlink", "-del"
            )
        url = server.url.replace("//", "//writer:secret@")
        with open_store(url) as store:
            window = AmortizedMTA(monoids.Sum(), POLICY, store=store, name="w", page_size=4)
            for _ in range(5):
                window.extend(range(1000))
                window._log.pages._writer.finish()
                if window._log.pages._reaper.failure is not None:
                    break
                window.checkpoint()
            with pytest.raises(StoreConfigError, match="refuses this user"):
                window.checkpoint()
            with redis.Redis(port=server.port) as client:
                client.execute_command("ACL", "SETUSER", "writer", "+unlink", "+del")
            window.checkpoint()
            window.close()


@pytest.mark.redis
def test_a_user_with_the_commands_that_the_docs_list(tmp_path: Path) -> None:
    docs = (Path(__file__).parent.parent.parent / "docs" / "redis.md").read_text()
    listed = docs.partition("A user needs the commands ")[2].partition("`mta:*`")[0]
    commands = re.findall("[A-Z]{3,}", listed.partition("`")[0])
    with servers.redis_server(tmp_path / "redis", "--appendonly", "yes", "--appendfsync", "always") as server:
        rules = ("on", ">secret", "~*", "-@all", *(f"+{command.lower()}" for command in commands))

        def allow() -> None:
            with redis.Redis(port=server.port) as client:
                client.execute_command("ACL", "SETUSER", "writer", *rules)

        allow()
        with open_store(server.url.replace("//", "//writer:secret@")) as store:
            window = AmortizedMTA(monoids.Sum(), POLICY, store=store, name="w", page_size=4)
            window.extend(range(1000))
            window.checkpoint()
            server.kill()
            server.start()
            allow()
            window.extend(range(1000))
            window.checkpoint()
            window.close()
            assert verify(store, "w").problems == []


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"retain": -1}, ValueError, "at least 1"),
        ({"retain": 0}, ValueError, "at least 1"),
        ({"retain": "2"}, TypeError, "whole number"),
        ({"retain": 1.0}, TypeError, "whole number"),
        ({"retain": True}, TypeError, "whole number"),
        ({"retain": None}, TypeError, "whole number"),
        ({"lease": "2"}, TypeError, "number of seconds"),
        ({"lease": True}, TypeError, "number of seconds"),
        ({"lease": float("nan")}, ValueError, "finite"),
        ({"lease": float("inf")}, ValueError, "finite"),
        ({"lease": -5}, ValueError, "above 0"),
        ({"lease": 0}, ValueError, "above 0"),
    ],
)
@pytest.mark.parametrize("kind", [AmortizedMTA, LogMTA])
def test_what_retain_and_lease_may_be(kind: Any, options: dict[str, Any], error: type, says: str) -> None:
    with open_store("memory:") as store:
        with pytest.raises(error, match=says):
            kind(monoids.Sum(), store=store, name="w", **options)
        assert list(store.list_roots()) == []
        with kind(monoids.Sum(), store=store, name="w") as window:
            window.push(1)
            window.checkpoint()
        token = store.read_root("w")[1]  # type: ignore[index]
        with pytest.raises(error, match=says):
            kind.restore(store, "w", monoids.Sum(), **options)
        assert store.read_root("w")[1] == token  # type: ignore[index]
