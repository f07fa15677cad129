"""The threshold of a leaf, read and printed as the text that a user writes: `1M rows`, `64 MiB`."""

from __future__ import annotations

import re
from enum import StrEnum
from fractions import Fraction
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from hipslake.specs.base import TextForm
from hipslake.specs.mistakes import shown_value

_ROWS = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9}
_BYTES = {
    "GiB": 2**30,
    "MiB": 2**20,
    "KiB": 2**10,
    "kiB": 2**10,
    "GB": 10**9,
    "MB": 10**6,
    "kB": 10**3,
    "KB": 10**3,
    "B": 1,
    "bytes": 1,
    "byte": 1,
}
_PRINTED_BYTES = ("GiB", "MiB", "KiB", "GB", "MB", "kB", "B")
_TEXT = re.compile(r"\s*([0-9][0-9_]*(?:\.[0-9]+)?)\s*(?:([kKMG]?)\s*rows?|([A-Za-z]+))\s*")
_EXAMPLES = "'20000 rows', '1M rows', '64 MiB' or '200 kB'"


class ThresholdUnit(StrEnum):
    """What a threshold counts."""

    ROWS = "rows"
    BYTES = "bytes"


class Threshold(TextForm):
    """The largest leaf allowed: rows, or bytes of the finished file on disk.

    Read from and printed as text, exactly both ways: `20000 rows`, `1M rows`, `64 MiB`, `200 kB`.
    k, M and G are powers of 1000; KiB, MiB and GiB are powers of 1024.

    Examples
    --------
    >>> Threshold.parse("1_500_000 rows")
    Threshold(value=1500000, unit=<ThresholdUnit.ROWS: 'rows'>)
    >>> str(Threshold.parse("0.5 MiB"))
    '512 KiB'
    """

    about: ClassVar[str] = "The largest leaf allowed, in rows or in bytes of the file on disk."
    examples: ClassVar[tuple[str, ...]] = ("20000 rows", "1M rows", "64 MiB")

    value: int = Field(ge=1, lt=1 << 63)
    unit: ThresholdUnit

    @model_validator(mode="before")
    @classmethod
    def _has_a_unit(cls, given: Any) -> Any:
        if isinstance(given, bool | int | float):
            raise ValueError(f"{shown_value(given)} has no unit; write it as {_EXAMPLES}")
        return given

    @classmethod
    def fields_of(cls, text: str) -> dict[str, Any]:
        """Return the number and the unit of a text."""
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is no threshold; write a number and a unit, such as {_EXAMPLES}")
        number, multiple, byte_unit = match.groups()
        if byte_unit is not None and byte_unit not in _BYTES:
            raise ValueError(
                f"{text!r}: {byte_unit!r} is no unit; use rows, B, {', '.join(_PRINTED_BYTES[:-1])}"
            )
        # Fraction, not float: 1.1 GB has to be 1_100_000_000 and nothing next to it.
        factor = _ROWS[multiple] if byte_unit is None else _BYTES[byte_unit]
        value = Fraction(number.replace("_", "")) * factor
        unit = ThresholdUnit.ROWS if byte_unit is None else ThresholdUnit.BYTES
        if value.denominator != 1 or value < 1:
            raise ValueError(f"{text!r} is not a whole number of {unit}, at least 1")
        return {"value": int(value), "unit": unit}

    def __str__(self) -> str:
        if self.unit is ThresholdUnit.ROWS:
            millions, rest = divmod(self.value, 10**6)
            return f"{millions}M rows" if rest == 0 else f"{self.value} rows"
        name = next(name for name in _PRINTED_BYTES if self.value % _BYTES[name] == 0)
        return f"{self.value // _BYTES[name]} {name}"


def _check_bytes(given: Threshold) -> Threshold:
    if given.unit is not ThresholdUnit.BYTES:
        raise ValueError(f"{given} counts rows; write bytes, such as '128 MiB'")
    return given


Bytes = Annotated[Threshold, AfterValidator(_check_bytes)]
"""A size in bytes."""


def byte_count(given: Any) -> Any:
    """Return a text such as `128 MiB`, or a number of bytes, as a whole number; anything else as it is.

    Raises
    ------
    ValueError
        If a text is no size, or counts rows.

    Examples
    --------
    >>> byte_count("128 MiB"), byte_count("0"), byte_count(1000)
    (134217728, 0, 1000)
    """
    if not isinstance(given, str):
        return given
    if re.fullmatch(r"\s*[0-9]{1,18}\s*", given):
        return int(given)
    match = _TEXT.fullmatch(given)
    if match is None or match[3] not in _BYTES:
        raise ValueError(f"{shown_value(given)} is no size; write bytes, such as 134217728 or '128 MiB'")
    size = Fraction(match[1].replace("_", "")) * _BYTES[match[3]]
    if size.denominator != 1:
        raise ValueError(f"{shown_value(given)} is not a whole number of bytes")
    return int(size)


ByteCount = Annotated[int, Field(ge=0, lt=1 << 63), BeforeValidator(byte_count)]
"""Bytes as a number, or as a text with a unit."""
