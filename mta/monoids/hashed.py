"""Sketches in one large int: a Bloom filter, whose bits are set by hashes, and a count-min sketch.

They are not from Apache DataSketches, whose sketches cannot be subtracted.
"""

from __future__ import annotations

import math

from mta.kinds import Packed, Row, State, Value
from mta.monoids.values import HashedMonoid, digest
from mta.options import check_between


class IntSketch(HashedMonoid):
    """A sketch whose states are ints of at most `bits` bits."""

    identity = 0
    commutes = True
    bits: int

    def hashed(self, row: Row) -> tuple[int, int]:
        """The hash of an element as the start and the step of a row of positions."""
        both = int.from_bytes(digest(row, self), "little")
        return both & (2**64 - 1), both >> 64 | 1

    def pack(self, state: State) -> bytes:
        return int(state).to_bytes((state.bit_length() + 7) // 8, "little")

    def unpack(self, packed: Packed) -> int:
        if not isinstance(packed, (bytes, bytearray)):  # Spark gives a bytearray
            raise TypeError(f"{self!r} has bytes as its state, got one of type {type(packed).__name__}")
        state = int.from_bytes(packed, "little")
        if state.bit_length() > self.bits:
            raise ValueError(f"{self!r} has states of {self.bits} bits, got one of {state.bit_length()}")
        return state


class Lookup:
    """The result of a sketch, which looks values up in its state."""

    __slots__ = ("_sketch", "_state")

    def __init__(self, sketch: IntSketch, state: int) -> None:
        self._sketch = sketch
        self._state = state

    def __eq__(self, other: object) -> bool:
        return self._as_key() == other._as_key() if isinstance(other, type(self)) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._as_key())

    def _as_key(self) -> tuple[int, ...]:
        return (*(getattr(self._sketch, name) for name in self._sketch.options), self._state)


class Membership(Lookup):
    """The result of a BloomFilter: `value in membership` is never wrong if False, and seldom wrong if True.

    A test of membership costs one hash. It raises TypeError for a value of another type than the elements'.

    >>> from mta import AmortizedMTA, monoids, policies
    >>> window = AmortizedMTA(monoids.BloomFilter(), policies.CountWindow(2))
    >>> window.extend(["ada", "bob", "eve"])
    >>> membership = window.query()
    >>> membership
    <Membership of BloomFilter(bits=16384, hashes=4), 8 bits set>
    >>> "ada" in membership, "eve" in membership
    (False, True)
    """

    __slots__ = ()
    _sketch: BloomFilter

    def __contains__(self, value: object) -> bool:
        mask = self._sketch.lift_row(self._sketch.check_row(value))
        return self._state & mask == mask

    @property
    def false_positive_rate(self) -> float:
        """The probability that a value which is not in the window tests True, estimated from the bits set."""
        share: float = self._state.bit_count() / self._sketch.bits
        return share**self._sketch.hashes

    def __repr__(self) -> str:
        return f"<Membership of {self._sketch!r}, {self._state.bit_count()} bits set>"


class BloomFilter(IntSketch):
    """A set of elements as a filter of `bits` bits, of which each element sets `hashes`.

    Elements are str, bytes, numbers or tuples of them. With 1000 different elements, the default filter is
    wrong for one lookup in 450. A state is an int of `bits` bits, so a combine costs time in `bits`.

    Takes the name of the field to read, or none. Raises ValueError for bits or hashes below 1, and TypeError
    for an element of another type.

    >>> from mta import AmortizedMTA, monoids
    >>> window = AmortizedMTA(monoids.BloomFilter("user"))
    >>> window.extend({"user": ["ada", "bob"]})
    >>> "bob" in window.query()
    True
    """

    options = ("bits", "hashes")

    def __init__(self, *fields: str, bits: int = 16384, hashes: int = 4) -> None:
        super().__init__(*fields)
        self.bits = check_between("BloomFilter", "bits", bits, 1)
        self.hashes = check_between("BloomFilter", "hashes", hashes, 1)

    def lift_row(self, row: Row) -> int:
        bit, step = self.hashed(row)
        mask = 0
        for _ in range(self.hashes):
            mask |= 1 << bit % self.bits
            bit += step
        return mask

    def combine(self, older: State, younger: State) -> State:
        return older | younger

    def lower(self, state: State) -> Membership:
        return Membership(self, state)


#: Bits of a counter. A window has fewer than 2^48 elements, so no counter overflows into the next one.
_CELL = 48


class Frequencies(Lookup):
    """The result of a CountMin: `frequencies[value]` is never too low, and seldom much too high.

    A lookup costs one hash. It raises TypeError for a value of another type than the elements'.

    >>> from mta import AmortizedMTA, monoids
    >>> window = AmortizedMTA(monoids.CountMin())
    >>> window.extend(list("mississippi"))
    >>> frequencies = window.query()
    >>> frequencies
    <Frequencies of CountMin(width=256, depth=4), 11 elements>
    >>> frequencies["s"], frequencies["x"], frequencies.total
    (4, 0, 11)
    """

    __slots__ = ()
    _sketch: CountMin

    def __getitem__(self, value: Value) -> int:
        return min(map(self._cell, self._sketch.cells(self._sketch.check_row(value))))

    def _cell(self, cell: int) -> int:
        return self._state >> _CELL * cell & (1 << _CELL) - 1

    @property
    def total(self) -> int:
        """The number of elements, exactly."""
        return sum(self._cell(cell) for cell in range(self._sketch.width))

    @property
    def error(self) -> float:
        """The most by which a count is too high, except for one value in e**depth."""
        return math.e / self._sketch.width * self.total

    def __repr__(self) -> str:
        return f"<Frequencies of {self._sketch!r}, {self.total} elements>"


class CountMin(IntSketch):
    """Estimates how often each element occurs, in `depth` rows of `width` counters.

    Elements are str, bytes, numbers or tuples of them. A count is never too low. For about one value in
    e**depth it is too high by more than e / width of the number of elements: with the defaults, for one
    value in 55 by more than 1.1 %. A state is an int of 6 bytes a counter, 6 KB with the defaults.

    Takes the name of the field to read, or none. Raises ValueError for a width or depth below 1 and for more
    than 2**20 counters, and TypeError for an element of another type.

    >>> from mta import AmortizedMTA, monoids, policies
    >>> window = AmortizedMTA(monoids.CountMin("user"), policies.CountWindow(3))
    >>> window.extend({"user": ["ada", "ada", "bob", "ada"]})
    >>> window.query()["ada"]
    2
    """

    options = ("width", "depth")
    invertible = True

    def __init__(self, *fields: str, width: int = 256, depth: int = 4) -> None:
        super().__init__(*fields)
        self.width = check_between("CountMin", "width", width, 1)
        self.depth = check_between("CountMin", "depth", depth, 1)
        if self.width * self.depth > 1 << 20:
            raise ValueError(
                f"CountMin takes at most {1 << 20} counters of 6 bytes, got width={width} and depth={depth}"
            )
        self.bits = _CELL * self.width * self.depth

    def cells(self, row: Row) -> list[int]:
        """The counters of an element, one in each row."""
        cell, step = self.hashed(row)
        return [at * self.width + (cell + at * step) % self.width for at in range(self.depth)]

    def lift_row(self, row: Row) -> int:
        return sum(1 << _CELL * cell for cell in self.cells(row))

    def combine(self, older: State, younger: State) -> State:
        return older + younger

    def without(self, state: State, older: State) -> State:
        return state - older

    def lower(self, state: State) -> Frequencies:
        return Frequencies(self, state)
