"""The place of rows: positions of any numeric type, and their index as healpy and astropy have it."""

from __future__ import annotations

from decimal import Decimal

import healpy
import numpy as np
import pyarrow as pa
import pytest
from astropy import units
from astropy.coordinates import SkyCoord
from hipslake.catalog.placement import icrs_and_index, place
from hipslake.specs.catalog_spec import PositionSpec

POSITION = PositionSpec(ra="ra", dec="dec")


def test_rows_on_the_sky_need_no_reasons() -> None:
    placed = place(pa.record_batch({"dec": [1.5, -90.0], "ra": [-10.0, 360.0]}), POSITION)
    assert placed.reasons is None
    assert (placed.lon.tolist(), placed.lat.tolist()) == ([-10.0, 360.0], [1.5, -90.0])


def test_rows_that_are_not_on_the_sky_have_a_reason_each() -> None:
    rows = {"ra": [1, None, 3, 900], "dec": [Decimal("1.5"), Decimal(2), Decimal("90.1"), None]}
    for batch in (pa.record_batch(rows), pa.table(rows)):
        placed = place(batch, POSITION)
        assert placed.reasons is not None
        assert placed.reasons.tolist() == [0, 1, 3, 1]
        assert np.isnan(placed.lon[1])


@pytest.mark.parametrize("frame", ["icrs", "galactic", "fk5"])
@pytest.mark.parametrize("unit", ["deg", "rad"])
def test_index_is_that_of_healpy_at_the_place_of_astropy(unit: str, frame: str) -> None:
    rng = np.random.default_rng(3)
    lon, lat = rng.uniform(-360, 720, 2000), rng.uniform(-90, 90, 2000)
    position = PositionSpec(ra="l", dec="b", unit=unit, frame=frame)
    asked = (lon, lat) if unit == "deg" else (np.radians(lon), np.radians(lat))
    ra, dec, h29 = icrs_and_index(*asked, position)
    expected = SkyCoord(lon, lat, unit=units.deg, frame=frame).icrs
    assert SkyCoord(ra, dec, unit=units.deg).separation(expected).max() < 1 * units.uas
    assert np.array_equal(h29, healpy.ang2pix(2**29, ra, dec, nest=True, lonlat=True))
