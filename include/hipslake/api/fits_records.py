"""The records of a FITS table that `astropy.io.fits` has read, as Arrow: as a FITS source reads its file."""

from __future__ import annotations

import re
import warnings
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from astropy.io import fits
from astropy.table import Table
from astropy.utils.exceptions import AstropyUserWarning
from numpy.typing import NDArray

from hipslake.api.astropy_rows import table_rows
from hipslake.api.numpy_columns import arrow_column, column_named
from hipslake.errors import InputError
from hipslake.sources.fits.binary_columns import FitsColumn, read_columns

_IN_ASCII = re.compile(r"[AIFED]\d")  # a TFORM of a table in ASCII; those of binary tables begin otherwise


def record_rows(records: Any, header: Any = None) -> pa.Table:
    """Return the records of a FITS table as Arrow.

    Integers that are TNULL, floats that are NaN, logicals that are neither true nor false, and texts that
    begin with a zero byte become nulls, as the FITS standard has it. TSCAL and TZERO are applied; units are
    kept.

    Parameters
    ----------
    records : astropy.io.fits.FITS_rec
        Of a binary table; of a table in ASCII, what astropy makes of it.
    header : astropy.io.fits.Header, optional
        Of the table: records know their units, but not the descriptions and UCDs of columns (TCOMMn, TUCDn).

    Raises
    ------
    InputError
        If a column holds what Arrow has no type for; the message names it.
    """
    if any(_IN_ASCII.match(str(form)) for form in records.columns.formats):
        return table_rows(Table.read(fits.TableHDU(data=records, header=header), format="fits"))
    if header is None:
        try:
            header = fits.BinTableHDU(data=records).header
        except OSError as error:
            raise InputError(
                f"data: points to values that astropy leaves behind where records are chosen ({error}); look "
                "at the column before you choose, or give all records, or the file"
            ) from error
    columns = read_columns(header, "data")
    stored, arrays, fields = np.asarray(records), [], []
    for number, column in enumerate(columns):
        with column_named(column.name):
            array = _column(column, records, number, stored)
        arrays.append(array)
        fields.append(column.field.with_type(array.type))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _column(column: FitsColumn, records: Any, number: int, stored: NDArray[Any]) -> pa.Array:
    if column.repeat == 0:
        return pa.nulls(len(records), column.field.type)
    if column.pointer:
        return _of_any_length(column, records.field(number))
    raw = stored[stored.dtype.names[number]]  # type: ignore[index]
    if column.code == "A":
        return _texts(column, records, number, raw)
    if column.code == "L":
        return _logicals(column, records, number, raw)
    values = _shaped(np.asarray(records.field(number)), column)
    if column.code in "CM":
        return _in_lists(_complex(values), column)
    if column.unsigned and values.dtype.kind == "f" and column.element_bytes < 8:  # read with uint=False
        values = values.astype(column.element_type.to_pandas_dtype())
    return _in_lists(_numbers(column, values), column)


def _logicals(column: FitsColumn, records: Any, number: int, raw: NDArray[Any]) -> pa.Array:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AstropyUserWarning)  # that nulls become False: here they do not
        values = _shaped(np.asarray(records.field(number)), column)
    if values.dtype.kind == "S":  # opened with logical_as_bytes=True
        return arrow_column(values == b"T", (values != b"T") & (values != b"F"))
    return arrow_column(values, (_shaped(raw, column) == 0) & ~values)


def _of_any_length(column: FitsColumn, cells: Any) -> pa.Array:
    if column.scaled or column.unsigned or column.code == "L":
        raise InputError(
            "holds arrays of variable length that are scaled, unsigned or logical, whose values astropy does "
            "not give as they are; give the file in place of its records"
        )
    if column.code == "A":
        return pa.array(["".join(_decoded(each) for each in cell) for cell in cells], pa.string())
    flat = (
        np.fromiter(chain.from_iterable(cells), column.dtype)
        if column.code not in "CM"
        else np.concatenate(
            [np.asarray(cell, np.complex128) for cell in cells] or [np.empty(0, np.complex128)]
        )
    )
    ends = np.cumsum([0, *map(len, cells)], dtype=np.int32)
    values = _complex(flat) if column.code in "CM" else _numbers(column, flat)
    return pa.ListArray.from_arrays(pa.array(ends), values.cast(column.element_type))


def _decoded(text: Any) -> str:
    return text.decode("utf-8") if isinstance(text, bytes) else str(text)


def _numbers(column: FitsColumn, values: NDArray[Any]) -> pa.Array:
    """Numbers one after the other, of any shape."""
    flat, mask = values.reshape(-1), None
    if column.null is not None:
        null = column.null + int(column.zero) if column.unsigned else column.null * column.scale + column.zero
        mask = flat == null
    elif flat.dtype.kind == "f":
        mask = np.isnan(flat)
    return arrow_column(flat, mask)


def _complex(values: NDArray[Any]) -> pa.Array:
    flat = values.reshape(-1)
    parts = [arrow_column(each, np.isnan(each)) for each in (flat.real, flat.imag)]
    return pa.StructArray.from_arrays(parts, ["real", "imaginary"])


def _texts(column: FitsColumn, records: Any, number: int, raw: NDArray[Any]) -> pa.Array:
    stored = _shaped(raw, column)
    try:
        texts = _shaped(np.asarray(records.field(number)), column)
    except UnicodeDecodeError:  # astropy takes ASCII alone
        texts = np.char.decode(stored, "utf-8")
    ended = pc.replace_substring_regex(arrow_column(texts.reshape(-1)), "(?s)\\x00.*", "")
    trimmed = pc.ascii_rtrim(ended, characters=" ")
    begins = np.ascontiguousarray(stored.reshape(-1)).view(np.uint8).reshape(-1, stored.dtype.itemsize)[:, 0]
    null = pa.array(begins == 0) if stored.dtype.kind == "S" else pa.array(np.zeros(len(begins), bool))
    empty = pc.equal(trimmed, "")
    return _in_lists(pc.if_else(pc.and_(null, empty), pa.scalar(None, pa.string()), trimmed), column)


def _in_lists(values: pa.Array, column: FitsColumn) -> pa.Array:
    for size in reversed(column.shape):
        values = pa.FixedSizeListArray.from_arrays(values, size)
    return values


def _shaped(values: NDArray[Any], column: FitsColumn) -> NDArray[Any]:
    return values.reshape(len(values), *column.shape)
