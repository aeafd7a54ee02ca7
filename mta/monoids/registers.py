"""HyperLogLog: estimates how many different elements there are, from the ranks that their hashes have.

A hash has a register, given by its first bits, and a rank: 1 more than the number of zeros that the next bits
begin with. A register keeps its highest rank. A *code* is a register and a rank in one number.

A state is bytes: the codes of the registers in use, 4 bytes each, sorted; or the ranks of all registers, a
byte each, once this is not longer. So equal registers are equal states, and the empty state is `b""`.

The estimate is the improved raw estimator of Ertl ("New cardinality estimation algorithms for HyperLogLog
sketches", 2017), which needs no correction for few or for many elements. It depends on two whole numbers:
how many registers are unused, and the sum of 2^-rank over the others. So it does not depend on the order in
which elements came, or in which states were combined.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from mta.kinds import Array

#: The bits of a rank in a code. Ranks go up to 31, so estimates up to 2^30 times the number of registers.
_RANK_BITS = 5
_RANK = (1 << _RANK_BITS) - 1

#: 2^-rank, in units of 2^-31; 0 for an unused register.
_SHARES = np.array([0, *(1 << (_RANK - rank) for rank in range(1, _RANK + 1))], dtype=np.int64)
_UNIT = 2.0**-_RANK

_STORED = np.dtype("<u4")

#: Codes are few among this many times as many registers: to sort them is faster than a pass over those.
_FEW = 16


class Registers:
    """The arithmetic of states with 2^bits registers."""

    __slots__ = ("_bits", "_scale", "count")

    def __init__(self, bits: int) -> None:
        self._bits = bits
        self.count = 1 << bits
        self._scale = self.count * self.count / (2 * math.log(2))

    # -- codes and states -------------------------------------------------------------------------------

    def code(self, hashed: int) -> int:
        """The code of a hash of 64 bits."""
        rest = hashed >> (34 - self._bits) & (1 << 30) - 1
        return hashed >> (64 - self._bits) << _RANK_BITS | _RANK - rest.bit_length()

    def codes(self, hashed: Array) -> Array:
        """The codes of hashes, a column of unsigned numbers, as a column of whole numbers."""
        rest = (hashed >> np.uint64(34 - self._bits)) & np.uint64((1 << 30) - 1)
        lengths = np.frexp(rest.astype(np.float64))[1]
        registers = (hashed >> np.uint64(64 - self._bits)).astype(np.int64)
        codes: Array = (registers << _RANK_BITS) | (_RANK - lengths)
        return codes

    def is_dense(self, state: bytes) -> bool:
        """Whether a state has the ranks of all registers."""
        return len(state) == self.count

    def ranks(self, state: bytes) -> Array:
        """The ranks of all registers, in an array that may be changed."""
        if self.is_dense(state):
            return np.frombuffer(bytearray(state), dtype=np.uint8)
        return self.highest(self.codes_in(state))

    def codes_in(self, state: bytes) -> Array:
        """The codes of the registers in use."""
        if self.is_dense(state):
            return _codes_of(np.frombuffer(state, dtype=np.uint8))
        return np.frombuffer(state, dtype=_STORED).astype(np.int64)

    def highest(self, codes: Array) -> Array:
        """The highest rank of each register; 0 for an unused one."""
        return _highest(codes, self.count)

    def state(self, codes: Array) -> bytes:
        """The state of some codes, in any order."""
        if len(codes) == 1:
            code = int(codes[0])
            return code.to_bytes(4, "little") if code & _RANK else b""
        if 4 * len(codes) >= self.count:
            return self.state_of_ranks(self.highest(codes))
        return _without_lower(np.sort(codes[codes & _RANK > 0])).astype(_STORED).tobytes()

    def state_of_ranks(self, ranks: Array) -> bytes:
        if 4 * int(np.count_nonzero(ranks)) >= self.count:
            return ranks.tobytes()
        return _codes_of(ranks).astype(_STORED).tobytes()

    def combined(self, one: bytes, other: bytes) -> bytes:
        """The state of the elements of two states."""
        if len(one) < len(other):
            one, other = other, one
        if not other:
            return one
        if self.is_dense(other):
            a, b = (np.frombuffer(state, dtype=np.uint8) for state in (one, other))
            return np.maximum(a, b).tobytes()
        if len(other) == 4:
            return self._with_code(one, int.from_bytes(other, "little"), other)
        if self.is_dense(one):
            ranks, codes = self.ranks(one), self.codes_in(other)
            np.maximum.at(ranks, codes >> _RANK_BITS, (codes & _RANK).astype(np.uint8))
            return ranks.tobytes()
        codes = np.frombuffer(bytearray(one + other), dtype=_STORED)
        codes.sort()
        return self._settled(_without_lower(codes).tobytes())

    def _with_code(self, state: bytes, code: int, stored: bytes) -> bytes:
        """A state with one more code, which seldom changes a state of many elements."""
        register, rank = code >> _RANK_BITS, code & _RANK
        if self.is_dense(state):
            if state[register] >= rank:
                return state
            ranks = bytearray(state)
            ranks[register] = rank
            return bytes(ranks)
        at = 4 * int(np.frombuffer(state, dtype=_STORED).searchsorted(code & ~_RANK))
        there = int.from_bytes(state[at : at + 4], "little")
        if there >> _RANK_BITS != register or not there:
            return self._settled(state[:at] + stored + state[at:])
        return state if there >= code else state[:at] + stored + state[at + 4 :]

    def _settled(self, codes: bytes) -> bytes:
        """Sorted codes of different registers as a state, which has the ranks of all once that is shorter."""
        if len(codes) < self.count:
            return codes
        return self.highest(np.frombuffer(codes, dtype=_STORED).astype(np.int64)).tobytes()

    def combined_pairs(self, one: Sequence[bytes], other: Sequence[bytes]) -> list[bytes]:
        """`combined` of each pair of states, many short ones at once."""
        longest = max(map(len, one), default=0) + max(map(len, other), default=0)
        if longest >= self.count:
            return list(map(self.combined, one, other))
        sizes = np.array([len(a) + len(b) >> 2 for a, b in zip(one, other, strict=True)], dtype=np.int64)
        codes = np.frombuffer(b"".join(a + b for a, b in zip(one, other, strict=True)), dtype=_STORED)
        keys = _without_lower(np.sort(np.repeat(np.arange(len(sizes)) << 32, sizes) | codes))
        ends = (4 * (keys >> 32).searchsorted(np.arange(len(sizes)), "right")).tolist()
        data = (keys & 0xFFFFFFFF).astype(_STORED).tobytes()
        return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    def check(self, state: object) -> None:
        """Raises TypeError or ValueError for what is no state."""
        if type(state) is not bytes:
            raise TypeError(f"a state is bytes, got one of type {type(state).__name__}")
        if self.is_dense(state):
            ranks = np.frombuffer(state, dtype=np.uint8)
            if int(ranks.max()) > _RANK or 4 * int(np.count_nonzero(ranks)) < self.count:
                raise ValueError(f"a state has ranks up to {_RANK} in a quarter of the registers or more")
            return
        if len(state) % 4 or len(state) >= self.count:
            raise ValueError(f"a state has codes of 4 bytes or {self.count} ranks, got {len(state)} bytes")
        codes = self.codes_in(state)
        registers = codes >> _RANK_BITS
        if (np.diff(registers) < 1).any() or (registers >= self.count).any() or (codes & _RANK == 0).any():
            raise ValueError(f"a state has codes of different registers below {self.count}, in their order")

    # -- estimates --------------------------------------------------------------------------------------

    def estimate(self, state: bytes) -> float:
        """How many different elements the state has."""
        if self.is_dense(state):
            ranks: Array = np.frombuffer(state, dtype=np.uint8)
            unused = self.count - int(np.count_nonzero(ranks))
        else:
            ranks = self.codes_in(state) & _RANK
            unused = self.count - len(ranks)
        if unused == self.count:
            return 0.0
        return float(self._estimate(float(_SHARES.take(ranks).sum()), unused))

    def estimates_of(self, states: Sequence[bytes]) -> Array:
        """`estimate` of each state, of many short ones at once."""
        lengths = np.array(list(map(len, states)), dtype=np.int64) >> 2
        if (4 * lengths >= self.count).any():
            return np.array(list(map(self.estimate, states)))
        codes = np.frombuffer(b"".join(states), dtype=_STORED)
        ends = np.cumsum(lengths)
        # a sum over all states may wrap around, and its differences do not
        sums = np.concatenate([[0], np.cumsum(_SHARES[codes & _RANK])])
        return self._estimates(sums[ends] - sums[ends - lengths], self.count - lengths)

    def _estimates(self, shares: Array, unused: Array) -> Array:
        """`estimate` of many states, from the sums of their shares and how many registers they do not use."""
        found: Array = self._estimate(shares.astype(np.float64), unused)
        return np.where(unused == self.count, 0.0, found)

    def _estimate(self, shares: Any, unused: Any) -> Any:
        """The same for a float and an int, or for columns of them, to the last bit."""
        power = unused / self.count
        total, factor = power, 1.0
        for _ in range(self._bits + 6):  # then the powers are so small that they change nothing
            power = power * power
            total = total + power * factor
            factor += factor
        return self._scale / (total * self.count + shares * _UNIT)

    def estimates_in(self, codes: Array, starts: Array, stops: Array) -> Array:
        """The estimate of codes[start:stop], for starts and stops that never decrease.

        A code counts where it has the highest rank of its register: from the row whose window has it, and no
        longer a higher one before it, to the row whose window has a code after it that is no lower. So it
        changes the sums at two rows, and one pass over the rows adds these changes up. Codes that are in all
        windows are replaced by the highest of each register, and the others by those that are higher.
        """
        codes = codes[starts[0] : stops[-1]]
        starts, stops = starts - starts[0], stops - starts[0]
        registers = self.count
        if _FEW * len(codes) < registers:  # only the registers in use are numbered, and get an array
            numbers, of_code = np.unique(codes >> _RANK_BITS, return_inverse=True)
            codes, registers = of_code << _RANK_BITS | codes & _RANK, len(numbers)
        first, last = int(stops[0]), int(starts[-1])
        if last >= first:  # no code is in all windows
            first = last = int(stops[-1])
            common = np.zeros(registers, dtype=np.uint8)
        else:
            common = _highest(codes[last:first], registers)
        places = np.concatenate([np.arange(last), np.arange(first, len(codes))])
        some = codes[places]
        higher = (some & _RANK) > common[some >> _RANK_BITS]
        some, places = some[higher], places[higher]

        beaten = np.zeros(registers, dtype=bool)
        beaten[some >> _RANK_BITS] = True
        beaten &= common > 0
        inside = _codes_of(np.where(beaten, common, 0))
        common[beaten] = 0
        middle = int(places.searchsorted(last))
        some = np.concatenate([some[:middle], inside, some[middle:]])
        places = np.concatenate([places[:middle], np.full(len(inside), last), places[middle:]])

        before, after = _neighbours(some)
        # the places of the neighbours; before all starts and behind all stops if there is none
        opens = np.where(before < 0, -1, places[before])
        closes = np.where(after < 0, len(codes), places[after])
        rows = len(starts)
        begins = np.maximum(starts.searchsorted(opens, "right"), stops.searchsorted(places, "right"))
        ends = np.minimum(starts.searchsorted(places, "right"), stops.searchsorted(closes, "right"))
        there = begins < ends
        begins, ends, some = begins[there], ends[there], some[there]
        used, shares = np.zeros(rows + 1, dtype=np.int64), np.zeros(rows + 1, dtype=np.int64)
        for changes, weights in ((used, np.ones(len(some), dtype=np.int64)), (shares, _SHARES[some & _RANK])):
            np.add.at(changes, begins, weights)
            np.subtract.at(changes, ends, weights)
        used[0] += int(np.count_nonzero(common))
        shares[0] += int(_SHARES.take(common).sum())
        return self._estimates(np.cumsum(shares)[:-1], self.count - np.cumsum(used)[:-1])

    # -- states of windows ------------------------------------------------------------------------------

    def states_in(self, codes: Array, starts: Array, stops: Array) -> Iterator[bytes]:
        """The state of codes[start:stop], for each start and stop."""
        if (starts == starts[0]).all() and (np.diff(stops) >= 0).all():
            yield from self._growing(codes[starts[0] :], stops - starts[0])
        elif (stops == stops[0]).all() and (np.diff(starts) >= 0).all():
            stop = int(stops[0])
            backwards = self._growing(codes[:stop][::-1], (stop - starts)[::-1])
            yield from reversed(list(backwards))
        else:
            for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
                yield self.state(codes[start:stop])

    def _growing(self, codes: Array, stops: Array) -> Iterator[bytes]:
        """The state of codes[:stop], for stops that never decrease."""
        state, done = self.state(codes[: stops[0]]), int(stops[0])
        for stop in stops.tolist():
            if stop > done:
                state = self.combined(state, self.state(codes[done:stop]))
            done = stop
            yield state

    def steps(self, states: Sequence[bytes]) -> list[Array]:
        """Codes of each state that are not in the states before it, or only with a lower rank."""
        ranks = np.zeros(self.count, dtype=np.uint8)
        found = []
        for state in states:
            codes = self.codes_in(state)
            codes = codes[(codes & _RANK) > ranks[codes >> _RANK_BITS]]
            ranks[codes >> _RANK_BITS] = codes & _RANK
            found.append(codes)
        return found


def _highest(codes: Array, registers: int) -> Array:
    ranks = np.zeros(registers, dtype=np.uint8)
    np.maximum.at(ranks, codes >> _RANK_BITS, (codes & _RANK).astype(np.uint8))
    return ranks


def _without_lower(codes: Array) -> Array:
    """Sorted codes, the highest of each register."""
    kept = np.ones(len(codes), dtype=bool)
    np.greater(codes[1:] ^ codes[:-1], _RANK, out=kept[:-1])
    return codes[kept]


def _codes_of(ranks: Array) -> Array:
    """The codes of the registers in use, from the ranks of all registers."""
    used = np.flatnonzero(ranks)
    return (used << _RANK_BITS) | ranks[used]


def _neighbours(codes: Array) -> tuple[Array, Array]:
    """For each code, which one of the same register before it is higher, and which one after it no lower.

    -1 for none. Rank by rank: among the codes of this rank and higher ones, sorted by register, the one after
    a code of this rank is next to it, and the one before is the last higher one.
    """
    before, after = np.full(len(codes), -1), np.full(len(codes), -1)
    registers, ranks = codes >> _RANK_BITS, codes & _RANK
    small = len(codes) > 0 and int(registers.max()) < 1 << 16  # these are sorted in linear time
    order = np.argsort(registers.astype(np.uint16) if small else registers, kind="stable")
    rank = 0
    while len(order):
        rank += 1
        of_register, higher = registers[order], ranks[order] > rank
        mine = np.flatnonzero(~higher)
        behind = mine[: np.searchsorted(mine, len(order) - 1)]
        behind = behind[of_register[behind + 1] == of_register[behind]]
        after[order[behind]] = order[behind + 1]
        last = np.maximum.accumulate(np.where(higher, np.arange(len(order)), -1))[mine]
        same = (last >= 0) & (of_register[last] == of_register[mine])
        before[order[mine[same]]] = order[last[same]]
        order = order[higher]
    return before, after
