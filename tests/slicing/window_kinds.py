"""The same windows for the slicer and for the plain reference."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import plain_windows as reference
from hypothesis import strategies as st

from mta import monoids
from mta.slicing import Delta, EdgeWindow, FixedBand, Punctuation, Session, Sliding, Tumbling


class Uneven(EdgeWindow):
    """Windows of a user: [10k, 10k + 3), [10k + 2, 10k + 7), and nothing up to 10k + 10."""

    def fingerprint(self) -> str:
        return "Uneven()"

    def edge_after(self, time: Any) -> Any:
        base = time // 10 * 10
        return next(base + edge for edge in (0, 2, 3, 7, 10) if base + edge > time)

    def holding(self, time: Any) -> Iterable[tuple[Any, Any]]:
        base = time // 10 * 10
        spans = [(base, base + 3), (base + 2, base + 7)]
        return [span for span in spans if span[0] <= time < span[1]]


def is_mark(value: int) -> bool:
    return value % 5 == 0


def tumbling(scale: Any) -> Any:
    return st.builds(
        lambda n, o: (Tumbling(n * scale, offset=o * scale), reference.Tumbling(n * scale, o * scale)),
        st.integers(1, 20),
        st.integers(-3, 3),
    )


def sliding(scale: Any) -> Any:
    return st.builds(
        lambda n, s: (Sliding(n * scale, s * scale), reference.Sliding(n * scale, s * scale)),
        st.integers(1, 20),
        st.integers(1, 8),
    )


def sessions(scale: Any) -> Any:
    return st.builds(lambda g: (Session(g * scale), reference.Session(g * scale)), st.integers(1, 8))


counted = st.builds(
    lambda n, s: (
        (Tumbling(n, measure="count"), reference.CountSliding(n, n))
        if s == n
        else (Sliding(n, s, measure="count"), reference.CountSliding(n, s))
    ),
    st.integers(1, 7),
    st.integers(1, 9),
)

uneven = st.just((Uneven(), reference.Spans(lambda time: list(Uneven().holding(time)))))

content = st.one_of(
    st.integers(1, 9).map(
        lambda d: (Delta(None, d), reference.Cut(lambda first, value: abs(value - first) > d))
    ),
    st.just((Punctuation(is_mark), reference.Cut(lambda first, value: is_mark(value)))),  # noqa: ARG005
)


def band(scale: Any) -> Any:
    def pair(start: Any, end: Any) -> Any:
        held = reference.Spans(lambda time: [(start, end)] if start <= time < end else [])
        return FixedBand(start, end - start), held

    starts, lengths = st.integers(-10, 60), st.integers(1, 30)
    return st.builds(lambda start, length: pair(start * scale, (start + length) * scale), starts, lengths)


def known(scale: Any = 1) -> Any:
    """Kinds that every slicer takes."""
    return st.one_of(tumbling(scale), sliding(scale), sessions(scale), uneven, band(scale))


def steps(values: list[int]) -> tuple[int, int]:
    a, b = 1, 0
    for value in values:
        a, b = a * (value + 2) % 10007, ((value + 2) * b + value * value) % 10007
    return a, b


#: monoids, and their results computed plainly
MONOIDS = {
    "sum": (monoids.Sum(), sum),
    "max": (monoids.Max(), max),
    "first": (monoids.First(), lambda values: values[0]),
    "collect": (monoids.Collect(), list),
    "steps": (
        # x -> ax + b, one after the other: has no inverse and does not commute
        monoids.from_function(
            lambda f, g: (f[0] * g[0] % 10007, (g[0] * f[1] + g[1]) % 10007),
            (1, 0),
            lift=lambda v: (v + 2, v * v),
            name="steps",
        ),
        steps,
    ),
}
