"""The alignment table of a version: per partition, what each dataset has of it, and what becomes of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hipslake.cube.dataset import labels_column
from hipslake.cube.fates import INCLUDED, partition_fates
from hipslake.cube.keys import matches, paired_codes
from hipslake.cube.plan import QueryPlan
from hipslake.cube.store.files import PATH, ROWS, encoded
from hipslake.cube.store.layout import files_path
from hipslake.cube.store.metadata import CubeAlignment, CubeMetadata, FilesTable
from hipslake.errors import CatalogFormatError, CubeError
from hipslake.storage.folder import Storage
from hipslake.storage.parquet_failures import damage_as_error

_NAME = "_alignment"  # no dataset is called so


def rows_column(dataset: str) -> str:
    """The column that says how many rows a dataset has for a partition.

    Examples
    --------
    >>> rows_column("seed")
    '__rows_seed'
    """
    return f"__rows_{dataset}"


def alignment_table(plan: QueryPlan, files: Mapping[str, pa.Table]) -> pa.Table:
    """How the datasets of a planned query align.

    Parameters
    ----------
    plan : QueryPlan
    files : mapping of str to pyarrow.Table
        Per dataset, the table of its files.

    Returns
    -------
    pyarrow.Table
        One row per partition of any dataset that is cut by all partition columns: the partition columns,
        `datasets`, `fate` (`included`, or why it was dropped), and for each dataset `__cube_labels_<name>`,
        the files that belong to it, and `__rows_<name>`, their rows.
    """
    table = partition_fates(plan)
    for name in [plan.cube.seed, *plan.others]:
        cut = plan.datasets[name].partition_columns
        partition, file = matches(*paired_codes(table, files[name], cut))
        bounds = np.searchsorted(partition, np.arange(table.num_rows + 1)).astype(np.int32)
        met = files[name].select([PATH, ROWS]).take(pa.array(file)).combine_chunks()
        labels = pa.ListArray.from_arrays(pa.array(bounds), _array(met, PATH))
        total = np.append(0, np.cumsum(met[ROWS].to_numpy()))
        table = table.append_column(labels_column(name), labels)
        table = table.append_column(rows_column(name), pa.array(total[bounds[1:]] - total[bounds[:-1]]))
    return table


def keep_alignment(cube: Storage, write_id: str, conditions: str, table: pa.Table) -> CubeAlignment:
    """Keep an alignment table with what a write has written."""
    path, data = files_path(write_id, _NAME), encoded(table)
    cube.write(path, data)
    included = pc.sum(pc.equal(table["fate"], INCLUDED)).as_py() or 0
    return CubeAlignment(
        conditions=conditions,
        table=FilesTable(path=path, sha256=hashlib.sha256(data).hexdigest()),
        included=included,
        dropped=table.num_rows - included,
    )


def read_alignment(cube: Storage, metadata: CubeMetadata) -> pa.Table:
    """The alignment table of a version.

    Raises
    ------
    CubeError
        It has none, as no spec was followed when it was made.
    CatalogFormatError
        It is damaged.
    """
    if metadata.alignment is None:
        raise CubeError(
            f"{cube.uri()}: version {metadata.version} came of {metadata.operation!r} and has no alignment "
            "table; run the DAG that aligns the cube, or ask for its fates"
        )
    table = metadata.alignment.table
    data = cube.read(table.path)
    if hashlib.sha256(data).hexdigest() != table.sha256:
        raise CatalogFormatError(
            f"{cube.uri(table.path)}: not the file that was written (SHA-256 differs); restore it, or "
            "align the cube again"
        )
    with damage_as_error(cube.uri(table.path)):
        return pq.read_table(pa.BufferReader(data))


def counted_fates(table: pa.Table) -> dict[str, int]:
    """How many partitions have each fate, the most frequent first."""
    counts = table.group_by("fate", use_threads=False).aggregate([([], "count_all")])
    pairs = zip(counts["fate"].to_pylist(), counts["count_all"].to_pylist(), strict=True)
    return dict(sorted(pairs, key=lambda pair: (-pair[1], pair[0])))


def _array(table: pa.Table, name: str) -> pa.Array:
    chunks = table.column(name).chunks
    return chunks[0] if chunks else pa.array([], table.schema.field(name).type)
