"""Which keys a watermark has to look at: those that have got tuples, and those of which something is due."""

from __future__ import annotations

import math
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Any

from mta.slicing.windows import Time


class Schedule:
    """When each key is looked at next: at times too early, never too late, also where a call was interrupted.

    So each entry is made before the one that it makes needless is taken away.
    """

    def __init__(self, keys: Iterable[Any] = ()) -> None:
        #: keys that the next watermark looks at; is replaced when it has
        self.touched: dict[Any, None] = dict.fromkeys(keys)
        #: (time, number of the entry, key), a heap
        self._entries: list[tuple[Time, int, Any]] = []
        #: the earliest entry of each key
        self._next: dict[Any, Time] = {}
        self._count = 0

    def due(self, watermark: Time) -> dict[Any, None]:
        """The keys to look at."""
        entries = self._entries
        while entries and entries[0][0] <= watermark:
            time, _, key = entries[0]
            self.touched[key] = None
            if self._next.get(key) == time:
                del self._next[key]
            heappop(entries)
        return self.touched

    def wake(self, key: Any, time: Time) -> None:
        """Has a key looked at by the first watermark at a time or after it."""
        if time < self._next.get(key, math.inf):
            self._count += 1
            heappush(self._entries, (time, self._count, key))
            self._next[key] = time
