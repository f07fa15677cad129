"""`per_partition_statistics.parquet`: what the footers of all leaf files say of their columns.

Format: that of hats 0.11, which reads it in place of all footers. A row per row group: `Norder`, `Npix`,
`row_group_index`, and for each column, named by its path in Parquet, `<column>::min_value`, `max_value`,
`null_count`, `row_count` (values), `disk_bytes` and `memory_bytes` (compressed and not).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from hipslake.catalog.leaf import leaf_columns

STATISTICS_FILE = "per_partition_statistics.parquet"
MOST_CHUNKS = 1_000_000  # columns of row groups
STATISTICS = ("min_value", "max_value", "null_count", "row_count", "disk_bytes", "memory_bytes")
_COUNTS = STATISTICS[2:]
_ELEMENT = ".list.element"


class LeafFooter(NamedTuple):
    """The footer of a leaf file, and the pixel that the leaf is of."""

    order: int
    npix: int
    footer: pq.FileMetaData


def statistics_file(leaves: Sequence[LeafFooter], schema: pa.Schema) -> bytes:
    """The content of the file. The same footers give the same bytes.

    Parameters
    ----------
    leaves : sequence of LeafFooter
        In the order of the rows. A file that is older than a column has nulls alone in it.
    schema : pyarrow.Schema
        Of the column group.
    """
    paths = [path for path, _ in leaf_columns(schema)]
    keys: dict[str, list[int]] = {"Norder": [], "Npix": [], "row_group_index": []}
    found: dict[str, list[list[Any]]] = {path: [] for path in paths}
    for leaf in leaves:
        for number in range(leaf.footer.num_row_groups):
            for key, value in zip(keys, (leaf.order, leaf.npix, number), strict=True):
                keys[key].append(value)
            group = leaf.footer.row_group(number)
            there = {group.column(at).path_in_schema: at for at in range(group.num_columns)}
            for path, rows in found.items():
                at = there.get(path)
                rows.append(_of(group, at) if at is not None else _of_nothing(group))
    columns: dict[str, pa.Array] = {key: pa.array(values, pa.int64()) for key, values in keys.items()}
    for path, rows in found.items():
        name = path.removesuffix(_ELEMENT)
        for at, statistic in enumerate(STATISTICS):
            values = [row[at] for row in rows]
            kind = pa.int64() if statistic in _COUNTS else None
            columns[f"{name}::{statistic}"] = pa.array(values, kind)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink, compression="zstd", version="2.6")
    return bytes(sink.getvalue().to_pybytes())


def _of_nothing(group: pq.RowGroupMetaData) -> list[Any]:
    return [None, None, group.num_rows, group.num_rows, 0, 0]


def _of(group: pq.RowGroupMetaData, at: int) -> list[Any]:
    chunk = group.column(at)
    told = chunk.statistics
    sizes = [chunk.num_values, chunk.total_compressed_size, chunk.total_uncompressed_size]
    if told is None:
        return [None, None, 0, *sizes]
    bounds = [told.min, told.max] if told.has_min_max else [None, None]
    return [*bounds, told.null_count if told.has_null_count else 0, *sizes]
