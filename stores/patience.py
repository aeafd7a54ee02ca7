"""One budget of time for a call to a server: all tries, and the pauses between them."""

from __future__ import annotations

import random
import time

LONGEST_PAUSE = 1.0
SHORTEST_TRY = 0.1


class Budget:
    """What is left of the seconds that a call may take. Pauses between its tries grow, from `backoff` on."""

    def __init__(self, seconds: float, *, backoff: float = 0.05, max_tries: int | None = None) -> None:
        self._start = time.monotonic()
        self._seconds = seconds
        self._pause = backoff
        self._max_tries = max_tries
        self._tries = 1

    @property
    def left(self) -> float:
        return max(0.0, self._start + self._seconds - time.monotonic())

    def timeout(self, longest: float) -> float:
        """How long one try may wait for one thing: a try that begins gets a moment in any case."""
        return max(SHORTEST_TRY, min(longest, self.left))

    def within(self, seconds: float) -> Budget:
        """A part of what is left, for something that should not take it all."""
        return Budget(self.timeout(seconds), max_tries=1)

    def again(self) -> bool:
        """Pauses before the next try, or tells that there is none."""
        if self._tries == self._max_tries or not self.left:
            return False
        time.sleep(min(self._pause * random.uniform(0.5, 1), self.left))
        self._pause = min(self._pause * 2, LONGEST_PAUSE)
        self._tries += 1
        return True

    def spent(self) -> str:
        """For the error in the end, such as `3 tries in 1.2 s`."""
        tries = "1 try" if self._tries == 1 else f"{self._tries} tries"
        return f"{tries} in {time.monotonic() - self._start:.1f} s"
