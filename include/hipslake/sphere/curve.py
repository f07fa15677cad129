"""Rows along the NESTED curve: sorting by `_healpix_29`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_BITS = 64


def curve_order(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Permutation that sorts the keys and keeps the order of equal ones.

    Parameters
    ----------
    keys : int64[n]
        Less than 2**63 apart.

    Returns
    -------
    int64[n]

    Notes
    -----
    The same as `numpy.argsort(keys, kind="stable")`, many times as fast. Behind the bits of each key, counted
    from the smallest, stands its place: so all differ, and to sort numbers as they are is what numpy does
    best. Where there is no room for all bits of a key, the first ones tell nearly all rows of a sky apart;
    the few that they do not are put right afterwards.
    """
    if len(keys) < 2:
        return np.arange(len(keys))
    above = (keys - keys.min()).view(np.uint64)
    place_bits = len(keys).bit_length()
    rest = max(0, int(above.max()).bit_length() + place_bits - _BITS)
    packed = above >> np.uint64(rest)
    packed <<= np.uint64(place_bits)
    packed |= np.arange(len(keys), dtype=np.uint64)
    packed.sort()
    order = (packed & np.uint64((1 << place_bits) - 1)).view(np.int64)
    if rest:
        packed >>= np.uint64(place_bits)
        tied_to_next = packed[1:] == packed[:-1]
        if tied_to_next.any():
            tied = np.flatnonzero(np.append(tied_to_next, False) | np.append(False, tied_to_next))
            rows = order[tied]
            order[tied] = rows[np.lexsort((above[rows], packed[tied]))]
    return order
