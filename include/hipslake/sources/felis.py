"""What a Felis schema says of the columns of a table: units, UCDs and descriptions.

Format: the YAML of lsst-felis (https://felis.lsst.io): `tables`, each with `name` and `columns`; of a column
`name`, `description`, `ivoa:ucd`, and its unit as `ivoa:unit` or `fits:tunit`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from hipslake.errors import SpecError
from hipslake.specs.base import first_mistake
from hipslake.specs.column_description import ColumnDescription
from hipslake.specs.environment import expand
from hipslake.specs.felis_spec import FelisSpec
from hipslake.specs.plain_yaml import Document, PlainLoader, YamlError
from hipslake.storage.folder import Storage

MOST_BYTES = 64 << 20
_UNITS = ("ivoa:unit", "fits:tunit")


def read_felis(spec: FelisSpec) -> dict[str, ColumnDescription]:
    """The columns of a table that a Felis schema says something of.

    Raises
    ------
    SpecError
        There is no such file or table, or it is no Felis schema; the message names what is wrong.
    StorageError
        The file cannot be read.
    """
    where, document = _document(spec)
    tables = document.get("tables") if isinstance(document, dict) else None
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise SpecError(f"felis: {where} is no Felis schema: it has no list of tables; name another file")
    named = {table.get("name"): table for table in tables}
    table = named.get(spec.table)
    if table is None:
        known = ", ".join(sorted(str(name) for name in named)) or "none"
        raise SpecError(f"felis.table: {where} has no table {spec.table!r}; its tables are {known}")
    if table.get("columnRefs"):
        raise SpecError(
            f"felis: table {spec.table} of {where} takes columns from other schemas (columnRefs); write it "
            "out with 'felis dump --dereference-resources', and name that file"
        )
    columns = table.get("columns")
    if not isinstance(columns, list) or not all(_is_named(column) for column in columns):
        raise SpecError(f"felis: table {spec.table} of {where} has no list of columns with names; mend it")
    told = ((str(column["name"]), _described(column, f"{where}, {spec.table}")) for column in columns)
    return {name: described for name, described in told if described is not None}


def digest_of(told: Mapping[str, ColumnDescription]) -> str:
    """SHA-256 of what is said of columns."""
    said = {name: each.metadata for name, each in told.items()}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def _document(spec: FelisSpec) -> tuple[str, Any]:
    try:
        storage, name = Storage.of_file(expand(spec.uri))
    except ValueError as error:
        raise SpecError(f"felis.uri: {error}") from None
    where = storage.uri(name)
    try:
        text = storage.read_plain(name, MOST_BYTES).decode()
        return where, Document(text, PlainLoader).value()
    except FileNotFoundError:
        raise SpecError(f"felis.uri: {where} does not exist") from None
    except YamlError as error:
        at = f", line {error.line}" if error.line else ""
        raise SpecError(f"felis.uri: {where}{at} is no YAML: {error}") from None
    except ValueError as error:  # too large, or no text
        raise SpecError(f"felis.uri: {where} cannot be read: {error}") from None


def _is_named(column: Any) -> bool:
    return isinstance(column, dict) and isinstance(column.get("name"), str) and bool(column["name"])


def _described(column: Mapping[str, Any], where: str) -> ColumnDescription | None:
    unit = next((column[key] for key in _UNITS if column.get(key)), None)
    said = {"unit": unit, "description": column.get("description"), "ucd": column.get("ivoa:ucd")}
    given = {key: value for key, value in said.items() if value not in (None, "")}
    if not given:
        return None
    try:
        return ColumnDescription.model_validate(given)
    except ValidationError as error:
        raise SpecError(f"felis: {where}, column {column['name']!r}: {first_mistake(error)}") from None
