"""Endpoints for what is known of the columns of a catalog."""

from __future__ import annotations

import logging
import re
import time
from typing import Annotated, Any, NamedTuple

import pyarrow as pa
from fastapi import FastAPI, Query
from fastapi.responses import Response
from hipslake import Catalog
from hipslake.catalog.bounded_rows import ReadBounds, RowChoice
from hipslake.catalog.column_summary import ColumnSummary, summarize_column
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.selection import joined_schema, select
from hipslake.catalog.value_order import value_type
from hipslake.errors import HipslakeError, SchemaMismatchError, VerificationError
from pydantic_core import to_json

from hipslake_airflow.web.access import MAY_READ_CATALOG
from hipslake_airflow.web.catalog_store import CatalogStore
from hipslake_airflow.web.columnar import columns_told, plain, values_of
from hipslake_airflow.web.parameters import ColumnName, FilterText, Name, Number, RegionText
from hipslake_airflow.web.row_data import flat_columns, read_rows, region_asked, seconds_to_read
from hipslake_airflow.web.store import AskingDep

_LOG = logging.getLogger(__name__)
SAMPLED_ROWS = 200_000
"""Most rows that columns are told by."""
_OF_ALL = ReadBounds(rows=1_000_000, bytes=192 << 20, leaves=256)
_OF_ONE = ReadBounds(rows=5_000_000, bytes=256 << 20, leaves=256)
_MOST_SAMPLED = 1 << 30  # bytes in memory; reading ends before
_OF_COLUMNS = (SchemaMismatchError, VerificationError, pa.ArrowException)
_FAILURES = (HipslakeError, pa.ArrowException, ArithmeticError, TypeError, ValueError)
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
        names = flat_columns(metadata)
        samples = _samples(catalogs, name, metadata, names)
        exact = all(each.exact for each in samples.values())
        by_footers = {} if exact else _of_footers(catalogs, name, metadata, names)
        indexed = {*metadata.indexed_columns}
        told = []
        for column, described in columns_told(metadata).items():
            known: dict[str, Any] = {"rows": None, "nulls": None, "min": None, "max": None}
            sample = samples.get(column, _Sample())
            problem = sample.problem
            if sample.values is not None:
                try:
                    summary = _told(summarize_column(sample.values, 1))
                    known = {key: summary[key] for key in known}
                except _FAILURES as error:
                    _LOG.warning("catalog %s: column %s has no summary", name, column, exc_info=True)
                    problem = _said(error)
            told.append(
                {
                    **described.model_dump(),
                    "indexed": column in indexed,
                    "exact": sample.exact or column in by_footers,
                    "problem": problem,
                    **known,
                    **by_footers.get(column, {}),
                }
            )
        return to_json(
            {
                "version": metadata.version,
                "rows": max(
                    (len(each.values) for each in samples.values() if each.values is not None), default=0
                ),
                "total": metadata.total_rows,
                "exact": exact,
                "columns": told,
            }
        )

    return catalogs.kept("columns", name, metadata.version, make, len)


class _Sample(NamedTuple):
    """Values of a column, or why there are none."""

    values: pa.ChunkedArray | None = None
    exact: bool = True  # whether they are all that there are
    problem: str | None = None


def _samples(
    catalogs: CatalogStore, name: str, metadata: CatalogMetadata, names: list[str]
) -> dict[str, _Sample]:
    """Values of some columns, of the same rows; where they are not read together, of each by itself.

    Raises
    ------
    SchemaMismatchError, VerificationError
        None can be read.
    """

    def read(columns: list[str], seconds: float) -> dict[str, _Sample]:
        _, found = read_rows(
            catalogs,
            name,
            metadata.version,
            RowChoice(SAMPLED_ROWS, spread=True),
            columns=columns,
            bounds=_OF_ALL._replace(seconds=seconds),
            most_bytes=_MOST_SAMPLED,
        )
        return {each: _Sample(found.table[each], found.stopped is None) for each in columns}

    seconds = seconds_to_read()
    try:
        return read(names, seconds)
    except _OF_COLUMNS as error:
        of_all = error
    found: dict[str, _Sample] = {}
    end = time.monotonic() + seconds
    for column in names:
        if time.monotonic() > end:
            found[column] = _Sample(
                exact=False, problem="there was no time left to read it; ask for it alone"
            )
            continue
        try:
            found |= read([column], seconds / len(names))
        except _OF_COLUMNS as error:
            found[column] = _Sample(exact=False, problem=_said(error))
    if all(each.values is None for each in found.values()):
        raise of_all
    return found


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _of_footers(
    catalogs: CatalogStore, name: str, metadata: CatalogMetadata, names: list[str]
) -> dict[str, dict[str, Any]]:
    """What the footers of all leaf files tell for certain, where they are few; by column."""
    if sum(group.files for group in metadata.groups) * len(names) > _MOST_CHUNKS:
        return {}
    schema, found = joined_schema(metadata), {}
    for told in Catalog(catalogs.storage(name, metadata.version), metadata).statistics(names):
        if told.known:
            kind = value_type(schema.field(told.name).type)
            ends = {end: _end(getattr(told, end), kind) for end in ("min", "max")}
            found[told.name] = {"rows": told.rows, "nulls": told.nulls, **ends}
    return found


def _end(value: Any, kind: pa.DataType) -> Any:
    """An end of the values of a column; a text is one, or a time that Python does not hold."""
    if value is None or (isinstance(value, str) and not pa.types.is_temporal(kind)):
        return value
    if isinstance(value, str):
        return re.sub(r"^([-\d]+) ", r"\1T", value)
    return values_of(pa.array([value], kind))[1][0]


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
            most_bytes=_MOST_SAMPLED,
        )
        summary = summarize_column(found.table[column], bins)
        return to_json(
            {
                "version": metadata.version,
                "column": columns_told(metadata)[column].model_dump(),
                "exact": found.stopped is None,
                "total": found.total,
                **_told(summary),
            }
        )

    key = ("column", column, str(within), filters, bins)
    return catalogs.kept(key, name, metadata.version, make, len)


def _told(summary: ColumnSummary) -> dict[str, Any]:
    """A summary as JSON has it."""
    least, most = (None, None) if summary.ends is None else values_of(summary.ends)[1]
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
        "min": least,
        "max": most,
        "mean": plain(summary.mean),
        "deviation": plain(summary.deviation),
        "histogram": histogram,
        "frequent": frequent,
    }
