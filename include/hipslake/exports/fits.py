"""Exports as FITS: one binary table, as any FITS reader opens it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from hipslake.errors import SchemaMismatchError
from hipslake.exports.fits_columns import FitsColumn
from hipslake.exports.model import Origin

MAX_COLUMNS = 999
_BLOCK = 2880
_BATCH_ROWS = 1 << 16


class FitsTables:
    """Writes a FITS binary table.

    The header says how many rows there are, how wide texts are and what stands for null, which is known at
    the end. So the rows wait in the temporary folder, as an Arrow stream, until all are there.
    """

    def check(self, schema: pa.Schema) -> None:
        if not 0 < len(schema) <= MAX_COLUMNS:
            raise SchemaMismatchError(
                f"export: a FITS table has 1 to {MAX_COLUMNS} columns, not {len(schema)}"
            )
        odd = [name for name in schema.names if not (name.isascii() and name.isprintable())]
        if odd:
            raise SchemaMismatchError(
                f"export: names of columns in FITS are ASCII, not {', '.join(map(repr, odd))}; leave it out"
            )
        _columns(schema)

    def write(self, file: BinaryIO, schema: pa.Schema, tables: Iterable[pa.Table], origin: Origin) -> int:
        columns = _columns(schema)
        rows = 0
        with tempfile.TemporaryDirectory(prefix="hipslake-") as folder:
            spool = Path(folder, "rows.arrow")
            with pa.ipc.new_stream(
                str(spool), schema, options=pa.ipc.IpcWriteOptions(compression="zstd")
            ) as out:
                for table in tables:
                    rows += table.num_rows
                    for column, values in zip(columns, table.columns, strict=True):
                        column.look(values)
                    out.write_table(table, max_chunksize=_BATCH_ROWS)
            file.write(_headers(schema, columns, rows, origin))
            with pa.OSFile(str(spool)) as source, pa.ipc.open_stream(source) as batches:
                for batch in batches:
                    file.write(_packed(columns, pa.Table.from_batches([batch])))
        file.write(b"\0" * (-rows * _row_bytes(columns) % _BLOCK))
        return rows


def _columns(schema: pa.Schema) -> list[FitsColumn]:
    return [FitsColumn(each.name, each.type) for each in schema]


def _layout(columns: list[FitsColumn]) -> np.dtype[np.void]:
    return np.dtype([(f"f{at}", *column.dtype) for at, column in enumerate(columns)])


def _row_bytes(columns: list[FitsColumn]) -> int:
    return _layout(columns).itemsize


def _packed(columns: list[FitsColumn], table: pa.Table) -> bytes:
    rows = np.empty(table.num_rows, _layout(columns))
    for at, (column, values) in enumerate(zip(columns, table.columns, strict=True)):
        rows[f"f{at}"] = column.cells(values)
    return rows.tobytes()


def _headers(schema: pa.Schema, columns: list[FitsColumn], rows: int, origin: Origin) -> bytes:
    """The header of an empty primary HDU, and that of the table."""
    from astropy.io import fits

    head = fits.Header()
    head["XTENSION"] = ("BINTABLE", "binary table extension")
    head["BITPIX"], head["NAXIS"] = 8, 2
    head["NAXIS1"] = (_row_bytes(columns), "bytes of a row")
    head["NAXIS2"] = (rows, "rows")
    head["PCOUNT"], head["GCOUNT"] = 0, 1
    head["TFIELDS"] = len(columns)
    head["EXTNAME"] = origin.catalog
    for number, (column, each) in enumerate(zip(columns, schema, strict=True), 1):
        told = {key.decode(): value.decode() for key, value in (each.metadata or {}).items()}
        head[f"TTYPE{number}"] = column.name
        head[f"TFORM{number}"] = column.form
        for key, value in (("TNULL", column.null), ("TZERO", column.zero)):
            if value is not None:
                head[f"{key}{number}"] = value
        if column.zero is not None:
            head[f"TSCAL{number}"] = 1
        if told.get("unit", "").isascii() and told.get("unit"):
            head[f"TUNIT{number}"] = told["unit"]
        if told.get("description"):
            head[f"TCOMM{number}"] = _ascii(told["description"])
    for name, text in origin.told().items():
        head.add_history(_ascii(f"{name}: {text}"))
    primary = fits.PrimaryHDU().header
    return (primary.tostring() + head.tostring()).encode("ascii")


def _ascii(text: str) -> str:
    """Text as a header may hold it: in one line, with `?` for what is not ASCII."""
    plain = " ".join(text.split()).encode("ascii", "replace").decode()
    return "".join(letter if letter.isprintable() else "?" for letter in plain)
