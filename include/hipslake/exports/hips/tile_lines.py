"""Rows as lines of tab-separated text, as the tiles of HiPS catalogues hold them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from hipslake.errors import SchemaMismatchError
from hipslake.exports.hexadecimal import is_bytes
from hipslake.exports.moment_texts import moment_texts

_AT_ONCE = 1 << 16  # rows; bounds what is in memory as texts of single cells
_CONTROL = r"[\x00-\x1f\x7f]"


def has_cells(kind: pa.DataType) -> bool:
    """Whether values of a type can stand in a cell: numbers, times, booleans and texts."""
    if pa.types.is_dictionary(kind):
        return has_cells(kind.value_type)
    return not (
        pa.types.is_nested(kind)
        or pa.types.is_interval(kind)
        or isinstance(kind, pa.BaseExtensionType)
        or is_bytes(kind)
    )


def check_columns(schema: pa.Schema) -> None:
    """Look whether columns can stand in tiles.

    Raises
    ------
    SchemaMismatchError
        A type has no form, or a name has a tab or another control character; the message names them.
    """
    formless = [f"{field.name!r} ({field.type})" for field in schema if not has_cells(field.type)]
    if formless:
        raise SchemaMismatchError(f"tiles have no form for {', '.join(formless)}; leave it out")
    odd = [name for name in schema.names if not name or any(ord(letter) < 32 for letter in name)]
    if odd:
        raise SchemaMismatchError(
            f"names of columns in tiles have no control characters: {', '.join(map(repr, odd))}; leave it out"
        )


def header_line(names: Sequence[str]) -> str:
    """The line of the names of columns, as the first line of a tile that is no comment."""
    return "\t".join(names) + "\n"


def row_lines(rows: pa.Table) -> pa.LargeStringArray:
    """The lines of rows, each with its line end.

    Null is nothing at all. NaN is `NaN`, infinite is `+Inf` and `-Inf`, as in VOTable. Numbers have as many
    digits as tell them apart, booleans are `true` and `false`, times are in ISO 8601, UTC if they have a
    zone, and durations are whole numbers in their unit. Control characters in texts become blanks.

    Parameters
    ----------
    rows : pyarrow.Table
        At least two columns, as `check_columns` lets them pass.
    """
    pieces = [_lines(rows.slice(start, _AT_ONCE)) for start in range(0, rows.num_rows, _AT_ONCE)]
    return pa.concat_arrays(pieces) if pieces else pa.array([], pa.large_string())


def _lines(rows: pa.Table) -> pa.LargeStringArray:
    cells = [_cells(column.combine_chunks()) for column in rows.columns]
    joined = pc.binary_join_element_wise(
        *cells, pa.scalar("\t", pa.large_string()), null_handling="replace", null_replacement=""
    )
    ends = pa.scalar("\n", pa.large_string()), pa.scalar("", pa.large_string())
    return pc.binary_join_element_wise(joined, *ends)


def _cells(values: pa.Array) -> pa.LargeStringArray:
    """The texts of values; null where they are null."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        return _cells(values.cast(kind.value_type))
    if pa.types.is_floating(kind):
        return _real_numbers(values)
    if pa.types.is_duration(kind):
        values = values.cast(pa.int64())
    elif pa.types.is_timestamp(kind):
        return moment_texts(values)
    texts = values.cast(pa.large_string())
    return pc.replace_substring_regex(texts, _CONTROL, " ") if _is_text(kind) else texts


def _real_numbers(values: pa.Array) -> pa.LargeStringArray:
    wide = values.cast(pa.float32()) if pa.types.is_float16(values.type) else values
    texts = wide.cast(pa.large_string())
    if pc.all(pc.is_finite(wide), min_count=0).as_py():
        return texts
    for found, text in (
        (pc.is_nan(wide), "NaN"),
        (pc.equal(wide, float("inf")), "+Inf"),
        (pc.equal(wide, float("-inf")), "-Inf"),
    ):
        texts = pc.if_else(found, pa.scalar(text, pa.large_string()), texts)
    return texts


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
