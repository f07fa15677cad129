"""Bounds of files as numbers of the same order, so that all types are compared and cut alike."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

_BYTES = 8  # behind what all values share, that make a number of bytes


def bound_numbers(low: Sequence[Any], high: Sequence[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The lowest and the highest values of files in one column as numbers.

    Parameters
    ----------
    low, high : sequence of length n
        Numbers, truths, decimals, texts, bytes or UUIDs, times as numbers; None where they are not known.

    Returns
    -------
    float64[n], float64[n]
        Finite, in the order of the values (near ones may come out equal); NaN where they are not known.

    Examples
    --------
    >>> bound_numbers([1, None], [Decimal("2.5"), None])
    (array([ 1., nan]), array([2.5, nan]))
    """
    values = [*low, *high]
    known = [value for value in values if value is not None]
    if known and all(isinstance(value, str | bytes | UUID) for value in known):
        texts = [None if value is None else _as_bytes(value) for value in values]
        shared = _shared_prefix([text for text in texts if text is not None])
        found = [np.nan if text is None else _as_number(text[shared:]) for text in texts]
    else:
        found = [np.nan if value is None else _as_float(value) for value in values]
    numbers = np.array(found, np.float64)
    finite = numbers[np.isfinite(numbers)]
    least, most = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
    numbers = np.where(np.isposinf(numbers), most, np.where(np.isneginf(numbers), least, numbers))
    return numbers[: len(low)], numbers[len(low) :]


def _as_float(value: Any) -> float:
    if isinstance(value, Decimal) and not value.is_finite():
        return np.nan
    return float(value)


def _as_bytes(value: str | bytes | UUID) -> bytes:
    if isinstance(value, UUID):
        return value.bytes
    return value.encode(errors="surrogatepass") if isinstance(value, str) else value


def _shared_prefix(texts: Sequence[bytes]) -> int:
    """How many bytes all texts begin with."""
    if not texts:
        return 0
    least, most = min(texts), max(texts)
    same = 0
    while same < min(len(least), len(most)) and least[same] == most[same]:
        same += 1
    return same


def _as_number(text: bytes) -> float:
    """The first bytes as a number below 1."""
    return int.from_bytes(text[:_BYTES].ljust(_BYTES, b"\0"), "big") / 2.0 ** (8 * _BYTES)
