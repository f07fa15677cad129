"""Two columns compared row by row, by the exact values of both, whatever their types."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.predicates.domains import Domain
from hipslake.predicates.tree import TURNED

KERNELS: dict[str, Callable[[Any, Any], Any]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_WHOLE = pa.decimal128(20, 0)
_EXACT_BITS = 32  # of integers that doubles hold, whatever the value
_UNORDERED = 2
_DECIDED = 1e-12  # relative distance at which the nearest doubles tell the order of decimals


def compared_columns(
    operator: str, left: pa.ChunkedArray, right: pa.ChunkedArray, domains: tuple[Domain, Domain]
) -> pa.ChunkedArray:
    """Whether a comparison holds per row; null where either is null. NaN compares as IEEE 754 says.

    Parameters
    ----------
    operator : str
    left, right : pyarrow.ChunkedArray
        Values as their domains compare them.
    domains : (Domain, Domain)
        Of families that can be compared.
    """
    mine, other = domains
    families = (mine.family, other.family)
    if families[0] == families[1] and mine.compared == other.compared and mine.per_second == other.per_second:
        return KERNELS[operator](left, right)
    if mine.per_second is not None:
        return _by_order(operator, left, right, lambda a, b: _order_of_times(a, b, mine, other))
    if "text" in families or "binary" in families:
        return KERNELS[operator](*(side.cast(pa.large_binary()) for side in (left, right)))
    if families == ("whole", "whole"):
        return KERNELS[operator](*_in_common(left, right))
    if "float" not in families:
        return KERNELS[operator](*_as_decimals(left, right))
    if mine.family == "float":
        return compared_columns(TURNED[operator], right, left, (other, mine))
    if mine.family == "decimal":
        return _by_order(operator, left, right, _order_of_decimals)
    if mine.compared.bit_width <= _EXACT_BITS:
        return KERNELS[operator](left.cast(pa.float64()), right)
    return _by_order(operator, left, right, _order_of_integers)


def _in_common(left: pa.ChunkedArray, right: pa.ChunkedArray) -> list[pa.ChunkedArray]:
    unsigned = [pa.types.is_uint64(side.type) for side in (left, right)]
    if any(unsigned):
        signed = [pa.types.is_signed_integer(side.type) for side in (left, right)]
        wide = _WHOLE if any(signed) else pa.uint64()
    else:
        wide = pa.int64()
    return [side.cast(wide) for side in (left, right)]


def _as_decimals(left: pa.ChunkedArray, right: pa.ChunkedArray) -> list[pa.ChunkedArray]:
    sides = [side.cast(_WHOLE) if pa.types.is_integer(side.type) else side for side in (left, right)]
    scale = max(side.type.scale for side in sides)
    whole = max(side.type.precision - side.type.scale for side in sides)
    return [side.cast(pa.decimal256(scale + whole, scale)) for side in sides]


def _by_order(
    operator: str,
    left: pa.ChunkedArray,
    right: pa.ChunkedArray,
    order: Callable[[pa.ChunkedArray, pa.ChunkedArray], NDArray[np.int8]],
) -> pa.ChunkedArray:
    """A comparison by -1, 0 and 1 for less, equal and greater, and 2 for neither; only of rows with both."""
    there = pc.and_(pc.is_valid(left), pc.is_valid(right))
    places = np.flatnonzero(there.to_numpy().astype(bool))
    rows = pa.array(places)
    found = order(left.take(rows), right.take(rows))
    holds = {
        "=": found == 0,
        "!=": found != 0,
        "<": found == -1,
        "<=": found <= 0,
        ">": found == 1,
        ">=": (found == 0) | (found == 1),
    }[operator]
    whole = np.zeros(len(left), bool)
    whole[places] = holds
    missing = np.ones(len(left), bool)
    missing[places] = False
    return pa.chunked_array([pa.array(whole, mask=missing)], pa.bool_())


def _sign(left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.int8]:
    return (left > right).astype(np.int8) - (left < right).astype(np.int8)


def _order_of_integers(left: pa.ChunkedArray, right: pa.ChunkedArray) -> NDArray[np.int8]:
    """64-bit integers beside doubles: rounding keeps the order; where it makes both equal, integers tell."""
    whole, real = left.to_numpy(), right.to_numpy()
    rounded = whole.astype(np.float64)
    found = _sign(rounded, real)
    tied = np.flatnonzero(rounded == real)
    beyond = float(2 ** (64 if whole.dtype == np.uint64 else 63))
    inside = tied[real[tied] < beyond]
    found[tied] = -1  # the double is one above the greatest integer
    found[inside] = _sign(whole[inside], real[inside].astype(whole.dtype))
    found[np.isnan(real)] = _UNORDERED
    return found


def _order_of_decimals(left: pa.ChunkedArray, right: pa.ChunkedArray) -> NDArray[np.int8]:
    """Decimals beside doubles: by the nearest doubles, and where these are close, by exact fractions."""
    near, real = left.cast(pa.float64()).to_numpy(), right.to_numpy()
    found = _sign(near, real)
    with np.errstate(invalid="ignore", over="ignore"):
        close = np.flatnonzero(np.abs(near - real) <= _DECIDED * np.maximum(np.abs(near), np.abs(real)))
    some = pa.array(close)
    pairs = zip(left.take(some).to_pylist(), real[close].tolist(), strict=True)
    found[close] = [_exact_sign(Fraction(mine), other) for mine, other in pairs]
    found[np.isnan(real)] = _UNORDERED
    return found


def _exact_sign(left: Fraction, right: float) -> int:
    if np.isinf(right):
        return -1 if right > 0 else 1
    exact = Fraction(right)
    return (left > exact) - (left < exact)


def _order_of_times(
    left: pa.ChunkedArray, right: pa.ChunkedArray, mine: Domain, other: Domain
) -> NDArray[np.int8]:
    """Times of different steps: the finer one is cut to the coarser step; what is cut off decides ties."""
    assert mine.per_second is not None and other.per_second is not None, "both are times"  # noqa: PT018
    a, b = left.to_numpy().astype(np.int64), right.to_numpy().astype(np.int64)
    ratio = mine.per_second / other.per_second
    if ratio > 1:
        whole, rest = np.divmod(a, int(ratio))
        return np.where(whole == b, (rest > 0).astype(np.int8), _sign(whole, b))
    whole, rest = np.divmod(b, int(1 / ratio))
    return np.where(a == whole, -(rest > 0).astype(np.int8), _sign(a, whole))
