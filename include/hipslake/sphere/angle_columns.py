"""Columns of angles as texts: sexagesimal, or in decimals, as numbers of hours or degrees.

The usual forms are read by Arrow, a column at a time; what is written otherwise, by
`hipslake.sphere.angle_text`, each different text once. Both give the same.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.errors import RegionError
from hipslake.sphere.angle_text import AngleUnit, angle_of, plain_signs

_SIGN, _SECONDS = r"^(?P<sign>[+-]?)", r"(?P<seconds>\d{1,2}(?:\.\d*)?)"
_FORMS = (
    rf"{_SIGN}(?P<whole>\d{{1,3}}):(?P<minutes>\d{{1,2}})(?::{_SECONDS})?$",
    rf"{_SIGN}(?P<whole>\d{{1,3}})(?P<mark>[hd]) ?(?P<minutes>\d{{1,2}})m(?: ?{_SECONDS}s)?$",
    rf"{_SIGN}(?P<whole>\d{{1,3}}) (?P<minutes>\d{{1,2}})(?: {_SECONDS})?$",
    rf"{_SIGN}(?P<whole>\d{{1,15}}(?:\.\d*)?)$",
)
_HOURS = 24.0


def is_text(kind: pa.DataType) -> bool:
    """Whether a type is one of texts."""
    types = pa.types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def angles_of(column: pa.Array | pa.ChunkedArray, unit: AngleUnit) -> NDArray[np.float64]:
    """The angles that texts say.

    Parameters
    ----------
    column : pyarrow array of n texts
    unit : {"deg", "hour"}
        Of angles that do not say theirs by `h` or `d`. Where it is hours, `d` says degrees; where it is
        degrees, as of a declination, `h` is wrong.

    Returns
    -------
    float64[n]
        In the unit; NaN where there is no text, or none that says an angle: minutes or seconds are beyond 60,
        or hours not from 0 to 24.

    Examples
    --------
    >>> angles_of(pa.array(["05:30:00", "5h30m", "82.5d", None, "x"]), "hour")
    array([5.5, 5.5, 5.5, nan, nan])
    """
    texts = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_dictionary(texts.type):
        texts = texts.dictionary_decode()
    texts = pc.utf8_trim_whitespace(texts.cast(pa.large_string()))
    found = np.full(len(texts), np.nan)
    left = np.flatnonzero(texts.is_valid().to_numpy(zero_copy_only=False))
    for form in _FORMS:
        if not len(left):
            return found
        parts = pc.extract_regex(texts.take(pa.array(left)), form)
        fits = parts.is_valid().to_numpy(zero_copy_only=False)
        found[left[fits]] = _in_unit(parts.filter(pa.array(fits)), unit)
        left = left[~fits]
    if len(left):
        rest = pc.dictionary_encode(texts.take(pa.array(left)))
        values = np.array([_angle(text, unit) for text in rest.dictionary.to_pylist()])
        found[left] = values[rest.indices.to_numpy(zero_copy_only=False)]
    return found


def _in_unit(parts: pa.StructArray, unit: AngleUnit) -> NDArray[np.float64]:
    """The values of texts of one form, by its groups."""
    names = [field.name for field in parts.type]
    whole, minutes, seconds = (
        _numbers(parts.field(name)) if name in names else np.zeros(len(parts))
        for name in ("whole", "minutes", "seconds")
    )
    value = whole + (minutes / 60 + seconds / 60**2)
    value[(minutes > 60) | (seconds > 60)] = np.nan
    negative = pc.equal(parts.field("sign"), "-").to_numpy(zero_copy_only=False)
    marks = parts.field("mark") if "mark" in names else pa.nulls(len(parts), pa.large_string())
    is_marked = {
        mark: pc.fill_null(pc.equal(marks, mark), False).to_numpy(zero_copy_only=False) for mark in "hd"
    }
    if unit == "deg":
        value[is_marked["h"]] = np.nan
        return np.where(negative, -value, value)
    in_degrees = is_marked["d"]
    value[~in_degrees & (negative | (value > _HOURS))] = np.nan
    value[in_degrees] /= 15
    return np.where(negative, -value, value)


def _numbers(texts: pa.Array) -> NDArray[np.float64]:
    """Digits as numbers; 0 for what is left out."""
    whole = pc.if_else(pc.equal(pc.binary_length(texts), 0), "0", texts)
    values: NDArray[np.float64] = whole.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return values.copy()


def _angle(text: str, unit: AngleUnit) -> float:
    """The angle of one text, in whatever form it is written; NaN if it says none."""
    angle = angle_of(plain_signs(text))
    own = {"h": "hour", "d": "deg", "": unit}.get(angle.unit) if angle is not None else None
    if angle is None or own is None or (own == "hour" and (unit == "deg" or angle.sign == "-")):
        return np.nan
    try:
        value = angle.value("hour" if own == "hour" else "deg", "angle")
    except RegionError:
        return np.nan
    return value / 15 if own == "deg" and unit == "hour" else value
