"""Arrow types from the texts that specs give them, as Arrow prints them."""

from __future__ import annotations

import re

import pyarrow as pa

_TIMESTAMP = re.compile(r"timestamp\[(\w+)(?:, ?tz=([^\]]+))?\]")
_DECIMAL = re.compile(r"decimal128\((\d+), ?(\d+)\)")


def arrow_type(text: str) -> pa.DataType:
    """Return the type that a text names; `hipslake.specs.source` has checked the text.

    Examples
    --------
    >>> arrow_type("timestamp[us, tz=UTC]")
    TimestampType(timestamp[us, tz=UTC])
    >>> arrow_type("decimal128(10, 2)")
    Decimal128Type(decimal128(10, 2))
    """
    if match := _TIMESTAMP.fullmatch(text):
        return pa.timestamp(match[1], match[2])
    if match := _DECIMAL.fullmatch(text):
        return pa.decimal128(int(match[1]), int(match[2]))
    return pa.type_for_alias(text)
