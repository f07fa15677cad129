"""Names of Arrow types, as specs and expressions write them: `int16`, `timestamp[us, tz=UTC]`."""

from __future__ import annotations

import re

import pyarrow as pa

PLAIN_TYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float32", "float64", "date32"),
    *("string", "large_string", "binary", "large_binary"),
)
_TIMESTAMP = re.compile(r"timestamp\[(s|ms|us|ns)(?:, ?tz=([A-Za-z0-9_+:/-]+))?\]")
_DECIMAL = re.compile(r"decimal128\(([1-9]|[12]\d|3[0-8]), ?(\d{1,2})\)")
_TYPE_FORMS = (
    re.compile("|".join(PLAIN_TYPES)),
    _TIMESTAMP,
    re.compile(r"time32\[(s|ms)\]|time64\[(us|ns)\]|duration\[(s|ms|us|ns)\]"),
    _DECIMAL,
)


def check_type_name(text: str) -> str:
    """Return the name of a type; `ValueError` says which there are, where it is none.

    Examples
    --------
    >>> check_type_name("decimal128(10, 2)")
    'decimal128(10, 2)'
    """
    if not any(form.fullmatch(text) for form in _TYPE_FORMS):
        raise ValueError(
            f"{text!r} is no Arrow type; write {', '.join(PLAIN_TYPES)}, "
            "timestamp[us], timestamp[us, tz=UTC], time64[us], duration[us] or decimal128(10, 2)"
        )
    return text


def arrow_type(text: str) -> pa.DataType:
    """Return the type that a text names; `check_type_name` has checked the text.

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
