"""Tables as JSON that a browser understands exactly: a list of values for each column."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.exports.hexadecimal import hexadecimal, is_bytes
from hipslake.exports.moment_texts import moment_texts
from hipslake.specs.base import Frozen

Kind = Literal["number", "integer", "truth", "text", "time", "nested", "other"]
_EXACT = 1 << 53  # integers beyond are no numbers of JavaScript
_NO_NUMBERS = {math.inf: "Infinity", -math.inf: "-Infinity"}


class ColumnTold(Frozen):
    """A column, as answers tell of it."""

    name: str
    type: str
    kind: Kind
    unit: str | None
    ucd: str | None
    description: str | None
    group: str | None = None


def column_told(field: pa.Field, group: str | None = None) -> ColumnTold:
    """What there is to tell of a column; its field's metadata says unit, UCD and description."""
    said = {key.decode(errors="replace"): value for key, value in (field.metadata or {}).items()}

    def text(key: str) -> str | None:
        return said[key].decode(errors="replace") or None if key in said else None

    return ColumnTold(
        name=field.name,
        type=str(field.type),
        kind=kind_of(field.type),
        unit=text("unit") or (field.type.unit if kinds.is_duration(field.type) else None),
        ucd=text("ucd"),
        description=text("description"),
        group=group,
    )


def columns_told(metadata: CatalogMetadata) -> dict[str, ColumnTold]:
    """What there is to tell of the columns of a catalog, each once, by name."""
    found: dict[str, ColumnTold] = {}
    for group in metadata.groups:
        for field in group.to_arrow():
            if field.name not in found:
                found[field.name] = column_told(field, group.name)
    return found


def kind_of(type_: pa.DataType) -> Kind:
    """The kind of a type."""
    if kinds.is_dictionary(type_):
        return kind_of(type_.value_type)
    for kind, predicates in _KINDS.items():
        if any(is_one(type_) for is_one in predicates):
            return kind
    return "other"


_KINDS: dict[Kind, tuple[Callable[[pa.DataType], bool], ...]] = {
    "number": (kinds.is_floating, kinds.is_decimal),
    "integer": (kinds.is_integer, kinds.is_duration),
    "truth": (kinds.is_boolean,),
    "text": (kinds.is_string, kinds.is_large_string, kinds.is_string_view),
    "time": (kinds.is_timestamp, kinds.is_date, kinds.is_time),
    "nested": (kinds.is_nested,),
}


def values_of(column: pa.ChunkedArray | pa.Array) -> tuple[Literal["number", "text"], list[Any]]:
    """The values of a column as JSON has them, and what its numbers are given as.

    Null is null. Integers that a double does not hold are texts, and so are all of that column then. What is
    no number is the text `NaN`, `Infinity` or `-Infinity`. Times are ISO texts with all their digits, in UTC
    if they have a zone; durations are whole numbers of their unit, bytes hexadecimal texts, structs objects,
    and maps lists of pairs.

    Examples
    --------
    >>> values_of(pa.array([1, 2**60]))
    ('text', ['1', '1152921504606846976'])
    >>> values_of(pa.array([0.1, None, float("nan")], pa.float32()))
    ('number', [0.1, None, 'NaN'])
    >>> values_of(pa.array([[1], None], pa.list_(pa.time64("ns"))))
    ('text', [['00:00:00.000000001'], None])
    """
    array = _one_array(column)
    if kinds.is_duration(array.type):
        array = array.view(pa.int64())
    if kinds.is_integer(array.type):
        beyond = array.type.bit_width == 64 and len(array) and _passes(array)
        return ("text", array.cast(pa.string()).to_pylist()) if beyond else ("number", array.to_pylist())
    return ("number" if kinds.is_floating(array.type) else "text"), _values(array)


def _one_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column as one array, without a dictionary."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # of no rows, or of more text than one array holds
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return column.dictionary_decode() if kinds.is_dictionary(column.type) else column


def _values(array: pa.Array) -> list[Any]:
    """Values of any type; integers that a double does not hold are texts."""
    type_ = array.type
    if kinds.is_dictionary(type_):
        return _values(array.dictionary_decode())
    if kinds.is_floating(type_):
        return _floats(array)
    if kinds.is_decimal(type_):
        return array.cast(pa.string()).to_pylist()
    if kinds.is_timestamp(type_):
        return moment_texts(array, "Z").to_pylist()
    if kinds.is_date(type_) or kinds.is_time(type_):
        return array.cast(pa.string()).to_pylist()
    if kinds.is_duration(type_):
        return _values(array.view(pa.int64()))
    if is_bytes(type_):
        return hexadecimal(array).to_pylist()
    if kinds.is_struct(type_):
        return _objects(array)
    if kinds.is_map(type_) or _is_list(type_):
        return _lists(array)
    return [plain(value) for value in array.to_pylist()]


def _is_list(type_: pa.DataType) -> bool:
    return kinds.is_list(type_) or kinds.is_large_list(type_) or kinds.is_fixed_size_list(type_)


def _lists(array: pa.Array) -> list[Any]:
    """The values of lists; of maps, pairs of key and value."""
    if is_map := kinds.is_map(array.type):
        pair = pa.struct([array.type.key_field, array.type.item_field])
        array = array.cast(pa.list_(pair))
    entries = array.flatten()
    columns = map(_values, entries.flatten()) if is_map else ()
    inside = list(map(list, zip(*columns, strict=True))) if is_map else _values(entries)
    found: list[Any] = []
    at = 0
    for length in pc.list_value_length(array).to_pylist():
        found.append(None if length is None else inside[at : at + length])
        at += length or 0
    return found


def _objects(array: pa.StructArray) -> list[Any]:
    names = [field.name for field in array.type]
    columns = [_values(each) for each in array.flatten()]
    rows = zip(*columns, strict=True) if columns else (() for _ in range(len(array)))
    return [
        dict(zip(names, row, strict=True)) if there else None
        for row, there in zip(rows, array.is_valid().to_pylist(), strict=True)
    ]


def _passes(column: pa.Array) -> bool:
    least, most = (pc.min_max(column)[name].as_py() for name in ("min", "max"))
    return least is not None and (least < -_EXACT or most > _EXACT)


def _floats(column: pa.Array) -> list[Any]:
    wide = column.cast(pa.float64()) if not kinds.is_float64(column.type) else column
    values = wide.to_pylist()
    if kinds.is_float32(column.type):  # as short as reads back to the same number of single precision
        shown = column.to_numpy(zero_copy_only=False).astype("U")
        values = [None if value is None else float(text) for value, text in zip(values, shown, strict=True)]
    numbers = wide.to_numpy(zero_copy_only=False)
    for at in np.flatnonzero(~np.isfinite(numbers)).tolist():
        if values[at] is not None:
            values[at] = "NaN" if math.isnan(numbers[at]) else _NO_NUMBERS[numbers[at]]
    return values


def plain(value: Any) -> Any:
    """A value that may be nested, as JSON has it."""
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        return _NO_NUMBERS.get(value, value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return value if -_EXACT <= value <= _EXACT else str(value)
    if isinstance(value, Decimal | timedelta):
        return str(value)
    if isinstance(value, date | time) or hasattr(value, "isoformat"):
        return value.isoformat()
    return str(value)
