"""The FIELD elements of VOTables: how the columns of a table are described in XML.

Format: VOTable 1.4, IVOA Recommendation 2019-10-21. Units, UCDs and descriptions are those of the columns'
metadata.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

import pyarrow as pa

from hipslake.exports.votable_types import DeclaredField

NAMESPACE = "http://www.ivoa.net/xml/VOTable/v1.3"
_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*")


class DescribedColumn(NamedTuple):
    """A column of a VOTable.

    Attributes
    ----------
    field : pyarrow.Field
        Its metadata says `unit`, `ucd` and `description`.
    declared : DeclaredField
    is_named : bool
        Whether its ID is its name, where XML has that as such.
    """

    field: pa.Field
    declared: DeclaredField
    is_named: bool = True


def field_elements(columns: Iterable[DescribedColumn]) -> list[str]:
    """The FIELD elements of the columns of a table, a line each."""
    given = list(columns)
    parts = []
    for identifier, (field, declared, _) in zip(_identifiers(given), given, strict=True):
        said = {
            key.decode("utf-8", "replace"): value.decode("utf-8", "replace")
            for key, value in (field.metadata or {}).items()
        }
        attributes = {
            "ID": identifier,
            "name": field.name,
            "datatype": declared.datatype,
            "arraysize": declared.arraysize,
            "xtype": declared.xtype,
            "unit": said.get("unit") or declared.unit,
            "ucd": said.get("ucd"),
        }
        written = "".join(f" {key}={quoted(value)}" for key, value in attributes.items() if value)
        told = said.get("description")
        inside = f"<DESCRIPTION>{escaped(told)}</DESCRIPTION>" if told else ""
        parts.append(f"<FIELD{written}>{inside}</FIELD>\n")
    return parts


def _identifiers(columns: list[DescribedColumn]) -> list[str]:
    """The IDs of columns, no two alike: astropy takes the names of columns from there."""
    given = {column.field.name for column in columns}
    found = []
    for number, column in enumerate(columns):
        identifier = column.field.name
        if not column.is_named or not _IDENTIFIER.fullmatch(identifier):
            identifier = f"col{number}"
            while identifier in given:
                identifier += "_"
        found.append(identifier)
    return found


def escaped(text: str) -> str:
    """A text as the content of an element."""
    return escape(_xml(text))


def quoted(text: str) -> str:
    """A text as the value of an attribute, with its quotes."""
    return quoteattr(_xml(text).encode("utf-8", "replace").decode())


def _xml(text: str) -> str:
    """A text without what XML cannot hold."""
    return _NO_XML.sub("\ufffd", text)
