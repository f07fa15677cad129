"""Exports as CSV: a header, UTF-8, texts in quotes; null is nothing at all, the empty text is `""`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO

import pyarrow as pa
import pyarrow.csv as pacsv

from hipslake.errors import SchemaMismatchError
from hipslake.exports.model import Origin


class CsvTables:
    """Writes CSV. It has no place for units, descriptions and the origin."""

    def check(self, schema: pa.Schema) -> None:
        formless = [
            field.name
            for field in schema
            if pa.types.is_nested(field.type) or isinstance(field.type, pa.BaseExtensionType)
        ]
        if formless:
            raise SchemaMismatchError(
                f"export: CSV has no form for {_listed(schema, formless)}; leave it out, or take parquet"
            )

    def write(self, file: BinaryIO, schema: pa.Schema, tables: Iterable[pa.Table], origin: Origin) -> int:
        rows = 0
        with pacsv.CSVWriter(file, schema) as writer:
            for table in tables:
                writer.write_table(table)
                rows += table.num_rows
        return rows


def _listed(schema: pa.Schema, names: list[str]) -> str:
    return ", ".join(f"{name!r} ({schema.field(name).type})" for name in names)
