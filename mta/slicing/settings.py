"""What a slicer is told beside its queries."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np

from mta.encoding.packing import pack
from mta.functions import described
from mta.monoids.base import required
from mta.slicing.windows import Time, number, positive, positive_count

#: what other libraries have for a missing value, by name so that none of them has to be imported
_MISSING = frozenset({"NAType", "NaTType"})

#: the name of a field, or a function of an element
By: TypeAlias = str | Callable[[Any], Hashable]


@dataclass(frozen=True, repr=False)
class Settings:
    """How late tuples may come, what takes a stream apart, and when results are given."""

    #: of queries without one of their own
    lateness: Time = 0
    by: By | None = None
    in_order: bool = False
    changes_only: bool = False
    every_tuples: int | None = None
    every_time: Time | None = None
    forget_after: Time | None = None

    @classmethod
    def checked(
        cls,
        lateness: Any,
        by: Any,
        in_order: Any,
        changes_only: Any,
        every_tuples: Any,
        every_time: Any,
        forget_after: Any = None,
    ) -> Self:
        if isinstance(lateness, Mapping):
            every, lateness = [checked_lateness(each) for each in lateness.values()], 0
        else:
            lateness = checked_lateness(lateness)
            every = [lateness]
        if in_order and any(every):
            raise ValueError(f"in_order=True goes with lateness=0, as nothing comes late, got {max(every)!r}")
        for name, value in (("in_order", in_order), ("changes_only", changes_only)):
            if not isinstance(value, (bool, np.bool_)):
                raise TypeError(f"{name} is True or False, got {value!r}")
        if by is not None and not isinstance(by, str) and not callable(by):
            raise TypeError(f"by is the name of a field or a function of an element, got {by!r}")
        if every_tuples is not None:
            every_tuples = positive_count("Slicer", "every_tuples", every_tuples)
        if every_time is not None:
            every_time = positive("Slicer", "every_time", every_time)
        if forget_after is not None:
            forget_after = number("Slicer", "forget_after", forget_after)
            if forget_after < 0 or by is None:
                raise ValueError(
                    f"Slicer(forget_after=...) is 0 or more, and goes with by=, got {forget_after!r}"
                )
        return cls(lateness, by, bool(in_order), bool(changes_only), every_tuples, every_time, forget_after)

    @property
    def in_steps(self) -> bool:
        """Whether something has to happen between tuples."""
        return self.in_order or self.every_tuples is not None or self.every_time is not None

    def key(self, value: Any) -> Any:
        """The key of an element."""
        by = self.by
        if by is None:
            return None
        key = required(value, by, self) if isinstance(by, str) else by(value)
        key = key.item() if isinstance(key, np.generic) else key
        try:
            hash(key)
        except TypeError:
            raise TypeError(f"the key {key!r} of type {type(key).__name__} cannot be hashed") from None
        if type(key).__name__ in _MISSING or key != key:
            raise ValueError(
                f"the key {key!r} of Slicer(by={by!r}) equals no other, not even itself; drop or replace "
                "missing keys, for instance by None"
            )
        return key

    def next_trigger(self, time: Time) -> Time:
        """The time at which a trigger by time comes that is after `time`."""
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
        while number * every <= time:  # once, but for what floats round
            number += 1
        return number * every

    def told(self) -> dict[str, Any]:
        """The settings as plain values."""
        by = self.by
        return {**vars(self), "by": by if by is None or isinstance(by, str) else described(by)}

    def __repr__(self) -> str:
        return f"Slicer(by={self.by!r})"


def checked_lateness(lateness: Any) -> Time:
    lateness = number("Slicer", "lateness", lateness)
    if lateness < 0:
        raise ValueError(f"Slicer(lateness=...) is 0 or more, got {lateness!r}")
    return lateness


def check_key(key: Any) -> None:
    """Refuses a key that neither a dump nor a checkpoint could hold."""
    try:
        pack(key)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"the key {key!r} of type {type(key).__name__} could not be dumped; make text or a number of it, "
            'for instance by=lambda value: value["day"].isoformat()'
        ) from error
