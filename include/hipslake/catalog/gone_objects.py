"""Objects that are gone, of which rows may still lie where they were: a sidecar that a mark names."""

from __future__ import annotations

import pyarrow as pa

from hipslake.catalog.column_files import ColumnFiles
from hipslake.catalog.metadata import CatalogMetadata, PlacingObjects
from hipslake.catalog.partitions import read_sidecar
from hipslake.joins.key_codes import key_kind
from hipslake.sphere.pixels import HEALPIX_COLUMN
from hipslake.storage.folder import Storage

ID = "id"
"""The column of their ids, as `hipslake.joins.key_codes.plain_keys` gives them."""
_TYPES = {"integer": pa.int64(), "uint64": pa.uint64(), "text": pa.large_string()}


def gone_schema(metadata: CatalogMetadata, column: str) -> pa.Schema:
    """The ids of objects, and where they were; `column` is that of the rows which objects placed."""
    field = metadata.schema_of(metadata.group_with(column)).field(column)
    kind = key_kind(field.type, f"column {column!r} of {metadata.catalog}")
    return pa.schema([(ID, _TYPES[kind]), (HEALPIX_COLUMN, pa.int64())])


def gone_objects(
    storage: Storage, metadata: CatalogMetadata, column: str, objects: PlacingObjects
) -> pa.Table:
    """The objects that are gone, sorted; none where the mark of the column names none.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
    column : str
        Of the rows that objects placed.
    objects : PlacingObjects
        Of its mark.

    Raises
    ------
    CatalogFormatError
        The sidecar is damaged.
    """
    schema = gone_schema(metadata, column)
    return schema.empty_table() if objects.gone is None else read_sidecar(storage, objects.gone, schema)


def gone_files(storage: Storage, metadata: CatalogMetadata, column: str, path: str) -> ColumnFiles:
    """The sidecar as files that a pass over ids goes through; parameters as of `gone_objects`."""
    return ColumnFiles(storage, ID, gone_schema(metadata, column), (path,), ())
