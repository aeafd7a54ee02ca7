"""The chunked-array queue: section 4.1 of Tangwongsan, Hirzel and Schneider (DEBS 2017)."""

from __future__ import annotations

from typing import Any

#: An element of a chunk is found by the low bits of a pointer, its chunk by the rest.
BITS = 8
CHUNK = 1 << BITS
MASK = CHUNK - 1


class ChunkedArrayQueue:
    """A queue in chunks of fixed size, with pointers into it.

    The paper's pointer is the address of a chunk and an index into the chunk. Here it is one integer with
    the chunk's number in the high bits and the index in the low ones, so that p + 1, p - 1 and p == q are
    the integer's own, and a pointer stays good however the queue grows and shrinks. `begin` points to the
    first element, `end` behind the last. A chunk is made by the push that needs it and freed by the pop that
    empties it. Every operation takes constant time; the one thing that grows is the directory, a dict with
    an entry for each 256 elements.
    """

    __slots__ = ("begin", "chunks", "end", "last")

    def __init__(self) -> None:
        self.begin = 0
        self.end = 0
        self.chunks: dict[int, list[Any]] = {}
        #: the chunk of the last element
        self.last: list[Any] = []

    def push_back(self, value: Any) -> None:
        end = self.end
        if end & MASK:
            self.last.append(value)
        else:
            self.chunks[end >> BITS] = self.last = [value]
        self.end = end + 1

    def pop_front(self) -> None:
        begin = self.begin
        if begin == self.end:
            raise IndexError("pop_front of an empty queue")
        # The element goes at once, its chunk with the last of its elements.
        self.chunks[begin >> BITS][begin & MASK] = None
        begin += 1
        self.begin = begin
        if not begin & MASK:
            del self.chunks[(begin >> BITS) - 1]

    def pop_back(self) -> None:
        """Takes back the last push."""
        if self.begin == self.end:
            raise IndexError("pop_back of an empty queue")
        self.last.pop()
        self.end -= 1
        if not self.end & MASK:
            del self.chunks[self.end >> BITS]
            self.last = self.chunks.get((self.end >> BITS) - 1, [])

    def __getitem__(self, pointer: int) -> Any:
        self._check(pointer)
        return self.chunks[pointer >> BITS][pointer & MASK]

    def __setitem__(self, pointer: int, value: Any) -> None:
        self._check(pointer)
        self.chunks[pointer >> BITS][pointer & MASK] = value

    def _check(self, pointer: int) -> None:
        if not self.begin <= pointer < self.end:
            raise IndexError(f"pointer {pointer} is not in [{self.begin}, {self.end})")

    def __len__(self) -> int:
        return self.end - self.begin

    def __iter__(self) -> Any:
        return (self[pointer] for pointer in range(self.begin, self.end))
