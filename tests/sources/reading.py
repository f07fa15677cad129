"""Sources read whole, as the jobs read them: list, split, infer, unify, read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from hipslake.sources import Source, open_source
from hipslake.specs.source_spec import SourceSpec


def source(format_: str, uri: Path | str, *, missing_columns: str = "error", **options: Any) -> Source:
    """A source of files of one format, with options of that format."""
    return open_source(
        SourceSpec.model_validate(
            {"uri": str(uri), "format": format_, "options": options, "missing_columns": missing_columns}
        )
    )


def csv_source(folder: Path, **options: Any) -> Source:
    return source("csv", f"{folder}/*", **options)


def read(source: Source, target_bytes: int = 1 << 28, columns: list[str] | None = None) -> pa.Table:
    """Read a whole source as the jobs do: list, split, infer, unify, read."""
    splits = source.splits(source.list_files(), target_bytes)
    schema = source.schema(source.list_files())
    if schema is None:
        schema = source.unify([(split.file.uri, source.infer(split)) for split in splits])
    batches = [batch for split in splits for batch in source.read(split, schema, columns)]
    wanted = schema if columns is None else pa.schema([f for f in schema if f.name in columns])
    return pa.Table.from_batches(batches, wanted)


def csv_table(folder: Path, content: str | bytes, name: str = "a.csv", **options: Any) -> pa.Table:
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return read(csv_source(folder, **options))


def told(table: pa.Table, name: str) -> tuple[str | None, str | None]:
    """Unit and description of a column."""
    metadata = table.schema.field(name).metadata or {}
    unit, description = (metadata.get(key) for key in (b"unit", b"description"))
    return unit and unit.decode(), description and description.decode()
