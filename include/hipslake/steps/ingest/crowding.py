"""Crowded pixels: they hold more than a leaf may, and are counted again, some orders deeper."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from hipslake.planning.pixel_histogram import Histogram
from hipslake.planning.splits import crowded_cells
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.threshold import ThresholdUnit

DEEPER_BY = 5  # orders per pass: a crowded pixel becomes up to 1024 cells


def crowded_pixels(
    histogram: Histogram, spec: CatalogSpec, row_bytes: Mapping[str, float]
) -> NDArray[np.bool_]:
    """Which cells are over the threshold of any column group, and can be counted deeper.

    Parameters
    ----------
    histogram : Histogram
    spec : CatalogSpec
    row_bytes : mapping of str to float
        Per column group, the bytes of a row in a leaf file; nothing where there are no rows.
    """
    crowded = np.zeros(len(histogram), bool)
    for group in spec.column_groups:
        threshold = spec.threshold_of(group.name)
        weights = histogram.rows
        if threshold.unit is ThresholdUnit.BYTES:
            weights = (weights * row_bytes.get(group.name, 0.0)).astype(np.int64)
        crowded |= crowded_cells(histogram, weights, threshold.value, highest_order=spec.highest_order)
    return crowded & (histogram.rows > 1)


def deeper_order(cells: Histogram, spec: CatalogSpec) -> int:
    """The order at which crowded cells are counted next."""
    return min(int(cells.order.max()) + DEEPER_BY, spec.highest_order)
