"""Planning at the scale of a petabyte: about 4 million leaves from a histogram of the whole sky at order 12.

The histogram is simulated, in Galactic coordinates: a disc, a bulge and a halo, with counting noise in each
of its 201 million cells. Seconds are those of `plan_leaves`; the peak memory is that of the whole process,
the simulation with it.

    python -m benchmarks.plan_scale
"""

from __future__ import annotations

import argparse
import resource
import sys
import time

import healpy
import numpy as np
from hipslake.planning.pixel_histogram import Histogram
from hipslake.planning.splits import Leaves, plan_leaves
from numpy.typing import NDArray

ROWS_PER_LEAF = 1_000_000  # the threshold: at 250 bytes a row, leaves of 250 MB
MEAN_FILL = 0.477  # of the leaves that come out, which sets the rows of the sky
BAR_SECONDS, BAR_BYTES = 10.0, 4e9
SEED = 20261121
_SMOOTH = 4  # orders below the histogram's at which the density is computed


def density(order: int, base_pixel: int) -> NDArray[np.float64]:
    """Stars in the pixels of one base pixel, relative to one another, float64[4**order]."""
    first = base_pixel << (2 * order)
    pixels = np.arange(first, first + (1 << (2 * order)))
    lon, lat = np.radians(healpy.pix2ang(1 << order, pixels, nest=True, lonlat=True))
    from_centre = np.hypot(np.angle(np.exp(1j * lon)), lat)
    disc = np.exp(-np.abs(np.sin(lat)) / 0.08) * (1 + 0.6 * np.cos(lon))
    bulge = 1.5 * np.exp(-((from_centre / 0.15) ** 2))
    relative: NDArray[np.float64] = 0.03 + disc + bulge
    return relative


def simulate(order: int, leaves: int) -> Histogram:
    """Rows per pixel of the whole sky, so many that about so many leaves come out."""
    pixels = 1 << (2 * order)
    smooth = [density(order - _SMOOTH, base_pixel) for base_pixel in range(12)]
    scale = leaves * MEAN_FILL * ROWS_PER_LEAF / sum(part.sum() for part in smooth) / (1 << (2 * _SMOOTH))
    rng = np.random.default_rng(SEED)
    rows = np.empty(12 * pixels, np.int64)
    for base_pixel, part in enumerate(smooth):
        expected = np.repeat(part * scale, 1 << (2 * _SMOOTH))
        noise = rng.standard_normal(pixels, np.float32) * np.sqrt(expected)
        rows[base_pixel * pixels : (base_pixel + 1) * pixels] = np.maximum(expected + noise, 0)
    return Histogram.from_counts(order, np.arange(12 * pixels, dtype=np.uint32), rows)


def check(leaves: Leaves, histogram: Histogram) -> None:
    """Hold the plan to what every plan is held to."""
    if int(leaves.rows.sum()) != histogram.total_rows:
        raise AssertionError(f"{leaves.rows.sum()} of {histogram.total_rows} rows are in leaves")
    if int(leaves.rows.max()) > ROWS_PER_LEAF:
        raise AssertionError(f"a leaf has {leaves.rows.max()} rows")


def main(arguments: list[str] | None = None) -> int:
    """Simulate, plan, print, judge; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--order", type=int, default=12, help="order of the histogram (default: %(default)s)")
    order = parser.parse_args(arguments).order
    began = time.perf_counter()
    histogram = simulate(order, leaves=4_000_000 >> (2 * (12 - order)))
    simulated = time.perf_counter()
    leaves = plan_leaves(histogram, histogram.rows, ROWS_PER_LEAF)
    seconds = time.perf_counter() - simulated
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    check(leaves, histogram)
    orders, counts = np.unique(leaves.order, return_counts=True)
    print(f"cells:       {len(histogram):,} at order {order}, {histogram.total_rows:.3g} rows")
    print(f"             simulated in {simulated - began:.1f} s")
    print(f"leaves:      {len(leaves):,}, filled to {leaves.rows.mean() / ROWS_PER_LEAF:.0%} on average")
    print("             " + ", ".join(f"order {o}: {c:,}" for o, c in zip(orders, counts, strict=True)))
    print(f"planning:    {seconds:.2f} s (bar: {BAR_SECONDS:.0f} s)")
    print(f"peak memory: {peak / 1e9:.2f} GB of the whole process (bar: {BAR_BYTES / 1e9:.0f} GB)")
    passed = seconds <= BAR_SECONDS and peak <= BAR_BYTES
    print("passed" if passed else "MISSED")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
