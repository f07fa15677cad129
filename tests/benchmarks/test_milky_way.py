"""The synthetic galaxy is the same wherever it is drawn, and looks like one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from astropy import units
from astropy.coordinates import SkyCoord

from benchmarks.milky_way import GALACTIC_TO_ICRS, SCHEMA, stars, write_part

ROWS = 20_000


def test_a_part_is_the_same_every_time_and_unlike_the_others() -> None:
    assert stars(ROWS, 3).equals(stars(ROWS, 3))
    assert not stars(ROWS, 3).equals(stars(ROWS, 4))


def test_ids_are_unique_over_parts() -> None:
    ids = np.concatenate([stars(ROWS, part)["source_id"].to_numpy() for part in (0, 1)])
    assert len(np.unique(ids)) == 2 * ROWS


def test_positions_are_on_the_sky_and_no_value_is_missing() -> None:
    table = stars(ROWS, 0)
    assert table.schema == SCHEMA
    assert len(SCHEMA) == 12
    ra, dec = table["ra"].to_numpy(), table["dec"].to_numpy()
    assert ra.min() >= 0
    assert ra.max() < 360
    assert np.abs(dec).max() <= 90
    assert all(np.isfinite(table[name].to_numpy()).all() for name in SCHEMA.names[1:10])


def test_galactic_axes_are_where_astropy_has_them() -> None:
    towards = SkyCoord(l=[0, 90, 0] * units.deg, b=[0, 0, 90] * units.deg, frame="galactic").icrs
    assert np.allclose(towards.cartesian.xyz.value, GALACTIC_TO_ICRS, atol=1e-6)


def test_most_stars_lie_near_the_galactic_plane() -> None:
    table = stars(ROWS, 0)
    sky = SkyCoord(
        table["ra"].to_numpy() * units.deg, table["dec"].to_numpy() * units.deg, frame="icrs"
    ).galactic
    near_plane = np.mean(np.abs(sky.b.deg) < 10)
    assert 0.4 < near_plane < 0.8  # a uniform sky would have 0.17


def test_a_file_that_is_there_is_kept(tmp_path: Path) -> None:
    path = write_part(tmp_path, 0, 1000)
    stamp = path.stat().st_mtime_ns
    assert write_part(tmp_path, 0, 1000).stat().st_mtime_ns == stamp
    assert pq.read_metadata(write_part(tmp_path, 0, 500)).num_rows == 500
