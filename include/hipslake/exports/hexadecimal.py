"""Bytes as hexadecimal texts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)
_PAIRS = np.stack([np.repeat(_DIGITS, 16), np.tile(_DIGITS, 16)], axis=1)  # of each byte


def is_bytes(kind: pa.DataType) -> bool:
    """Whether a type is of bytes."""
    return bool(
        kinds.is_binary(kind)
        or kinds.is_large_binary(kind)
        or kinds.is_binary_view(kind)
        or kinds.is_fixed_size_binary(kind)
    )


def hexadecimal(values: pa.Array) -> pa.LargeStringArray:
    """Bytes as texts of two lower-case digits for each byte; null is null.

    Examples
    --------
    >>> hexadecimal(pa.array([b"\\xff\\x00", None, b""])).to_pylist()
    ['ff00', None, '']
    """
    plain = values.cast(pa.large_binary())
    _, offsets, data = plain.buffers()
    if not len(plain):
        return pa.array([], pa.large_string())
    ends = np.frombuffer(offsets, np.int64, len(plain) + 1, plain.offset * 8)
    octets = np.frombuffer(data or b"", np.uint8)[ends[0] : ends[-1]]
    missing = pc.is_null(plain) if plain.null_count else None
    found = pa.LargeStringArray.from_buffers(
        len(plain), pa.py_buffer(2 * (ends - ends[0])), pa.py_buffer(_PAIRS[octets])
    )
    return found if missing is None else pc.if_else(missing, pa.scalar(None, pa.large_string()), found)
