"""Units, descriptions and UCDs that Parquet files have in a VOTable without rows, in their footers.

Format: VOParquet 1.0, IVOA Note 2025-01-16.
"""

from __future__ import annotations

import logging

import pyarrow as pa

from hipslake.errors import InputError
from hipslake.sources.source_file import SourceFile

VOTABLE = b"IVOA.VOTable-Parquet.content"
"""The key of the footer's metadata that holds the VOTable."""

_log = logging.getLogger(__name__)


def described_by_votable(schema: pa.Schema, file: SourceFile) -> pa.Schema:
    """Return the columns of a file with what the VOTable in its footer says of them.

    What a column says of itself goes before it. A VOTable that cannot be read takes nothing from the rows: it
    is told, and passed over.

    Parameters
    ----------
    schema : pyarrow.Schema
        Of the file, with the metadata of its footer.
    file : SourceFile
    """
    content = (schema.metadata or {}).get(VOTABLE)
    if content is None:
        return schema
    from hipslake.sources.votable.xml import VotableParser  # few files have one

    parser = VotableParser(None, file, with_rows=False)
    try:
        parser.feed(content)
        parser.close()
    except InputError as error:
        _log.warning("The VOTable in the footer is passed over, with units and descriptions: %s", error)
        return schema
    said = {each.name: each.field.metadata or {} for each in parser.fields or ()}
    fields = [field.with_metadata(_joined(field, said.get(field.name, {}))) for field in schema]
    return pa.schema(fields, schema.metadata)


def _joined(field: pa.Field, said: dict[bytes, bytes]) -> dict[bytes, bytes] | None:
    return {**said, **(field.metadata or {})} or None
