"""The files of superseded rows, as those that passes over one column go through."""

from __future__ import annotations

from hipslake.catalog.column_files import ColumnFiles
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.storage.folder import Storage


def superseded_files(storage: Storage, metadata: CatalogMetadata, column: str) -> ColumnFiles:
    """The files with rows of a version whose record lost; some of their rows may not count any more.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
        In mode upsert.
    column : str
        The one that is gone through.
    """
    assert metadata.key_records is not None
    runs = metadata.key_records.superseded
    paths = tuple(file.path for run in runs for file in run.listed(storage))
    return ColumnFiles(storage, column, metadata.schema_of(metadata.group_with(column)), paths, ())
