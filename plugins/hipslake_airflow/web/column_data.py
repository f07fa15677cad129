"""Endpoints for what is known of the columns of a catalog."""

from __future__ import annotations

from typing import Annotated, Any

import pyarrow as pa
from fastapi import FastAPI, Query
from fastapi.responses import Response
from hipslake import Catalog
from hipslake.catalog.bounded_rows import ReadBounds, RowChoice
from hipslake.catalog.column_summary import ColumnSummary, summarize_column
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.selection import joined_schema, select
from pydantic_core import to_json

from hipslake_airflow.web.access import MAY_READ_CATALOG
from hipslake_airflow.web.catalog_store import CatalogStore
from hipslake_airflow.web.columnar import columns_told, plain, values_of
from hipslake_airflow.web.parameters import ColumnName, FilterText, Name, Number, RegionText
from hipslake_airflow.web.row_data import flat_columns, read_rows, region_asked, seconds_to_read
from hipslake_airflow.web.store import AskingDep

SAMPLED_ROWS = 200_000
"""Most rows that columns are told by."""
_OF_ALL = ReadBounds(rows=1_000_000, bytes=192 << 20, leaves=256)
_OF_ONE = ReadBounds(rows=5_000_000, bytes=256 << 20, leaves=256)
_MOST_BINS = 500
_MOST_CHUNKS = 10_000  # files times columns, whose footers are read for one answer


def add_column_data(app: FastAPI, catalogs: CatalogStore) -> None:
    """Add the endpoints to the app."""
    readable = [MAY_READ_CATALOG]

    @app.get("/api/catalogs/{name}/columns", dependencies=readable)
    async def show_columns(name: Name, ask: AskingDep, version: Number | None = None) -> Response:
        return Response(await ask(lambda: _columns(catalogs, name, version)), media_type="application/json")

    @app.get("/api/catalogs/{name}/column", dependencies=readable)
    async def show_column(
        name: Name,
        ask: AskingDep,
        column: ColumnName,
        version: Number | None = None,
        region: RegionText | None = None,
        filters: FilterText | None = None,
        bins: Annotated[int, Query(ge=1, le=_MOST_BINS)] = 40,
    ) -> Response:
        told = await ask(lambda: _column(catalogs, name, version, column, region, filters, bins))
        return Response(told, media_type="application/json")


def _columns(catalogs: CatalogStore, name: str, version: int | None) -> bytes:
    metadata = catalogs.metadata(name, version)

    def make() -> bytes:
        bounds = _OF_ALL._replace(seconds=seconds_to_read())
        names = flat_columns(metadata)
        choice = RowChoice(SAMPLED_ROWS, spread=True)
        _, found = read_rows(catalogs, name, metadata.version, choice, columns=names, bounds=bounds)
        exact, told = found.stopped is None, []
        by_footers = {} if exact else _of_footers(catalogs, name, metadata, names)
        indexed = {index.column for index in metadata.indices}
        for column, described in columns_told(metadata).items():
            known: dict[str, Any] = {"rows": None, "nulls": None, "min": None, "max": None}
            if column in names:
                known = _told(summarize_column(found.table[column], 1), found.table[column].type)
                known = {key: known[key] for key in ("rows", "nulls", "min", "max")}
                known |= by_footers.get(column, {})
            of_all = exact or column in by_footers
            told.append({**described.model_dump(), "indexed": column in indexed, "exact": of_all, **known})
        return to_json(
            {
                "version": metadata.version,
                "rows": found.table.num_rows,
                "total": metadata.total_rows,
                "exact": exact,
                "columns": told,
            }
        )

    return catalogs.kept("columns", name, metadata.version, make, len)


def _of_footers(
    catalogs: CatalogStore, name: str, metadata: CatalogMetadata, names: list[str]
) -> dict[str, dict[str, Any]]:
    """What the footers of all leaf files tell for certain, where they are few; by column."""
    if sum(group.files for group in metadata.groups) * len(names) > _MOST_CHUNKS:
        return {}
    schema, found = joined_schema(metadata), {}
    for told in Catalog(catalogs.reader(name, metadata.version).storage, metadata).statistics(names):
        if told.known:
            ends: list[Any] = [None, None]
            if told.min is not None and not isinstance(told.min, str):
                kind = schema.field(told.name).type
                kind = kind.value_type if pa.types.is_dictionary(kind) else kind
                _, ends = values_of(pa.array([told.min, told.max], kind))
            elif told.min is not None:
                ends = [told.min, told.max]
            found[told.name] = {"rows": told.rows, "nulls": told.nulls, "min": ends[0], "max": ends[1]}
    return found


def _column(
    catalogs: CatalogStore,
    name: str,
    version: int | None,
    column: str,
    region: str | None,
    filters: str | None,
    bins: int,
) -> bytes:
    metadata = catalogs.metadata(name, version)
    select(metadata, [column], filters)
    within = region_asked(region)

    def make() -> bytes:
        bounds = _OF_ONE._replace(seconds=seconds_to_read())
        choice = RowChoice(SAMPLED_ROWS, spread=True)
        _, found = read_rows(
            catalogs,
            name,
            metadata.version,
            choice,
            columns=[column],
            filters=filters,
            region=within,
            bounds=bounds,
        )
        summary = summarize_column(found.table[column], bins)
        kind = joined_schema(metadata).field(column).type
        return to_json(
            {
                "version": metadata.version,
                "column": columns_told(metadata)[column].model_dump(),
                "exact": found.stopped is None,
                "total": found.total,
                **_told(summary, kind),
            }
        )

    key = ("column", column, str(within), filters, bins)
    return catalogs.kept(key, name, metadata.version, make, len)


def _told(summary: ColumnSummary, kind: pa.DataType) -> dict[str, Any]:
    """A summary as JSON has it."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    ends: list[Any] = [None, None]
    if summary.min is not None:
        _, ends = values_of(pa.array([summary.min, summary.max], kind))
    histogram = None
    if summary.edges is not None and summary.counts is not None:
        histogram = {"edges": summary.edges.tolist(), "counts": summary.counts.tolist()}
    frequent = None
    if summary.frequent is not None:
        frequent = [{"value": plain(value), "count": rows} for value, rows in summary.frequent]
    return {
        "rows": summary.rows,
        "nulls": summary.nulls,
        "nans": summary.nans,
        "min": ends[0],
        "max": ends[1],
        "mean": plain(summary.mean),
        "deviation": plain(summary.deviation),
        "histogram": histogram,
        "frequent": frequent,
    }
