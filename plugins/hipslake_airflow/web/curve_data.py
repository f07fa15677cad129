"""Endpoints for the sources of an object, and for the pairs of a cross-match."""

from __future__ import annotations

import re
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds
from fastapi import FastAPI, HTTPException, Query, status
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response
from hipslake.catalog.bounded_rows import BoundedRows, RowChoice
from hipslake.catalog.co_partitioning import known_together
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.schema import ROW_IDENTITY
from hipslake.catalog.selection import joined_schema, select
from hipslake.catalog.value_order import comparable, has_order
from hipslake.errors import SchemaMismatchError
from hipslake.joins.nested_forms import in_other_form
from hipslake.predicates.predicate_tree import InArray
from hipslake.specs.join_specs import CrossmatchSpec
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.vectors import moved_along

from hipslake_airflow.web.access import MAY_READ_CATALOG, ReaderDep, require_catalog
from hipslake_airflow.web.catalog_store import CatalogStore
from hipslake_airflow.web.columnar import column_told, kind_of, plain, values_of
from hipslake_airflow.web.known_specs import KnownSpecs
from hipslake_airflow.web.light_curves import light_curves, nested_columns, nested_time, roles_of
from hipslake_airflow.web.parameters import NAME_PATTERN, ColumnName, Name, Number, RegionText
from hipslake_airflow.web.row_data import json_response, keys_of, read_rows, region_asked, row_of_key
from hipslake_airflow.web.store import AskingDep

MOST_POINTS = 10_000
MOST_PAIRS = 10_000
_MEASURED = ("separation_arcsec", "position_angle_deg")  # where no spec gives other names
_OF_A_VERSION = re.compile(r"([^/]+)/_versions/\d{8,10}\.json")


def add_curve_data(app: FastAPI, catalogs: CatalogStore, specs: KnownSpecs) -> None:
    """Add the endpoints to the app."""
    readable = [MAY_READ_CATALOG]

    @app.get("/api/catalogs/{name}/light_curve", dependencies=readable)
    async def show_light_curve(
        name: Name,
        reader: ReaderDep,
        ask: AskingDep,
        key: Annotated[str, Query(max_length=40)],
        column: ColumnName | None = None,
        catalog: Annotated[str | None, Query(pattern=NAME_PATTERN, max_length=120)] = None,
        time: ColumnName | None = None,
        version: Number | None = None,
    ) -> Response:
        if catalog is not None:
            await run_in_threadpool(require_catalog, catalog, reader)
        if (column is None) == (catalog is None):
            raise HTTPException(
                status.HTTP_422_UNPROCESSABLE_CONTENT,
                "a light curve is nested in a column, or of a catalog of sources: give either",
            )
        if column is not None:
            return await ask(
                lambda: json_response(_nested(catalogs, specs, name, version, key, column, time))
            )
        curves = await ask(lambda: light_curves(catalogs.metadata(name, version), specs))
        on = next((curve.on for curve in curves if curve.catalog == catalog), None)
        if catalog is None or on is None:
            raise HTTPException(
                status.HTTP_404_NOT_FOUND, f"rows of catalog {catalog} are not placed by those of {name}"
            )
        return await ask(lambda: json_response(_of_catalog(catalogs, name, version, key, catalog, on, time)))

    @app.get("/api/catalogs/{name}/matches", dependencies=readable)
    async def show_matches(
        name: Name,
        ask: AskingDep,
        region: RegionText | None = None,
        limit: Annotated[int, Query(ge=1, le=MOST_PAIRS)] = 2000,
        version: Number | None = None,
    ) -> Response:
        return await ask(lambda: json_response(_matches(catalogs, specs, name, version, region, limit)))


def _nested(
    catalogs: CatalogStore,
    specs: KnownSpecs,
    name: str,
    version: int | None,
    key: str,
    column: str,
    time: str | None,
) -> dict[str, Any]:
    metadata = catalogs.metadata(name, version)
    select(metadata, [column])
    kind = joined_schema(metadata).field(column).type
    columns = nested_columns(kind)
    if columns is None:
        raise SchemaMismatchError(f"column {column!r} of catalog {name} holds no sources: it is {kind}")
    metadata, found = row_of_key(catalogs, name, metadata.version, key, [column])
    lists = found.table[column].combine_chunks()
    if kinds.is_struct(kind):
        try:
            lists = in_other_form(lists)
        except ValueError as error:
            raise SchemaMismatchError(f"column {column!r} of catalog {name}: {error}") from error
    rows = lists.flatten()
    values = rows.flatten()  # whose values are null where the source itself is
    schema = pa.schema([rows.type.field(at) for at in range(rows.type.num_fields)])
    if time is not None and time not in schema.names:
        raise SchemaMismatchError(f"the sources have no column {time!r}; they have {', '.join(schema.names)}")
    first = time or nested_time(metadata, specs, column)
    return _curve(metadata, pa.table(values, schema=schema), first)


def _of_catalog(
    catalogs: CatalogStore,
    name: str,
    version: int | None,
    key: str,
    sources: str,
    on: tuple[str, str],
    time: str | None,
) -> dict[str, Any]:
    own, its = on
    metadata, found = row_of_key(catalogs, name, version, key, [own])
    values = found.table[own].combine_chunks().drop_null()
    theirs = catalogs.metadata(sources)
    if time is not None:
        select(theirs, [time])
    kind = joined_schema(theirs).field(its).type
    where = Intervals.union(found.h29, found.h29 + 1)
    near = known_together(metadata, theirs, on)  # else sources may lie anywhere
    names = [each for each in joined_schema(theirs).names if each not in ROW_IDENTITY]
    flat = [each for each in names if kind_of(joined_schema(theirs).field(each).type) != "nested"]
    try:
        keys = values.cast(kind.value_type if kinds.is_dictionary(kind) else kind)
    except pa.ArrowInvalid:  # no source has a key that the type of its column cannot hold
        keys = values.slice(0, 0).cast(kind.value_type if kinds.is_dictionary(kind) else kind)
    wanted = InArray(its, keys)
    theirs, rows = read_rows(
        catalogs,
        sources,
        theirs.version,
        RowChoice(MOST_POINTS),
        columns=flat,
        filters=wanted,
        pixels=where if near else None,
    )
    return _curve(theirs, rows.table, time, rows)


def _curve(
    metadata: CatalogMetadata, rows: pa.Table, time: str | None, found: BoundedRows | None = None
) -> dict[str, Any]:
    """Sources in the order of time, as an answer."""
    roles = roles_of(rows.schema, time)
    first = next(iter(roles["times"]), None)
    if first is not None:
        if not has_order(rows[first].type):
            raise SchemaMismatchError(f"column {first!r} is of type {rows[first].type}, which is no time")
        times = pa.table({"time": comparable(rows[first])})
        rows = rows.take(pc.sort_indices(times, [("time", "ascending", "at_end")]))
    truncated = rows.num_rows > MOST_POINTS or (found is not None and found.stopped is not None)
    rows = rows.slice(0, MOST_POINTS)
    columns, data = [], []
    for field in rows.schema:
        encoding, values = values_of(rows[field.name])
        columns.append({**column_told(field).model_dump(), "encoding": encoding})
        data.append(values)
    return {
        "catalog": metadata.catalog,
        "version": metadata.version,
        "columns": columns,
        "data": data,
        "rows": rows.num_rows,
        "truncated": truncated,
        "time": first,
        **{name: list(found) for name, found in roles.items()},
    }


def _matches(
    catalogs: CatalogStore, specs: KnownSpecs, name: str, version: int | None, region: str | None, limit: int
) -> dict[str, Any]:
    metadata = catalogs.metadata(name, version)
    spec = specs.join(name)
    separation, angle = _MEASURED
    if isinstance(spec, CrossmatchSpec):
        separation, angle = spec.separation, spec.position_angle
    is_join = any(owner.kind == "join" for owner in metadata.owners)
    if not is_join or not {separation, angle} <= set(joined_schema(metadata).names):
        raise HTTPException(status.HTTP_404_NOT_FOUND, f"catalog {name} holds no pairs of a cross-match")
    left, right = _sides(metadata)
    metadata, found = read_rows(
        catalogs,
        name,
        metadata.version,
        RowChoice(limit, spread=True),
        columns=[separation, angle],
        region=region_asked(region),
    )
    apart = found.table[separation].cast(pa.float64()).to_numpy()
    towards = found.table[angle].cast(pa.float64()).to_numpy()
    ra, dec = moved_along(found.ra, found.dec, apart / 3600.0, towards)
    return {
        "version": metadata.version,
        "left": left,
        "right": right,
        "rows": found.table.num_rows,
        "truncated": found.stopped is not None,
        "total": found.total,
        "left_ra": found.ra.tolist(),
        "left_dec": found.dec.tolist(),
        "right_ra": _or_null(ra),
        "right_dec": _or_null(dec),
        "separation_arcsec": _or_null(apart),
        "keys": keys_of(found),
    }


def _sides(metadata: CatalogMetadata) -> tuple[str | None, str | None]:
    """The names of the first two catalogs that a join has read, the left one first, if both have names."""
    entries = [entry.uri for each in metadata.increments for entry in each.sources.entries or ()]
    left, right = (_OF_A_VERSION.search(uri) for uri in (*entries[:2], "", "")[:2])
    return (left[1], right[1]) if left and right else (None, None)


def _or_null(values: np.ndarray) -> list[float | None]:
    return [plain(value) if np.isfinite(value) else None for value in values.tolist()]
