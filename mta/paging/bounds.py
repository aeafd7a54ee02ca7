"""The sizes of the paper's Buffer and Cache: how many elements wait for the store or are read ahead."""

from __future__ import annotations

from typing import NamedTuple


class Bounds(NamedTuple):
    """Numbers of entries. None leaves a number to the buffer and to the code that reads ahead."""

    #: full pages are written in one call once they have this many entries together; 0: each when it is full
    buffered: int | None = None
    #: entries of tier 0 that are read ahead, with the entries above them; 0: none
    cached: int | None = None
    #: they are read when fewer than this many are left; by default half of `cached`
    refill_below: int | None = None

    def pages_buffered(self, shift: int) -> int | None:
        return None if self.buffered is None else self.buffered >> shift

    def pages_cached(self, shift: int) -> int | None:
        """The pages of tier 0 and of the tiers above; at least one page if there are entries."""
        if not self.cached:
            return self.cached
        leaves = max(1, self.cached >> shift)
        return leaves + sum(leaves >> shift * tier for tier in range(1, leaves.bit_length()))

    @property
    def refill(self) -> float:
        """The part of the pages to read ahead that has to be missing before more are read."""
        if not self.cached or self.refill_below is None:
            return 0.5
        return 1 - self.refill_below / self.cached


#: All numbers are those that are fast.
AS_IS = Bounds()
