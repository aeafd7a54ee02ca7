"""How many elements may wait for the store, and how many are read ahead: the paper's Buffer and Cache."""

from __future__ import annotations

from typing import NamedTuple


class Bounds(NamedTuple):
    """Numbers of entries. What is None is up to the buffer and to what reads ahead."""

    #: full pages are written in one call once they have so many entries together; 0: each as it is full
    buffered: int | None = None
    #: entries of leaves that are read ahead, with those above them; 0: none
    cached: int | None = None
    #: they are read when fewer than so many are left; half of `cached` unless it says otherwise
    refill_below: int | None = None

    def pages_buffered(self, shift: int) -> int | None:
        return None if self.buffered is None else self.buffered >> shift

    def pages_cached(self, shift: int) -> int | None:
        """Pages of leaves and of the tiers above them; any number of entries is a page at least."""
        if not self.cached:
            return self.cached
        leaves = max(1, self.cached >> shift)
        return leaves + sum(leaves >> shift * tier for tier in range(1, leaves.bit_length()))

    @property
    def refill(self) -> float:
        """The part of what is read ahead that has to be gone before more is read."""
        if not self.cached or self.refill_below is None:
            return 0.5
        return 1 - self.refill_below / self.cached


#: Whatever is fast.
AS_IS = Bounds()
