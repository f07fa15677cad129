"""Stage 3: the partitions of all datasets side by side, by their physical partition columns.

Partitions that the seed lacks are dropped, and so are those that a restricted dataset lacks. Other datasets
may lack a partition: its rows then have nulls in their columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa

from hipslake.cube.dataset import labels_column
from hipslake.cube.row_codes import matches, paired_codes
from hipslake.cube.sorting import sorted_by


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
