"""Which keys a watermark looks at: those with new tuples, and those of which a window is due."""

from __future__ import annotations

import math
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Any

from mta.kinds import Time


class KeySchedule:
    """When a watermark looks at each key next: possibly too early, never too late, whatever is interrupted.

    So each entry is made before the entry that it replaces is removed.
    """

    def __init__(self, keys: Iterable[Any] = ()) -> None:
        #: keys that the next watermark looks at; the watermark replaces the mapping when it is done
        self.touched: dict[Any, None] = dict.fromkeys(keys)
        #: (time, number of the entry, key), a heap
        self._entries: list[tuple[Time, int, Any]] = []
        #: the time of the earliest entry of each key
        self._next: dict[Any, Time] = {}
        self._count = 0

    def due(self, watermark: Time) -> dict[Any, None]:
        """The keys that a watermark looks at: O(log n) steps for each key whose time has come."""
        entries = self._entries
        while entries and entries[0][0] <= watermark:
            time, _, key = entries[0]
            self.touched[key] = None
            if self._next.get(key) == time:
                del self._next[key]
            heappop(entries)
        return self.touched

    def wake(self, key: Any, time: Time) -> None:
        """Makes the first watermark at or after a time look at a key."""
        if time < self._next.get(key, math.inf):
            self._count += 1
            heappush(self._entries, (time, self._count, key))
            self._next[key] = time
