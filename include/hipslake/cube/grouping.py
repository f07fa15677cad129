"""Stage 4: the aligned partitions, grouped by the columns of `partition_by`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa

from hipslake.cube.row_codes import bounds_of
from hipslake.cube.sorting import sorted_by
from hipslake.predicates.conditions import C, Conjunction


@dataclass(frozen=True)
class Group:
    """Some aligned partitions, and what their rows have in common.

    Attributes
    ----------
    key : dict of str to object
        The columns of `partition_by` with the group's values; {} where there is one group of all.
    partitions : pyarrow.Table
        A part of the aligned table.
    """

    key: dict[str, Any]
    partitions: pa.Table

    def conditions(self, columns: Sequence[str]) -> Conjunction:
        """What rows of a dataset with some indexed columns have to meet to be in the group."""
        return Conjunction.of([C(name) == value for name, value in self.key.items() if name in columns])


def regroup(aligned: pa.Table, partition_by: Sequence[str]) -> Iterator[Group]:
    """The groups, in the order of their keys; without `partition_by`, one of all partitions."""
    if not partition_by:
        yield Group({}, aligned)
        return
    ordered = sorted_by(aligned, partition_by)
    for low, high in pairwise(bounds_of(ordered, partition_by).tolist()):
        part = ordered.slice(low, high - low)
        yield Group({name: part.column(name)[0].as_py() for name in partition_by}, part)
