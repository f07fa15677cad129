"""The endpoint that finds places: positions, regions, and rows by a value of an indexed column."""

from __future__ import annotations

import re
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.types as kinds
from fastapi import FastAPI, HTTPException, Query, status
from fastapi.responses import Response
from hipslake.catalog.bounded_rows import RowChoice
from hipslake.catalog.finding import find_values
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.selection import joined_schema, select
from hipslake.errors import IndexMissingError, RegionError
from hipslake.predicates.predicate_tree import InArray
from hipslake.sphere.position_text import POSITION_FORMS, parse_position
from hipslake.sphere.regions import Region, parse_region

from hipslake_airflow.web.access import MAY_READ_CATALOG
from hipslake_airflow.web.catalog_store import CatalogStore
from hipslake_airflow.web.columnar import plain
from hipslake_airflow.web.parameters import Name, Number
from hipslake_airflow.web.row_data import json_response, keys_of, read_rows
from hipslake_airflow.web.store import AskingDep

_MOST_PLACES = 100
_REGION = re.compile(r"\s*(cone|box|polygon|moc|pixels)\s", re.I)
_PIXEL = re.compile(r"\s*(\d{1,2})\s*/\s*(\d{1,19})\s*")
_WHOLE = re.compile(r"[-+]?\d{1,30}")


def add_search(app: FastAPI, catalogs: CatalogStore) -> None:
    """Add the endpoint to the app."""

    @app.get("/api/catalogs/{name}/search", dependencies=[MAY_READ_CATALOG])
    async def search(
        name: Name,
        ask: AskingDep,
        q: Annotated[str, Query(min_length=1, max_length=20_000)],
        version: Number | None = None,
    ) -> Response:
        return await ask(lambda: json_response(_found(catalogs, name, version, q)))


def _found(catalogs: CatalogStore, name: str, version: int | None, text: str) -> dict[str, Any]:
    metadata = catalogs.metadata(name, version)
    if _REGION.match(text) or _PIXEL.fullmatch(text):
        region = parse_region(text if _REGION.match(text) else f"pixels {text}")
        return _answer(metadata, "region", f"region {_short(str(region))}", [], region)
    if (position := parse_position(text)) is not None:
        place = {"ra": position.ra, "dec": position.dec, "label": str(position)}
        return _answer(metadata, "position", str(position), [place], None)
    return _by_value(catalogs, metadata, name, text)


def _by_value(catalogs: CatalogStore, metadata: CatalogMetadata, name: str, text: str) -> dict[str, Any]:
    """The rows with a value of an indexed column, named or not."""
    indexed = list(metadata.indexed_columns)
    value = text.strip()
    named, sign, rest = (part.strip() for part in text.partition("="))
    if sign and rest and len(named.split()) == 1:
        column, value = named.strip('"`'), rest.strip("'\"")
        select(metadata, [column])
        if metadata.is_foreign and column not in indexed:  # all of its leaves would be looked through
            raise IndexMissingError(
                f"column {column!r} of catalog {name} has no index (indexed: "
                f"{', '.join(indexed) or 'none'}); give a region, and a filter on the column"
            )
        indexed = [column]
    places: list[dict[str, Any]] = []
    truncated, tried = False, []
    for column in indexed:
        kind = joined_schema(metadata).field(column).type
        if kinds.is_dictionary(kind):
            kind = kind.value_type
        if kinds.is_integer(kind) and not _WHOLE.fullmatch(value):
            continue
        tried.append(column)
        sought = int(value) if kinds.is_integer(kind) else value
        found, more = _rows_with(catalogs, metadata, name, column, sought)
        places, truncated = places + found, truncated or more
    if places:
        what = ", ".join(sorted({place["column"] for place in places}))
        understood = f"{what} = {_short(value)}"
        return _answer(metadata, "value", understood, places[:_MOST_PLACES], None, truncated=truncated)
    if tried:
        raise HTTPException(status.HTTP_404_NOT_FOUND, f"no row has {' or '.join(tried)} = {_short(value)}")
    known = f"; or a value of {', '.join(indexed)}" if indexed else "; the catalog has no indexed column"
    raise RegionError(f"{_short(text)} is not understood; write one of: {'; '.join(POSITION_FORMS)}{known}")


def _rows_with(
    catalogs: CatalogStore, metadata: CatalogMetadata, name: str, column: str, value: Any
) -> tuple[list[dict[str, Any]], bool]:
    where, wanted = find_values(catalogs.storage(name, metadata.version), metadata, column, value)
    if not len(where) or not len(wanted):
        return [], False
    _, rows = read_rows(
        catalogs,
        name,
        metadata.version,
        RowChoice(_MOST_PLACES),
        columns=[column],
        filters=InArray(column, pa.array(wanted)),
        pixels=where,
    )
    places = [
        {
            "ra": ra,
            "dec": dec,
            "key": key,
            "column": column,
            "value": plain(value),
            "label": f"{column} = {value}",
        }
        for ra, dec, key in zip(rows.ra.tolist(), rows.dec.tolist(), keys_of(rows), strict=True)
    ]
    return places, rows.stopped is not None


def _answer(
    metadata: CatalogMetadata,
    kind: str,
    understood: str,
    places: list[dict[str, Any]],
    region: Region | None,
    *,
    truncated: bool = False,
) -> dict[str, Any]:
    blank = {"key": None, "column": None, "value": None}
    return {
        "version": metadata.version,
        "kind": kind,
        "understood": understood,
        "places": [{**blank, **place} for place in places],
        "region": None if region is None else str(region),
        "truncated": truncated,
    }


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."
