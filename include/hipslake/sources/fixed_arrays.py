"""Arrays of a fixed size: a null takes as much memory as any value, though a text has few letters for it."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pyarrow as pa

MOST_VALUES = 1 << 23
"""A cell has no more values, and no more are decoded at once: as doubles they are the 64 MiB of a row."""


def is_too_large(sizes: Iterable[int]) -> bool:
    """Whether an array of such axes has more values than a cell may have."""
    return math.prod(sizes) > MOST_VALUES


def rows_at_once(kinds: Iterable[pa.DataType]) -> int:
    """How many rows with columns of some types are decoded at once, so that nulls do not fill the memory.

    Examples
    --------
    >>> rows_at_once([pa.float64(), pa.list_(pa.int8(), 1 << 20)])
    8
    """
    return max(1, MOST_VALUES // max(1, sum(values_of(kind) for kind in kinds)))


def values_of(kind: pa.DataType) -> int:
    """How many values a null, also one in a list, takes the memory of; 0 where no size is fixed."""
    if pa.types.is_list(kind):
        return values_of(kind.value_type)
    if not pa.types.is_fixed_size_list(kind):
        return 0
    return int(kind.list_size) * max(1, values_of(kind.value_type))
