"""Murmur3 of whole columns: the 32-bit x86 variant with seed 0, which Iceberg's buckets are made of.

Written after the public definition of the hash. All arithmetic is modulo 2^32, on numpy arrays; the loops
go over the blocks of the longest value, not over rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_C1, _C2 = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)
_M5, _ADDED = np.uint32(5), np.uint32(0xE6546B64)
_MIX1, _MIX2 = np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35)

Hashes = NDArray[np.uint32]


def murmur3_int64(values: NDArray[np.int64]) -> Hashes:
    """Hash numbers as eight little-endian bytes each.

    Parameters
    ----------
    values : int64[n]

    Returns
    -------
    uint32[n]
    """
    words = np.ascontiguousarray(values, dtype="<i8").view("<u4").reshape(-1, 2)
    state = np.zeros(len(words), np.uint32)
    for at in (0, 1):
        state = _block(state, words[:, at])
    return _finish(state, np.full(len(words), 8, np.uint32))


def murmur3_bytes(data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> Hashes:
    """Hash strings of bytes that lie in one buffer.

    Parameters
    ----------
    data : uint8[m]
    starts, lengths : int64[n]
        Where each string lies in `data`.

    Returns
    -------
    uint32[n]
    """
    count = len(starts)
    state = np.zeros(count, np.uint32)
    padded = np.concatenate([data, np.zeros(4, np.uint8)])
    blocks = lengths // 4
    active = np.arange(count)
    for block in range(int(blocks.max(initial=0))):
        active = active[blocks[active] > block]
        state[active] = _block(state[active], _word(padded, starts[active] + 4 * block, 4))
    for rest in (1, 2, 3):
        ending = np.flatnonzero(lengths % 4 == rest)
        if len(ending):
            word = _word(padded, starts[ending] + 4 * blocks[ending], rest)
            state[ending] ^= _scrambled(word)
    return _finish(state, lengths.astype(np.uint32))


def _word(data: NDArray[np.uint8], at: NDArray[np.int64], length: int) -> Hashes:
    word = data[at].astype(np.uint32)
    for byte in range(1, length):
        word |= data[at + byte].astype(np.uint32) << np.uint32(8 * byte)
    return word


def _scrambled(word: Hashes) -> Hashes:
    scrambled: Hashes = _rotated(word * _C1, 15) * _C2
    return scrambled


def _block(state: Hashes, word: Hashes) -> Hashes:
    mixed: Hashes = _rotated(state ^ _scrambled(word), 13) * _M5 + _ADDED
    return mixed


def _finish(state: Hashes, lengths: Hashes) -> Hashes:
    state = state ^ lengths
    state = (state ^ (state >> np.uint32(16))) * _MIX1
    state = (state ^ (state >> np.uint32(13))) * _MIX2
    finished: Hashes = state ^ (state >> np.uint32(16))
    return finished


def _rotated(word: Hashes, by: int) -> Hashes:
    rotated: Hashes = (word << np.uint32(by)) | (word >> np.uint32(32 - by))
    return rotated
