"""Requests for documents, made by the client's own calls."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from couchbase import options
from couchbase.exceptions import DocumentNotFoundException
from couchbase.kv_range_scan import PrefixScan

from stores.couchbase.connection import Connection


class Documents:
    """Requests of one try: each may take the time that is left for the call."""

    def __init__(self, connection: Connection, timeout: float, durable: Mapping[str, Any]) -> None:
        self.connection = connection
        self._collection = connection.collection
        self._timeout = {"timeout": timedelta(seconds=timeout)}
        self._writing = {**self._timeout, **durable}

    def get(self, key: str) -> tuple[bytes, int] | None:
        """A document and its CAS."""
        try:
            result = self._collection.get(key, options.GetOptions(**self._timeout))
        except DocumentNotFoundException:
            return None
        return result.value, result.cas

    def insert(self, key: str, value: bytes, **settings: Any) -> None:
        self._note(self._collection.insert(key, value, options.InsertOptions(**self._writing, **settings)))

    def replace(self, key: str, value: bytes, cas: int, **settings: Any) -> None:
        replacing = options.ReplaceOptions(cas=cas, **self._writing, **settings)
        self._note(self._collection.replace(key, value, replacing))

    def remove(self, key: str, cas: int) -> None:
        self._note(self._collection.remove(key, options.RemoveOptions(cas=cas, **self._writing)))

    def append(self, key: str, value: bytes) -> None:
        self._collection.binary().append(key, value, options.AppendOptions(**self._writing))

    def get_multi(self, keys: list[str]) -> Any:
        return self._collection.get_multi(keys, options.GetMultiOptions(**self._timeout))

    def exists_multi(self, keys: list[str]) -> Any:
        return self._collection.exists_multi(keys, options.ExistsMultiOptions(**self._timeout))

    def remove_multi(self, keys: list[str]) -> Any:
        return self._collection.remove_multi(keys, options.RemoveMultiOptions(**self._writing))

    def upsert_multi(self, items: dict[str, bytes], **settings: Any) -> Any:
        return self._collection.upsert_multi(items, options.UpsertMultiOptions(**self._writing, **settings))

    def scan(self, prefix: str, **settings: Any) -> Any:
        return self._collection.scan(PrefixScan(prefix), options.ScanOptions(ids_only=True, **settings))

    def _note(self, result: Any) -> None:
        self.connection.note([result])
