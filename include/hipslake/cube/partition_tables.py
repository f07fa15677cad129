"""Stage 2: the partitions of every dataset: labels of files by partition columns, before any file is opened.

A partition table has one row per partition: its partition columns, the columns of `partition_by` that the
dataset has, and the labels of its files. An index has two columns, the indexed one and the labels, and says
which values a file holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hipslake.cube.dataset import CubeDataset
from hipslake.cube.intention import Intention
from hipslake.cube.row_codes import bounds_of, codes, matches, paired_codes, places_in
from hipslake.cube.sorting import sorted_by
from hipslake.predicates.conditions import Conjunction


def physical(dataset: CubeDataset) -> pa.Table:
    """The files of a dataset with their partition columns, in the order of these."""
    table = dataset.files.select([*dataset.partition_columns, dataset.labels])
    return sorted_by(table, [*dataset.partition_columns, dataset.labels])


def with_index(table: pa.Table, index: pa.Table, labels: str) -> pa.Table:
    """Join what an index says to a table of files: one row per file and value, the labels last."""
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
    """The files that hold a value that meets some conditions, as an index says it."""
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
    """How the partition table of a dataset comes about.

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
