"""How VOTable declares the columns of tables, as the cells of their texts hold them.

Format: VOTable 1.4, IVOA Recommendation 2019-10-21; times by DALI 1.1.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
import pyarrow.types as kinds

from hipslake.exports.hexadecimal import is_bytes

NUMBERS = {
    pa.uint8(): "unsignedByte",
    pa.int8(): "short",
    pa.int16(): "short",
    pa.uint16(): "int",
    pa.int32(): "int",
    pa.uint32(): "long",
    pa.int64(): "long",
    pa.float16(): "float",
    pa.float32(): "float",
    pa.float64(): "double",
}
"""The types of numbers; others, as integers without a sign of 64 bits, have none that holds them."""


class DeclaredField(NamedTuple):
    """How a column is declared; `unit` is that of its type, for columns whose metadata say none."""

    datatype: str
    arraysize: str | None = None
    xtype: str | None = None
    unit: str | None = None


TEXT = DeclaredField("char", "*")


def declared_field(kind: pa.DataType, *, decimals: DeclaredField = TEXT) -> DeclaredField | None:
    """How a column of a type is declared; None: VOTable has no form for it.

    Parameters
    ----------
    kind : pyarrow.DataType
    decimals : DeclaredField
        What decimals are: texts keep all their digits, doubles are what clients compare and draw.

    Examples
    --------
    >>> declared_field(pa.duration("ms"))
    DeclaredField(datatype='long', arraysize=None, xtype=None, unit='ms')
    """
    if kinds.is_dictionary(kind):
        return declared_field(kind.value_type, decimals=decimals)
    if kind in NUMBERS:
        return DeclaredField(NUMBERS[kind])
    if kinds.is_decimal(kind):
        return decimals
    if kinds.is_boolean(kind):
        return DeclaredField("boolean")
    if kinds.is_duration(kind):
        return DeclaredField("long", unit=kind.unit)
    if kinds.is_timestamp(kind) or kinds.is_date(kind):
        return DeclaredField("char", "*", "timestamp")
    if kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind):
        return DeclaredField("unicodeChar", "*")
    if kinds.is_uint64(kind) or kinds.is_time(kind) or is_bytes(kind):
        return TEXT
    if (kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind)) and (
        kind.value_type in NUMBERS
    ):
        size = str(kind.list_size) if kinds.is_fixed_size_list(kind) else "*"
        return DeclaredField(NUMBERS[kind.value_type], size)
    return None
