"""What every store does with roots."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stores.base import Store
from stores.errors import Conflict
from stores.names import pages_of
from stores.testing.fixtures import ODD_IDS, ODD_NAMES, Fixtures


class RootsContract(Fixtures):
    def test_no_root_at_first(self, store: Store, name: str) -> None:
        assert store.read_root(name) is None

    def test_swap_and_read(self, store: Store, name: str) -> None:
        token = store.swap_root(name, b"one", None)
        assert store.read_root(name) == (b"one", token)
        newer = store.swap_root(name, b"", token)
        assert store.read_root(name) == (b"", newer)
        assert len({token, newer}) == 2

    def test_creating_what_exists_conflicts(self, store: Store, name: str) -> None:
        store.swap_root(name, b"first", None)
        with pytest.raises(Conflict) as caught:
            store.swap_root(name, b"second", None)
        assert caught.value.name == name
        assert store.read_root(name) is not None

    def test_an_old_token_conflicts_and_changes_nothing(self, store: Store, name: str) -> None:
        old = store.swap_root(name, b"one", None)
        new = store.swap_root(name, b"two", old)
        with pytest.raises(Conflict):
            store.swap_root(name, b"three", old)
        with pytest.raises(Conflict):
            store.delete_root(name, old)
        assert store.read_root(name) == (b"two", new)

    def test_a_token_conflicts_where_there_is_no_root(self, store: Store, name: str) -> None:
        token = store.swap_root(name, b"one", None)
        store.delete_root(name, token)
        with pytest.raises(Conflict):
            store.swap_root(name, b"two", token)
        assert store.read_root(name) is None

    def test_tokens_never_repeat(self, store: Store, name: str) -> None:
        tokens = []
        for _ in range(3):
            token = store.swap_root(name, b"same", None)
            tokens += [token, store.swap_root(name, b"same", token)]
            store.delete_root(name, tokens[-1])
        assert len(set(tokens)) == 6
        store.swap_root(name, b"same", None)
        for token in tokens:
            with pytest.raises(Conflict):
                store.swap_root(name, b"late", token)

    def test_deleting_a_root_can_be_repeated(self, store: Store, name: str) -> None:
        token = store.swap_root(name, b"x", None)
        store.delete_root(name, token)
        store.delete_root(name, token)
        assert store.read_root(name) is None
        assert name not in set(store.list_roots())

    @pytest.mark.parametrize("odd", ODD_NAMES, ids=ODD_IDS)
    def test_roots_with_odd_names(self, store: Store, odd: str) -> None:
        current = store.read_root(odd)
        token = store.swap_root(odd, b"data", current[1] if current else None)
        assert store.read_root(odd) == (b"data", token)
        assert odd in set(store.list_roots(odd[:3]))
        store.delete_root(odd, token)

    def test_many_roots_are_read_at_once(self, store: Store, name: str) -> None:
        names = [f"{name}-{number}" for number in range(250)]
        tokens = {each: store.swap_root(each, each.encode(), None) for each in names[::2]}
        asked = [names[3], *reversed(names), names[0]]
        expected = [(each.encode(), tokens[each]) if each in tokens else None for each in asked]
        assert store.read_roots(asked) == expected
        assert store.read_roots([]) == []
        with pytest.raises(ValueError, match="name"):
            store.read_roots([name, ""])
        assert store.delete_roots(tokens) == []

    def test_many_roots_are_deleted_at_once(self, store: Store, name: str) -> None:
        names = [f"{name}-{number}" for number in range(250)]
        tokens = {each: store.swap_root(each, b"one", None) for each in names}
        changed = {each: store.swap_root(each, b"two", tokens[each]) for each in names[::50]}
        store.delete_root(names[1], tokens[names[1]])
        assert sorted(store.delete_roots(tokens)) == sorted(changed)
        assert set(store.list_roots(f"{name}-")) == set(changed)
        assert store.read_roots(list(changed)) == [(b"two", token) for token in changed.values()]
        assert store.delete_roots(changed) == []
        assert store.delete_roots(changed) == []
        assert store.delete_roots({}) == []
        assert list(store.list_roots(f"{name}-")) == []

    def test_list_roots_by_prefix(self, store: Store, name: str) -> None:
        names = {f"{name}{end}" for end in ("", "-a", "-ab", "-b")}
        for each in names:
            store.swap_root(each, b"x", None)
        assert set(store.list_roots(name)) == names
        assert set(store.list_roots(f"{name}-a")) == {f"{name}-a", f"{name}-ab"}
        assert names <= set(store.list_roots())
        assert list(store.list_roots(f"{name}-?")) == []

    @pytest.mark.parametrize("name", ["", "n" * 201, "{" * 67, "\ud800", b"bytes", None])
    def test_names_are_short_text(self, store: Store, name: Any) -> None:
        calls: list[Callable[[], object]] = [
            lambda: store.read_root(name),
            lambda: store.swap_root(name, b"", None),
            lambda: store.delete_root(name, b"token"),
            lambda: pages_of(name),
        ]
        for call in calls:
            with pytest.raises(ValueError, match="a name must"):
                call()

    def test_root_data_is_bytes(self, store: Store, name: str) -> None:
        with pytest.raises(TypeError, match="str"):
            store.swap_root(name, "text", None)  # type: ignore[arg-type]
        assert store.read_root(name) is None

    def test_roots_and_pages_do_not_mix(self, store: Store, name: str) -> None:
        token = store.swap_root(name, b"root", None)
        store.put_many({name: b"page"})
        assert store.get_many([name]) == [b"page"]
        assert store.read_root(name) == (b"root", token)
        assert set(store.list_keys(name)) == {name}
        store.delete_many([name])
        assert set(store.list_roots(name)) == {name}
