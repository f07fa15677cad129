"""Endpoints for the rows of a catalog: those of a region, and one of them whole."""

from __future__ import annotations

import re
import time
from typing import Annotated, Any

import pyarrow as pa
from fastapi import FastAPI, HTTPException, Query, status
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response
from hipslake.catalog.bounded_rows import BoundedRows, ReadBounds, RowChoice, bounded_rows
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.schema import ROW_COLUMN
from hipslake.catalog.selection import joined_schema
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixels import HEALPIX_COLUMN, WHOLE_SKY
from hipslake.sphere.regions import Region, parse_region
from hipslake.storage.timeouts import deadline
from pydantic_core import to_json

from hipslake_airflow.web.access import MAY_READ_CATALOG, ReaderDep, may_read_catalog
from hipslake_airflow.web.catalog_store import CatalogStore, Layer
from hipslake_airflow.web.columnar import columns_told, kind_of, values_of
from hipslake_airflow.web.known_specs import KnownSpecs
from hipslake_airflow.web.light_curves import light_curves
from hipslake_airflow.web.parameters import ColumnName, ColumnNames, FilterText, Name, Number, RegionText
from hipslake_airflow.web.store import AskingDep

MOST_ROWS = 10_000
MOST_ANSWER = 64 << 20
"""Most bytes of the rows of an answer, in memory."""
_ONE_ROW = 100  # most rows of one order-29 pixel that are shown
_KEY = re.compile(r"(\d{1,19})(?:\.(\d{1,19}))?")
_SHARE = 0.5  # of the time that is left, for reading
_LEAST_SECONDS, _MOST_SECONDS = 0.2, 5.0


def add_row_data(app: FastAPI, catalogs: CatalogStore, specs: KnownSpecs) -> None:
    """Add the endpoints to the app."""
    readable = [MAY_READ_CATALOG]

    @app.get("/api/catalogs/{name}/rows", dependencies=readable)
    async def show_rows(
        name: Name,
        ask: AskingDep,
        version: Number | None = None,
        region: RegionText | None = None,
        columns: ColumnNames = None,
        filters: FilterText | None = None,
        limit: Annotated[int, Query(ge=1, le=MOST_ROWS)] = 1000,
        sort: ColumnName | None = None,
        descending: bool = False,
        spread: bool = False,
    ) -> Response:
        choice = RowChoice(limit, sort, descending, spread)
        return await ask(lambda: _rows_answer(catalogs, name, version, choice, region, columns, filters))

    @app.get("/api/catalogs/{name}/row", dependencies=readable)
    async def show_row(
        name: Name,
        reader: ReaderDep,
        ask: AskingDep,
        key: Annotated[str, Query(max_length=40)],
        version: Number | None = None,
    ) -> Response:
        told = await ask(lambda: _row_answer(catalogs, specs, name, version, key))
        curves = [each for each in told["light_curves"] if each["kind"] == "nested"]
        for each in told["light_curves"]:  # sources in another catalog, which the reader may not see
            if each["kind"] != "nested" and await run_in_threadpool(
                may_read_catalog, each["catalog"], reader
            ):
                curves.append(each)
        return json_response({**told, "light_curves": curves})


def read_rows(
    catalogs: CatalogStore,
    name: str,
    version: int | None,
    choice: RowChoice,
    *,
    columns: list[str] | None = None,
    filters: Any = None,
    region: Region | None = None,
    pixels: Intervals | None = None,
    bounds: ReadBounds | None = None,
    most_bytes: int | None = None,
) -> tuple[CatalogMetadata, BoundedRows]:
    """Rows of a version within the bounds of the page, and the version's metadata.

    Parameters and errors as of `bounded_rows`; columns that are not named are all that are not nested.
    """
    metadata = catalogs.metadata(name, version)
    leaves = catalogs.footprint(name, metadata.version, Layer("group", metadata.groups[0].name))
    columns = columns or flat_columns(metadata)
    found = bounded_rows(
        catalogs.storage(name, metadata.version),
        metadata,
        leaves,
        choice,
        columns=columns,
        filters=filters,
        region=region,
        pixels=pixels,
        bounds=bounds or ReadBounds(seconds=seconds_to_read()),
    )
    most_bytes = most_bytes or MOST_ANSWER
    if found.table.nbytes > most_bytes:
        raise HTTPException(
            status.HTTP_413_CONTENT_TOO_LARGE,
            f"these rows have {found.table.nbytes >> 20} MiB, and an answer at most {most_bytes >> 20}; "
            "choose fewer columns, or a lower limit",
        )
    return metadata, found


def seconds_to_read() -> float:
    """How long one request reads rows, by the time that it has left."""
    return min(max(_SHARE * deadline().left(), _LEAST_SECONDS), _MOST_SECONDS)


def flat_columns(metadata: CatalogMetadata) -> list[str]:
    """The columns of a catalog but for nested ones, and those that hipslake adds for itself."""
    own = (HEALPIX_COLUMN, ROW_COLUMN)
    fields = joined_schema(metadata)
    return [each.name for each in fields if kind_of(each.type) != "nested" and each.name not in own]


def region_asked(text: str | None) -> Region | None:
    """The region that a text names; `RegionError` where it names none. No file is read for it."""
    return parse_region(text) if text is not None and text.strip() else None


def keys_of(found: BoundedRows) -> list[str]:
    """The key of each row: what `row` takes to give it whole."""
    if found.row_ids is None:
        return [str(number) for number in found.h29.tolist()]
    return [f"{number}.{row}" for number, row in zip(found.h29.tolist(), found.row_ids.tolist(), strict=True)]


def columns_answer(
    metadata: CatalogMetadata, table: pa.Table
) -> tuple[list[dict[str, Any]], list[list[Any]]]:
    """What there is to tell of the columns of a table of a catalog, and their values."""
    told = columns_told(metadata)
    columns, data = [], []
    for name in table.column_names:
        encoding, values = values_of(table[name])
        columns.append({**told[name].model_dump(), "encoding": encoding})
        data.append(values)
    return columns, data


def json_response(answer: Any, seconds: float | None = None) -> Response:
    """An answer of plain values as JSON; a header says how long the server worked for it."""
    timing = {} if seconds is None else {"Server-Timing": f"read;dur={1000 * seconds:.1f}"}
    return Response(to_json(answer), media_type="application/json", headers=timing)


def _rows_answer(
    catalogs: CatalogStore,
    name: str,
    version: int | None,
    choice: RowChoice,
    region: str | None,
    columns: list[str] | None,
    filters: str | None,
) -> Response:
    begin = time.monotonic()
    within = region_asked(region)
    metadata, found = read_rows(
        catalogs, name, version, choice, columns=columns, filters=filters, region=within
    )
    told, data = columns_answer(metadata, found.table)
    return json_response(
        {
            "version": metadata.version,
            "region": None if within is None else str(within),
            "filters": filters or "",
            "limit": choice.limit,
            "columns": told,
            "data": data,
            "ra": found.ra.tolist(),
            "dec": found.dec.tolist(),
            "keys": keys_of(found),
            "rows": found.table.num_rows,
            "truncated": found.stopped is not None,
            "why": found.stopped,
            "total": found.total,
            "estimate": found.estimate,
        },
        time.monotonic() - begin,
    )


def row_of_key(
    catalogs: CatalogStore, name: str, version: int | None, key: str, columns: list[str]
) -> tuple[CatalogMetadata, BoundedRows]:
    """The rows that a key names: one, or where a catalog does not number its rows, those of its pixel.

    Raises
    ------
    HTTPException
        422 where it is no key, 404 where there is no such row.
    """
    match = _KEY.fullmatch(key)
    number = int(match[1]) if match else WHOLE_SKY[1]
    if match is None or number >= WHOLE_SKY[1]:
        raise HTTPException(
            status.HTTP_422_UNPROCESSABLE_CONTENT, "key: is none of a row; take one that rows gave"
        )
    pixels = Intervals.union([number], [number + 1])
    filters = None if match[2] is None else f"{ROW_COLUMN} = {match[2]}"
    metadata = catalogs.metadata(name, version)
    if match[2] is not None and not metadata.numbers_rows:
        filters = None
    metadata, found = read_rows(
        catalogs,
        name,
        metadata.version,
        RowChoice(_ONE_ROW),
        columns=columns or joined_schema(metadata).names,
        filters=filters,
        pixels=pixels,
    )
    if not found.table.num_rows:
        raise HTTPException(status.HTTP_404_NOT_FOUND, f"version {metadata.version} has no row {key}")
    return metadata, found


def _row_answer(
    catalogs: CatalogStore, specs: KnownSpecs, name: str, version: int | None, key: str
) -> dict[str, Any]:
    metadata, found = row_of_key(catalogs, name, version, key, [])
    columns, data = columns_answer(metadata, found.table)
    rows = [
        {"key": key, "ra": ra, "dec": dec, "values": list(values)}
        for key, ra, dec, values in zip(
            keys_of(found), found.ra.tolist(), found.dec.tolist(), zip(*data, strict=True), strict=True
        )
    ]
    return {
        "version": metadata.version,
        "columns": columns,
        "rows": rows,
        "truncated": found.stopped is not None,
        "light_curves": [curve.model_dump() for curve in light_curves(metadata, specs)],
        **rows[0],
    }
