"""The joined rows that a version of a cube keeps, read again."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from hipslake.catalog.leaf_rows import told
from hipslake.cube.store.cube_files import PATH, read_files
from hipslake.cube.store.metadata import CubeMetadata
from hipslake.errors import CubeError
from hipslake.storage.folder import Storage


def read_joined(cube: Storage, metadata: CubeMetadata, columns: Sequence[str] | None = None) -> pa.Table:
    """The joined rows of a version, partition by partition.

    Raises
    ------
    CubeError
        They were not kept.
    VerificationError
        A file is missing or damaged.
    """
    if metadata.joined is None:
        raise CubeError(f"{cube.uri()}: version {metadata.version} keeps no joined rows; query the cube")
    schema = metadata.joined.to_arrow()
    names = schema.names if columns is None else list(columns)
    tables = [pa.schema([schema.field(name) for name in names]).empty_table()]
    for path in read_files(cube, metadata.joined)[PATH].to_pylist():
        with told(cube, path), cube.arrow_file(path) as file:
            tables.append(pq.ParquetFile(file).read(columns=names).select(names).cast(tables[0].schema))
    return pa.concat_tables(tables)
