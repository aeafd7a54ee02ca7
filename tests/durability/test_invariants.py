"""The invariants of a manifest: no history of real windows violates them, and each violation is found."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from chance import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from mta import AmortizedMTA, ManifestCorrupt, monoids, policies
from mta.durability import invariants
from mta.durability.attempts import AttemptHold
from mta.durability.coding import decode_root, encode_root
from mta.durability.manifest import EPOCHS, Extents, Root, SavedTail, SavedView, Version
from mta.durability.operations import collect, verify
from mta.durability.ownership import Ownership
from mta.window import open_version, save_version
from stores import StoreUnavailable, Token, WrapperStore, open_store
from stores.testing import FaultyStore

POLICY = policies.CountWindow(9)
STEPS = st.one_of(
    st.tuples(st.just("extend"), st.integers(1, 20)),
    st.tuples(st.just("slide"), st.integers(1, 9)),
    st.tuples(st.just("evict"), st.integers(1, 9)),
    st.tuples(st.just("checkpoint"), st.just(0)),
    st.tuples(st.just("restore"), st.integers(0, 3)),
    st.tuples(st.just("crash"), st.integers(0, 3)),
    st.tuples(st.just("fail"), st.integers(1, 4)),
    st.tuples(st.just("gc"), st.just(0)),
)


class Watched(WrapperStore):
    """Looks at each root that is swapped in."""

    roots = 0

    def _swap_root(self, name: str, data: bytes, expected_token: Token | None) -> Token:
        root = decode_root(name, data)
        invariants.check(name, root, ())
        self.roots += 1
        return super()._swap_root(name, data, expected_token)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(STEPS, max_size=30), st.sampled_from([0, 24, 640]), st.integers(1, 4))
def test_no_history_of_a_window_violates_them(steps: list[tuple[str, int]], inline: int, retain: int) -> None:
    failing = 0

    def fails(call: str, _: Any) -> bool:
        nonlocal failing
        failing -= call in ("put_many", "swap_root")
        return failing == 0 and call in ("put_many", "swap_root")

    with Watched(open_store("memory:")) as watched:
        store = FaultyStore(watched, fails)

        def opened(version: int | None) -> AmortizedMTA:
            if version is None:
                made = AmortizedMTA(monoids.Sum(), POLICY, store=store, name="w", page_size=2, retain=retain)
            else:
                made = AmortizedMTA.restore(store, "w", monoids.Sum(), POLICY, version=version, retain=retain)
            made._stored.checkpoints._inline = inline  # type: ignore[union-attr]
            return made

        window, versions = opened(None), []
        for step, count in steps:
            try:
                if step == "extend":
                    window.extend(range(count))
                elif step == "slide":
                    window.slide(range(count))
                elif step == "evict" and count <= len(window):
                    window.evict(count)
                elif step == "checkpoint":
                    window.checkpoint()
                elif step == "fail":
                    failing = count
                elif step == "gc":
                    collect(store)
                elif step in ("restore", "crash") and window.version is not None:
                    if step == "restore":
                        window.close()
                    failing = 0
                    found = watched.read_root("w")
                    assert found is not None
                    versions = [each.number for each in decode_root("w", found[0]).versions]
                    window = opened(versions[-1 - count % len(versions)])
            except StoreUnavailable:
                continue
        failing = 0
        found = watched.read_root("w")
        if found is not None and decode_root("w", found[0]).versions:
            assert verify(watched, "w").problems == []


@settings(max_examples=examples(40), deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 12), st.booleans()), max_size=8),
    st.sampled_from([0, 24, 640]),
)
def test_no_history_of_attempts_violates_them(batches: list[tuple[int, int, bool]], inline: int) -> None:
    """Of the attempts of a batch the first or the last counts; some leave without a version."""
    with Watched(open_store("memory:")) as store:
        base: Version | None = None
        for batch, (attempts, count, first) in enumerate(batches):
            saved = []
            for number in range(attempts):
                hold = AttemptHold(store, "w", 2, base, batch=batch, run=f"run {number % 2}", lease=60)
                window = open_version(
                    AmortizedMTA, monoids.Sum(), POLICY, hold, store=store, name="w", page_size=2, base=base,
                    inline=inline,
                )  # fmt: skip
                window.slide(range(count + number))
                if number == 1:
                    window._stored.pages.flush(window._log.tail)  # type: ignore[union-attr]
                    hold.end()  # it dies
                else:
                    saved.append(save_version(window, batch))
            base = saved[0] if first else saved[-1]


# -- planted violations -----------------------------------------------------------------------------------


def roots() -> tuple[Root, Root]:
    """A root of one writer with two versions, and one that two attempts of a batch share."""
    store = open_store("memory:")
    with AmortizedMTA(monoids.Sum(), POLICY, store=store, name="w", page_size=2) as window:
        window._stored.checkpoints._inline = 0  # type: ignore[union-attr]
        for count in (15, 6):
            window.extend(range(count))
            window.checkpoint()
        one = store.read_root("w")
    base: Version | None = None
    for batch in (0, 1):
        for _ in range(1 + batch):
            hold = AttemptHold(store, "s", 2, base, batch=batch, run="r", lease=60)
            shared = open_version(
                AmortizedMTA, monoids.Sum(), POLICY, hold, store=store, name="s", page_size=2, base=base,
                inline=0,
            )  # fmt: skip
            shared.extend(range(20))
            saved = save_version(shared, batch)
        base = saved
    two = store.read_root("s")
    assert one is not None
    assert two is not None
    return decode_root("w", one[0]), decode_root("s", two[0])


def last(change: Callable[[Version], Version]) -> Callable[[Root, Root], Root]:
    """Changes the last version of the writer's root."""
    return lambda root, _: replace(root, versions=(*root.versions[:-1], change(root.versions[-1])))


def view(head: int, end: int, oldest: Any) -> Callable[[Root, Root], Root]:
    return last(lambda version: replace(version, views=(SavedView(head, end, oldest),)))


def extents(*ends: tuple[int, int | None]) -> Callable[[Root, Root], Root]:
    return last(lambda version: replace(version, extents=Extents(ends, 1)))


def tail(change: Callable[[SavedTail], SavedTail]) -> Callable[[Root, Root], Root]:
    """Changes the first tail that has a part."""

    def changed(version: Version) -> Version:
        tier = next(tier for tier, each in enumerate(version.tails) if each.parts)
        tails = list(version.tails)
        tails[tier] = change(tails[tier])
        return replace(version, tails=tuple(tails))

    return last(changed)


def part(**changes: int) -> Callable[[Root, Root], Root]:
    return tail(lambda each: replace(each, parts=(replace(each.parts[0], **changes),)))


def published(change: Callable[[Version], Version]) -> Callable[[Root, Root], Root]:
    """Changes the version of the last attempt."""

    def changed(_: Root, root: Root) -> Root:
        attempt = root.attempts[-1]
        assert attempt.version is not None
        return replace(
            root, attempts=(*root.attempts[:-1], replace(attempt, version=change(attempt.version)))
        )

    return changed


PLANTED: dict[str, tuple[Callable[[Root, Root], Root], str]] = {
    "a head behind its end": (view(20, 19, None), r"a view of it is \[20, 19\)"),
    "an end behind the tail": (view(12, 22, 0), r"a view of it is \[12, 22\), and its tail is 21"),
    "an empty view with a time": (view(12, 12, 0), "it holds 0 elements"),
    "a view without a time": (view(12, 21, None), "it holds 9 elements"),
    "the oldest after the youngest": (view(12, 21, 99), "of times from 99 to 20"),
    "extents backwards": (extents((1, 8), (2, 4), (3, None)), r"its extents .* do not follow"),
    "no open extent": (extents((1, 8)), "do not follow"),
    "two open extents": (extents((1, None), (2, None)), "do not follow"),
    "no extents": (extents(), "do not follow"),
    "epochs backwards": (extents((5, 8), (4, None)), "epoch 5 ended at 8, before epoch 4"),
    "an extent behind the tail": (extents((4, 30), (5, None)), "epoch 4 ended at 30"),
    "a tail elsewhere": (tail(lambda each: replace(each, start=2)), "the tail of tier 0 is"),
    "a tail too short": (tail(lambda each: replace(each, parts=())), r"the tail of tier 0 is \[20, 20\)"),
    "too few tiers": (last(lambda version: replace(version, tails=version.tails[:2])), "it has 2 tiers"),
    "a gap between parts": (part(start=21), r"a part of tier 0 is \[21, 21\)"),
    "a part of another tier": (part(tier=1), r"of tier 1, not 20"),
    "a part to come": (part(serial=1000), "part 1000 of tier 0 .* the next part is"),
    "a part of a later writer": (part(epoch=1 << 60), "version 2 names epochs after"),
    "documents that overlap": (
        last(lambda version: replace(version, documents=((3, 0, 5), (3, 4, 9)))),
        r"documents \[0, 5\) of epoch 3 overlap others from 4 on",
    ),
    "documents of a later writer": (
        last(lambda version: replace(version, documents=((1 << 60, 0, 5),))),
        "version 2 names epochs after",
    ),
    "pages of a later writer": (extents((1 << 60, None)), "version 2 names epochs after"),
    "pages of another epoch than before": (
        extents((7, None)),
        "versions 1 and 2 name pages of different epochs",
    ),
    "versions of one number": (
        last(lambda version: replace(version, number=1)),
        "version 1 follows version 1",
    ),
    "a version that was not given out": (
        last(lambda version: replace(version, number=9)),
        "version 9 is there",
    ),
    "a head that goes back": (view(3, 21, 3), r"version 2 goes back: from \[6, 15\)"),
    "parts that go back": (
        lambda root, _: replace(root, versions=(replace(root.versions[0], next_part=99), root.versions[1])),
        "goes back",
    ),
    "an attempt of a later epoch": (
        lambda _, root: replace(root, epoch=root.attempts[-1].epoch - 1),
        "is of epoch .*, and the root of epoch",
    ),
    "pages of another attempt": (
        published(lambda version: replace(version, extents=Extents(((7, None),), 1))),
        "names epoch 7 of another writer",
    ),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_a_violation_is_found_before_anything_is_swapped(planted: str) -> None:
    plant, reason = PLANTED[planted]
    wrong = plant(*roots())
    with open_store("memory:") as store:
        hold = Ownership(store, "w", 2)
        hold.claim()
        before = store.read_root("w")
        with pytest.raises(ManifestCorrupt, match=f"so it was not written: .*{reason}") as caught:
            hold._swap(lambda *_: (wrong, 0), wrong, hold._token)
        assert "mistake of this library" in str(caught.value)
        assert store.read_root("w") == before
        assert hold.knows_root()
        hold.end()


@pytest.mark.parametrize("planted", PLANTED)
def test_a_violation_in_a_store_is_reported(planted: str) -> None:
    """By `mta verify`: as a problem of the manifest, or, where no window can be so, as damage."""
    plant, reason = PLANTED[planted]
    sound, shared = roots()
    wrong = plant(sound, shared)
    with open_store("memory:") as store:
        store.swap_root("w", encode_root("w", wrong), None)
        problems = verify(store, "w").problems
    # bytes cannot say that a part is of another tier than its tail, or leaves a gap
    if planted not in ("a gap between parts", "a part of another tier"):
        assert any(re.search(f"manifest.*{reason}", each) for each in problems), problems


def test_what_real_windows_leave_is_sound() -> None:
    for root in roots():
        assert root.has(root.epoch + EPOCHS - 1)
        invariants.check("w", root, ())


def test_an_attempt_does_not_publish_a_violation() -> None:
    _, root = roots()
    with open_store("memory:") as store:
        base = root.versions[-1]
        store.swap_root("s", encode_root("s", replace(root, attempts=())), None)
        hold = AttemptHold(store, "s", 2, base, batch=1, run="r", lease=60)
        hold.claim()
        before = store.read_root("s")
        with pytest.raises(ManifestCorrupt, match="names epoch 7 of another writer"):
            hold.commit(replace(base, extents=Extents(((7, None),), 1)), "m", "p")
        assert store.read_root("s") == before


def test_a_check_compares_versions_in_proportion_to_how_many_are_retained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """300 retained versions took 45,000 comparisons, and a checkpoint 50 ms."""
    compared = 0
    equal = Version.__eq__

    def counted(version: Version, other: object) -> bool:
        nonlocal compared
        compared += 1
        return equal(version, other)

    with (
        open_store("memory:") as store,
        AmortizedMTA(monoids.Sum(), store=store, name="w", page_size=64, retain=60) as window,
    ):
        for number in range(60):
            window.push(number)
            window.checkpoint()
        monkeypatch.setattr(Version, "__eq__", counted)
        window.push(60)
        window.checkpoint()
    assert compared <= 60
