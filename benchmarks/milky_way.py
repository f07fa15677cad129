"""A synthetic Milky Way, written as survey files: what the ingest benchmark reads.

Thin and thick disc, bar-shaped bulge, halo, globular and open clusters, seen from the Sun, 12 columns each.
Every file is drawn from its own seed, so file 7 holds the same stars in a set of 20 files as in one of 80,
and several processes may write at once. Stars come in random order: each file touches every part of the sky,
which is the hard case for a partitioner.

    python -m benchmarks.milky_way --rows 20M --folder .data/bench/milky_way
"""

from __future__ import annotations

import argparse
import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import healpy
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.sizes import parse_count

FILE_ROWS = 1_000_000
ROW_GROUP_ROWS = 250_000
SEED = 20261121

# Shares of all stars. A magnitude-limited survey sees mostly the near thin disc.
THIN, THICK, BULGE, HALO, CLUSTERS = 0.62, 0.14, 0.16, 0.05, 0.03
SUN_TO_CENTRE = 8.2  # kpc
GLOBULARS, OPEN_CLUSTERS = 150, 350

# Galactic to ICRS: rows of the transposed matrix of the Hipparcos Catalogue, volume 1, section 1.5.3.
GALACTIC_TO_ICRS = np.array(
    [
        [-0.0548755604, +0.4941094279, -0.8676661490],
        [-0.8734370902, -0.4448296300, -0.1980763734],
        [-0.4838350155, +0.7469822445, +0.4559837762],
    ]
)

SCHEMA = pa.schema(
    [
        pa.field("source_id", pa.int64(), nullable=False),
        ("ra", pa.float64()),
        ("dec", pa.float64()),
        ("parallax", pa.float64()),
        ("pmra", pa.float64()),
        ("pmdec", pa.float64()),
        ("g_mag", pa.float32()),
        ("bp_mag", pa.float32()),
        ("rp_mag", pa.float32()),
        ("excess_noise", pa.float32()),
        ("flags", pa.int32()),
        ("observed", pa.timestamp("ms", tz="UTC")),
    ]
)


def stars(rows: int, part: int, *, seed: int = SEED) -> pa.Table:
    """Draw one part of the galaxy.

    Parameters
    ----------
    rows : int
        Number of stars.
    part : int
        Which part; each has its own random stream. Stars of all parts share the same clusters.
    seed : int
        The galaxy.

    Returns
    -------
    pyarrow.Table
        `rows` stars in random order with the columns of `SCHEMA`: positions in ICRS degrees, ra in [0, 360),
        parallax in mas, proper motion in mas/yr, magnitudes in mag.
    """
    rng = np.random.default_rng([seed, 1 + part])
    shares = np.array([THIN, THICK, BULGE, HALO, CLUSTERS])
    counts = rng.multinomial(rows, shares / shares.sum())
    galaxy = [
        _disc(rng, counts[0], scale_height=0.3, depth=1.6),
        _disc(rng, counts[1], scale_height=0.9, depth=2.2),
        _bulge(rng, counts[2]),
        _halo(rng, counts[3]),
        _clusters(rng, counts[4], seed),
    ]
    shuffled = rng.permutation(rows)
    position = np.concatenate(galaxy)[shuffled]  # kpc from the Sun; x to the centre, z to the north pole
    distance = np.maximum(np.sqrt(np.einsum("ij,ij->i", position, position)), 1e-3)
    direction = (position @ GALACTIC_TO_ICRS.T) / distance[:, None]
    ra = np.degrees(np.arctan2(direction[:, 1], direction[:, 0])) % 360.0
    ra[ra >= 360.0] = 0.0  # -1e-15 % 360 rounds up to 360
    dec = np.degrees(np.arcsin(np.clip(direction[:, 2], -1.0, 1.0)))

    faintness = rng.beta(4.0, 1.3, rows) * 15.0 + 6.0
    g_mag = np.minimum(faintness, 21.0)
    colour = rng.normal(1.1, 0.45, rows)
    error = 0.02 * 10 ** (0.2 * np.maximum(g_mag - 14.0, 0.0))  # mas: grows with faintness
    speed = 32.0 / 4.74  # a velocity dispersion of 32 km/s, as mas/yr at 1 kpc
    pixel = healpy.ang2pix(2**12, ra, dec, nest=True, lonlat=True)
    columns = [
        pixel << 35 | part << 20 | np.arange(rows),  # as Gaia does: the order-12 pixel, then a running number
        ra,
        dec,
        1.0 / distance + error * rng.standard_normal(rows),
        rng.standard_normal(rows) * speed / distance,
        rng.standard_normal(rows) * speed / distance,
        g_mag.astype(np.float32),
        (g_mag + 0.4 * colour).astype(np.float32),
        (g_mag - 0.6 * colour).astype(np.float32),
        rng.gamma(1.5, 0.2, rows).astype(np.float32),
        (1 << rng.geometric(0.45, rows).clip(max=12)).astype(np.int32),
        _exposures(rng, pixel >> 12),
    ]
    return pa.table([pa.array(c, t) for c, t in zip(columns, SCHEMA.types, strict=True)], schema=SCHEMA)


def _exposures(rng: np.random.Generator, field: np.ndarray) -> np.ndarray:
    """When each star was seen: its field (an order-6 pixel) was exposed eight times in all."""
    visit = rng.integers(0, 8, len(field))
    night = (field * 2654435761 + visit * 40503) % 4096
    return np.datetime64("2026-01-01", "ms") + (night * 86_400_000 + field % 960 * 30_000).astype("m8[ms]")


def _disc(rng: np.random.Generator, rows: int, *, scale_height: float, depth: float) -> np.ndarray:
    """Stars of a disc, seen to a depth (kpc) that dust and faintness limit, denser towards the centre."""
    distance = rng.gamma(2.0, depth / 2.0, rows)
    z = rng.laplace(-0.02, scale_height, rows)
    sin_b = np.where(np.abs(z) < distance, z / np.maximum(distance, 1e-9), rng.uniform(-1.0, 1.0, rows))
    longitude = np.where(
        rng.random(rows) < 0.45, rng.uniform(0, 2 * np.pi, rows), rng.vonmises(0.0, 0.9, rows)
    )
    cos_b = np.sqrt(1.0 - sin_b**2)
    unit = np.stack([cos_b * np.cos(longitude), cos_b * np.sin(longitude), sin_b], axis=1)
    return unit * distance[:, None]


def _bulge(rng: np.random.Generator, rows: int) -> np.ndarray:
    """A bar, 25 degrees off the line of sight."""
    bar = rng.standard_normal((rows, 3)) * (1.6, 0.7, 0.5)
    turn = np.radians(25.0)
    x, y = (
        np.cos(turn) * bar[:, 0] - np.sin(turn) * bar[:, 1],
        np.sin(turn) * bar[:, 0] + np.cos(turn) * bar[:, 1],
    )
    return np.stack([SUN_TO_CENTRE + x, y, bar[:, 2]], axis=1)


def _halo(rng: np.random.Generator, rows: int) -> np.ndarray:
    """A sphere around the centre, density falling as r^-3 between 1 and 60 kpc."""
    unit = rng.standard_normal((rows, 3))
    unit /= np.linalg.norm(unit, axis=1)[:, None]
    radius = np.exp(rng.uniform(0.0, np.log(60.0), rows))
    return unit * radius[:, None] + (SUN_TO_CENTRE, 0.0, 0.0)


def _clusters(rng: np.random.Generator, rows: int, seed: int) -> np.ndarray:
    """Plummer spheres: globulars about the centre, open clusters in the near disc. A few are very rich."""
    layout = np.random.default_rng([seed, 0])
    centres = np.concatenate(
        [
            _halo(layout, GLOBULARS) * (1.0, 0.5, 0.5),
            _disc(layout, OPEN_CLUSTERS, scale_height=0.06, depth=1.5),
        ]
    )
    radii = np.concatenate([np.full(GLOBULARS, 0.006), np.full(OPEN_CLUSTERS, 0.002)])  # kpc
    richness = layout.pareto(1.2, len(centres)) + 0.1
    member = rng.choice(len(centres), rows, p=richness / richness.sum())
    unit = rng.standard_normal((rows, 3))
    unit /= np.linalg.norm(unit, axis=1)[:, None]
    radius = radii[member] / np.sqrt(rng.uniform(0.02, 1.0, rows) ** (-2.0 / 3.0) - 0.999)
    return centres[member] + unit * np.minimum(radius, 0.05)[:, None]


def write_part(folder: Path, part: int, rows: int) -> Path:
    """Write one file of the set, whole or not at all; a file that is there with as many rows is kept."""
    path = folder / f"stars_{part:04d}.parquet"
    if path.exists() and pq.read_metadata(path).num_rows == rows:
        return path
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    pq.write_table(
        stars(rows, part), temporary, compression="zstd", compression_level=1, row_group_size=ROW_GROUP_ROWS
    )
    return temporary.replace(path)


def write_survey(folder: Path, rows: int, *, processes: int = 2) -> list[Path]:
    """Write `rows` stars as files of a million, and return the paths; existing files are kept."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = [(part, min(FILE_ROWS, rows - part * FILE_ROWS)) for part in range(-(-rows // FILE_ROWS))]
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        return list(pool.map(write_part, [folder] * len(parts), *zip(*parts, strict=True)))


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rows", type=parse_count, required=True, help="stars, e.g. 20M")
    parser.add_argument("--folder", type=Path, required=True)
    arguments: Any = parser.parse_args(argv)
    paths = write_survey(arguments.folder, arguments.rows)
    total = sum(path.stat().st_size for path in paths)
    print(f"{len(paths)} files, {total / 1e9:.2f} GB in {arguments.folder}")


if __name__ == "__main__":
    main()
