"""What the operator tests of Scotty expect, as data.

The facts are those of the repository TU-Berlin-DIMA/scotty-window-processor, module `slicing`: 57 tests. Two
of them are commented out there, since Scotty does not pass them. Each case has its queries in order, its
steps, and the windows that each watermark gives. A step is (value, time), ("watermark", time, windows) or
("add", kind).

Windows are (number of the query, start, end, value). Scotty gives empty windows too, and some results in
another order; here a window has a tuple, and the order is not looked at. Where Scotty checks values only, the
bounds are those that its kinds of windows have. Its lateness is 1,000 where nothing else is said.

Two kinds of windows were only in older versions of Scotty, and are in none of the 57 tests: windows that
begin every n tuples and last for a time, and frames of values above a threshold.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mta.slicing import FixedBand, Punctuation, Session, Sliding, Tumbling


class Case(NamedTuple):
    name: str
    queries: list[Any]
    steps: list[Any]
    #: why Scotty's own expectation is not ours, where it is not
    differs: str = ""


def wm(time: int, *windows: tuple[Any, ...]) -> Any:
    return "watermark", time, windows


def ones(*times: int) -> list[tuple[int, int]]:
    return [(1, time) for time in times]


ONE_TO_FIVE = [(1, 1), (2, 19), (3, 29), (4, 39), (5, 49)]
FROM_ZERO = [(1, 0), (2, 0), (3, 20), (4, 30), (5, 40)]
OUT_OF_ORDER = ones(1, 30, 20, 23, 25, 45)
SLIDING = [
    Case(
        "sliding, in order",
        [Sliding(10, 5)],
        [
            *ONE_TO_FIVE,
            wm(22, (0, -5, 5, 1), (0, 0, 10, 1), (0, 10, 20, 2)),
            wm(
                55,
                (0, 15, 25, 2),
                (0, 20, 30, 3),
                (0, 25, 35, 3),
                (0, 30, 40, 4),
                (0, 35, 45, 4),
                (0, 40, 50, 5),
                (0, 45, 55, 5),
            ),
        ],
        "Scotty has no window that starts before 0",
    ),
    Case(
        "sliding, in order 2",
        [Sliding(10, 5)],
        [
            *FROM_ZERO,
            wm(22, (0, -5, 5, 3), (0, 0, 10, 3)),
            wm(
                55,
                (0, 15, 25, 3),
                (0, 20, 30, 3),
                (0, 25, 35, 4),
                (0, 30, 40, 4),
                (0, 35, 45, 5),
                (0, 40, 50, 5),
            ),
        ],
        "Scotty has no window that starts before 0",
    ),
    Case(
        "sliding and tumbling",
        [Sliding(10, 5), Tumbling(20)],
        [
            *ONE_TO_FIVE,
            wm(22, (0, -5, 5, 1), (0, 0, 10, 1), (0, 10, 20, 2), (1, 0, 20, 3)),
            wm(
                55,
                (0, 15, 25, 2),
                (0, 20, 30, 3),
                (0, 25, 35, 3),
                (0, 30, 40, 4),
                (0, 35, 45, 4),
                (0, 40, 50, 5),
                (0, 45, 55, 5),
                (1, 20, 40, 7),
            ),
        ],
        "Scotty has no window that starts before 0",
    ),
    Case(
        "sliding, and tumbling added",
        [Sliding(10, 5)],
        [
            *ONE_TO_FIVE[:2],
            ("add", Tumbling(20)),
            *ONE_TO_FIVE[2:],
            wm(22, (0, -5, 5, 1), (0, 0, 10, 1), (0, 10, 20, 2), (1, 0, 20, 3)),
            wm(
                55,
                (0, 15, 25, 2),
                (0, 20, 30, 3),
                (0, 25, 35, 3),
                (0, 30, 40, 4),
                (0, 35, 45, 4),
                (0, 40, 50, 5),
                (0, 45, 55, 5),
                (1, 20, 40, 7),
            ),
        ],
        "Scotty has no window that starts before 0",
    ),
    Case(
        "tumbling, and sliding added",
        [Tumbling(20)],
        [
            *ONE_TO_FIVE[:2],
            wm(22, (0, 0, 20, 3)),
            ("add", Sliding(10, 5)),
            *ONE_TO_FIVE[2:],
            wm(
                55,
                (0, 20, 40, 7),
                (1, 20, 30, 3),
                (1, 25, 35, 3),
                (1, 30, 40, 4),
                (1, 35, 45, 4),
                (1, 40, 50, 5),
                (1, 45, 55, 5),
            ),
        ],
        "with history the query begins behind the slice of 1 and 19, which its windows cut, and so without "
        "[15, 25), which Scotty does not check",
    ),
    Case(
        "sliding by 3",
        [Sliding(10, 3)],
        [
            *ones(1, 9, 10, 11, 12, 13, 14, 15, 19),
            (2, 21),
            *ones(22, 23, 24),
            (3, 29),
            (4, 36),
            wm(
                22,
                (0, -6, 4, 1),
                (0, -3, 7, 1),
                (0, 0, 10, 2),
                (0, 3, 13, 4),
                (0, 6, 16, 7),
                (0, 9, 19, 7),
                (0, 12, 22, 7),
            ),
            wm(
                55,
                (0, 15, 25, 7),
                (0, 18, 28, 6),
                (0, 21, 31, 8),
                (0, 24, 34, 4),
                (0, 27, 37, 7),
                (0, 30, 40, 4),
                (0, 33, 43, 4),
                (0, 36, 46, 4),
            ),
        ],
        "Scotty has no window that starts before 0",
    ),
    Case(
        "sliding, out of order",
        [Sliding(10, 5)],
        [
            *OUT_OF_ORDER,
            wm(22, (0, -5, 5, 1), (0, 0, 10, 1)),
            wm(
                55,
                (0, 15, 25, 2),
                (0, 20, 30, 3),
                (0, 25, 35, 2),
                (0, 30, 40, 1),
                (0, 40, 50, 1),
                (0, 45, 55, 1),
            ),
        ],
        "Scotty has no window that starts before 0",
    ),
    Case(
        "sliding, a tuple beyond the lateness",
        [Sliding(10, 5)],
        [
            (1, 2600),
            wm(3000, (0, 2595, 2605, 1), (0, 2600, 2610, 1)),
            (1, 3700),
            (1, 1980),
            wm(3600),
        ],
    ),
    Case(
        "sliding, a tuple long before all others and before a watermark",
        [Sliding(10, 5)],
        [
            (1, 2600),
            (1, 1500),
            wm(3000, (0, 1495, 1505, 1), (0, 1500, 1510, 1), (0, 2595, 2605, 1), (0, 2600, 2610, 1)),
        ],
        "Scotty leaves out what is 1,000 before the first tuple; here nothing is late before a watermark",
    ),
    Case(
        "sliding by 4, where the first slice begins",
        [Sliding(10, 4)],
        [
            *ones(1, 10, 11, 12, 13, 14, 15),
            (3, 19),
            (4, 29),
            (5, 36),
            wm(
                22,
                (0, -8, 2, 1),
                (0, -4, 6, 1),
                (0, 0, 10, 1),
                (0, 4, 14, 4),
                (0, 8, 18, 6),
                (0, 12, 22, 7),
            ),
            wm(
                55,
                (0, 16, 26, 3),
                (0, 20, 30, 4),
                (0, 24, 34, 4),
                (0, 28, 38, 9),
                (0, 32, 42, 5),
                (0, 36, 46, 5),
            ),
        ],
        "Scotty has no window that starts before 0",
    ),
]

TENS = (0, 20, 30, 3), (0, 30, 40, 4), (0, 40, 50, 5)
COUNTED = [*ones(1, 19, 29), (2, 39), (1, 41), (2, 10)]

TUMBLING = [
    Case(
        "tumbling, in order",
        [Tumbling(10)],
        [*ONE_TO_FIVE, wm(22, (0, 0, 10, 1), (0, 10, 20, 2)), wm(55, *TENS)],
    ),
    Case("tumbling, in order 2", [Tumbling(10)], [*FROM_ZERO, wm(22, (0, 0, 10, 3)), wm(55, *TENS)]),
    Case(
        "two tumbling",
        [Tumbling(10), Tumbling(20)],
        [
            *ONE_TO_FIVE,
            wm(22, (0, 0, 10, 1), (0, 10, 20, 2), (1, 0, 20, 3)),
            wm(55, *TENS, (1, 20, 40, 7)),
        ],
    ),
    Case(
        "two tumbling, one added",
        [Tumbling(10)],
        [
            *ONE_TO_FIVE[:2],
            ("add", Tumbling(20)),
            *ONE_TO_FIVE[2:],
            wm(22, (0, 0, 10, 1), (0, 10, 20, 2), (1, 0, 20, 3)),
            wm(55, *TENS, (1, 20, 40, 7)),
        ],
    ),
    Case(
        "two tumbling, the finer one added",
        [Tumbling(20)],
        [
            *ONE_TO_FIVE[:2],
            wm(22, (0, 0, 20, 3)),
            ("add", Tumbling(10)),
            *ONE_TO_FIVE[2:],
            wm(55, (0, 20, 40, 7), (1, 20, 30, 3), (1, 30, 40, 4), (1, 40, 50, 5)),
        ],
    ),
    Case(
        "tumbling, out of order",
        [Tumbling(10)],
        [*OUT_OF_ORDER, wm(22, (0, 0, 10, 1)), wm(55, (0, 20, 30, 3), (0, 30, 40, 1), (0, 40, 50, 1))],
    ),
    Case(
        "by count, in order",
        [Tumbling(3, measure="count")],
        [*ones(1, 19, 29), (2, 39), (2, 49), (2, 50), (1, 51), wm(55, (0, 0, 3, 3), (0, 3, 6, 6))],
    ),
    Case(
        "by count, out of order",
        [Tumbling(3, measure="count")],
        [*ones(1, 19, 29), (2, 39), (2, 10), (2, 50), (1, 51), wm(55, (0, 0, 3, 4), (0, 3, 6, 5))],
    ),
    Case(
        "two by count, out of order",
        [Tumbling(3, measure="count"), Tumbling(5, measure="count")],
        [
            *COUNTED,
            (2, 50),
            (1, 51),
            (3, 52),
            wm(55, (0, 0, 3, 4), (0, 3, 6, 4), (0, 6, 9, 6), (1, 0, 5, 7)),
        ],
        "Scotty has a second aggregate, of differences, of which it checks nothing",
    ),
    Case(
        "two by count, out of order, a watermark in between",
        [Tumbling(3, measure="count"), Tumbling(5, measure="count")],
        [
            *COUNTED,
            wm(30, (0, 0, 3, 4)),
            (2, 50),
            (1, 51),
            (3, 52),
            wm(55, (0, 3, 6, 4), (0, 6, 9, 6), (1, 0, 5, 7)),
        ],
    ),
]

SESSIONS = [
    Case(
        "sessions, in order",
        [Session(10)],
        [
            *[(1, 1), (2, 19), (3, 23), (4, 31), (5, 49)],
            wm(22, (0, 1, 11, 1)),
            wm(55, (0, 19, 41, 9)),
            wm(80, (0, 49, 59, 5)),
        ],
    ),
    Case(
        "sessions, in order, of long gaps",
        [Session(10_000)],
        [
            *[(1, 1000), (2, 19_000), (3, 23_000), (4, 31_000), (5, 49_000)],
            wm(22_000, (0, 1000, 11_000, 1)),
            wm(55_000, (0, 19_000, 41_000, 9)),
            wm(80_000, (0, 49_000, 59_000, 5)),
        ],
    ),
    Case(
        "sessions, in order 2",
        [Session(10)],
        [
            *[(1, 0), (2, 0), (3, 20), (4, 31), (5, 42)],
            wm(22, (0, 0, 10, 3)),
            wm(55, (0, 20, 30, 3), (0, 31, 41, 4), (0, 42, 52, 5)),
        ],
    ),
    Case(
        "sessions, a tuple inside",
        [Session(10)],
        [*ones(1, 9, 15, 30, 12), wm(50, (0, 1, 25, 4), (0, 30, 40, 1))],
    ),
    Case(
        "sessions, a tuple behind",
        [Session(10)],
        [*ones(1, 9, 10, 30, 12), wm(50, (0, 1, 22, 4), (0, 30, 40, 1))],
    ),
    Case(
        "sessions, a tuple before",
        [Session(10)],
        [*ones(1, 9, 10, 30, 27), wm(22, (0, 1, 20, 3)), wm(50, (0, 27, 40, 2))],
    ),
    Case(
        "sessions, one that ends at the watermark",
        [Session(10)],
        [*ones(1, 30, 12), wm(22, (0, 1, 11, 1)), wm(50, (0, 12, 22, 1), (0, 30, 40, 1))],
    ),
    Case(
        "sessions that merge",
        [Session(10)],
        [*ones(7, 30, 51, 15, 21), wm(70, (0, 7, 40, 4), (0, 51, 61, 1))],
    ),
    Case(
        "sessions and tumbling",
        [Session(10), Tumbling(40)],
        [*ones(7, 22, 51, 15, 37), wm(70, (1, 0, 40, 4), (0, 7, 32, 3), (0, 37, 47, 1), (0, 51, 61, 1))],
    ),
    Case(
        "sessions of two gaps",
        [Session(10), Session(5)],
        [
            *ones(20, 40, 50, 57, 33, 31),
            wm(
                70,
                (1, 20, 25, 1),
                (1, 31, 38, 2),
                (1, 40, 45, 1),
                (1, 50, 55, 1),
                (1, 57, 62, 1),
                (0, 20, 30, 1),
                (0, 31, 67, 5),
            ),
        ],
    ),
    Case(
        "sessions, a tuple beyond the lateness",
        [Session(10)],
        [
            (1, 2600),
            (1, 2700),
            wm(3000, (0, 2600, 2610, 1), (0, 2700, 2710, 1)),
            (1, 3700),
            (1, 1999),
            wm(3600, (0, 1999, 2009, 1)),
        ],
        "the tuple is late in Scotty, being 1,001 behind the watermark; the session of it alone would end at "
        "2009, so it is not late in Flink, nor here",
    ),
    Case(
        "sessions, a tuple within the lateness",
        [Session(10)],
        [
            (1, 2600),
            wm(3000, (0, 2600, 2610, 1)),
            (1, 3700),
            (1, 2500),
            wm(4000, (0, 2500, 2510, 1), (0, 3700, 3710, 1)),
        ],
    ),
    Case(
        "sessions, a tuple long before all others and before a watermark",
        [Session(10)],
        [
            (1, 2600),
            (1, 2700),
            (1, 1500),
            wm(3000, (0, 1500, 1510, 1), (0, 2600, 2610, 1), (0, 2700, 2710, 1)),
        ],
        "Scotty leaves out what is 1,000 before the first tuple; here nothing is late before a watermark",
    ),
]

BANDS = [
    Case("a band, in order", [FixedBand(1, 10)], [*ONE_TO_FIVE, wm(55, (0, 1, 11, 1))]),
    Case("a band, in order 2", [FixedBand(0, 10)], [*FROM_ZERO, wm(22, (0, 0, 10, 3)), wm(55)]),
    Case("a band, in order 3", [FixedBand(18, 10)], [*FROM_ZERO, wm(22), wm(55, (0, 18, 28, 3))]),
    Case(
        "two bands",
        [FixedBand(10, 10), FixedBand(20, 10)],
        [*ONE_TO_FIVE, wm(22, (0, 10, 20, 2)), wm(55, (1, 20, 30, 3))],
    ),
    Case(
        "two bands that overlap",
        [FixedBand(14, 11), FixedBand(23, 10)],
        [*ONE_TO_FIVE, wm(26, (0, 14, 25, 2)), wm(55, (1, 23, 33, 3))],
    ),
    Case(
        "two bands, one added",
        [FixedBand(10, 10)],
        [
            *ONE_TO_FIVE[:2],
            ("add", FixedBand(20, 10)),
            *ONE_TO_FIVE[2:],
            wm(22, (0, 10, 20, 2)),
            wm(55, (1, 20, 30, 3)),
        ],
    ),
    Case(
        "two bands, one added after a watermark",
        [FixedBand(10, 10)],
        [
            *ONE_TO_FIVE[:2],
            wm(22, (0, 10, 20, 2)),
            ("add", FixedBand(20, 21)),
            *ONE_TO_FIVE[2:],
            wm(55, (1, 20, 41, 7)),
        ],
    ),
    Case(
        "a band, out of order",
        [FixedBand(10, 20)],
        [*ones(1, 29, 20, 23, 25, 45), wm(22), wm(55, (0, 10, 30, 4))],
    ),
]

MARK = Punctuation(lambda value: value == 0)

MARKS = [
    Case(
        "punctuations, in order",
        [MARK],
        [
            *[(1, 1), (0, 10), (1, 10), (2, 19), (3, 23), (0, 30), (4, 30), (5, 49), (0, 51), (6, 54)],
            wm(31, (0, 1, 10, 1), (0, 10, 30, 6)),
            wm(55, (0, 30, 51, 9)),
        ],
    ),
    Case(
        "punctuations, in order 2",
        [MARK],
        [
            (0, 10),
            wm(10),
            *[(1, 10), (2, 19), (3, 23), (0, 30), (4, 30)],
            wm(31, (0, 10, 30, 6)),
            *[(5, 49), (0, 51)],
            wm(51, (0, 30, 51, 9)),
        ],
    ),
    Case(
        "punctuations, a tuple out of order",
        [MARK],
        [
            *[(1, 1), (0, 10), *ones(10, 19, 21, 23, 24, 25), (0, 30), (5, 49), (5, 45), (0, 51)],
            wm(55, (0, 1, 10, 1), (0, 10, 30, 6), (0, 30, 51, 10)),
        ],
    ),
    Case(
        "punctuations, a tuple out of order in the first window",
        [MARK],
        [
            *[(1, 1), (0, 10), (2, 19), (2, 21), (2, 23), (2, 24), (0, 30), (5, 49), (2, 5), (0, 51)],
            wm(55, (0, 1, 10, 3), (0, 10, 30, 8), (0, 30, 51, 5)),
        ],
    ),
    Case(
        "punctuations, several tuples out of order",
        [MARK],
        [
            *[(1, 1), (0, 10), (2, 19), (0, 30), (3, 21), (3, 23), (3, 24), (5, 49), (0, 51)],
            wm(31, (0, 1, 10, 1), (0, 10, 30, 11)),
            wm(55, (0, 30, 51, 5)),
        ],
    ),
    Case(
        "a punctuation out of order",
        [MARK],
        [
            *[
                (1, 1),
                (0, 10),
                (2, 19),
                (2, 20),
                (3, 23),
                (4, 32),
                (1, 34),
                (1, 40),
                (0, 30),
                (5, 49),
                (0, 51),
            ],
            wm(31, (0, 1, 10, 1), (0, 10, 30, 7)),
            wm(55, (0, 30, 51, 11)),
        ],
    ),
    Case(
        "a punctuation out of order splits a window",
        [MARK],
        [
            *[
                (1, 1),
                (0, 10),
                (2, 19),
                (2, 21),
                (2, 23),
                (0, 30),
                *ones(32, 34, 40),
                (0, 51),
                (1, 55),
                (0, 20),
            ],
            wm(56, (0, 1, 10, 1), (0, 10, 20, 2), (0, 20, 30, 4), (0, 30, 51, 3)),
        ],
    ),
]


def marked(field: int, mark: Any) -> Punctuation:
    """Tuples of two fields, which Scotty matches by a pattern of the first, or by a value of each."""
    return Punctuation(lambda value: value[1] == 0 and value[field] == mark, name=f"{field} is {mark}")


def rows(*told: tuple[Any, int, int]) -> list[Any]:
    return [((key, value), time) for key, value, time in told]


KEYED = [
    (1, 1, 1),
    ("key", 0, 10),
    (1, 2, 19),
    (1, 3, 23),
    ("key", 0, 30),
    (1, 4, 30),
    (1, 5, 49),
    ("key", 0, 51),
]
DIGITS = [
    (1, 1, 1),
    ("123", 0, 10),
    (1, 2, 19),
    (1, 3, 23),
    ("234", 0, 30),
    (1, 4, 30),
    (1, 5, 49),
    ("345", 0, 51),
]
PAIRS = [
    Case(
        "punctuations of tuples",
        [marked(0, "key")],
        [*rows(*KEYED), wm(31, (0, 1, 10, 1), (0, 10, 30, 5)), wm(55, (0, 30, 51, 9))],
    ),
    Case(
        "punctuations of tuples by one field",
        [marked(1, 0)],
        [*rows(*DIGITS), wm(31, (0, 1, 10, 1), (0, 10, 30, 5)), wm(55, (0, 30, 51, 9))],
    ),
    Case(
        "punctuations of tuples, out of order",
        [marked(0, 1)],
        [
            *rows((1, 1, 1), (1, 0, 10), (1, 2, 19), (1, 0, 30), (1, 3, 23), (1, 5, 49), (1, 0, 51)),
            wm(31, (0, 1, 10, 1), (0, 10, 30, 5)),
            wm(55, (0, 30, 51, 5)),
        ],
    ),
    Case(
        "two kinds of punctuations of tuples",
        [marked(0, 1), marked(0, "123")],
        [
            *rows((1, 1, 1), (1, 0, 10), (1, 2, 19), ("123", 0, 30), (1, 3, 23), (1, 5, 49)),
            *rows((1, 0, 51), ("123", 0, 51)),
            wm(31, (0, 1, 10, 1), (1, 1, 30, 6)),
            wm(55, (0, 10, 51, 10), (1, 30, 51, 5)),
        ],
    ),
]

LATE = [
    Case(
        "a tuple out of order, and none late",
        [Tumbling(10)],
        [
            *ones(2000, 2600, 2605, 2800, 2400, 3700),
            wm(3000, (0, 2000, 2010, 1), (0, 2400, 2410, 1), (0, 2600, 2610, 2), (0, 2800, 2810, 1)),
            (2, 3800),
            (3, 4000),
            wm(3900, (0, 3700, 3710, 1), (0, 3800, 3810, 2)),
        ],
    ),
    Case(
        "a window is corrected",
        [Tumbling(10)],
        [
            *ones(2600, 2800),
            wm(3000, (0, 2600, 2610, 1), (0, 2800, 2810, 1)),
            *ones(2605, 3010),
            wm(3100, (0, 2600, 2610, 2), (0, 3010, 3020, 1)),
        ],
        "Scotty gives [2800, 2810) again too, and says that it should not",
    ),
    Case(
        "a session more",
        [Session(10)],
        [
            *ones(2600, 2800),
            wm(3000, (0, 2600, 2610, 1), (0, 2800, 2810, 1)),
            *ones(2500, 3010),
            wm(3100, (0, 2500, 2510, 1), (0, 3010, 3020, 1)),
        ],
    ),
    Case(
        "a session is corrected",
        [Session(10)],
        [
            *ones(2600, 2610, 2800),
            wm(3000, (0, 2600, 2620, 2), (0, 2800, 2810, 1)),
            *ones(2605, 3010),
            wm(3100, (0, 2600, 2620, 3), (0, 3010, 3020, 1)),
        ],
        "commented out in Scotty, which does not pass it",
    ),
    Case(
        "a session becomes longer",
        [Session(10)],
        [
            *ones(2600, 2610, 2800),
            wm(3000, (0, 2600, 2620, 2), (0, 2800, 2810, 1)),
            *ones(2625, 3010),
            wm(3100, (0, 2625, 2635, 1), (0, 3010, 3020, 1)),
        ],
        "commented out in Scotty, and wrong: 2625 is 15 after the last tuple of the session, whose gap is "
        "10, and does not join it",
    ),
]

CASES = [*SLIDING, *TUMBLING, *SESSIONS, *BANDS, *MARKS, *PAIRS, *LATE]
