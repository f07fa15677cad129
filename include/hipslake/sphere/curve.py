"""Rows along the NESTED curve: sorting by `_healpix_29`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_LEADING_BITS = 32


def curve_order(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Permutation that sorts the keys and keeps the order of equal ones.

    Parameters
    ----------
    keys : int64[n]

    Returns
    -------
    int64[n]

    Notes
    -----
    The same as `numpy.argsort(keys, kind="stable")`, several times as fast. numpy sorts 16-bit numbers by
    radix, so the keys are taken as digits of 16 bits, above the smallest key, from the last digit on. The
    first two digits tell nearly all rows of a sky apart; the few that they do not are put right afterwards.
    """
    if len(keys) < 2:
        return np.arange(len(keys))
    above = keys - keys.min()
    width = int(above.max()).bit_length()
    rest = max(0, width - _LEADING_BITS)
    leading = (above >> rest).astype(np.uint32)
    order = _by_digits(leading, width - rest)
    if rest:
        in_order = leading.take(order)
        tied_to_next = in_order[1:] == in_order[:-1]
        ties = np.count_nonzero(tied_to_next)
        if ties > len(keys) // 8:
            return _by_digits(above, width)
        if ties:
            tied = np.flatnonzero(np.append(tied_to_next, False) | np.append(False, tied_to_next))
            rows = order[tied]
            order[tied] = rows[np.lexsort((above[rows], in_order[tied]))]
    return order


def _by_digits(values: NDArray[np.integer], width: int) -> NDArray[np.int64]:
    """Stable permutation that sorts non-negative numbers of `width` bits."""
    order = np.argsort(values.astype(np.uint16), kind="stable")
    for shift in range(16, width, 16):
        digit = (values >> shift).astype(np.uint16)
        order = order.take(np.argsort(digit.take(order), kind="stable"))
    return order
