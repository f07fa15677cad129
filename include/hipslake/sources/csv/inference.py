"""Types of CSV columns, found from all values, so that the answer does not depend on how a file is split.

Of every block of rows we note, per column, which types hold all its values; the types that hold a whole
source are those that hold each of its blocks. The column gets the first of them in the order of `TYPES`.
Widening the types that a reader guesses for each block would not do: a guess says nothing of the other types
that fit too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

FITS = b"hipslake.fits"
"""Field metadata: the names of the types that hold all values seen, while the final one is not yet known."""

TYPES: dict[str, pa.DataType] = {
    "int64": pa.int64(),
    "uint64": pa.uint64(),
    "digits": pa.string(),  # integers of any length: no number type holds them exactly
    "bool": pa.bool_(),
    "date32": pa.date32(),
    "seconds": pa.timestamp("us"),
    "microseconds": pa.timestamp("us"),
    "nanoseconds": pa.timestamp("ns"),
    "seconds_utc": pa.timestamp("us", "UTC"),
    "microseconds_utc": pa.timestamp("us", "UTC"),
    "nanoseconds_utc": pa.timestamp("ns", "UTC"),
    "float64": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),  # text that is not UTF-8
    "padded": pa.float64(),  # numbers, also with leading zeros: only where asked for, see `as_number`
}
EVERYTHING = frozenset(TYPES)
_TEXT = frozenset({"string", "binary"})
_NANOSECOND_RANGE = (np.datetime64("1677-09-22", "s"), np.datetime64("2262-04-11", "s"))
_BIG = 2.0**63
_EXACT = 2.0**53  # below it, floats tell every integer from the next
_LONGEST_FLOAT = 309  # digits
_WHOLE = r"^\s*[+-]?[0-9]+\s*$"
_PADDED = r"^\s*[+-]?0[0-9]+\s*$"
_NEGATIVE_ZERO = r"^\s*-0\s*$"
_NEGATIVE_ZEROS = re.compile(rb"-0(?![0-9.eE])")
_BLANKS, _SIGNS = b" \t", b"+-"

Probe = Callable[[pa.DataType], "pa.ChunkedArray | None"]


def fits(
    values: pa.ChunkedArray, hexadecimal: bool, probe: Probe, texts: pa.ChunkedArray | None = None
) -> frozenset[str]:
    """Return which types hold all values of one column of a block.

    Whole numbers with leading zeros are identifiers: as numbers, 007 and 7 would be one. So no type of
    numbers holds them, and none of integers the sign of -0.

    Parameters
    ----------
    values
        The column with the type that pyarrow inferred for the block.
    hexadecimal
        Whether the block may have numbers such as 0x1F, see `may_be_hexadecimal`.
    probe
        Reads the column again as another type; None where a value does not fit it.
    texts
        The values as they are written; only needed for numbers in a block of which `may_be_padded` is true.
    """
    held = _fits_as_numbers(values, hexadecimal, probe)
    if texts is None:
        return held
    if pc.any(pc.match_substring_regex(texts, _PADDED)).as_py():
        return held - {"int64", "uint64", "float64"}
    if pc.any(pc.match_substring_regex(texts, _NEGATIVE_ZERO)).as_py():
        return held - {"int64", "uint64", "digits"}
    return held


def _fits_as_numbers(values: pa.ChunkedArray, hexadecimal: bool, probe: Probe) -> frozenset[str]:
    """Which types hold all values, if numbers may be written in any way."""
    kind = values.type
    if kinds.is_null(kind):
        return EVERYTHING
    if kinds.is_int64(kind):
        return _fits_of_integers(values, hexadecimal, probe)
    if kinds.is_float64(kind):
        return _fits_of_floats(values, probe)
    if kinds.is_boolean(kind):
        return _TEXT | {"bool"}
    if kinds.is_date32(kind):
        return _TEXT | {"date32"} | _fits_of_seconds(values, "")
    if kinds.is_timestamp(kind):
        zone = "_utc" if kind.tz else ""
        if kind.unit == "s":
            return _TEXT | _fits_of_seconds(values, zone)
        exact = probe(pa.timestamp("us", kind.tz)) is not None
        return _TEXT | {f"nanoseconds{zone}"} | ({f"microseconds{zone}"} if exact else set())
    if kinds.is_binary(kind):
        return frozenset({"binary"})
    if hexadecimal and probe(pa.uint64()) is not None:
        return _TEXT | {"uint64", "digits"}  # as pyarrow has no guess for 0x1F beside 9223372036854775808
    return _TEXT  # also times of day: 12:30:00 may as well be a right ascension


def may_be_hexadecimal(text: bytes) -> bool:
    """Return whether numbers such as 0x1F may stand in a block."""
    return any(x in text and b"0" + x in text for x in (b"x", b"X"))


def may_be_padded(text: bytes, between: bytes) -> bool:
    """Return whether whole numbers with leading zeros, or -0, may be values of a block.

    Parameters
    ----------
    text : bytes
    between : bytes
        What stands between values, and around them: delimiter and quote.
    """
    codes = np.frombuffer(text, np.uint8)
    zeros = np.flatnonzero((codes[:-1] == ord("0")) & (codes[1:] - np.uint8(ord("0")) < 10))
    start = np.isin(np.arange(256), np.frombuffer(b"\r\n" + between, np.uint8))
    blank, sign = (np.isin(np.arange(256), np.frombuffer(some, np.uint8)) for some in (_BLANKS, _SIGNS))
    padding = start | blank
    before, earlier = (np.where(zeros >= back, codes[zeros - back], ord("\n")) for back in (1, 2))
    if (start[before] | ((blank | sign)[before] & padding[earlier])).any():
        return True
    return _NEGATIVE_ZEROS.search(text) is not None


def chosen(names: Iterable[str]) -> pa.DataType:
    """Return the type of a column that all these types hold."""
    held = set(names)
    if held >= EVERYTHING:  # no value at all
        return pa.string()
    for zone in ("", "_utc"):  # microseconds alone say only how many digits nanoseconds have
        if f"nanoseconds{zone}" not in held:
            held.discard(f"microseconds{zone}")
    return next(kind for name, kind in TYPES.items() if name in held)


def as_number(field: pa.Field) -> pa.Field:
    """Return the column as one of numbers, if numbers with leading zeros are all that makes it text."""
    held = held_types(field) or frozenset()
    return field.with_type(TYPES["padded"]) if "padded" in held and kinds.is_string(field.type) else field


def inferred_field(name: str, held: frozenset[str]) -> pa.Field:
    """Return a column of which these types hold the values seen so far."""
    return pa.field(name, chosen(held), metadata={FITS: " ".join(sorted(held)).encode()})


def held_types(field: pa.Field) -> frozenset[str] | None:
    """Return the names of the types that hold the values seen; None for a type that was not inferred."""
    names = (field.metadata or {}).get(FITS)
    return None if names is None else frozenset(names.decode().split())


def join_inferred(a: pa.Field, b: pa.Field) -> pa.Field | None:
    """Return the column that holds the values of both; None if their types were given and differ."""
    held_a, held_b = held_types(a), held_types(b)
    if held_a is None or held_b is None:
        return a if a.type.equals(b.type) else None
    return inferred_field(a.name, held_a & held_b)


def _fits_of_integers(values: pa.ChunkedArray, hexadecimal: bool, probe: Probe) -> frozenset[str]:
    held = {"int64", "digits", "float64"}
    if pc.min(values).as_py() >= 0:
        held.add("uint64")
    integers = np.concatenate([chunk.drop_null().to_numpy() for chunk in values.chunks])
    if not np.array_equal(integers.astype(np.float64).astype(np.int64), integers):
        held.discard("float64")  # an identifier, say: as a float it would lose its last digits
    if hexadecimal and probe(pa.float64()) is None:
        held.discard("float64")  # pyarrow reads hexadecimal integers, but no such floats
    return _TEXT | _with_padded(held)


def _fits_of_floats(values: pa.ChunkedArray, probe: Probe) -> frozenset[str]:
    """Tell floats from large integers among them, which as floats would lose their last digits."""
    bounds = pc.min_max(values).as_py()
    largest = max(-bounds["min"], bounds["max"])  # also where infinities stand among the values
    text = probe(pa.string()) if largest >= _EXACT else None
    if text is None:
        return _TEXT | _with_padded({"float64"})
    is_whole = pc.match_substring_regex(text, _WHOLE)
    whole = text.filter(is_whole).to_pylist()
    held = {"float64"} if all(_is_exact_as_float(number) for number in whole) else set()
    if largest >= _BIG and pc.all(is_whole).as_py():
        held.add("digits")
        if probe(pa.uint64()) is not None:
            held.add("uint64")
    return _TEXT | _with_padded(held)


def _with_padded(held: set[str]) -> set[str]:
    return held | {"padded"} if "float64" in held else held


def _is_exact_as_float(digits: str) -> bool:
    """Whether a float holds an integer without loss; no float holds one of more digits than the largest."""
    return len(digits) <= _LONGEST_FLOAT and float(digits).is_integer() and int(float(digits)) == int(digits)


def _fits_of_seconds(values: pa.ChunkedArray, zone: str) -> frozenset[str]:
    held = {f"seconds{zone}", f"microseconds{zone}"}
    bounds = pc.min_max(values.cast(pa.timestamp("s", values.type.tz if zone else None)))
    low, high = (bounds[end].cast(pa.int64()).as_py() for end in ("min", "max"))
    if _NANOSECOND_RANGE[0].astype(int) <= low and high < _NANOSECOND_RANGE[1].astype(int):
        held.add(f"nanoseconds{zone}")
    return frozenset(held)
