"""Rows of a catalog as one file for those who take them elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hipslake.catalog.moc_files import region_of
from hipslake.catalog.selection import select
from hipslake.errors import SchemaMismatchError
from hipslake.exports.model import ExportFormat, Origin
from hipslake.exports.writing import Exported, check_export, write_export
from hipslake.sphere.regions import Region

if TYPE_CHECKING:
    from hipslake.catalog.catalog import Catalog


def export_catalog(
    catalog: Catalog,
    uri: str,
    *,
    region: Region | str | None = None,
    columns: Sequence[str] | None = None,
    filters: Any = None,
    kind: ExportFormat,
    overwrite: bool,
    tables: Iterable[pa.Table] | None = None,
) -> Exported:
    """Write rows of a catalog to one file; see `Catalog.export`.

    Parameters
    ----------
    tables : iterable of pyarrow.Table, optional
        The rows, where they were read already.
    """
    within = None if region is None else region_of(region)
    schema = select(catalog.metadata, columns, filters, region=within).schema
    if not len(schema):
        raise SchemaMismatchError("export: no column is asked for; name some, or leave columns out for all")
    check_export(uri, schema, kind, overwrite=overwrite)
    origin = Origin(
        catalog=catalog.name,
        version=catalog.version,
        description=catalog.metadata.description,
        attribution=catalog.metadata.attribution,
        region="" if region is None else str(region),
        filters="" if filters is None else str(filters),
    )
    rows = catalog.tables(columns, filters, region=within) if tables is None else tables
    return write_export(uri, schema, rows, kind, origin)
