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
        unit=text("unit"),
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
    "integer": (kinds.is_integer,),
    "truth": (kinds.is_boolean,),
    "text": (kinds.is_string, kinds.is_large_string),
    "time": (kinds.is_timestamp, kinds.is_date, kinds.is_time),
    "nested": (kinds.is_nested,),
}


def values_of(column: pa.ChunkedArray | pa.Array) -> tuple[Literal["number", "text"], list[Any]]:
    """The values of a column as JSON has them, and what its numbers are given as.

    Null is null. Integers that a double does not hold are texts, and so are all of that column then. What is
    no number is the text `NaN`, `Infinity` or `-Infinity`. Times are ISO texts, bytes hexadecimal ones.

    Examples
    --------
    >>> values_of(pa.array([1, 2**60]))
    ('text', ['1', '1152921504606846976'])
    >>> values_of(pa.array([0.1, None, float("nan")], pa.float32()))
    ('number', [0.1, None, 'NaN'])
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # of no rows, or of more text than one array holds
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if kinds.is_dictionary(column.type):
        column = column.dictionary_decode()
    type_ = column.type
    if kinds.is_integer(type_):
        beyond = type_.bit_width == 64 and len(column) and _passes(column)
        return ("text", column.cast(pa.string()).to_pylist()) if beyond else ("number", column.to_pylist())
    if kinds.is_floating(type_):
        return "number", _floats(column)
    if kinds.is_decimal(type_):
        return "text", column.cast(pa.string()).to_pylist()
    if kinds.is_timestamp(type_) or kinds.is_date(type_) or kinds.is_time(type_):
        texts = column.cast(pa.string())
        return "text", pc.replace_substring(texts, " ", "T", max_replacements=1).to_pylist()
    if kinds.is_boolean(type_) or kinds.is_string(type_) or kinds.is_large_string(type_):
        return "text", column.to_pylist()
    return "text", [plain(value) for value in column.to_pylist()]


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
