"""The store: the documents that each call reads and writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any, ClassVar

from stores.base import TOKEN_BYTES, Store, Token, data_and_token, new_token
from stores.couchbase import document_names
from stores.couchbase.big_values import BigValues
from stores.couchbase.client import Client
from stores.couchbase.lists import DocumentLists
from stores.couchbase.settings import OPTIONS, read_settings
from stores.errors import Conflict, StoreError
from stores.names import escape_name

DOCUMENT_BYTES = 20 << 20


class CouchbaseStore(Store):
    """`couchbase://user:password@host/bucket`, `couchbases://` for TLS; several hosts with commas between.

    User and password may also come as options, or from COUCHBASE_USERNAME and COUCHBASE_PASSWORD in the
    environment. The bucket is `default` unless named, and must not evict documents, as an ephemeral bucket
    with nruEviction does. Options and their defaults: docs/couchbase.md.

    >>> from stores import open_store
    >>> open_store("couchbase://user:secret@one,two/windows", patience=30)  # connects when it is used
    CouchbaseStore('couchbase://user@one,two/windows')
    """

    shared_across_hosts = True
    credentials = "COUCHBASE"
    known_options: ClassVar[Mapping[str, Callable[[str], Any]]] = OPTIONS

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__(url, **options)
        login = self._credential("username"), self._credential("password")
        self._client = Client(read_settings(self._url, self.url, self._options, *login), self._check_open)
        self._lists = DocumentLists(self._client, read_only=self.read_only)
        self._big = BigValues(self._client, self._lists)

    # Pages

    def _put_many(self, items: list[tuple[str, bytes]]) -> None:
        values = dict(items)
        documents = {key: document_names.page(key) for key in values}
        big = {key: value for key, value in values.items() if len(value) > DOCUMENT_BYTES}
        self._big.check(big)
        pages = {document: values[key] for key, document in documents.items() if key not in big}
        if pages:
            self._lists.add("put_many", pages)
            self._client.put("put_many", pages)
            self._lists.add("put_many", pages)
        for key, value in big.items():
            self._big.put("put_many", key, value)

    def _get_many(self, wanted: list[str]) -> list[bytes | None]:
        documents = [document_names.page(key) for key in wanted]
        found = self._client.get("get_many", documents)
        absent = [key for key, document in zip(wanted, documents, strict=True) if found[document] is None]
        big = self._big.get("get_many", absent)
        return [big.get(key, found[document]) for key, document in zip(wanted, documents, strict=True)]

    def _delete_many(self, unwanted: list[str]) -> None:
        documents = [document_names.page(key) for key in unwanted]
        self._big.remove("delete_many", unwanted)  # first, so that no older large value reappears
        self._client.remove("delete_many", documents)

    def _list_keys(self, prefix: str) -> Iterator[str]:
        if "\0" in prefix:
            return
        for document in chain.from_iterable(
            self._lists.find("list_keys", kind + prefix)
            for kind in (document_names.PAGE, document_names.HEAD)
        ):
            key = document_names.key_of(document)
            if key is not None:
                yield key

    # Roots: a document that starts with its token

    def _read_root(self, name: str) -> tuple[bytes, Token] | None:
        found = self._client.call("read_root", lambda server: server.get(document_names.root(name)))
        return data_and_token(None if found is None else found[0])

    def _read_roots(self, names: list[str]) -> list[tuple[bytes, Token] | None]:
        documents = [document_names.root(name) for name in names]
        found = self._client.get("read_roots", documents)
        return [data_and_token(found.get(document)) for document in documents]

    def _swap_root(self, name: str, data: bytes, expected_token: Token | None) -> Token:
        """A write whose reply was lost is read back: the token says whether it was done."""
        document, token = document_names.root(name), new_token()
        if TOKEN_BYTES + len(data) > DOCUMENT_BYTES:
            raise StoreError(
                f"the root {name!r} takes {TOKEN_BYTES + len(data)} bytes, and Couchbase ends documents at "
                f"{DOCUMENT_BYTES}: make the offsets of checkpoints smaller, or retain fewer checkpoints"
            )

        def swapped(current: bytes | None) -> tuple[bool, bytes | None]:
            found = None if current is None else current[:TOKEN_BYTES]
            if found == token:
                return True, current
            return (True, token + data) if found == expected_token else (False, current)

        if expected_token is None:
            self._lists.add("swap_root", [document])
        if not self._client.edit("swap_root", document, swapped):
            raise Conflict(name)
        if expected_token is None:
            self._lists.add("swap_root", [document])
        return token

    def _delete_root(self, name: str, expected_token: Token) -> None:
        def deleted(current: bytes | None) -> tuple[bool, bytes | None]:
            same = current is None or current[:TOKEN_BYTES] == expected_token
            return same, None if same else current

        if not self._client.edit("delete_root", document_names.root(name), deleted):
            raise Conflict(name)

    def _list_roots(self, prefix: str) -> Iterator[str]:
        for document in self._lists.find("list_roots", document_names.ROOT + escape_name(prefix)):
            name = document_names.name_of(document)
            if name is not None:
                yield name

    def _close(self) -> None:
        self._client.close()
