"""Decimals as whole columns of 128-bit numbers, which numpy does not have."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_WORD = np.uint64(0xFFFFFFFF)


class Wide(NamedTuple):
    """128-bit two's complement numbers: `high * 2^64 + low`."""

    high: NDArray[np.int64]
    low: NDArray[np.uint64]


def unscaled(array: pa.Array) -> Wide:
    """The unscaled values of a decimal128 array; any number at nulls."""
    words = np.frombuffer(array.buffers()[1], "<u8", 2 * len(array), 16 * array.offset).reshape(-1, 2)
    return Wide(words[:, 1].view(np.int64), words[:, 0])


def to_decimals(values: Wide, like: pa.Array) -> pa.Array:
    """The decimals of unscaled values, with the type and the nulls of an array."""
    words = np.empty((len(like), 2), "<u8")
    words[:, 0], words[:, 1] = values.low, values.high.view(np.uint64)
    validity = None if like.null_count == 0 else pa.array(like.is_valid()).buffers()[1]
    return pa.Array.from_buffers(like.type, len(like), [validity, pa.py_buffer(words)])


def remainder(values: Wide, width: int) -> NDArray[np.uint64]:
    """The remainder of a division by `width` (below 2^31), in [0, width), also of negative numbers."""
    divisor = np.uint64(width)
    high = values.high.view(np.uint64)
    rest = np.zeros(len(high), np.uint64)
    for word in (high >> np.uint64(32), high & _WORD, values.low >> np.uint64(32), values.low & _WORD):
        rest = ((rest << np.uint64(32)) | word) % divisor
    lifted = np.uint64(pow(2, 128, width))  # a negative number was read as 2^128 above itself
    return np.where(values.high < 0, (rest + divisor - lifted) % divisor, rest)


def minus(values: Wide, terms: NDArray[np.uint64]) -> Wide:
    """The difference of numbers and small terms."""
    borrow = (values.low < terms).astype(np.int64)
    return Wide(values.high - borrow, values.low - terms)


def big_endian(values: Wide) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """The shortest big-endian two's complement of each number: bytes, where each starts, how long it is."""
    words = np.empty((len(values.high), 2), ">u8")
    words[:, 0], words[:, 1] = values.high.view(np.uint64), values.low
    data = words.view(np.uint8)
    filler = np.where(values.high < 0, 0xFF, 0).astype(np.uint8)[:, None]
    is_filler = data == filler
    # A leading byte can go if it only repeats the sign that the next byte shows too.
    same_sign = (data[:, 1:] >> 7) == (filler >> 7)
    skipped = np.cumprod(is_filler[:, :-1] & same_sign, axis=1).sum(axis=1)
    starts = 16 * np.arange(len(data), dtype=np.int64) + skipped
    return data.reshape(-1), starts, 16 - skipped
