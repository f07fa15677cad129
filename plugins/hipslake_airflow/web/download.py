"""The endpoint that gives what is seen as a file; for more there is the DAG of exports."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response
from hipslake.catalog.bounded_rows import ReadBounds, RowChoice
from hipslake.catalog.exporting import origin_of
from hipslake.exports.writers import write_rows
from hipslake.specs.export_formats import ExportFormat
from pydantic_core import to_json

from hipslake_airflow.web import pipelines
from hipslake_airflow.web.access import MAY_READ_CATALOG, Reader, ReaderDep, queried
from hipslake_airflow.web.catalog_store import CatalogStore
from hipslake_airflow.web.parameters import ColumnNames, FilterText, Name, Number, RegionText
from hipslake_airflow.web.row_data import flat_columns, read_rows, region_asked, seconds_to_read
from hipslake_airflow.web.store import AskingDep

MOST_DOWNLOADED = 100_000
MOST_DOWNLOADED_BYTES = 64 << 20
_MEDIA = {
    ExportFormat.PARQUET: "application/vnd.apache.parquet",
    ExportFormat.CSV: "text/csv; charset=utf-8",
    ExportFormat.FITS: "application/fits",
    ExportFormat.VOTABLE: "application/x-votable+xml",
}


class TooMuchError(Exception):
    """There are more rows, or more bytes, than are given at once."""

    def __init__(self, estimate: int) -> None:
        super().__init__(estimate)
        self.estimate = estimate


def add_download(app: FastAPI, catalogs: CatalogStore) -> None:
    """Add the endpoint to the app."""

    @app.get("/api/catalogs/{name}/download", dependencies=[MAY_READ_CATALOG])
    async def download(
        name: Name,
        reader: ReaderDep,
        ask: AskingDep,
        format: ExportFormat,
        version: Number | None = None,
        region: RegionText | None = None,
        columns: ColumnNames = None,
        filters: FilterText | None = None,
    ) -> Response:
        try:
            return await ask(lambda: _file(catalogs, name, version, format, region, columns, filters))
        except TooMuchError as error:
            conf = {
                "catalog": name,
                "version": version,
                "region": region or None,
                "columns": columns,
                "filters": filters or None,
                "format": format.value,
            }
            of_others = await ask(lambda: catalogs.is_of_others(name))  # which no DAG exports
            dag = None if of_others else await run_in_threadpool(_export_dag, name, reader)
            return _refused(error, dag, conf, of_others=of_others)


def _file(
    catalogs: CatalogStore,
    name: str,
    version: int | None,
    kind: ExportFormat,
    region: str | None,
    columns: list[str] | None,
    filters: str | None,
) -> Response:
    metadata, within = catalogs.metadata(name, version), region_asked(region)
    bounds = ReadBounds(seconds=seconds_to_read(), bytes=1 << 30, leaves=2000)
    metadata, found = read_rows(
        catalogs,
        name,
        metadata.version,
        RowChoice(MOST_DOWNLOADED),
        columns=columns or flat_columns(metadata),
        filters=filters,
        region=within,
        bounds=bounds,
        most_bytes=4 * MOST_DOWNLOADED_BYTES,
    )
    if found.stopped is not None or found.table.nbytes > MOST_DOWNLOADED_BYTES:
        raise TooMuchError(max(found.estimate, found.table.num_rows))
    sink = io.BytesIO()
    origin = origin_of(metadata, within, filters)
    write_rows(sink, found.table.schema, _pieces(found.table), kind, origin)
    return Response(
        sink.getvalue(),
        media_type=_MEDIA[kind],
        headers={
            "Content-Disposition": f'attachment; filename="{name}_v{metadata.version}.{kind.ending}"',
            "X-Hipslake-Rows": str(found.table.num_rows),
        },
    )


def _pieces(table: pa.Table) -> list[pa.Table]:
    return [table] if table.num_rows else []


def _export_dag(name: str, reader: Reader) -> str | None:
    made_by = queried(pipelines.owners, pipelines.MAKE_CATALOG, name)
    found = queried(pipelines.form_beside, pipelines.EXPORT, made_by)
    return found if found is not None and reader.may_read(found) else None


def _refused(error: TooMuchError, dag: str | None, conf: dict[str, Any], *, of_others: bool) -> Response:
    otherwise = "read them by Catalog.open" if of_others else f"export them by {pipelines.EXPORT}"
    told = {
        "detail": f"about {error.estimate:,} rows: more than the {MOST_DOWNLOADED:,} rows or "
        f"{MOST_DOWNLOADED_BYTES >> 20} MiB that are given at once; choose fewer, or {otherwise}",
        "rows_bound": MOST_DOWNLOADED,
        "bytes_bound": MOST_DOWNLOADED_BYTES,
        "estimate": error.estimate,
        "dag": dag,
        "conf": conf,
    }
    return Response(to_json(told), status_code=413, media_type="application/json")
