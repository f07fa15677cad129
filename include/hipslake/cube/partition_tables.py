"""Stages 2 to 4 of a query: tables of partitions, before any data file is opened.

Stage 2: the partition table of each dataset. It has one row per partition: its partition columns, the columns
of `partition_by` that the dataset has, and the labels of its files. An index has two columns, the indexed one
and the labels, and says which values a file holds.

Stage 3: the partitions of all datasets side by side, aligned by their physical partition columns. Partitions
that the seed lacks are dropped, and so are those that a restricted dataset lacks. Other datasets may lack a
partition: its rows then have nulls in their columns.

Stage 4: the aligned partitions, grouped by the columns of `partition_by`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hipslake.cube.dataset import CubeDataset, labels_column
from hipslake.cube.intention import Intention
from hipslake.cube.row_codes import bounds_of, codes, matches, paired_codes, places_in
from hipslake.cube.sorting import sorted_by
from hipslake.predicates.conditions import C, Conjunction


def physical(dataset: CubeDataset) -> pa.Table:
    """The files of a dataset with their partition columns, in the order of these."""
    table = dataset.files.select([*dataset.partition_columns, dataset.labels])
    return sorted_by(table, [*dataset.partition_columns, dataset.labels])


def with_index(table: pa.Table, index: pa.Table, labels: str) -> pa.Table:
    """Join an index to a table of files: one row per file and value, the labels in the last column."""
    mine, others = matches(*paired_codes(table, index, [labels]))
    (column,) = (name for name in index.column_names if name != labels)
    values = index.column(column).take(pa.array(others))
    return table.take(pa.array(mine)).add_column(
        table.column_names.index(labels), index.schema.field(column), values
    )


def without_index(table: pa.Table, columns: Sequence[str], labels: str) -> pa.Table:
    """Remove what indices said: every file is there once again, in its order."""
    kept = table.drop_columns(list(columns))
    files = codes(kept, [labels])
    return kept.filter(pa.array(places_in(files, files) == np.arange(len(files))))


def meeting(table: pa.Table, index: pa.Table, conditions: Conjunction, labels: str) -> pa.Table:
    """The files that hold a value that meets some conditions, according to an index."""
    files = conditions.meeting(index).column(labels)
    return table.filter(pc.is_in(table.column(labels), value_set=files.combine_chunks()))


def compacted(table: pa.Table, labels: str) -> pa.Table:
    """One row per partition: rows that are alike but for the label become one, with a list of labels."""
    keys = [name for name in table.column_names if name != labels]
    ordered = sorted_by(table.select([*keys, labels]), [*keys, labels])
    bounds = bounds_of(ordered, keys)
    texts = ordered.column(labels).cast(pa.large_string()).combine_chunks()
    lists = pa.LargeListArray.from_arrays(pa.array(bounds), texts)
    heads = ordered.take(pa.array(bounds[:-1]))
    return heads.set_column(len(keys), pa.field(labels, lists.type), lists)


@dataclass(frozen=True)
class PartitionTables:
    """The steps from the files of a dataset to its partition table.

    Attributes
    ----------
    dataset : CubeDataset
    conditions : Conjunction
        Those that its indices can say something about.
    indices : dict of str to pyarrow.Table
        The explicit indices that the query needs.
    physical : pyarrow.Table
        One row per file.
    kept : pyarrow.Table
        The files that may meet the conditions.
    grouped : pyarrow.Table
        One row per kept file and value of the columns of `partition_by` that the dataset has.
    compact : pyarrow.Table
        One row per partition, with lists of labels.
    """

    dataset: CubeDataset
    conditions: Conjunction
    indices: Mapping[str, pa.Table] = field(repr=False)
    physical: pa.Table
    kept: pa.Table
    grouped: pa.Table
    compact: pa.Table


def partition_tables(
    dataset: CubeDataset, intention: Intention, indices: Mapping[str, pa.Table]
) -> PartitionTables:
    """The partitions of one dataset for a query.

    Parameters
    ----------
    dataset : CubeDataset
    intention : Intention
    indices : mapping of str to pyarrow.Table
        Of `intention.needed_indices`, by column.
    """
    conditions, labels = intention.before[dataset.name], dataset.labels
    files = physical(dataset)
    kept = conditions.on(dataset.partition_columns).meeting(files)
    for column in sorted(conditions.columns & dataset.secondary):
        kept = meeting(kept, indices[column], conditions.on([column]), labels)
    grouped = kept
    for column in intention.partition_by:
        if column in dataset.secondary:
            # A group whose value meets no condition would turn out to be empty.
            grouped = with_index(grouped, conditions.on([column]).meeting(indices[column]), labels)
    return PartitionTables(
        dataset=dataset,
        conditions=conditions,
        indices=dict(indices),
        physical=files,
        kept=kept,
        grouped=grouped,
        compact=compacted(grouped, labels),
    )


def align(seed: pa.Table, others: Mapping[str, pa.Table], restricted: Iterable[str]) -> pa.Table:
    """Align compacted partition tables.

    A dataset that is cut by fewer partition columns than the seed meets all partitions of the seed that agree
    in those; one that is cut by none meets them all.

    Parameters
    ----------
    seed : pyarrow.Table
        Of the seed dataset.
    others : mapping of str to pyarrow.Table
        Of the other datasets.
    restricted : iterable of str
        Which of them are joined inner; the rest is joined left.

    Returns
    -------
    pyarrow.Table
        The columns of the seed's table but the labels, those of `partition_by` that other datasets have, and
        then the labels: of the seed, the restricted datasets and the others. Sorted by all that is no label.
    """
    inner = sorted(set(restricted) & set(others))
    order = [*inner, *sorted(set(others) - set(inner))]
    aligned = seed
    for name in order:
        aligned = _joined(aligned, others[name], labels_column(name), left=name not in inner)
    labels = [seed.column_names[-1], *(labels_column(name) for name in order)]
    keys = [name for name in aligned.column_names if name not in labels]
    return sorted_by(aligned.select([*keys, *labels]), keys)


def _joined(aligned: pa.Table, other: pa.Table, labels: str, *, left: bool) -> pa.Table:
    shared = [name for name in other.column_names if name in aligned.column_names]
    mine, theirs = paired_codes(aligned, other, shared)
    rows, partners = matches(mine, theirs)
    if left:
        lone = np.setdiff1d(np.arange(aligned.num_rows), rows)
        rows = np.concatenate([rows, lone])
        partners = np.concatenate([partners, np.full(len(lone), -1)])
    taken = pa.array(partners, mask=partners < 0)
    found = aligned.take(pa.array(rows))
    for name in other.column_names:
        if name not in shared:
            found = found.append_column(other.schema.field(name), other.column(name).take(taken))
    return found


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
