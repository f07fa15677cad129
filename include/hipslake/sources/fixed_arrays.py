"""Memory limits of fixed-size arrays: a null takes as much memory as any value, though little in a text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

MOST_VALUES = 1 << 23
"""A cell has no more values, and no more are decoded at once: as doubles they are the 64 MiB of a row."""


def is_too_large(sizes: Iterable[int]) -> bool:
    """Whether an array with these axes has more values than one cell may hold."""
    return math.prod(max(1, size) for size in sizes) > MOST_VALUES  # an axis of 0 hides no other


def rows_at_once(kinds: Iterable[pa.DataType]) -> int:
    """How many rows are decoded at once, so that nulls of fixed-size arrays do not fill the memory.

    Examples
    --------
    >>> rows_at_once([pa.float64(), pa.list_(pa.int8(), 1 << 20)])
    8
    """
    return max(1, MOST_VALUES // max(1, sum(values_of(kind) for kind in kinds)))


def values_of(kind: pa.DataType) -> int:
    """How many values a null of a type takes memory for; 0 if the type has no fixed size."""
    if pa.types.is_list(kind):
        return values_of(kind.value_type)
    if not pa.types.is_fixed_size_list(kind):
        return 0
    return int(kind.list_size) * max(1, values_of(kind.value_type))


def values_in(cells: list[Any], kind: pa.DataType) -> np.ndarray:
    """How many values in arrays of a fixed size decoded cells have, those that are null among them.

    Parameters
    ----------
    cells : list
        As JSON tells them: nested lists; None is null.
    kind : pyarrow.DataType

    Returns
    -------
    numpy.ndarray
        int64, one for each cell.

    Examples
    --------
    >>> values_in([[None, [1, None, 3]], None], pa.list_(pa.list_(pa.int8(), 3)))
    array([6, 0])
    """
    if not _varies(kind) or not values_of(kind):
        return np.full(len(cells), values_of(kind), np.int64)
    inner = kind.value_type
    within = [cell if isinstance(cell, list) else [] for cell in cells]
    if not _varies(inner):
        return np.array([len(cell) for cell in within], np.int64) * values_of(inner)
    return np.array([values_in(cell, inner).sum() for cell in within], np.int64)


def pieces(values: np.ndarray) -> Iterator[slice]:
    """Cut rows into stretches that are decoded one after the other.

    Parameters
    ----------
    values : numpy.ndarray
        int64: how many each row has, in arrays of a fixed size.

    Examples
    --------
    >>> [(piece.start, piece.stop) for piece in pieces(np.array([1 << 22, 1 << 22, 7, 0]))]
    [(0, 2), (2, 4)]
    """
    which = (np.cumsum(values) - 1) // MOST_VALUES
    bounds = [0, *(np.flatnonzero(np.diff(which)) + 1).tolist(), len(values)]
    return (slice(start, stop) for start, stop in pairwise(bounds))


def _varies(kind: pa.DataType) -> bool:
    """Whether any axis of an array type has a variable length."""
    return pa.types.is_list(kind) or (pa.types.is_fixed_size_list(kind) and _varies(kind.value_type))
