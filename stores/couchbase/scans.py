"""Listing of documents by the server's scans (Couchbase 7.6)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from couchbase.exceptions import CouchbaseException, FeatureUnavailableException
from couchbase.mutation_state import MutationState

from stores.couchbase.client import Client
from stores.couchbase.document_names import PAGE
from stores.couchbase.documents import Documents

SCAN_SECONDS = 75.0


class Scans:
    def __init__(self, client: Client) -> None:
        self._client = client

    def available(self, call: str, again: bool = False) -> bool:
        """Whether the server has scans. With `again`, asks a server that had none: it may be upgraded now."""

        def ask(server: Documents) -> bool:
            connection = server.connection
            if connection.scans is None or (again and not connection.scans):
                scan = server.scan(PAGE)
                try:
                    iter(scan)
                    scan.cancel_scan()
                    connection.scans = True
                except FeatureUnavailableException:
                    connection.scans = False
                    connection.written.clear()
            return connection.scans

        return self._client.call(call, ask)

    def find(self, call: str, prefix: str) -> Iterator[str]:
        """The documents with the prefix. A scan that breaks off starts anew, so a document may come twice."""
        budget, furthest = self._client.patient.budget(), 0
        while True:
            server = self._client.call(call, lambda server: server, budget)
            written = [result for _, result in list(server.connection.written.values())]
            state = {"consistent_with": MutationState(*written)} if written else {}
            try:
                scan = server.scan(prefix, timeout=timedelta(seconds=SCAN_SECONDS), **state)
                for number, row in enumerate(scan):
                    yield row.id
                    self._client.check_open(call)
                    if number >= furthest:
                        budget, furthest = self._client.patient.budget(), number + 1
                return
            except CouchbaseException as error:
                self._client.patient.wait(call, error, budget)
