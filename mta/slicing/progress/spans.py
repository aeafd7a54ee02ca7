"""An ordered set of spans of time that is shared between versions: a change copies only a part of it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from operator import itemgetter
from typing import Any, Self, TypeAlias

from mta.slicing.windows import Span

#: Spans are kept in chunks of at most twice this length.
CHUNK = 128

#: the first span to replace, a bound behind the last one, and the spans that replace them
Edit: TypeAlias = tuple[Any, Any, list[Span]]


class Spans:
    """Ordered pairs of times. A set never changes: `edited` returns another one, which shares chunks."""

    __slots__ = ("_chunks",)

    def __init__(self, spans: Sequence[Span] = ()) -> None:
        self._chunks: list[list[Span]] = []
        if spans:
            _append(list(spans), self._chunks)

    def __iter__(self) -> Iterator[Span]:
        return chain.from_iterable(self._chunks)

    def __bool__(self) -> bool:
        return bool(self._chunks)

    def __contains__(self, span: Any) -> bool:
        chunks = self._chunks
        if len(chunks) == 1:
            chunk: Sequence[Span] = chunks[0]
        else:
            chunk = chunks[self._find(span)[0]] if chunks and span <= self.last else ()
        index = bisect_left(chunk, span)
        return index < len(chunk) and bool(chunk[index] == span)

    @property
    def first(self) -> Span:
        return self._chunks[0][0]

    @property
    def last(self) -> Span:
        return self._chunks[-1][-1]

    def at_least(self, bound: Any, key: Callable[[Any], Any] | None = None) -> Iterator[Span]:
        """The spans that are not less than a bound, in order; `key` is a function that goes up with them."""
        number, index = self._find(bound, key)
        if number < len(self._chunks):
            yield from islice(self._chunks[number], index, None)
            for later in range(number + 1, len(self._chunks)):
                yield from self._chunks[later]

    def edited(self, edits: Iterable[Edit]) -> Self:
        """The set after edits, which go up and do not overlap: copies the chunks that an edit changes."""
        old = self._chunks
        successor = type(self)()
        chunks = successor._chunks
        if len(old) < 2:  # most sets have few spans
            spans, start = old[0] if old else [], 0
            part: list[Span] = []
            for low, high, others in edits:
                stop = bisect_left(spans, low)
                part += spans[start:stop]
                part += others
                start = stop if high is low else bisect_left(spans, high)
            part += spans[start:]
            _append(part, chunks)
            return successor
        number = index = 0
        part = []
        for low, high, spans in edits:
            low_number, low_index = self._find(low)
            if number < low_number:
                number, part = self._finished(number, index, part, low_number, chunks)
                chunks += old[number:low_number]
                number, index = low_number, 0
            if index < low_index:
                part += old[number][index:low_index]
            part += spans
            number, index = (low_number, low_index) if high is low else self._find(high)
        if number < len(old):
            number, part = self._finished(number, index, part, len(old), chunks)
        _append(part, chunks)
        chunks += old[number:]
        return successor

    def _finished(
        self, number: int, index: int, part: list[Span], stop: int, chunks: list[list[Span]]
    ) -> tuple[int, list[Span]]:
        """Appends a part and the rest of an old chunk from `index` on to new chunks.

        Returns the number of the next old chunk, and a part that is too short for a chunk of its own.
        """
        if index or part:
            part += self._chunks[number][index:]
            number += 1
            while len(part) < CHUNK // 4 and number < stop:  # so that short chunks do not become many
                part += self._chunks[number]
                number += 1
        if len(part) < CHUNK // 4:
            return number, part
        _append(part, chunks)
        return number, []

    def _find(self, bound: Any, key: Callable[[Any], Any] | None = None) -> tuple[int, int]:
        """The chunk of the first span that is not less than a bound, and the span's index in it."""
        chunks = self._chunks
        number = bisect_left(chunks, bound, key=itemgetter(-1) if key is None else lambda each: key(each[-1]))
        return number, bisect_left(chunks[number], bound, key=key) if number < len(chunks) else 0


def _append(spans: list[Span], chunks: list[list[Span]]) -> None:
    """Appends spans to chunks, split where they are too long for one."""
    if len(spans) <= 2 * CHUNK:
        chunks += [spans] if spans else []
    else:
        chunks += [spans[start : start + CHUNK] for start in range(0, len(spans), CHUNK)]


NO_SPANS = Spans()
