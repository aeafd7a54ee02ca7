"""The options of a slicer beside its queries."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np

from mta.checks import check_flag, count_option, duration_option, positive_duration
from mta.encoding.packing import pack
from mta.functions import described
from mta.kinds import Time, Value
from mta.monoids.base import required
from mta.monoids.values import MISSING_TYPES
from mta.times.kinds import TimeKind, kinds_with

#: the name of a field, or a function of an element
By: TypeAlias = str | Callable[[Any], Hashable]


@dataclass(frozen=True, repr=False)
class Settings:
    """How late tuples may come, which keys split a stream, and when results are emitted."""

    #: the lateness of queries without one of their own
    lateness: Time = 0
    by: By | None = None
    in_order: bool = False
    changes_only: bool = False
    every_tuples: int | None = None
    every_time: Time | None = None
    forget_after: Time | None = None

    @classmethod
    def checked(cls, lateness: Any, by: Any, *others: Any) -> Self:
        """The options as a user gives them, in the order of the fields; raises TypeError or ValueError."""
        in_order, changes_only, every_tuples, every_time, forget_after = others
        if isinstance(lateness, Mapping):
            every, lateness = [checked_lateness(each) for each in lateness.values()], 0
        else:
            lateness = checked_lateness(lateness)
            every = [lateness]
        if in_order and any(every):
            raise ValueError(f"in_order=True goes with lateness=0, as nothing comes late, got {max(every)!r}")
        in_order = check_flag("in_order", in_order)
        changes_only = check_flag("changes_only", changes_only)
        if by is not None and not isinstance(by, str) and not callable(by):
            raise TypeError(f"by is the name of a field or a function of an element, got {by!r}")
        if every_tuples is not None:
            every_tuples = count_option("Slicer", "every_tuples", every_tuples)
        if every_time is not None:
            every_time = positive_duration("Slicer", "every_time", every_time).amount
        if forget_after is not None:
            forget_after = duration_option("Slicer", "forget_after", forget_after).amount
            if forget_after < 0 or by is None:
                raise ValueError(
                    f"Slicer(forget_after=...) is 0 or more, and goes with by=, got {forget_after!r}"
                )
        return cls(lateness, by, in_order, changes_only, every_tuples, every_time, forget_after)

    @property
    def in_steps(self) -> bool:
        """Whether something may have to happen between two tuples of a batch."""
        return self.in_order or self.every_tuples is not None or self.every_time is not None

    def key(self, value: Value) -> Any:
        """The key of an element; None without keys."""
        by = self.by
        if by is None:
            return None
        key = required(value, by, self) if isinstance(by, str) else by(value)
        key = key.item() if isinstance(key, np.generic) else key
        try:
            hash(key)
        except TypeError:
            raise TypeError(f"the key {key!r} of type {type(key).__name__} cannot be hashed") from None
        if type(key).__name__ in MISSING_TYPES or key != key:
            raise ValueError(
                f"the key {key!r} of Slicer(by={by!r}) equals no other, not even itself; drop or replace "
                "missing keys, for instance by None"
            )
        return key

    def next_trigger(self, time: Time) -> Time:
        """The first time after `time` at which the trigger by time fires; infinity without one."""
        if self.every_time is None:
            return math.inf
        every = self.every_time
        if isinstance(time, int) and isinstance(every, int):
            return (time // every + 1) * every
        if not abs(time / every) < 2**52:
            raise ValueError(
                f"every_time={every!r} is too short to tell triggers at the time {time!r} apart; take a "
                "longer one"
            )
        number = math.floor(time / every)
        while number * every <= time:  # floats round, so once or a few times
            number += 1
        return number * every

    def plain(self) -> dict[str, Any]:
        """The settings as plain values; a function is named by its code."""
        by = self.by
        return {**vars(self), "by": by if by is None or isinstance(by, str) else described(by)}

    def __repr__(self) -> str:
        return f"Slicer(by={self.by!r})"


def checked_lateness(lateness: Any) -> Time:
    checked = duration_option("Slicer", "lateness", lateness).amount
    if checked < 0:
        raise ValueError(f"Slicer(lateness=...) is 0 or more, got {checked!r}")
    return checked


def kinds_with_options(**options: Any) -> Iterator[tuple[str, frozenset[TimeKind]]]:
    """For each option that is a duration, or a mapping of durations, the kinds of times that it goes with."""
    for name, option in options.items():
        for each in option.values() if isinstance(option, Mapping) else [option]:
            if each is not None:
                yield f"Slicer({name}={each!r})", kinds_with(duration_option("Slicer", name, each))


def check_key(key: Any) -> None:
    """Refuses a key that neither a dump nor a checkpoint can hold."""
    try:
        pack(key)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"the key {key!r} of type {type(key).__name__} could not be dumped; make text or a number of it, "
            'for instance by=lambda value: value["day"].isoformat()'
        ) from error
