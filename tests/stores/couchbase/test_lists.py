from __future__ import annotations

import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from couchbase_inside import collection, connected

from stores import StoreFull, StoreUnavailable, open_store, page_key, page_prefix, pages_of, parse_page_key

pytest.importorskip("couchbase")

import couchbase.exceptions as cb

from stores.couchbase import document_names as documents
from stores.couchbase import list_lines, lists
from stores.couchbase.documents import Documents

pytestmark = pytest.mark.couchbase


# Lists


@pytest.fixture
def without_scans(store: Any) -> None:
    """For tests of the lists of a server without scans."""
    store.put_many({"probe": b""})
    if connected(store).scans:
        pytest.skip("this server has scans")


def list_document(store: Any, key: str) -> bytes:
    value: bytes = collection(store).get(list_lines.list_of(key)).value
    return value


@pytest.mark.usefixtures("without_scans")
def test_a_page_is_listed_before_it_is_written(
    store: Any, name: str, keys: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: Any) -> Any:
        raise MemoryError

    for call in ("upsert_multi", "insert"):
        monkeypatch.setattr(collection(store), call, crash)
    # The list itself may be new too.
    insert = type(collection(store)).insert
    monkeypatch.setattr(
        collection(store),
        "insert",
        lambda key, *rest: insert(collection(store), key, *rest) if key.startswith("mta:l:") else crash(),
    )
    with pytest.raises(MemoryError):
        store.put_many({keys[0]: b"x"})
    with pytest.raises(MemoryError):
        store.swap_root(name, b"x", None)
    monkeypatch.undo()
    assert name.encode() in list_document(store, documents.page(keys[0]))
    assert name.encode() in list_document(store, documents.root(name))
    assert list(store.list_keys(pages_of(name))) == []
    assert list(store.list_roots(name)) == []


@pytest.mark.usefixtures("without_scans")
def test_a_list_grows_by_a_line_for_many_pages(store: Any, couchbase_url: str, name: str) -> None:
    prefix = page_prefix(name, 1, 0)
    for number in range(300):
        store.put_many({page_key(prefix, number): b"x"})
    assert list_document(store, documents.page(prefix)).count(name.encode()) == 2
    with open_store(couchbase_url) as other:
        assert len(list(other.list_keys(prefix))) == 300
        other.put_many({page_key(prefix, 5): b"y"})
        assert len(list(store.list_keys(prefix))) == 300  # though listed twice


@pytest.mark.usefixtures("without_scans")
def test_old_lines_that_lead_to_nothing_are_dropped(
    store: Any, couchbase_url: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefixes = [page_prefix(name, 1, tier) for tier in range(3)]
    now = time.time()
    with open_store(couchbase_url) as old:
        monkeypatch.setattr(lists.time, "time", lambda: now - 8 * 86400)
        old.put_many({page_key(prefix, 0): b"x" for prefix in prefixes[:2]})
        token = old.swap_root(name, b"x", None)
        old.delete_root(name, token)
        old.delete_many([page_key(prefixes[0], 0)])
        monkeypatch.setattr(lists.time, "time", lambda: now)
        store.put_many({page_key(prefixes[2], 0): b"x"})
        store.delete_many([page_key(prefixes[2], 0)])
        document = documents.page(prefixes[0])
        assert list_document(store, document).count(name.encode()) == 3
        assert list(store.list_keys(pages_of(name))) == [page_key(prefixes[1], 0)]
        left = list_document(store, document)
        assert left.count(name.encode()) == 2  # one has a page, one is fresh
        assert f"{prefixes[0]}".encode() not in left
        assert name.encode() in list_document(store, documents.root(name))
        assert list(store.list_roots(name)) == []
        assert name.encode() not in list_document(store, documents.root(name))
        old.put_many({page_key(prefixes[0], 0): b"x"})  # a writer that goes on tells again after a day
        assert set(store.list_keys(pages_of(name))) == {page_key(prefix, 0) for prefix in prefixes[:2]}


@pytest.mark.usefixtures("without_scans")
def test_lines_that_repeat_are_dropped(store: Any, couchbase_url: str, name: str) -> None:
    store.delete_root(name, store.swap_root(name, b"x", None))
    lines_of_others = list_document(store, documents.root(name)).count(b"\n") - 1
    openings = 4 + lines_of_others  # a list is written anew when less than half of its lines are wanted
    for _ in range(openings):
        with open_store(couchbase_url) as other:
            for _ in range(3):  # a process remembers what it wrote
                other.delete_root(name, other.swap_root(name, b"x", None))
    assert list_document(store, documents.root(name)).count(name.encode()) == 1 + openings
    assert list(store.list_roots(name)) == []
    assert list_document(store, documents.root(name)).count(name.encode()) == 1


@pytest.mark.usefixtures("without_scans")
def test_lists_do_not_grow_with_every_opening(
    couchbase_url: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A window that is opened, written and closed leaves lines that lead to nothing. Nobody lists here."""
    monkeypatch.setattr(lists, "UNUSED_LINE_SECONDS", -10)
    monkeypatch.setattr(lists, "TIDY_EVERY", 1)
    sizes = []
    for epoch in range(6):
        with open_store(couchbase_url) as store:
            page = page_key(page_prefix(name, epoch, 0), 0)
            token = store.swap_root(name, b"x", None)
            store.put_many({page: b"x"})
            store.delete_many([page])
            store.delete_root(name, token)
            sizes.append(list_document(store, documents.page(page)).count(name.encode()))
            sizes.append(list_document(store, documents.root(name)).count(name.encode()))
    assert max(sizes) <= 2


@pytest.mark.usefixtures("without_scans")
def test_a_store_for_reading_lists_and_does_not_tidy(
    store: Any, couchbase_url: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "UNUSED_LINE_SECONDS", -10)
    store.delete_root(name, store.swap_root(name, b"x", None))
    before = list_document(store, documents.root(name))
    with open_store(couchbase_url, read_only=True) as reading:
        assert list(reading.list_roots(name)) == []
    assert list_document(store, documents.root(name)) == before
    assert list(store.list_roots(name)) == []
    assert list_document(store, documents.root(name)) != before


@pytest.mark.usefixtures("without_scans")
def test_tidying_spares_what_leads_somewhere_and_what_is_fresh(
    store: Any, couchbase_url: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, gone, fresh = (page_key(page_prefix(name, 1, tier), 7) for tier in range(3))
    now = time.time()
    monkeypatch.setattr(lists.time, "time", lambda: now - lists.UNUSED_LINE_SECONDS - 10)
    store.put_many({kept: b"x", gone: b"x"})
    store.delete_many([gone])
    monkeypatch.setattr(lists.time, "time", lambda: now)
    monkeypatch.setattr(lists, "TIDY_EVERY", 1)
    with open_store(couchbase_url) as other:
        other.put_many({fresh: b"x"})
        other.delete_many([fresh])
    left = list_document(store, documents.page(kept)).decode()
    assert [page_prefix(name, 1, tier) in left for tier in range(3)] == [True, False, True]
    assert list(store.list_keys(pages_of(name))) == [kept]


@pytest.mark.usefixtures("without_scans")
def test_a_list_that_cannot_be_tidied_stops_nobody(
    store: Any, keys: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> Any:
        raise cb.UnAmbiguousTimeoutException

    monkeypatch.setattr(lists, "TIDY_EVERY", 1)
    monkeypatch.setattr(lists, "UNUSED_LINE_SECONDS", -10)
    store.get_many(keys[:1])
    for call in ("get", "get_multi", "exists_multi", "replace"):
        monkeypatch.setattr(collection(store), call, refuse)
    store.put_many({keys[0]: b"x"})
    monkeypatch.undo()
    assert store.get_many(keys[:1]) == [b"x"]
    assert list(store.list_keys(pages_of(parse_page_key(keys[0]).name))) == keys[:1]


@pytest.mark.usefixtures("without_scans")
@pytest.mark.parametrize(
    "junk",
    [
        b"\xff\xfe\n",
        b"no json\n",
        b"{}\n[]\n[1]\nnull\n7\n",
        b'["yesterday", "mta:p:x"]\n',
        b'[1, 7]\n[1, null]\n[1, "mta:r:x"]\n[1, "x"]\n[1, "mta:p:\\ud800"]\n',
        b'[NaN, "mta:p:x"]\n[1e999, "mta:p:x"]\n' + b"[" * 100_000 + b"\n",
        b"[1, " + b"9" * 5000 + b"]\n[" + b"9" * 400 + b', "mta:p:x"]\n',
        b'[1, "mta:p:"]\n[1, "mta:p:' + b"x" * 300 + b'"]\n',
    ],
)
def test_lines_that_nobody_wrote_are_passed_over(store: Any, name: str, junk: bytes) -> None:
    key = page_key(page_prefix(name, 1, 0), 0)
    store.put_many({key: b"x"})
    collection(store).binary().append(list_lines.list_of(documents.page(key)), junk)
    assert list(store.list_keys(pages_of(name))) == [key]
    assert key in set(store.list_keys(f"{{{name[:9]}"))  # all lists are read


@pytest.mark.usefixtures("without_scans")
def test_a_line_from_the_far_future_is_not_kept_until_then(
    store: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    monkeypatch.setattr(lists.time, "time", lambda: now + 2 * list_lines.FAR_AHEAD)
    kept, gone = (page_key(page_prefix(name, 1, tier), 0) for tier in range(2))
    store.put_many({kept: b"x", gone: b"x"})
    store.delete_many([gone])
    monkeypatch.setattr(lists.time, "time", lambda: now)
    assert list(store.list_keys(pages_of(name))) == [kept]
    assert list_document(store, documents.page(kept)).count(name.encode()) == 1


@pytest.mark.usefixtures("without_scans")
def test_a_list_that_changes_meanwhile_is_not_shortened(
    store: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, late = (page_key(page_prefix(name, 1, tier), 0) for tier in range(2))
    store.put_many({key: b"x"})
    store.delete_many([key])
    monkeypatch.setattr(lists, "UNUSED_LINE_SECONDS", -10)
    listing = store.list_keys(pages_of(name))
    replace = collection(store).replace

    def too_late(*arguments: Any) -> Any:
        store.put_many({late: b"x"})
        return replace(*arguments)

    monkeypatch.setattr(collection(store), "replace", too_late)
    assert list(listing) == []
    monkeypatch.undo()
    assert list(store.list_keys(pages_of(name))) == [late]


@pytest.mark.usefixtures("without_scans")
def test_names_with_line_ends_are_listed(store: Any, name: str) -> None:
    odd = f"{name}\u2028\x85\x1c\r\n\x0b"
    key = page_key(page_prefix(odd, 1, 0), 7)
    plain = f"{name}\n\u2028 no page key"
    store.put_many({key: b"x", plain: b"y"})
    store.swap_root(odd, b"x", None)
    assert list(store.list_keys(pages_of(odd))) == [key]
    assert list(store.list_keys(f"{name}\n")) == [plain]
    assert list(store.list_roots(name)) == [odd]
    assert set(store.list_keys(f"{{{name}")) == {key}  # of any window that starts so


@pytest.mark.usefixtures("without_scans")
def test_a_full_list_is_told(store: Any, keys: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> Any:
        error = cb.CouchbaseException(message="too big")
        error._context = SimpleNamespace(_base={"status_code": 3})
        raise error

    monkeypatch.setattr(Documents, "append", full)
    with pytest.raises(StoreFull, match="list_keys"):
        store.put_many({keys[0]: b"x"})


class Scan:
    """Stands for a scan, which the mock has not."""

    def __init__(self, ids: list[str], breaks: int | None = None) -> None:
        self.ids = ids
        self.breaks = breaks
        self.cancelled = False

    def __iter__(self) -> Iterator[Any]:
        for number, each in enumerate(self.ids):
            if number == self.breaks:
                raise cb.UnAmbiguousTimeoutException
            yield SimpleNamespace(id=each)

    def cancel_scan(self) -> None:
        self.cancelled = True


def test_a_server_with_scans_is_scanned(
    store: Any, name: str, keys: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def scan(kind: Any, options: Any) -> Scan:
        asked.append((kind.prefix, dict(options)))
        found = {
            "mta:p:": [documents.page(key) for key in keys],
            "mta:h:": [],
            "mta:r:": [documents.root(name)],
        }
        return Scan(found[kind.prefix[:6]], breaks=3 if len(asked) == 2 else None)

    monkeypatch.setattr(collection(store), "scan", scan)
    monkeypatch.setattr(Documents, "append", lambda *_: pytest.fail("a list was written to"))
    store.put_many(dict.fromkeys(keys, b"x"))
    assert [prefix for prefix, _ in asked] == ["mta:p:"]  # to see whether there are scans
    assert list(store.list_keys(pages_of(name))) == [*keys[:3], *keys]
    prefix, options = asked[-2]
    assert prefix == f"mta:p:{pages_of(name)}"
    assert asked[-1][0] == f"mta:h:{pages_of(name)}"
    assert options["ids_only"]
    assert options["consistent_with"]._sv
    store.swap_root(name, b"x", None)
    assert list(store.list_roots(name)) == [name]
    assert asked[-1][0] == f"mta:r:{name}"
    assert len(asked) == 5


def test_a_scan_that_always_breaks_is_given_up(
    couchbase_url: str, keys: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(couchbase_url, max_tries=2, backoff=0) as store:
        found = [documents.page(key) for key in keys]
        monkeypatch.setattr(collection(store), "scan", lambda *_: Scan(found, breaks=1))
        with pytest.raises(StoreUnavailable, match=r"list_keys.*2 tries"):
            list(store.list_keys("{"))
