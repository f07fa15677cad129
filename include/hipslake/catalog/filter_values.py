"""Values that filters compare columns with: as the text has them, and as a column's type needs them.

Arrow compares numbers of all kinds, but no text with a date, and decimals only with few numbers.
"""

from __future__ import annotations

import re
from datetime import time
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

_DATE = re.compile(r"(?P<year>\d{4})(?:-(?P<month>\d\d)(?:-(?P<day>\d\d))?)?")
_ZONE = re.compile(r"(?:[zZ]|[-+]\d\d(?::?\d\d)?)$")
_FRACTION = re.compile(r"\.(\d+)")
_DECIMAL_DIGITS = 38


class Number(NamedTuple):
    """A number of a filter, as it was written."""

    text: str

    @property
    def plain(self) -> int | float:
        """As Python takes it."""
        return float(self.text) if re.search("[.eE]", self.text) else int(self.text)

    def __str__(self) -> str:
        return self.text


Value = Number | str | bool


def comparable(column: str, kind: pa.DataType, values: list[Value]) -> tuple[pc.Expression, list[Any]]:
    """A column and values in forms that can be compared with each other.

    Parameters
    ----------
    column : str
    kind : pyarrow.DataType
        Its type.
    values : list of Number, str or bool

    Returns
    -------
    pyarrow.compute.Expression
        The column, cast where that is needed.
    list
        The values, as Arrow scalars of one type, or numbers.

    Raises
    ------
    ValueError
        One is of another kind; the message names the column, and says what it is compared with.
    """
    field = pc.field(column)
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_integer(kind):
        return _whole_numbers(column, kind, [_number(column, kind, value) for value in values])
    if pa.types.is_floating(kind):
        return field, [_number(column, kind, value).plain for value in values]
    if pa.types.is_decimal(kind):
        return _decimals(column, kind, [_number(column, kind, value) for value in values])
    if pa.types.is_boolean(kind):
        return field, [pa.scalar(_checked(column, kind, value, bool, "true or false")) for value in values]
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return _times(column, kind, [_checked(column, kind, value, str, "a 'date'") for value in values])
    if pa.types.is_time(kind):
        return field, [_time(column, kind, value) for value in values]
    texts = [_checked(column, kind, value, str, "a 'text'") for value in values]
    if pa.types.is_fixed_size_binary(kind):
        return field.cast(pa.binary()), [pa.scalar(text.encode(), pa.binary()) for text in texts]
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return field, [pa.scalar(text.encode(), kind) for text in texts]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return field, [pa.scalar(text, kind) for text in texts]
    raise ValueError(f"column {column!r} is of type {kind}, whose values cannot be compared; ask for null")


def _checked(column: str, kind: pa.DataType, value: Value, wanted: type, what: str) -> Any:
    if isinstance(value, wanted):
        return value
    given = repr(value) if isinstance(value, str) else str(value).lower()
    raise ValueError(f"column {column!r} is of type {kind}; compare it with {what}, not with {given}")


def _number(column: str, kind: pa.DataType, value: Value) -> Number:
    found: Number = _checked(column, kind, value, Number, "a number")
    return found


def _whole_numbers(column: str, kind: pa.DataType, numbers: list[Number]) -> tuple[pc.Expression, list[Any]]:
    """Fractions are compared exactly: Arrow takes few whole numbers for floating ones."""
    if any(type(number.plain) is float and not number.plain.is_integer() for number in numbers):
        return _decimals(column, pa.decimal128(_DECIMAL_DIGITS, 0), numbers)
    plain = [int(number.plain) for number in numbers]
    return pc.field(column), [pa.scalar(n, pa.uint64()) if 2**63 <= n < 2**64 else n for n in plain]


def _decimals(column: str, kind: pa.DataType, numbers: list[Number]) -> tuple[pc.Expression, list[Any]]:
    """Exact, in 256 bits: a number may have more digits than the column, on both sides of the point."""
    exact = [Decimal(number.text) for number in numbers]
    for number in exact:
        _, digits, exponent = number.as_tuple()
        assert isinstance(exponent, int), "a filter has no infinite numbers"
        if max(-exponent, len(digits) + exponent) > _DECIMAL_DIGITS:
            raise ValueError(f"column {column!r} is of type {kind}; {number} has too many digits for it")
    scale = max([kind.scale, *(-int(number.as_tuple().exponent) for number in exact)])
    wide = pa.decimal256(2 * _DECIMAL_DIGITS, scale)
    return pc.field(column).cast(wide), [pa.scalar(number, wide) for number in exact]


def _times(column: str, kind: pa.DataType, texts: list[str]) -> tuple[pc.Expression, list[Any]]:
    """Dates and moments; of a column with a zone in UTC, where a text does not say another one."""
    moments = [_whole(text) for text in texts]
    if pa.types.is_date(kind) and all(len(moment) == len("2026-11-01") for moment in moments):
        return pc.field(column).cast(pa.date32()), [_cast(column, kind, m, pa.date32()) for m in moments]
    zone = kind.tz if pa.types.is_timestamp(kind) else None
    fine = any(len(digits) > 6 for moment in moments for digits in _FRACTION.findall(moment))
    wide = pa.timestamp("ns" if fine else "us", tz=None if zone is None else "UTC")
    if zone is not None:
        moments = [moment if _has_zone(moment) else f"{_with_time(moment)}Z" for moment in moments]
    scalars = [_cast(column, kind, moment, wide) for moment in moments]
    field = pc.field(column)
    return field.cast(wide) if pa.types.is_date(kind) else field, scalars


def _whole(text: str) -> str:
    """A text in which a year, or a month, stands for its first day."""
    match = _DATE.fullmatch(text.strip())
    if match is None:
        return text.strip()
    return f"{match['year']}-{match['month'] or '01'}-{match['day'] or '01'}"


def _has_zone(moment: str) -> bool:
    return len(moment) > len("2026-11-01") and _ZONE.search(moment) is not None


def _with_time(moment: str) -> str:
    return f"{moment}T00:00:00" if _DATE.fullmatch(moment) else moment


def _time(column: str, kind: pa.DataType, value: Value) -> pa.Scalar:
    text = _checked(column, kind, value, str, "a 'time', such as '21:30:00'")
    try:
        return pa.scalar(time.fromisoformat(text.strip()), pa.time64("us"))
    except ValueError:
        raise _unreadable(column, kind, text, "'21:30:00'") from None


def _cast(column: str, kind: pa.DataType, text: str, wanted: pa.DataType) -> pa.Scalar:
    try:
        return pa.scalar(text).cast(wanted)
    except pa.ArrowException:
        zone = ", which has no time zone" if pa.types.is_timestamp(kind) and kind.tz is None else ""
        like = f"'2026-11-01' or '2026-11-01T21:30:00'{zone}"
        raise _unreadable(column, kind, text, like) from None


def _unreadable(column: str, kind: pa.DataType, text: str, like: str) -> ValueError:
    return ValueError(f"column {column!r} is of type {kind}; write {text!r} as one, such as {like}")
