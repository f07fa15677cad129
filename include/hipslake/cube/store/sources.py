"""What the datasets of a cube are read from: looked up, pinned, and opened."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import closing

import numpy as np
from numpy.typing import NDArray

from hipslake.catalog.catalog_reader import CatalogReader
from hipslake.cube.store.catalog_rows import CatalogRows
from hipslake.cube.store.metadata import CubeSource
from hipslake.cube.store.row_sources import ParquetRows, RowSource
from hipslake.cube.store.table_rows import IcebergRows, snapshot_in
from hipslake.errors import CubeRowsError, SourceNotFoundError
from hipslake.specs.base import Frozen
from hipslake.specs.cube_spec import CubeDatasetSpec
from hipslake.specs.environment import expand
from hipslake.storage.entry import Entry
from hipslake.tables.catalogs import find_table, open_catalog


class SourceNow(Frozen):
    """What a dataset would be read from now."""

    source: CubeSource
    bytes: int  # as stored, of all of it


def source_now(dataset: CubeDatasetSpec, warehouse: str) -> SourceNow:
    """Look up what a dataset is to be read from: the newest, unless its spec names a version.

    Parameters
    ----------
    dataset : CubeDatasetSpec
    warehouse : str
        Its URI.

    Raises
    ------
    CatalogNotFoundError, VersionNotFoundError
        The catalog, or that version or snapshot, is not there.
    SourceNotFoundError
        There is no such table, or no file matches.
    CubeRowsError
        The files have several schemas.
    """
    if dataset.catalog is not None:
        catalog = CatalogReader.open(catalog_place(dataset.catalog, warehouse), dataset.version)
        content = _digest(list(catalog.metadata.increment_writes))
        source = _source(dataset, "catalog", catalog.uri, content, version=catalog.version)
        return SourceNow(source=source, bytes=catalog.metadata.total_bytes)
    if dataset.table is not None:
        with closing(open_catalog(dataset.iceberg, warehouse)) as iceberg:
            table = find_table(iceberg, dataset.table)
            if table is None:
                raise SourceNotFoundError(
                    f"there is no table {dataset.table!r} in {dataset.iceberg.name!r} yet"
                )
            current = table.current_snapshot()
            snapshot = current if dataset.snapshot is None else snapshot_in(table, dataset.snapshot)
        number = None if snapshot is None else snapshot.snapshot_id
        size = 0 if snapshot is None or snapshot.summary is None else snapshot.summary["total-files-size"]
        place = f"{dataset.iceberg.name}:{dataset.table}"
        source = _source(dataset, "table", place, _digest([number]), snapshot=number)
        return SourceNow(source=source, bytes=int(size or 0))
    assert dataset.parquet is not None, "the spec has one of the three"
    rows = ParquetRows.at(expand(dataset.parquet))
    source = _source(dataset, "parquet", expand(dataset.parquet), _listing(rows.files))
    return SourceNow(source=source, bytes=sum(entry.size for entry in rows.files))


def opened(
    dataset: CubeDatasetSpec,
    source: CubeSource,
    warehouse: str,
    within: tuple[int, NDArray[np.int64]] | None = None,
) -> RowSource:
    """Open what was looked up, just as it was then.

    Parameters
    ----------
    dataset : CubeDatasetSpec
    source : CubeSource
    warehouse : str
    within : (int, int64[n]), optional
        Of a catalog, only the rows in these pixels of an order.

    Raises
    ------
    VersionNotFoundError
        The version was vacuumed, or the snapshot has expired.
    CubeRowsError
        The files have changed.
    """
    if source.kind == "catalog":
        return CatalogRows.of(source.uri, source.version, within=within)
    if source.kind == "table":
        assert dataset.table is not None, "the source was looked up for this spec"
        return IcebergRows.of(dataset.iceberg, warehouse, dataset.table, source.snapshot)
    rows = ParquetRows.at(source.uri)
    if _listing(rows.files) != source.content:
        raise CubeRowsError(
            f"{source.uri}: the files have changed since the run began; clear the run from its first task"
        )
    return rows


def catalog_place(catalog: str, warehouse: str) -> str:
    """The root of a catalog: of the warehouse by its name, any other by its URI."""
    return expand(catalog) if "/" in catalog else f"{warehouse.rstrip('/')}/catalogs/{catalog}"


def _source(
    dataset: CubeDatasetSpec,
    kind: str,
    uri: str,
    content: str,
    *,
    version: int | None = None,
    snapshot: int | None = None,
) -> CubeSource:
    taken = dataset.model_dump(mode="json", include={"columns", "filters", "rename", "partition_columns"})
    given = {"kind": kind, "uri": uri, "content": content, "taken": _digest(taken)}
    return CubeSource.model_validate({**given, "version": version, "snapshot": snapshot})


def _listing(files: Sequence[Entry]) -> str:
    return _digest([[entry.path, entry.size, entry.stamp] for entry in files])


def _digest(document: object) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
