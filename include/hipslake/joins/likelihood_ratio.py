"""The likelihood ratio of candidate pairs, with magnitude priors: an example of a score, ready for use.

Source: Sutherland & Saunders 1992, MNRAS 259, 413.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.joins.pair_scores import pair_score


@pair_score
def likelihood_ratio(
    candidates: pa.Table,
    *,
    left_error: str,
    right_error: str,
    magnitude: str,
    edges: Sequence[float],
    counterparts: Sequence[float],
    background: Sequence[float],
) -> NDArray[np.float64]:
    """How much likelier than a chance neighbour each candidate is to be the counterpart: q(m) f(r) / n(m).

    Parameters
    ----------
    candidates : pyarrow.Table
        See `pair_score`.
    left_error, right_error : str
        Columns of either side: standard deviations of the positions, arcseconds, of circles.
    magnitude : str
        Column of the right side.
    edges : sequence of n + 1 floats
        Of the bins of magnitudes, ascending; each holds its lower edge.
    counterparts : sequence of n floats
        q: the fraction of left rows whose counterpart has a magnitude in the bin.
    background : sequence of n floats
        n: unrelated right rows in the bin per square arcsecond; above 0.

    Returns
    -------
    float64[m]
        0 for magnitudes outside the bins; NaN where a magnitude or an error is not known, or both errors are
        0.

    Examples
    --------
    >>> one = {"separation_arcsec": [0.0], "left.e": [0.6], "right.e": [0.8], "right.mag": [18.5]}
    >>> told = {"edges": [18, 19], "counterparts": [0.5], "background": [0.01]}
    >>> likelihood_ratio(pa.table(one), left_error="e", right_error="e", magnitude="mag", **told).round(3)
    array([7.958])
    """
    names = ("separation_arcsec", f"left.{left_error}", f"right.{right_error}", f"right.{magnitude}")
    apart, left, right, mag = (candidates[name].cast(pa.float64()).to_numpy() for name in names)
    at = np.searchsorted(np.asarray(edges, float), mag, side="right") - 1
    inside = (at >= 0) & (at < len(counterparts))
    at = np.where(inside, at, 0)
    variance = left**2 + right**2
    variance = np.where(variance > 0.0, variance, np.nan)
    near = np.exp(-(apart**2) / (2.0 * variance)) / (2.0 * np.pi * variance)
    ratio = np.asarray(counterparts, float)[at] * near / np.asarray(background, float)[at]
    return np.where(np.isnan(mag), np.nan, np.where(inside, ratio, 0.0 * near))
