"""The values of a column as comparisons see them, and literals among them.

Integers, decimals, dates and times are whole numbers of some step; a literal that lies between two steps is
exact too: it is kept as the step below it. So nothing is rounded, whatever the sizes, and a literal outside
of what the type can hold is only greater or less than every value. Dates and times that are written as text
become exact numbers of seconds.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hipslake.predicates.predicate_tree import Literal, NumberLiteral, TextLiteral, TruthLiteral, TypedLiteral
from hipslake.predicates.typed_values import check_type

_MOMENT = re.compile(
    r"(?P<year>\d{4})(?:-(?P<month>\d\d)(?:-(?P<day>\d\d)"
    r"(?:[T ](?P<time>\d\d(?::\d\d(?::\d\d(?:\.\d+)?)?)?)(?P<zone>[zZ]|[-+]\d\d(?::?\d\d)?)?)?)?)?",
    re.ASCII,
)
_TIME = re.compile(r"(\d\d)(?::(\d\d)(?::(\d\d)(\.\d+)?)?)?", re.ASCII)
_EPOCH = datetime.date(1970, 1, 1)
_MOST_DIGITS = 30
_WIDE = Context(prec=200)
_STEPS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY = 86_400
_MOST_EXPONENT = 10_000  # beyond, no type has values, and the exact number would be large in memory
_EXPONENT_DIGITS = 10
_BEYOND = 10**100  # what every type has


class Moment(NamedTuple):
    """A point in time: seconds since 1970 began, in UTC or in the zone that is meant."""

    seconds: Fraction
    has_zone: bool


def moment_of(text: str) -> Moment:
    """The moment that a text says; a bare year or month is its first day.

    Raises
    ------
    ValueError
        It says none.

    Examples
    --------
    >>> moment_of("1970-01-02T01:00:00.5+01:00")
    Moment(seconds=Fraction(172801, 2), has_zone=True)
    """
    match = _MOMENT.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no moment")
    day = np.datetime64(f"{match['year']}-{match['month'] or '01'}-{match['day'] or '01'}", "D")
    seconds = Fraction(int(day.astype(np.int64)) * _DAY)
    if match["time"]:
        seconds += seconds_of(match["time"])
    zone = match["zone"]
    if zone and zone not in "zZ":
        hours, minutes = int(zone[1:3]), int(zone[3:].lstrip(":") or 0)
        if hours > 23 or minutes > 59:
            raise ValueError(f"{text!r} has no such zone")
        seconds -= (-1 if zone[0] == "-" else 1) * (hours * 3600 + minutes * 60)
    return Moment(seconds, zone is not None)


def seconds_of(text: str) -> Fraction:
    """The seconds since midnight that a time of day says.

    Raises
    ------
    ValueError
        It says none.
    """
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no time of day")
    hours, minutes, seconds = (int(part or 0) for part in match.groups()[:3])
    fraction = match[4] or ".0"
    if hours > 23 or minutes > 59 or seconds > 59 or len(fraction) > _MOST_DIGITS:
        raise ValueError(f"{text!r} is no time of day")
    return hours * 3600 + minutes * 60 + seconds + Fraction(f"0{fraction}")


def moment_of_value(value: datetime.date | np.datetime64) -> Moment:
    """The moment of a date, datetime or datetime64."""
    if isinstance(value, np.datetime64):
        days = value.astype("datetime64[D]")
        within = value - days
        ticks, (unit, step) = int(within.astype(np.int64)), np.datetime_data(within.dtype)
        per_second = {"D": Fraction(1, _DAY), "h": Fraction(1, 3600), "m": Fraction(1, 60), "s": Fraction(1)}
        scale = per_second.get(unit) or Fraction(
            {"ms": 10**3, "us": 10**6, "ns": 10**9, "ps": 10**12, "fs": 10**15, "as": 10**18}[unit]
        )
        return Moment(int(days.astype(np.int64)) * _DAY + Fraction(ticks * step) / scale, False)
    if not isinstance(value, datetime.datetime):
        return Moment(Fraction((value - _EPOCH).days * _DAY), False)
    zone = value.tzinfo
    since = value - datetime.datetime(1970, 1, 1, tzinfo=None if zone is None else datetime.UTC)
    whole = since.days * _DAY + since.seconds
    nanos = int(getattr(value, "nanosecond", 0))  # of pandas
    return Moment(Fraction(whole) + Fraction(since.microseconds * 1000 + nanos, 10**9), zone is not None)


class UnfitError(ValueError):
    """A literal does not fit a column's type, or the type cannot be compared."""


@dataclass(frozen=True)
class Place:
    """Where a literal lies among the values of a column.

    Attributes
    ----------
    value : object
        The value that it is, or, of whole numbers, the greatest that is not above it.
    exact : bool
        Whether it is that value.
    """

    value: Any
    exact: bool = True


@dataclass(frozen=True)
class Domain:
    """How the values of a type are compared.

    Attributes
    ----------
    family : str
        "whole", "decimal", "float", "bool", "text", "binary", "date", "time", "stamp" or "zoned".
    kind : pyarrow.DataType
        Of the column, without its dictionary.
    compared : pyarrow.DataType
        In which values are compared.
    least, greatest : int or None
        Of whole numbers, in steps.
    per_second : fractions.Fraction or None
        Of dates and times, the steps in a second.
    """

    family: str
    kind: pa.DataType
    compared: pa.DataType
    least: int | None = None
    greatest: int | None = None
    per_second: Fraction | None = None

    def values(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """A column, without dictionaries, in the type in which it is compared."""
        if column.type == self.compared:
            return column
        if pa.types.is_float16(column.type):
            return column.cast(pa.float32()).cast(self.compared)
        return column.cast(self.compared)

    def scalar(self, value: Any) -> pa.Scalar:
        """A value that is of the domain, in the type in which it is compared."""
        if self.family == "decimal":
            return pa.scalar(Decimal(value).scaleb(-self.compared.scale, _WIDE), self.compared)
        return pa.scalar(value, self.compared)

    def place(self, column: str, literal: Literal) -> Place:
        """Where a literal lies.

        Raises
        ------
        UnfitError
            It is of another kind; the message names the column and says what it is compared with.
        """
        if isinstance(literal, TypedLiteral):
            return self._of_python(column, literal.value)
        if self.family in ("whole", "decimal", "float"):
            return self._number(_asked(column, self.kind, literal, NumberLiteral, "a number").text)
        if self.family == "bool":
            return Place(_asked(column, self.kind, literal, TruthLiteral, "true or false").value)
        if self.family in ("text", "binary"):
            text = _asked(column, self.kind, literal, TextLiteral, "a 'text'").text
            return Place(_encoded(column, text) if self.family == "binary" else _sound(column, text))
        if self.family == "time":
            text = _asked(column, self.kind, literal, TextLiteral, "a 'time', such as '21:30:00'").text
            try:
                return self._step(seconds_of(text))
            except ValueError:
                raise _unreadable(column, self.kind, text, "'21:30:00'") from None
        text = _asked(column, self.kind, literal, TextLiteral, "a 'date'").text
        try:
            moment = moment_of(text)
        except ValueError:
            moment = None
        if moment is None or (moment.has_zone and self.family != "zoned"):
            bare = ", which has no time zone" if self.family == "stamp" else ""
            raise _unreadable(column, self.kind, text, f"'2026-11-01' or '2026-11-01T21:30:00'{bare}")
        return self._step(moment.seconds)

    def _number(self, text: str) -> Place:
        if self.family == "float":
            return Place(float(text))
        return _floor(text, self.compared.scale if self.family == "decimal" else 0)

    def _step(self, seconds: Fraction) -> Place:
        assert self.per_second is not None, "of dates and times"
        steps = seconds * self.per_second
        return Place(steps.numerator // steps.denominator, steps.denominator == 1)

    def _of_python(self, column: str, value: Any) -> Place:
        try:
            check_type(value, self.kind, self.family)
        except ValueError as error:
            raise UnfitError(f"column {column!r} is {self.kind}, {error}") from None
        if isinstance(value, datetime.date | np.datetime64):
            moment: Moment = moment_of_value(value)
            return self._step(moment.seconds)
        if self.family == "whole":
            assert self.least is not None and self.greatest is not None, "of integers"  # noqa: PT018
            if not self.least <= value <= self.greatest:
                raise UnfitError(f"column {column!r} is {self.kind}, which cannot hold {value!r}")
        return Place(_sound(column, value) if isinstance(value, str) else value)


def domain_of(kind: pa.DataType) -> Domain | None:
    """How the values of a type are compared; None where they are not."""
    types = pa.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_integer(kind):
        limits = np.iinfo(kind.to_pandas_dtype())
        return Domain("whole", kind, kind, int(limits.min), int(limits.max))
    if types.is_floating(kind):
        return Domain("float", kind, pa.float64())
    if types.is_decimal(kind):
        most = 10**kind.precision - 1
        wide = pa.decimal256 if types.is_decimal256(kind) else pa.decimal128
        return Domain("decimal", kind, wide(kind.precision, kind.scale), -most, most)
    if types.is_boolean(kind):
        return Domain("bool", kind, pa.bool_())
    if types.is_string(kind) or types.is_large_string(kind):
        return Domain("text", kind, kind)
    if types.is_string_view(kind):
        return Domain("text", kind, pa.large_string())
    if types.is_binary(kind) or types.is_large_binary(kind):
        return Domain("binary", kind, kind)
    if types.is_fixed_size_binary(kind) or types.is_binary_view(kind):
        return Domain("binary", kind, pa.large_binary())
    return _of_time(kind)


def _of_time(kind: pa.DataType) -> Domain | None:
    types = pa.types
    if types.is_date32(kind):
        return Domain("date", kind, pa.int32(), -(2**31), 2**31 - 1, Fraction(1, _DAY))
    if types.is_date64(kind):
        return Domain("date", kind, pa.int64(), -(2**63), 2**63 - 1, Fraction(1000))
    if types.is_time32(kind):
        return Domain("time", kind, pa.int32(), -(2**31), 2**31 - 1, Fraction(_STEPS[kind.unit]))
    if types.is_time64(kind):
        return Domain("time", kind, pa.int64(), -(2**63), 2**63 - 1, Fraction(_STEPS[kind.unit]))
    if types.is_timestamp(kind):
        family = "stamp" if kind.tz is None else "zoned"
        return Domain(family, kind, pa.int64(), -(2**63), 2**63 - 1, Fraction(_STEPS[kind.unit]))
    return None


def family_of(kind: pa.DataType) -> str | None:
    """The family of a type's domain; None where its values cannot be compared."""
    domain = domain_of(kind)
    return None if domain is None else domain.family


def comparable_domain(column: str, kind: pa.DataType) -> Domain:
    """As `domain_of`, but `UnfitError` where values are not compared."""
    found = domain_of(kind)
    if found is None:
        raise UnfitError(
            f"column {column!r} is of type {kind}, whose values cannot be compared; ask for null"
        )
    return found


def negative_zero_as_zero(values: pa.Array | pa.ChunkedArray) -> Any:
    """Real numbers with -0.0 as 0.0, so that equal numbers have equal bits; other values as they are."""
    return pc.add(values, pa.scalar(0.0, values.type)) if pa.types.is_floating(values.type) else values


def _floor(text: str, scale: int) -> Place:
    """The whole number of steps of 10^-scale that is not above a number."""
    mantissa, _, exponent = text.lower().partition("e")
    if len(exponent) > _EXPONENT_DIGITS:  # more than Decimal may hold
        exponent = f"{'-' * exponent.startswith('-')}{10 * _MOST_EXPONENT}"
    number = Decimal(f"{mantissa}e{exponent or 0}")
    if number and abs(number.adjusted()) > _MOST_EXPONENT:
        if number.adjusted() > 0:
            return Place(_BEYOND if number > 0 else -_BEYOND)
        return Place(0 if number > 0 else -1, exact=False)
    exact = Fraction(number) * Fraction(10) ** scale
    return Place(exact.numerator // exact.denominator, exact.denominator == 1)


def _asked(column: str, kind: pa.DataType, literal: Literal, wanted: type, what: str) -> Any:
    if isinstance(literal, wanted):
        return literal
    given = repr(literal.text) if isinstance(literal, TextLiteral) else str(literal)
    raise UnfitError(f"column {column!r} is of type {kind}; compare it with {what}, not with {given}")


def _sound(column: str, text: str) -> str:
    _encoded(column, text)
    return text


def _encoded(column: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise UnfitError(f"column {column!r}: {text!r} is no sound Unicode text") from None


def _unreadable(column: str, kind: pa.DataType, text: str, like: str) -> UnfitError:
    return UnfitError(f"column {column!r} is of type {kind}; write {text!r} as one, such as {like}")
