"""What planning knows of a dataset of a cube, and what an intention asks of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

LABELS = "__cube_labels_"
"""Before the name of a dataset: the column of its labels in partition tables."""


def labels_column(dataset: str) -> str:
    """The column that holds the labels of a dataset's files.

    Examples
    --------
    >>> labels_column("seed")
    '__cube_labels_seed'
    """
    return LABELS + dataset


@dataclass(frozen=True)
class CubeDataset:
    """One dataset of a cube, as planning sees it.

    Attributes
    ----------
    name : str
    schema : pyarrow.Schema
        All columns, the partition columns too.
    partition_columns : tuple of str
        Those of the cube's partition columns by which its files are cut, in the cube's order.
    secondary : frozenset of str
        Columns with an explicit index.
    files : pyarrow.Table
        One row per file: the partition columns, and the label in `labels_column(name)`. Labels are unique.
    """

    name: str
    schema: pa.Schema
    partition_columns: tuple[str, ...]
    secondary: frozenset[str]
    files: pa.Table

    @property
    def columns(self) -> frozenset[str]:
        """The names of all columns."""
        return frozenset(self.schema.names)

    @property
    def indexed(self) -> frozenset[str]:
        """Columns that say which files may hold a value, before any file is opened."""
        return self.secondary | frozenset(self.partition_columns)

    @property
    def labels(self) -> str:
        """The column of its labels."""
        return labels_column(self.name)


def listed(names: Iterable[str]) -> str:
    """Names for a message: sorted, between quotes.

    Examples
    --------
    >>> listed({"b", "a"})
    "'a', 'b'"
    """
    return ", ".join(map(repr, sorted(names)))


def all_columns(datasets: Mapping[str, CubeDataset]) -> frozenset[str]:
    """The columns of a cube: those of all its datasets."""
    return frozenset().union(*(each.columns for each in datasets.values()))
