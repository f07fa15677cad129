"""VOTable metadata in the footer of a Parquet file: units, UCDs and descriptions of its columns.

Convention: "Parquet in the VO" (VOParquet) 1.0, IVOA Note 2025-01-16. TOPCAT, STILTS and astropy
(`Table.read(..., format="parquet.votable")`) read it. The last one joins columns by their ID, and fails where
a type of the VOTable is none of the data's: columns of types that VOTable has not, say times, have an ID that
is not their name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from hipslake.exports.hexadecimal import is_bytes
from hipslake.exports.votable_columns import NAMESPACE, DescribedColumn, field_elements
from hipslake.exports.votable_types import TEXT, declared_field

CONTENT, VERSION = "IVOA.VOTable-Parquet.content", "IVOA.VOTable-Parquet.version"
_SAID = ("unit", "ucd", "description")
_UCD = re.compile(r"[A-Za-z0-9_.;\-]*")  # as the schema of VOTable has it


class FooterVotable:
    """The VOTable of a Parquet file that is being written.

    Parameters
    ----------
    schema : pyarrow.Schema
        Of the file. Field metadata says `unit`, `ucd` and `description`.
    known : mapping of str to mapping of str to str, optional
        What is said of columns whose metadata do not: it does not count as something said.
    """

    def __init__(self, schema: pa.Schema, known: Mapping[str, Mapping[str, str]] | None = None) -> None:
        self._schema, self._known = schema, known or {}
        self._is_said = any(key in _own(field) for field in schema for key in _SAID)
        self._longest: dict[str, int] = {}  # of texts: characters
        self._nulls: set[str] = set()

    def add(self, table: pa.Table) -> None:
        """Take notice of rows that are written: how long texts are, and where values are missing."""
        if not self._is_said:
            return
        for field in self._schema:
            column = table.column(field.name)
            if column.null_count:
                self._nulls.add(field.name)
            if _is_text(field.type):
                longest = max((_longest(chunk) for chunk in column.chunks), default=0)
                self._longest[field.name] = max(longest, self._longest.get(field.name, 1))

    def entries(self) -> dict[str, str]:
        """The key-value metadata of the file; empty where nothing is said of any column.

        The same schema and rows give the same texts.
        """
        if not self._is_said:
            return {}
        content = (
            "<?xml version='1.0' encoding='UTF-8'?>\n"
            f'<VOTABLE version="1.4" xmlns="{NAMESPACE}">\n<RESOURCE type="results">\n<TABLE>\n'
            + "".join(field_elements(self._described(field) for field in self._schema))
            + "</TABLE>\n</RESOURCE>\n</VOTABLE>\n"
        )
        return {CONTENT: content, VERSION: "1.0"}

    def _described(self, field: pa.Field) -> DescribedColumn:
        """A column with what is said of it. Of a type that VOTable has not, it is declared as a text."""
        said = {**self._known.get(field.name, {}), **_own(field)}
        if not _UCD.fullmatch(said.get("ucd", "")):
            del said["ucd"]
        declared = declared_field(field.type) or TEXT
        if (longest := self._longest.get(field.name)) is not None:
            declared = declared._replace(arraysize=f"{longest}*")
        kind = field.type
        differs = kinds.is_timestamp(kind) or kinds.is_date(kind) or kinds.is_uint64(kind) or is_bytes(kind)
        differs |= kinds.is_boolean(kind) and field.name in self._nulls
        return DescribedColumn(pa.field(field.name, kind, metadata=said), declared, is_named=not differs)


def _own(field: pa.Field) -> dict[str, str]:
    found = ((key, (field.metadata or {}).get(key.encode())) for key in _SAID)
    return {key: value.decode("utf-8", "replace") for key, value in found if value}


def _is_text(kind: pa.DataType) -> bool:
    if kinds.is_dictionary(kind):
        return _is_text(kind.value_type)
    return bool(kinds.is_string(kind) or kinds.is_large_string(kind))


def _longest(chunk: pa.Array) -> int:
    texts = chunk.dictionary if kinds.is_dictionary(chunk.type) else chunk
    return pc.max(pc.utf8_length(texts)).as_py() or 0
