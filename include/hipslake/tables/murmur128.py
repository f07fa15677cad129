"""Murmur3 of whole columns: the 128-bit x64 variant, whose first half sketches of distinct values take.

Written after the public definition of the hash. All arithmetic is modulo 2^64, on numpy arrays; the loop goes
over the blocks of the longest value, not over rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

_C1, _C2 = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)
_FIVE = np.uint64(5)
_ADDED1, _ADDED2 = np.uint64(0x52DCE729), np.uint64(0x38495AB5)
_MIX1, _MIX2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_BLOCK = 16
_MASKS = np.array([(1 << 8 * length) - 1 for length in range(9)], np.uint64)
"""By a number of bytes, those that it keeps of a word."""


def murmur3_x64(
    data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64], seed: int
) -> Words:
    """Hash strings of bytes that lie in one buffer.

    Parameters
    ----------
    data : uint8[m]
    starts, lengths : int64[n]
        Where each string lies in `data`, and its bytes.
    seed : int

    Returns
    -------
    uint64[n]
        The first 64 bits of each hash.
    """
    padded = np.concatenate([data, np.zeros(_BLOCK, np.uint8)])
    # The word of eight bytes that begins at each byte.
    words = np.ndarray((len(padded) - 7,), "<u8", padded, strides=(1,))
    first = np.full(len(starts), seed, np.uint64)
    second = first.copy()
    blocks = lengths // _BLOCK
    active = np.arange(len(starts))
    for block in range(int(blocks.max(initial=0))):
        active = active[blocks[active] > block]
        at = starts[active] + _BLOCK * block
        first[active], second[active] = _block(first[active], second[active], words[at], words[at + 8])
    rest, at = lengths % _BLOCK, starts + _BLOCK * blocks
    first ^= _scrambled(words[at] & _MASKS[np.minimum(rest, 8)], _C1, 31, _C2)
    second ^= _scrambled(words[at + 8] & _MASKS[np.maximum(rest - 8, 0)], _C2, 33, _C1)
    return _finish(first, second, lengths.astype(np.uint64))


def _block(first: Words, second: Words, low: Words, high: Words) -> tuple[Words, Words]:
    first = (_rotated(first ^ _scrambled(low, _C1, 31, _C2), 27) + second) * _FIVE + _ADDED1
    second = (_rotated(second ^ _scrambled(high, _C2, 33, _C1), 31) + first) * _FIVE + _ADDED2
    return first, second


def _scrambled(word: Words, before: np.uint64, by: int, after: np.uint64) -> Words:
    scrambled: Words = _rotated(word * before, by) * after
    return scrambled


def _finish(first: Words, second: Words, lengths: Words) -> Words:
    first, second = first ^ lengths, second ^ lengths
    first = first + second
    second = second + first
    finished: Words = _mixed(first) + _mixed(second)
    return finished


def _mixed(word: Words) -> Words:
    word = (word ^ (word >> np.uint64(33))) * _MIX1
    word = (word ^ (word >> np.uint64(33))) * _MIX2
    mixed: Words = word ^ (word >> np.uint64(33))
    return mixed


def _rotated(word: Words, by: int) -> Words:
    rotated: Words = (word << np.uint64(by)) | (word >> np.uint64(64 - by))
    return rotated
