"""Catalogs for `make bench-small`: one over the whole sky, a small one of positions in it, and a crowd.

The large catalog has as few columns as a survey can have, and is built base pixel by base pixel, each an
increment of its own, so that no more than a twelfth of its rows is in memory, or on the disk twice.
"""

from __future__ import annotations

from pathlib import Path

import healpy
import numpy as np
import pyarrow as pa
from hipslake import Catalog, ingest

SEED = 20261129
LARGE, SMALL, CROWD, OTHER_CROWD = "large", "small", "crowd", "other_crowd"
SMALL_ROWS = 75_000
PATCH, WHOLE = "patch", "whole_sky"
LITTLE_ROWS = (1_000, 10_000, 100_000)
JITTER = 0.3  # arcseconds from a row of the large catalog, of half of the small one
_BASE_PIXELS = 12
_CROWD_SIDE = 2.0  # degrees


def publish_large(warehouse: Path, rows: int) -> Catalog:
    """Build the large catalog: rows everywhere on the sky alike, with an id, a place and a magnitude."""
    for pixel, count in enumerate(np.diff(np.linspace(0, rows, _BASE_PIXELS + 1).astype(int)).tolist()):
        catalog = ingest(
            _rows_of_base_pixel(pixel, count),
            spec={
                "name": LARGE,
                "mode": "append",
                "position": {"ra": "ra", "dec": "dec", "epoch": 2016.0},
                "threshold": "1000000 rows",
            },
            warehouse=warehouse,
            interval=f"2026-01-{pixel + 1:02d}",
            spark=False,
        )
    return catalog


def publish_small(warehouse: Path, small_rows: int) -> Catalog:
    """Build the small catalog: half of it a little beside rows of the large one, half of it anywhere."""
    rng = np.random.default_rng([SEED, 99])
    # The first places of a base pixel are the same, however many are drawn of it.
    each = small_rows // (2 * _BASE_PIXELS)
    near = [_rows_of_base_pixel(pixel, each).select(["ra", "dec"]) for pixel in range(_BASE_PIXELS)]
    some = pa.concat_tables(near)
    dec = some["dec"].to_numpy() + rng.normal(0, JITTER / 3600, len(some))
    ra = some["ra"].to_numpy() + rng.normal(0, JITTER / 3600, len(some)) / np.cos(np.radians(dec))
    others = small_rows - len(some)
    ra = np.concatenate([ra, rng.uniform(0, 360, others)]) % 360.0
    dec = np.concatenate([dec, np.degrees(np.arcsin(rng.uniform(-1, 1, others)))])
    table = pa.table({"alert": np.arange(small_rows), "ra": ra, "dec": np.clip(dec, -90, 90)})
    return ingest(table, spec=_spec(SMALL), warehouse=warehouse, spark=False)


def little_name(place: str, rows: int) -> str:
    """What a small catalog is called.

    >>> little_name(PATCH, 1000)
    'patch_1k'
    """
    return f"{place}_{rows // 1000}k"


def publish_little(warehouse: Path, place: str, rows: int) -> Catalog:
    """Build a small catalog of a patch of 12 x 12 degrees at the equator, or of the whole sky."""
    rng = np.random.default_rng([SEED, rows])
    if place == PATCH:
        ra, dec = rng.uniform(40, 52, rows), rng.uniform(-6, 6, rows)
    else:
        ra, dec = rng.uniform(0, 360, rows), np.degrees(np.arcsin(rng.uniform(-1, 1, rows)))
    table = pa.table({"alert": np.arange(rows), "ra": ra, "dec": dec})
    return ingest(table, spec=_spec(little_name(place, rows)), warehouse=warehouse, spark=False)


def publish_crowds(warehouse: Path, rows: int) -> tuple[Catalog, Catalog]:
    """Build two catalogs of a patch of the sky, so crowded that a small radius holds many pairs."""
    found = []
    for number, name in enumerate((CROWD, OTHER_CROWD)):
        rng = np.random.default_rng([SEED, 200 + number])
        table = pa.table(
            {
                "id": np.arange(rows),
                "ra": 180.0 + rng.uniform(-_CROWD_SIDE / 2, _CROWD_SIDE / 2, rows),
                "dec": rng.uniform(-_CROWD_SIDE / 2, _CROWD_SIDE / 2, rows),
            }
        )
        found.append(ingest(table, spec=_spec(name), warehouse=warehouse, spark=False))
    return found[0], found[1]


def crowd_radius(rows: int, pairs_per_row: float) -> float:
    """The radius, in arcseconds, that holds so many rows of a crowd on average, borders left out.

    >>> round(crowd_radius(1_000_000, 100.0), 1)
    40.6
    """
    square_degrees = _CROWD_SIDE**2 * pairs_per_row / rows
    return float(3600.0 * np.sqrt(square_degrees / np.pi))


def _spec(name: str) -> dict[str, object]:
    return {
        "name": name,
        "position": {"ra": "ra", "dec": "dec", "epoch": 2016.0},
        "threshold": "1000000 rows",
    }


def _rows_of_base_pixel(pixel: int, rows: int) -> pa.Table:
    """Rows at random places of a base pixel, in random order."""
    rng = np.random.default_rng([SEED, pixel])
    cells = (pixel << 58) + rng.integers(0, 1 << 58, rows)
    ra, dec = healpy.pix2ang(1 << 29, cells, nest=True, lonlat=True)
    numbers = (np.int64(pixel) << 40) + np.arange(rows)
    mag = np.round(10 + rng.gamma(9.0, 1.1, rows), 3).astype(np.float32)
    return pa.table({"id": numbers, "ra": ra, "dec": dec, "mag": mag})
