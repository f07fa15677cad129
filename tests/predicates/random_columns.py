"""Random columns of every type, with the values that go wrong most easily, and literals near to them.

A column is made twice, from the same draws: as Arrow has it, and as `tests.predicates.reference` does.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from tests.predicates.column_kinds import Kind
from tests.predicates.random_times import clocks, dates, timestamps
from tests.predicates.reference import Literal

_I64 = 2**63


def _plain_array(kind: pa.DataType) -> Callable[[list[Any]], pa.Array]:
    return lambda stored: pa.array(stored, kind)


def _number_text(value: Fraction) -> str:
    """A number that ends in decimal digits, without an exponent."""
    if value.denominator == 1:
        return str(value.numerator)
    digits = 0
    while value.denominator > 1 and digits < 60:
        value, digits = value * 10, digits + 1
    whole = round(value)
    sign, figures = "-" if whole < 0 else "", str(abs(whole)).rjust(digits + 1, "0")
    return f"{sign}{figures[:-digits]}.{figures[-digits:]}"


def _exact_literal(random: Random, near: Fraction) -> Literal:
    value = near
    pick = random.random()
    if pick < 0.25:
        value = near + random.choice((-1, 1))
    elif pick < 0.4:
        value = near + random.choice((Fraction(1, 2), Fraction(-1, 4), Fraction(1, 1000)))
    elif pick < 0.5:
        text = random.choice(
            [
                "1e30",
                "-1e30",
                "1e18",
                "18446744073709551615",
                "18446744073709551616",
                "9223372036854775808",
                "0",
                "-0.0",
                "0.5",
                "1e-9",
                "-9223372036854775809",
                "9007199254740993",
                "-1E+20",
                "2.50",
            ]
        )
        return Literal(text, Fraction(text), _decimal_or_int(Fraction(text)))
    return Literal(_number_text(value), Fraction(_number_text(value)), _decimal_or_int(value))


def _decimal_or_int(value: Fraction) -> Any:
    return value.numerator if value.denominator == 1 else Decimal(_number_text(value))


def _integers(arrow: pa.DataType) -> Kind:
    bits, signed = arrow.bit_width, not str(arrow).startswith("u")
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)

    def draw(random: Random) -> list[int]:
        near = [low, low + 1, high, high - 1, -2, -1, 0, 1, 2, 3, 100, 2**31, 2**53, 2**53 + 1]
        near += [_I64 - 1, _I64, _I64 + 1, random.randint(low, high)]
        return sorted({value for value in near if low <= value <= high})

    return Kind(
        arrow,
        "number",
        draw,
        _plain_array(arrow),
        int,
        lambda random, near: _exact_literal(random, Fraction(near)),
    )


def _floats(arrow: pa.DataType) -> Kind:
    form = {16: "e", 32: "f", 64: "d"}[arrow.bit_width]
    least, most = {
        "e": (2.0**-24, 65504.0),
        "f": (2.0**-149, (2 - 2.0**-23) * 2.0**127),
        "d": (5e-324, 1.7976931348623157e308),
    }[form]

    def rounded(value: float) -> float:
        return struct.unpack(f"<{form}", struct.pack(f"<{form}", value))[0]

    def draw(random: Random) -> list[float]:
        values = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, rounded(0.1), 1.5, 2.0, -2.5, 3.0]
        values += [least, -least, most, -most, rounded(29.9)]
        if form != "e":
            values += [float(2**53), rounded(float(2**63)), rounded(1e30), rounded(16777217.0)]
        some = random.sample(values, 8)
        return some + [math.nan] * random.randint(0, 3)

    def array(stored: list[float | None]) -> pa.Array:
        kind = {"e": np.float16, "f": np.float32, "d": np.float64}[form]
        plain = np.array([0.0 if value is None else value for value in stored], kind)
        return pa.array(plain, arrow, mask=np.array([value is None for value in stored], bool))

    def literal(random: Random, near: float) -> Literal:
        if math.isfinite(near) and random.random() < 0.6:
            text = repr(near)
        else:
            text = random.choice(
                [
                    "0",
                    "-0.0",
                    "0.1",
                    "1",
                    "1.5",
                    "2",
                    "-1",
                    "29.9",
                    "1e300",
                    "-1e300",
                    "5e-324",
                    "1e-400",
                    "9007199254740993",
                    "1e30",
                    "3.0",
                    "65504",
                    "65520",
                    "9223372036854775807",
                    "16777217",
                ]
            )
        return Literal(text, float(text), float(text))

    return Kind(arrow, "number", draw, array, float, literal)


def _decimals(arrow: pa.DataType) -> Kind:
    scale, precision = arrow.scale, arrow.precision
    unit = Fraction(1, 10**scale)

    def draw(random: Random) -> list[int]:  # units of the last digit
        most = 10**precision - 1
        return [most, -most, most - 1, 0, 1, -1, 250, 10**scale, 10**scale // 2, -3 * 10**scale + 1]

    def array(stored: list[int | None]) -> pa.Array:
        return pa.array(
            [None if each is None else Decimal((each < 0, _digits(each), -scale)) for each in stored], arrow
        )

    return Kind(
        arrow,
        "number",
        draw,
        array,
        lambda stored: stored * unit,
        lambda random, near: _exact_literal(random, near * unit),
    )


def _digits(number: int) -> tuple[int, ...]:
    return tuple(int(digit) for digit in str(abs(number)))


_TEXTS = ("", "a", "A", "ab", "b", "z", "Z", "ä", "\U0001f600", "\uffff", "it's", " a ", "nan", "null", "0")
_TEXTS += ("M31", "e\u0301", "\u00e9", "a" * 70, "a" * 70 + "b", '"', "a\nb", "true")


def _texts(arrow: pa.DataType) -> Kind:
    """Texts; an ordered dictionary also has null among its values."""

    def literal(random: Random, near: str) -> Literal:
        text = near if random.random() < 0.6 else random.choice(_TEXTS)
        return Literal("'" + text.replace("'", "''") + "'", text.encode(), text)

    def array(stored: list[str | None]) -> pa.Array:
        if not pa.types.is_dictionary(arrow):
            return pa.array(stored, arrow)
        words = [*dict.fromkeys(stored), None] if arrow.ordered else sorted({*stored} - {None})
        places = [
            None if each is None and (at % 2 or not arrow.ordered) else words.index(each)
            for at, each in enumerate(stored)
        ]
        return pa.DictionaryArray.from_arrays(
            pa.array(places, arrow.index_type), pa.array(words, arrow.value_type), ordered=arrow.ordered
        )

    return Kind(arrow, "text", lambda random: list(_TEXTS), array, str.encode, literal)


def _bytes(arrow: pa.DataType) -> Kind:
    width = arrow.byte_width if pa.types.is_fixed_size_binary(arrow) else None

    def draw(random: Random) -> list[bytes]:
        values = [b"", b"a", b"ab", b"\x00", b"\xff\xfe", b"a\x00", "ä".encode(), b"zz"]
        return [value[:width].ljust(width, b"a") for value in values] if width else values

    def literal(random: Random, near: bytes) -> Literal:
        text = near.decode(errors="ignore").replace("\x00", "")
        text = text if random.random() < 0.6 else random.choice(("", "a", "ab", "ä", "z", "aaaa", "zzaaa"))
        return Literal("'" + text + "'", text.encode(), text.encode())

    return Kind(arrow, "bytes", draw, _plain_array(arrow), bytes, literal)


def _booleans() -> Kind:
    def literal(random: Random, near: bool) -> Literal:
        value = random.random() < 0.5
        return Literal("true" if value else "false", value, value)

    return Kind(
        pa.bool_(), "boolean", lambda random: [True, False, True], _plain_array(pa.bool_()), bool, literal
    )


def _nested(arrow: pa.DataType, values: list[Any]) -> Kind:
    return Kind(arrow, "nested", lambda random: values, _plain_array(arrow), lambda stored: b"", None)


_WORDS = pa.dictionary(pa.int32(), pa.string())
_WORDS_WITH_NULL = pa.dictionary(pa.int16(), pa.string(), ordered=True)
ALL_KINDS: tuple[Kind, ...] = (
    *map(_integers, (pa.int8(), pa.int16(), pa.int32(), pa.int64())),
    *map(_integers, (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())),
    *map(_floats, (pa.float16(), pa.float32(), pa.float64(), pa.float32(), pa.float64())),
    *map(_decimals, (pa.decimal128(20, 2), pa.decimal128(38, 10), pa.decimal256(60, 5), pa.decimal128(9, 0))),
    *map(dates, (pa.date32(), pa.date64())),
    *(timestamps(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC", "Europe/Berlin")),
    *map(clocks, (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"))),
    *map(_texts, (pa.string(), pa.large_string(), pa.string_view(), _WORDS, _WORDS_WITH_NULL)),
    *map(_bytes, (pa.binary(), pa.large_binary(), pa.binary(4), pa.binary_view())),
    _booleans(),
    _nested(pa.list_(pa.float64()), [[], [1.0], [math.nan, None]]),
    _nested(pa.struct([("a", pa.int8())]), [{"a": 1}, {"a": None}]),
)
"""What Arrow has."""
KINDS = tuple(
    kind
    for kind in ALL_KINDS
    if not pa.types.is_string_view(kind.arrow)
    and not pa.types.is_binary_view(kind.arrow)
    and kind.arrow != _WORDS_WITH_NULL
)
"""What leaf files hold."""
