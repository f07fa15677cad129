"""Rows on their way to the reduce tasks of an exchange."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.engine.model import Routed
from hipslake.sphere.curve import curve_order


def runs_of(numbers: NDArray[np.integer]) -> list[tuple[int, int]]:
    """The stretches [first, last) of equal numbers in a sorted array of numbers from 0 on.

    Examples
    --------
    >>> runs_of(np.array([0, 0, 3]))
    [(0, 2), (2, 3)]
    """
    cuts = np.flatnonzero(np.diff(numbers, prepend=-1)).tolist()
    return list(pairwise([*cuts, len(numbers)]))


def stable_order(numbers: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """The order of numbers in [0, count) that keeps equal ones as they are; int64[n].

    Of few distinct ones numpy counts the digits, which takes a fraction of the time of a sort.

    Examples
    --------
    >>> stable_order(np.array([2, 0, 2, 1]), 3)
    array([1, 3, 0, 2])
    """
    for kind in (np.uint8, np.uint16):
        if count <= 1 << np.iinfo(kind).bits:
            return np.argsort(numbers.astype(kind), kind="stable")
    return curve_order(numbers)


def to_targets(rows: pa.RecordBatch, target: NDArray[np.integer]) -> Iterator[Routed]:
    """Rows in parts, each for the task that `target` says, in their order."""
    order = stable_order(np.asarray(target, np.int64), int(target.max(initial=0)) + 1)
    rows, target = rows.take(pa.array(order)), target[order]
    for first, last in runs_of(target):
        yield int(target[first]), rows.slice(first, last - first)
