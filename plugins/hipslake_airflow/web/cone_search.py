"""Simple Cone Search: `/scs/<catalog>?RA=&DEC=&SR=`, for tools of astronomy.

Protocol: Simple Cone Search 1.03, IVOA Recommendation 2008-02-22. Errors are VOTables, as it wants them; only
who may not read a catalog gets 401 or 403.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.types as kinds
from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import Response
from hipslake.catalog.bounded_rows import BoundedRows, RowChoice
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.placement import icrs_position
from hipslake.catalog.schema import ROW_IDENTITY
from hipslake.catalog.selection import joined_schema
from hipslake.errors import HipslakeError
from hipslake.exports.provenance import Provenance
from hipslake.exports.votable import VotableTables, votable_error
from hipslake.sphere.regions import Cone

from hipslake_airflow.web.access import MAY_READ_CATALOG
from hipslake_airflow.web.catalog_store import CatalogStore
from hipslake_airflow.web.columnar import kind_of
from hipslake_airflow.web.parameters import Name
from hipslake_airflow.web.row_data import keys_of, read_rows
from hipslake_airflow.web.store import AskingDep

MOST_FOUND = 50_000
MEDIA_TYPE = "application/x-votable+xml"
_MEDIA_TYPES = {"votable": MEDIA_TYPE, MEDIA_TYPE: MEDIA_TYPE, "text/xml": "text/xml"}
_PARAMETERS = ("RA", "DEC", "SR", "VERB", "MAXREC", "RESPONSEFORMAT")
_NUMBER = re.compile(r"[-+]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][-+]?[0-9]{1,4})?")
_ID, _RA, _DEC = "ID_MAIN", "POS_EQ_RA_MAIN", "POS_EQ_DEC_MAIN"  # UCD1, as the protocol has it
_MAIN_ID = "meta.id;meta.main"
_MAIN = "meta.main"
_IDENTIFIERS = ("id", "source_id", "object_id", "objid", "objectid", "designation", "name")


class ConeAsked(NamedTuple):
    """What a client asks for."""

    cone: Cone
    verbosity: int
    most: int
    media_type: str


class AskedWronglyError(ValueError):
    """A parameter is missing, or none."""


def add_cone_search(app: FastAPI, catalogs: CatalogStore) -> None:
    """Add the endpoint to the app."""

    @app.get("/scs/{name}", dependencies=[MAY_READ_CATALOG])
    async def search_cone(name: Name, request: Request, ask: AskingDep) -> Response:
        media_type = MEDIA_TYPE
        try:
            asked = cone_asked(request.query_params.multi_items())
            media_type = asked.media_type
            found = await ask(lambda: _votable(catalogs, name, asked))
        except HTTPException as error:
            found = votable_error(str(error.detail))
        except (AskedWronglyError, HipslakeError, OSError) as error:
            found = votable_error(str(error))
        return Response(found, media_type=media_type)


def cone_asked(parameters: Iterable[tuple[str, str]]) -> ConeAsked:
    """The cone that parameters name; their names are in any case.

    Raises
    ------
    AskedWronglyError
        One is missing, none, or there twice.
    RegionError
        The position is not on the sky.
    """
    given: dict[str, str] = {}
    for key, value in parameters:
        name = key.upper()
        if name in given and name in _PARAMETERS:
            raise AskedWronglyError(f"{name} is given twice; give it once")
        given[name] = value.strip()
    ra, dec, radius = (_number(given, name) for name in ("RA", "DEC", "SR"))
    if not 0 <= radius <= 180:
        raise AskedWronglyError(f"SR is {radius:g}; it is from 0 to 180 degrees")
    verbosity = given.get("VERB", "2")
    if verbosity not in ("1", "2", "3"):
        raise AskedWronglyError(f"VERB is {verbosity[:40]!r}; it is 1, 2 or 3")
    most = given.get("MAXREC", str(MOST_FOUND))
    if not (most.isascii() and most.isdigit()):
        raise AskedWronglyError(f"MAXREC is {most[:40]!r}; it is a whole number")
    return ConeAsked(
        Cone(ra, dec, radius),
        int(verbosity),
        min(int(most.lstrip("0")[:9] or 0), MOST_FOUND),
        _media_type(given.get("RESPONSEFORMAT", "votable")),
    )


def _number(given: Mapping[str, str], name: str) -> float:
    if name not in given:
        raise AskedWronglyError(f"{name} is missing; a cone search takes RA, DEC and SR in degrees")
    text = given[name]
    if not (_NUMBER.fullmatch(text) and math.isfinite(float(text))):
        raise AskedWronglyError(f"{name} is {text[:40]!r}, which is no number of degrees")
    return float(text)


def _media_type(asked: str) -> str:
    """The media type of the answer, by the words of DALI 1.1 for VOTable."""
    plain, _, serialization = "".join(asked.lower().split()).partition(";serialization=")
    if plain not in _MEDIA_TYPES or serialization not in ("", "tabledata"):
        raise AskedWronglyError(
            f"RESPONSEFORMAT is {asked[:60]!r}; answers are VOTables: {', '.join(_MEDIA_TYPES)}"
        )
    return _MEDIA_TYPES[plain]


def _votable(catalogs: CatalogStore, name: str, asked: ConeAsked) -> bytes:
    metadata = catalogs.metadata(name)
    identifier = _identifier(metadata)
    columns = _columns(metadata, identifier, asked.verbosity)
    metadata, found = read_rows(
        catalogs,
        name,
        metadata.version,
        RowChoice(max(asked.most, 1)),
        columns=columns,
        region=asked.cone,
    )
    table, ucds, chars = _table(metadata, found, identifier, asked.verbosity)
    sink = io.BytesIO()
    origin = Provenance(
        metadata.catalog, metadata.version, metadata.description, metadata.attribution, str(asked.cone)
    )
    VotableTables(ucds, chars).write(
        sink,
        table.schema,
        [table.slice(0, asked.most)],
        origin,
        overflow=found.stopped is not None or table.num_rows > asked.most,
    )
    return sink.getvalue()


def _identifier(metadata: CatalogMetadata) -> str | None:
    """The column that tells rows apart, as far as the catalog says so; None: their keys do."""
    schema = joined_schema(metadata)
    marked = [each.name for each in schema if (each.metadata or {}).get(b"ucd", b"").decode() == _MAIN_ID]
    indexed = metadata.indexed_columns
    named = [each.name for word in _IDENTIFIERS for each in schema if each.name.casefold() == word]
    for column in [*marked, *indexed, *named]:
        kind = schema.field(column).type
        kind = kind.value_type if kinds.is_dictionary(kind) else kind
        if kinds.is_integer(kind) or kinds.is_string(kind) or kinds.is_large_string(kind):
            return column
    return None


def _columns(metadata: CatalogMetadata, identifier: str | None, verbosity: int) -> list[str]:
    """The columns of an answer: those that are needed, the plain ones, or all that VOTable has a form for."""
    position = icrs_position(metadata)
    needed = [*([identifier] if identifier else []), position.ra, position.dec]
    if verbosity == 1:
        return list(dict.fromkeys(needed))
    plain = [
        field.name
        for field in joined_schema(metadata)
        if field.name not in ROW_IDENTITY
        and (verbosity == 3 or kind_of(field.type) != "nested")
        and _has_form(field)
    ]
    return list(dict.fromkeys([*needed, *plain]))


def _has_form(field: pa.Field) -> bool:
    try:
        VotableTables().check(pa.schema([field]))
    except HipslakeError:
        return False
    return True


def _table(
    metadata: CatalogMetadata, found: BoundedRows, identifier: str | None, verbosity: int
) -> tuple[pa.Table, dict[str, str], list[str]]:
    """The rows with the three columns that the protocol asks for, the UCDs, and which columns are `char`."""
    table, position = found.table, icrs_position(metadata)
    ucds = {field.name: _not_main(field) for field in table.schema}
    if identifier is None:
        identifier = _free("row_key", table)
        table = table.add_column(0, pa.field(identifier, pa.string()), pa.array(keys_of(found), pa.string()))
    names = (position.ra, position.dec)
    if position.unit != "deg" or position.frame != "icrs":
        names = (_free("ra_icrs", table), _free("dec_icrs", table))
        for name, degrees in zip(names, (found.ra, found.dec), strict=True):
            table = table.append_column(
                pa.field(name, pa.float64(), metadata={"unit": "deg"}), pa.array(degrees)
            )
    for name, ucd in zip((identifier, *names), (_ID, _RA, _DEC), strict=True):
        ucds[name] = ucd
    for name in names:
        at = table.column_names.index(name)
        field = pa.field(name, pa.float64(), metadata={**(table.field(name).metadata or {}), b"unit": b"deg"})
        table = table.set_column(at, field, table[name].cast(pa.float64()))
    at = table.column_names.index(identifier)
    column = table[identifier]
    if kinds.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    field = pa.field(identifier, pa.string(), metadata=table.field(identifier).metadata)
    return table.set_column(at, field, column.cast(pa.string())), ucds, [identifier]


def _not_main(field: pa.Field) -> str:
    """The UCD that a column has, but not as a main one: only three have that here."""
    said = (field.metadata or {}).get(b"ucd", b"").decode("utf-8", "replace")
    return ";".join(word for word in said.split(";") if word != _MAIN)


def _free(name: str, table: pa.Table) -> str:
    while name in table.column_names:
        name = f"{name}_"
    return name
