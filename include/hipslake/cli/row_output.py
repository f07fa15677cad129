"""Rows to a file, or to the standard output as CSV or as lines of JSON."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from hipslake.cli.printing import as_json, counted, print_json
from hipslake.exports.provenance import Provenance
from hipslake.exports.writers import check_export, check_format, write_export
from hipslake.specs.export_formats import ExportFormat

if TYPE_CHECKING:
    from hipslake.exports.writers import Exported

_LINES = 10_000


def first_rows(tables: Iterable[pa.Table], limit: int | None) -> Iterator[pa.Table]:
    """The first rows of tables; no more tables are taken than are needed."""
    if limit is None:
        yield from tables
        return
    left = limit
    for table in tables:
        if left <= 0:
            return
        yield table.slice(0, left)
        left -= table.num_rows


def print_rows(schema: pa.Schema, tables: Iterable[pa.Table], *, as_lines: bool) -> None:
    """Print rows: as CSV with a header, or a line of JSON for each.

    Raises
    ------
    SchemaMismatchError
        If CSV has no form for a column.
    """
    if as_lines:
        for table in tables:
            for batch in table.to_batches(max_chunksize=_LINES):
                sys.stdout.writelines(f"{as_json(row)}\n" for row in batch.to_pylist())
        return
    from pyarrow import csv

    check_format(schema, ExportFormat.CSV)
    sys.stdout.flush()
    with csv.CSVWriter(sys.stdout.buffer, schema) as writer:
        for table in tables:
            writer.write_table(table)
            sys.stdout.buffer.flush()


def write_rows(
    options: argparse.Namespace, schema: pa.Schema, tables: Iterable[pa.Table], origin: Provenance
) -> Exported:
    """Write rows to the file that `options.to` names, and say how many; errors as of `write_export`."""
    kind = ExportFormat.of(options.to)
    check_export(options.to, schema, kind, overwrite=options.overwrite)
    found = write_export(options.to, schema, tables, kind, origin, overwrite=options.overwrite)
    if options.json:
        print_json(found._asdict())
    else:
        print(f"{found.uri}: {counted(found.rows, 'row')}, {found.bytes:,} bytes")
    return found
