"""The streams of `mta soak`, and the process that pushes one through a window until it is killed."""

from __future__ import annotations

import os
import random
import struct
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import xxhash

from mta import AmortizedMTA, LogMTA, monoids, policies
from mta.durability.coding import decode_root
from mta.errors import WindowNotFound
from mta.monoids.base import Monoid
from mta.policies import Policy
from mta.window import MonoidTreeAggregator
from stores import Store, open_store

#: What a child tells its parent: a kind and two numbers, in one write that a kill cannot tear.
RECORD = struct.Struct("<BqQ")
OPENED, RESTORED, RESULT, COMMITTED, AIMED, FAILED = range(6)

#: The calls to a store that kills are aimed at.
CALLS = ("put_many", "get_many", "delete_many", "delete_range", "read_root", "swap_root")

#: Operators where order matters, and whether their states live in columns.
KINDS: dict[str, Callable[[], Monoid]] = {
    "ArgMax": monoids.ArgMax,
    "LongestIncreasingRun": monoids.LongestIncreasingRun,
    "Concat": monoids.Concat,
}
STEP = 1000


@dataclass(frozen=True)
class Lane:
    """One window, and the endless stream that goes through it. Step i is the same whenever it is made."""

    name: str
    kind: str
    algorithm: str
    page_size: int | None
    #: steps that the window spans
    span: int
    most_rows: int
    seed: str

    def monoid(self) -> Monoid:
        return KINDS[self.kind]()

    def policy(self) -> Policy:
        spans: Policy = policies.TimeWindow(self.span * STEP)
        return spans | policies.CountWindow(60) if self.kind == "Concat" else spans

    @property
    def algorithm_class(self) -> type[MonoidTreeAggregator]:
        return AmortizedMTA if self.algorithm == "AmortizedMTA" else LogMTA

    def new(self, store: Store | None, **options: Any) -> MonoidTreeAggregator:
        return self.algorithm_class(
            self.monoid(), self.policy(), store=store, name=self.name, page_size=self.page_size, **options
        )

    def restore(self, store: Store, version: int | None = None) -> MonoidTreeAggregator:
        return self.algorithm_class.restore(store, self.name, self.monoid(), self.policy(), version=version)

    def apply(self, window: MonoidTreeAggregator, step: int) -> int:
        """Does one step, and returns a digest of its results."""
        rng = random.Random(f"{self.seed}:{step}")
        # a gap now and then empties the window but for its last element
        start = (step + step // 300 * 2 * self.span) * STEP
        draw = rng.random()
        if draw < 0.6:
            return _digest(window.push(self._element(rng), start))
        rows = rng.randint(1, self.most_rows)
        times = [start + row * STEP // rows for row in range(rows)]
        if draw < 0.9:
            return _digest(window.slide(self._elements(rng, rows), times))
        window.extend(self._elements(rng, rows), times)
        return _digest([window.query(), len(window), window.oldest, window.youngest])

    def _element(self, rng: random.Random) -> Any:
        if self.kind == "Concat":
            return chr(rng.randint(97, 122))
        value = rng.randint(0, 1000)
        return (value, rng.randint(0, 1 << 40)) if self.kind == "ArgMax" else value

    def _elements(self, rng: random.Random, rows: int) -> Any:
        if self.kind == "Concat":
            return [self._element(rng) for _ in range(rows)]
        numbers = np.random.default_rng(rng.getrandbits(32))
        values = numbers.integers(0, 1000, rows)
        return (values, numbers.integers(0, 1 << 40, rows)) if self.kind == "ArgMax" else values


def _digest(result: Any) -> int:
    if isinstance(result, np.ndarray) and result.dtype != object:
        return xxhash.xxh3_64_intdigest(np.ascontiguousarray(result).data.cast("B"))
    if isinstance(result, np.ndarray):
        result = result.tolist()
    return xxhash.xxh3_64_intdigest(repr(result).encode())


@dataclass(frozen=True)
class Orders:
    """What a child is to do."""

    lane: Lane
    seed: str
    #: the chance of a checkpoint after a step
    checkpoints: float
    #: the call to the store that a kill is aimed at, and how many of its kind come before
    aim: tuple[str, int] | None
    #: whether to go on from the oldest retained version and not the last
    rewind: bool


def push(url: str, orders: Orders, pipe: int) -> None:
    """Pushes until it is killed."""

    def tell(kind: int, first: int = 0, second: int = 0) -> None:
        os.write(pipe, RECORD.pack(kind, first, second))

    try:
        _push(url, orders, tell)
    except BaseException:
        text = traceback.format_exc().encode()
        tell(FAILED, len(text))
        os.write(pipe, text)


def _push(url: str, orders: Orders, tell: Callable[..., None]) -> None:
    lane, rng = orders.lane, random.Random(orders.seed)
    store = open_store(url)
    if orders.aim is not None:
        _take_aim(store, *orders.aim, tell)
    tell(OPENED)
    try:
        window = lane.restore(store, _oldest_version(store, lane.name) if orders.rewind else None)
    except WindowNotFound:
        window = lane.new(store)
    step = window.offset or 0
    tell(RESTORED, step, orders.rewind)
    while True:
        tell(RESULT, step, lane.apply(window, step))
        step += 1
        if rng.random() < orders.checkpoints:
            window.checkpoint(offset=step)
            tell(COMMITTED, step)


def _oldest_version(store: Store, name: str) -> int | None:
    found = store.read_root(name)
    versions = () if found is None else decode_root(name, found[0]).versions
    return versions[0].number if versions else None


def _take_aim(store: Store, call: str, skip: int, tell: Callable[..., None]) -> None:
    """Tells when a call begins, so that it is under way when the kill comes."""
    inner, left = getattr(store, f"_{call}"), skip

    def aimed(*arguments: Any) -> Any:
        nonlocal left
        left -= 1
        if left == -1:
            tell(AIMED, CALLS.index(call))
        return inner(*arguments)

    setattr(store, f"_{call}", aimed)


def clear_away(url: str) -> None:
    """What a child that collects garbage does until it is killed."""
    from mta.durability.operations import collect

    with open_store(url) as store:
        while True:
            collect(store, grace=3600)
