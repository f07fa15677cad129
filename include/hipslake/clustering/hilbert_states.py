"""The Hilbert curve as an automaton, for engines that look up better than they compute.

A level of the curve turns and mirrors what lies below it. So one state, and one bit of each coordinate, give
one digit of the key and the next state.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

MAX_COLUMNS = 4  # of k columns there are 2 * k! * 2**(k - 1) states


@dataclass(frozen=True)
class HilbertStates:
    """The transitions for k columns. State 0 is the first.

    Attributes
    ----------
    digit, state : int64[s, 2**k]
        The digit of the key, and the next state, by state and by the bits of the columns (the first column's
        bit is the highest).
    """

    digit: NDArray[np.int64]
    state: NDArray[np.int64]

    @property
    def state_bits(self) -> int:
        """Bits that hold the number of a state."""
        return max(1, (len(self.state) - 1).bit_length())

    def over_levels(self, levels: int) -> HilbertStates:
        """Return the automaton that takes several levels at a time, the highest first."""
        digit, state = self.digit, self.state
        for _ in range(levels - 1):
            digit = (digit[:, :, None] * self.digit.shape[1] + self.digit[state]).reshape(len(digit), -1)
            state = self.state[state].reshape(len(state), -1)
        return HilbertStates(digit, state)


@lru_cache
def hilbert_states(columns: int) -> HilbertStates:
    """Derive the automaton of `hipslake.clustering.curves.hilbert_index`.

    Parameters
    ----------
    columns : int
        1 to `MAX_COLUMNS`.
    """
    assert 1 <= columns <= MAX_COLUMNS
    start = (tuple(range(columns)), 0)
    numbers = {start: 0}
    todo, digits, following = [start], [], []
    for axes, mirrored in todo:
        row = [_step(axes, mirrored, bits, columns) for bits in range(2**columns)]
        digits.append([digit for digit, _ in row])
        for _, state in row:
            if state not in numbers:
                numbers[state] = len(numbers)
                todo.append(state)
        following.append([numbers[state] for _, state in row])
    return HilbertStates(np.array(digits, np.int64), np.array(following, np.int64))


_State = tuple[
    tuple[int, ...], int
]  # which column is on each axis; a bit per axis: mirrored; above: the key is


def _step(axes: tuple[int, ...], mirrored: int, bits: int, columns: int) -> tuple[int, _State]:
    """One level of Skilling's transformation: what it does to the levels below is the next state."""
    upper = [(bits >> (columns - 1 - column)) & 1 for column in axes]
    upper = [bit ^ (mirrored >> axis & 1) for axis, bit in enumerate(upper)]
    below, flips, backwards = (
        list(axes),
        [mirrored >> axis & 1 for axis in range(columns)],
        mirrored >> columns,
    )
    digit = gray = 0
    for axis, bit in enumerate(upper):
        if bit:
            flips[0] ^= 1
        else:
            below[0], below[axis] = below[axis], below[0]
            flips[0], flips[axis] = flips[axis], flips[0]
        gray ^= bit
        digit = digit << 1 | (gray ^ backwards)
    state = sum(flip << axis for axis, flip in enumerate(flips)) | (backwards ^ gray) << columns
    return digit, (tuple(below), state)
