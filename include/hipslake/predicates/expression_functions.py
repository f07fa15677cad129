"""The functions of expressions, each on whole columns: nulls stay null, and numbers come out as numpy's do.

Integers are computed in 64 bits, and a result that they do not hold is an error; all other numbers, decimals
too, as doubles, by IEEE 754: `1 / 0` is infinite, `log10(-1)` is NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.predicates.domains import UnfitError

_MJD_OF_1970 = 40587
_DAY = 86_400_000_000  # microseconds
_MOST_MICROSECONDS = 9.2e18
_LEAST_WHOLE = np.iinfo(np.int64).min

Values = Callable[[Sequence[pa.Array]], pa.Array]


@dataclass(frozen=True)
class RowFunction:
    """A function of values of a row.

    Attributes
    ----------
    name : str
    least, most : int
        How many arguments it takes.
    kind : callable
        Gives the type of its values for the types of its arguments; `UnfitError` where these are wrong.
    values : callable
        Gives its values for columns of equal length, of types that `kind` has seen.
    about : str
        What it gives, for the documentation.
    takes_numbers : bool
        Whether its arguments have to be numbers.
    """

    name: str
    least: int
    most: int
    kind: Callable[[Sequence[pa.DataType]], pa.DataType]
    values: Values
    about: str
    takes_numbers: bool = True

    def __reduce__(self) -> tuple[Any, ...]:
        """It goes to other processes by its name."""
        return function_named, (self.name,)


def is_number(kind: pa.DataType) -> bool:
    """Whether a type is one of numbers; a column of nothing but nulls may be."""
    types = pa.types
    return bool(
        types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_null(kind)
    )


def number_kind(kind: pa.DataType) -> pa.DataType:
    """The type in which numbers are computed: int64 for integers, else double.

    Raises
    ------
    UnfitError
        It is a type of something else.
    """
    if not is_number(kind):
        raise UnfitError(f"a number is needed, and this is of type {kind}; cast(..., float64) makes one")
    return pa.int64() if pa.types.is_integer(kind) else pa.float64()


def joint_kind(kinds: Sequence[pa.DataType]) -> pa.DataType:
    """The type that holds the values of several: theirs, or that in which their numbers are computed.

    Raises
    ------
    UnfitError
        They have none in common.
    """
    known = [kind for kind in dict.fromkeys(kinds) if not pa.types.is_null(kind)]
    if len(known) <= 1:
        return known[0] if known else pa.null()
    if all(map(is_number, known)):
        return pa.int64() if all(number_kind(kind) == pa.int64() for kind in known) else pa.float64()
    if all(pa.types.is_string(kind) or pa.types.is_large_string(kind) for kind in known):
        return pa.large_string()
    raise UnfitError(f"{' and '.join(map(str, known))} have no type in common; cast(..., type) one of them")


def as_kind(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column of numbers in the type in which they are computed; of others, in a type that holds them."""
    if column.type == kind:
        return column
    if pa.types.is_float16(column.type):
        column = column.cast(pa.float32())
    return column.cast(kind, safe=not pa.types.is_float64(kind))


def as_doubles(column: pa.Array) -> pa.Array:
    """A column of numbers as doubles; large integers become the nearest."""
    return as_kind(column, pa.float64())


def plain_values(columns: Sequence[pa.Array]) -> tuple[list[NDArray[Any]], NDArray[np.bool_] | None]:
    """Columns of numbers as numpy has them, with 1 for null; and which rows have a null, if any has."""
    values = [pc.fill_null(column, pa.scalar(1, column.type)) for column in columns]
    missing = None
    if any(column.null_count for column in columns):
        missing = np.logical_or.reduce(
            [pc.is_null(column).to_numpy(zero_copy_only=False) for column in columns]
        )
    return [each.to_numpy(zero_copy_only=False) for each in values], missing


def by_numpy(function: Callable[..., NDArray[Any]], columns: Sequence[pa.Array]) -> pa.Array:
    """A function of numpy on columns; null where one is."""
    values, missing = plain_values(columns)
    with np.errstate(all="ignore"):
        found = function(*values)
    return pa.array(found, mask=missing)


def whole_quotient(left: pa.Array, right: pa.Array, *, rest: bool) -> pa.Array:
    """The quotient of 64-bit integers, rounded down, or what is left of it.

    Raises
    ------
    pyarrow.ArrowInvalid
        A divisor is zero, or the quotient is beyond 64 bits.
    """
    (a, b), missing = plain_values([left, right])
    if missing is not None:
        b = np.where(missing, 1, b)
    if not b.all():
        raise pa.ArrowInvalid(
            "an integer is divided by zero; where(... != 0, ..., null) leaves such rows out"
        )
    if ((a == _LEAST_WHOLE) & (b == -1)).any():
        raise pa.ArrowInvalid("overflow")
    return pa.array((np.remainder if rest else np.floor_divide)(a, b), mask=missing)


def _doubles(kinds: Sequence[pa.DataType]) -> pa.DataType:
    for kind in kinds:
        number_kind(kind)
    return pa.float64()


def _numbers(kinds: Sequence[pa.DataType]) -> pa.DataType:
    for kind in kinds:
        number_kind(kind)
    return number_kind(joint_kind(kinds)) if kinds else pa.float64()


def _wholes(kinds: Sequence[pa.DataType]) -> pa.DataType:
    for kind in kinds:
        if not (pa.types.is_integer(kind) or pa.types.is_null(kind)):
            raise UnfitError(f"an integer is needed, and this is of type {kind}")
    return pa.int64()


def _of_doubles(function: Callable[..., NDArray[Any]]) -> Values:
    return lambda columns: by_numpy(function, [as_doubles(column) for column in columns])


def _of_numbers(function: Callable[..., NDArray[Any]]) -> Values:
    def values(columns: Sequence[pa.Array]) -> pa.Array:
        kind = _numbers([column.type for column in columns])
        return by_numpy(function, [as_kind(column, kind) for column in columns])

    return values


def _rounded(function: Callable[..., NDArray[Any]]) -> Values:
    def values(columns: Sequence[pa.Array]) -> pa.Array:
        column = as_kind(columns[0], _numbers([columns[0].type]))
        return column if pa.types.is_int64(column.type) else by_numpy(function, [column])

    return values


def _absolute(columns: Sequence[pa.Array]) -> pa.Array:
    column = columns[0]
    return pc.abs_checked(as_kind(column, number_kind(column.type)))


def _bits_of_both(columns: Sequence[pa.Array]) -> pa.Array:
    return by_numpy(np.bitwise_and, [as_kind(column, pa.int64()) for column in columns])


def _least(*values: NDArray[Any]) -> NDArray[Any]:
    return np.minimum.reduce(values)


def _greatest(*values: NDArray[Any]) -> NDArray[Any]:
    return np.maximum.reduce(values)


def _first_known(columns: Sequence[pa.Array]) -> pa.Array:
    kind = joint_kind([column.type for column in columns])
    return pc.coalesce(*(as_kind(column, kind) for column in columns))


def _moment_kind(kinds: Sequence[pa.DataType]) -> pa.DataType:
    number_kind(kinds[0])
    return pa.timestamp("us")


def _moment_of_mjd(columns: Sequence[pa.Array]) -> pa.Array:
    """Times of Modified Julian Dates, to the nearest microsecond: whole days exactly, then their fraction."""
    (days,), missing = plain_values([as_doubles(columns[0])])
    lost = np.isnan(days)
    missing = lost if missing is None else lost | missing
    days = np.where(missing, 0.0, days)
    with np.errstate(all="ignore"):
        if (np.abs(days) * _DAY > _MOST_MICROSECONDS).any():
            raise pa.ArrowInvalid(f"{days[np.abs(days).argmax()]} is no Modified Julian Date")
    whole = np.floor(days)
    microseconds = (whole.astype(np.int64) - _MJD_OF_1970) * _DAY + np.rint((days - whole) * _DAY).astype(
        np.int64
    )
    return pa.array(microseconds, mask=missing).cast(pa.timestamp("us"))


def _mjd_kind(kinds: Sequence[pa.DataType]) -> pa.DataType:
    kind = kinds[0]
    if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        raise UnfitError(f"a time or date is needed, and this is of type {kind}")
    return pa.float64()


def _mjd_of_moment(columns: Sequence[pa.Array]) -> pa.Array:
    """Modified Julian Dates: whole days exactly, then their fraction, to the nearest double."""
    column = columns[0]
    if pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("ms"))
    steps = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[column.type.unit] * 86_400
    (ticks,), missing = plain_values([column.cast(pa.int64())])
    days, within = np.divmod(ticks, steps)
    return pa.array((days + _MJD_OF_1970) + within / steps, mask=missing)


_ONE = {
    "sqrt": (np.sqrt, "square root; NaN below zero"),
    "cbrt": (np.cbrt, "cube root"),
    "exp": (np.exp, "e raised to the power"),
    "ln": (np.log, "natural logarithm; -infinity of 0, NaN below"),
    "log10": (np.log10, "logarithm to base 10; -infinity of 0, NaN below"),
    "log2": (np.log2, "logarithm to base 2"),
    "sin": (np.sin, "sine of radians"),
    "cos": (np.cos, "cosine of radians"),
    "tan": (np.tan, "tangent of radians"),
    "asin": (np.arcsin, "arc sine, in radians"),
    "acos": (np.arccos, "arc cosine, in radians"),
    "atan": (np.arctan, "arc tangent, in radians"),
    "sinh": (np.sinh, "hyperbolic sine"),
    "cosh": (np.cosh, "hyperbolic cosine"),
    "tanh": (np.tanh, "hyperbolic tangent"),
    "asinh": (np.arcsinh, "inverse hyperbolic sine"),
    "degrees": (np.degrees, "radians in degrees"),
    "radians": (np.radians, "degrees in radians"),
}
_KEPT = {
    "floor": (np.floor, "the integer below"),
    "ceil": (np.ceil, "the integer above"),
    "trunc": (np.trunc, "without its fraction"),
    "round": (np.rint, "the nearest integer, of two the even one"),
}
_MOST = 100


def _functions() -> list[RowFunction]:
    found = [RowFunction(name, 1, 1, _doubles, _of_doubles(of), about) for name, (of, about) in _ONE.items()]
    found += [RowFunction(name, 1, 1, _numbers, _rounded(of), about) for name, (of, about) in _KEPT.items()]
    return [
        *found,
        RowFunction("sign", 1, 1, _numbers, _of_numbers(np.sign), "-1, 0 or 1"),
        RowFunction("abs", 1, 1, _numbers, _absolute, "without its sign"),
        RowFunction("atan2", 2, 2, _doubles, _of_doubles(np.arctan2), "angle of (y, x), in radians"),
        RowFunction("hypot", 2, 2, _doubles, _of_doubles(np.hypot), "root of the sum of both squares"),
        RowFunction("least", 2, _MOST, _numbers, _of_numbers(_least), "the least of several numbers"),
        RowFunction(
            "greatest", 2, _MOST, _numbers, _of_numbers(_greatest), "the greatest of several numbers"
        ),
        RowFunction("bit_and", 2, 2, _wholes, _bits_of_both, "the bits that both integers have"),
        RowFunction("coalesce", 2, _MOST, joint_kind, _first_known, "the first that is not null", False),
        RowFunction(
            "time_of_mjd",
            1,
            1,
            _moment_kind,
            _moment_of_mjd,
            "timestamp[us] of a Modified Julian Date; NaN: null",
        ),
        RowFunction(
            "mjd_of_time", 1, 1, _mjd_kind, _mjd_of_moment, "Modified Julian Date of a timestamp or date"
        ),
    ]


FUNCTIONS: dict[str, RowFunction] = {function.name: function for function in _functions()}
"""All functions, by name; `where` and `cast` are part of the grammar."""


def function_named(name: str) -> RowFunction:
    """The function of a name; `KeyError` if there is none."""
    return FUNCTIONS[name]
