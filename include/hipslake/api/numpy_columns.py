"""Columns that numpy holds, as Arrow arrays: of any byte order and shape, with what is masked as null."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.errors import InputError

_PLAIN_UNITS = {"Y": "D", "M": "D", "W": "D", "h": "s", "m": "s"}
"""Units of times in numpy that Arrow lacks, each with the coarsest that holds the same moments."""


def arrow_column(
    values: NDArray[Any], mask: NDArray[np.bool_] | None = None, kind: pa.DataType | None = None
) -> pa.Array:
    """Return a column as an Arrow array.

    Parameters
    ----------
    values : array of shape (rows, ...)
        Of more dimensions than one, a row is a list of fixed size, or lists of such lists. Complex numbers
        become structs of `real` and `imaginary`, and fields of structured types a struct; bytes are texts in
        UTF-8. `NaT` is null.
    mask : bool array of the same shape, optional
        True where there is no value. Of structured types, one with the same fields is taken too.
    kind : pyarrow.DataType, optional
        Of the values, to which they are cast.

    Raises
    ------
    pyarrow.ArrowException, TypeError, ValueError
        There is no Arrow type for it, or bytes are no UTF-8.
    """
    flat = values.reshape(-1)
    hidden = None if mask is None else np.broadcast_to(mask, values.shape).reshape(-1)
    found = _flat_column(flat, hidden)
    if kind is not None:
        found = found.cast(kind)
    for at in range(values.ndim - 1, 0, -1):
        size = values.shape[at]
        if size:
            found = pa.FixedSizeListArray.from_arrays(found, size)
        else:  # Arrow has no lists of fixed size 0
            rows = int(np.prod(values.shape[:at]))
            found = pa.ListArray.from_arrays(pa.array([0] * (rows + 1), pa.int32()), found.slice(0, 0))
    return found


def _flat_column(values: NDArray[Any], mask: NDArray[Any] | None) -> pa.Array:
    kind = values.dtype.kind
    if values.dtype.names is not None:
        return _struct_column(values, mask)
    if kind == "O":
        return pa.array(values.tolist() if mask is None else _hidden(values, mask))
    if kind == "S":
        values = np.char.decode(values, "utf-8")
    elif kind == "T":  # texts of any length
        values = values.astype(object)
    elif kind == "c":
        part = values.real.dtype.newbyteorder("=")
        parts = [pa.array(each.astype(part), mask=mask) for each in (values.real, values.imag)]
        return pa.StructArray.from_arrays(parts, ["real", "imaginary"])
    elif kind in "Mm":
        unit = np.datetime_data(values.dtype)[0]
        values = values.astype(f"{kind}8[{_PLAIN_UNITS.get(unit, unit)}]")
        # beside a mask, Arrow takes "not a time" for a time
        mask = np.isnat(values) if mask is None else mask | np.isnat(values)
    if values.dtype.byteorder not in "=|":
        values = values.astype(values.dtype.newbyteorder("="))
    return pa.array(np.ascontiguousarray(values), mask=mask)


def _struct_column(values: NDArray[Any], mask: NDArray[Any] | None) -> pa.Array:
    names = list(values.dtype.names or ())
    by_field = mask is not None and mask.dtype.names is not None
    parts = [arrow_column(values[name], mask[name] if by_field else None) for name in names]  # type: ignore[index]
    whole = None if mask is None or by_field else pa.array(mask)
    return pa.StructArray.from_arrays(parts, names, mask=whole)


def _hidden(values: NDArray[Any], mask: NDArray[np.bool_]) -> list[Any]:
    return [None if gone else value for value, gone in zip(values.tolist(), mask.tolist(), strict=True)]


@contextmanager
def column_named(name: str) -> Iterator[None]:
    """Turn errors of a column that Arrow cannot hold into `InputError` with its name."""
    try:
        yield
    except InputError as error:
        raise InputError(f"data: column {name!r} {error}") from error
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InputError(f"data: column {name!r}: Arrow cannot hold it: {error}") from error
