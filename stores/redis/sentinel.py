"""The route to the server that Sentinels name as the master of a service."""

from __future__ import annotations

import threading
from collections.abc import Iterable

import redis
from redis.exceptions import AuthenticationError

from stores.errors import StoreConfigError
from stores.patience import Budget
from stores.redis.connection import ConnectionSettings
from stores.redis.routes import UNREACHABLE, Address, OneServer, share_of, without_errors
from stores.redis.server import Server


class Sentinel(OneServer):
    """Asks the Sentinels for the master at first, and again after each transient error."""

    def __init__(
        self,
        sentinels: Iterable[Address],
        service: str,
        settings: ConnectionSettings,
        sentinel_settings: ConnectionSettings,
    ) -> None:
        self._sentinels = [Server(*address, sentinel_settings) for address in sentinels]
        self._service = service
        self._settings = settings
        self._lock = threading.Lock()
        self._master: Server | None = None
        self._is_current = False

    def servers(self, budget: Budget) -> list[Server]:
        with self._lock:
            if self._master is None or not self._is_current:
                address = self._ask_sentinels(budget)
                if self._master is None or (self._master.host, self._master.port) != address:
                    if self._master is not None:
                        self._settings.server_changed()
                        self._master.close()
                    self._master = Server(*address, self._settings)
                self._is_current = True
            return [self._master]

    def _ask_sentinels(self, budget: Budget) -> Address:
        unknown, failure = 0, None
        for sentinel in list(self._sentinels):
            question = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._service)
            try:
                part = share_of(budget, len(self._sentinels))
                (answer,) = without_errors(sentinel.execute([question], part))
            except AuthenticationError:
                raise
            except UNREACHABLE as error:
                failure = error
                continue
            if answer is not None:
                self._sentinels.remove(sentinel)  # the Sentinel that answers is asked first next time
                self._sentinels.insert(0, sentinel)
                return answer[0].decode(), int(answer[1])
            unknown += 1
        if failure is None:
            raise StoreConfigError(f"none of {unknown} Sentinels knows a service {self._service!r}")
        raise redis.ConnectionError(f"no Sentinel names a master of {self._service!r}: {failure}")

    def servers_may_have_changed(self) -> None:
        self._is_current = False

    def close(self) -> None:
        for server in (*self._sentinels, self._master):
            if server is not None:
                server.close()
