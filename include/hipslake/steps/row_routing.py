"""Rows on their way to the reduce tasks of an exchange."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.engine.model import Routed


def runs_of(numbers: NDArray[np.integer]) -> list[tuple[int, int]]:
    """The stretches [first, last) of equal numbers in a sorted array of numbers from 0 on.

    Examples
    --------
    >>> runs_of(np.array([0, 0, 3]))
    [(0, 2), (2, 3)]
    """
    cuts = np.flatnonzero(np.diff(numbers, prepend=-1)).tolist()
    return list(pairwise([*cuts, len(numbers)]))


def to_targets(rows: pa.RecordBatch, target: NDArray[np.integer]) -> Iterator[Routed]:
    """Rows in parts, each for the task that `target` says, in their order."""
    order = np.argsort(target, kind="stable")
    rows, target = rows.take(pa.array(order)), target[order]
    for first, last in runs_of(target):
        yield int(target[first]), rows.slice(first, last - first)
