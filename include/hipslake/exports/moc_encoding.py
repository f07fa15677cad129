"""Coverage as files: a MOC in FITS and in JSON.

Standard: IVOA MOC 2.0, Recommendation 2022-07-27; mocpy writes the FITS.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np

from hipslake.sphere.intervals import Intervals


def moc_fits(pixels: Intervals, order: int) -> bytes:
    """A MOC as FITS. The same pixels give the same bytes.

    Parameters
    ----------
    pixels : Intervals
        Whole pixels of the order.
    order : int
    """
    from mocpy import MOC

    ranges = np.stack([pixels.start, pixels.stop], axis=1).astype(np.uint64)
    moc = MOC.from_depth29_ranges(order, ranges)
    with tempfile.TemporaryDirectory(prefix="hipslake-") as folder:
        path = Path(folder, "moc.fits")
        moc.save(path, format="fits")
        return path.read_bytes()


def moc_json(pixels: Intervals, order: int) -> bytes:
    """A MOC as JSON: per order the numbers of its pixels; the order of the MOC is there also without any.

    Parameters
    ----------
    pixels, order
        As of `moc_fits`.

    Examples
    --------
    >>> moc_json(Intervals.of([(1, 0), (2, 5), (2, 6)]), 3)
    b'{"1": [0], "2": [5, 6], "3": []}'
    """
    found: dict[str, list[int]] = {
        str(each): [number for first, last in runs for number in range(first, last + 1)]
        for each, runs in pixels.pixel_ranges().items()
    }
    found.setdefault(str(order), [])
    return json.dumps(found).encode()
