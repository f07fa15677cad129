"""Positions of sources: every numeric type, the limits of the sky, and frames as astropy has them."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from astropy import units
from astropy.coordinates import SkyCoord
from hipslake.sphere.coordinates import REASONS, check_positions, positions, to_icrs_degrees
from hypothesis import given
from hypothesis import strategies as st

OK, NOT_A_NUMBER, INFINITE, DEC, RA = range(5)
SKY = st.lists(st.tuples(st.floats(-360, 720), st.floats(-90, 90)), min_size=1, max_size=20).map(np.array)


def reason(lon: float, lat: float, unit: str = "deg") -> int:
    return int(check_positions(np.array([lon]), np.array([lat]), unit=unit)[0])


@pytest.mark.parametrize(
    "kind",
    [
        pa.int8(),
        pa.int64(),
        pa.uint16(),
        pa.float16(),
        pa.float32(),
        pa.decimal128(9, 4),
        pa.decimal256(50, 4),
    ],
    ids=str,
)
def test_numbers_of_any_type_become_float64_and_null_becomes_nan(kind: pa.DataType) -> None:
    values = [Decimal(12), None, Decimal(90)] if pa.types.is_decimal(kind) else [12, None, 90]
    lon, lat = positions(pa.array(values, kind), pa.chunked_array([pa.array(values, kind)]))
    assert lon.dtype == lat.dtype == np.float64
    np.testing.assert_array_equal(lon, [12.0, np.nan, 90.0])
    np.testing.assert_array_equal(lat, lon)


def test_integers_past_the_precision_of_float64_are_rounded() -> None:
    column = pa.array([2**53 + 1])
    assert positions(column, column)[0].tolist() == [float(2**53)]


def test_columns_of_several_chunks_or_of_none_are_joined() -> None:
    several = pa.chunked_array([[1.0], [], [None, 2.0]], pa.float64())
    none = pa.chunked_array([], pa.float32())
    np.testing.assert_array_equal(positions(several, several)[0], [1.0, np.nan, 2.0])
    assert positions(none, none)[1].shape == (0,)


def test_float64_without_nulls_is_not_copied() -> None:
    values = np.arange(5.0)
    assert np.shares_memory(positions(pa.array(values), pa.array(values))[0], values)


@pytest.mark.parametrize(
    ("lon", "lat", "expected"),
    [
        (-360.0, -90.0, OK),
        (720.0, 90.0, OK),
        (-0.0, 0.0, OK),
        (np.nan, 0.0, NOT_A_NUMBER),
        (0.0, np.nan, NOT_A_NUMBER),
        (np.inf, np.nan, NOT_A_NUMBER),
        (np.inf, 0.0, INFINITE),
        (0.0, -np.inf, INFINITE),
        (0.0, np.nextafter(90, 91), DEC),
        (0.0, np.nextafter(-90, -91), DEC),
        (np.nextafter(720, 721), 0.0, RA),
        (np.nextafter(-360, -361), 0.0, RA),
        (1e9, 1e9, DEC),
    ],
)
def test_limits_in_degrees(lon: float, lat: float, expected: int) -> None:
    assert reason(lon, lat) == expected
    assert (expected == OK) == (REASONS[expected] == "ok")


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_poles_and_full_turns_in_radians_are_on_the_sky_in_both_precisions(kind: type) -> None:
    for lon, lat in [(-2 * np.pi, -np.pi / 2), (4 * np.pi, np.pi / 2), (0, np.radians(90.0))]:
        assert reason(float(kind(lon)), float(kind(lat)), "rad") == OK
        _, dec = to_icrs_degrees(np.array([0.0]), np.array([float(kind(lat))]), unit="rad", frame="icrs")
        assert abs(dec[0]) == 90.0


@pytest.mark.parametrize(
    ("lon", "lat", "expected"),
    [(0.0, 1.570797, DEC), (0.0, -1.570797, DEC), (12.56638, 0.0, RA), (-6.2832, 0.0, RA), (45.0, 45.0, DEC)],
)
def test_what_is_past_single_precision_in_radians_is_not_on_the_sky(
    lon: float, lat: float, expected: int
) -> None:
    assert reason(lon, lat, "rad") == expected


def test_every_row_has_its_own_reason() -> None:
    lon = np.array([10.0, np.nan, np.inf, 0.0, 721.0, 20.0])
    lat = np.array([10.0, 0.0, 0.0, 91.0, 0.0, -20.0])
    found = check_positions(lon, lat, unit="deg")
    assert found.dtype == np.uint8
    assert found.tolist() == [OK, NOT_A_NUMBER, INFINITE, DEC, RA, OK]
    assert check_positions(lon[:0], lat[:0], unit="deg").shape == (0,)


def test_icrs_degrees_are_handed_on_untouched() -> None:
    lon, lat = np.array([-10.0, 400.0]), np.array([90.0, -90.0])
    ra, dec = to_icrs_degrees(lon, lat, unit="deg", frame="icrs")
    assert ra is lon
    assert dec is lat


@pytest.mark.parametrize("frame", ["icrs", "galactic", "fk5"])
@pytest.mark.parametrize("unit", ["deg", "rad"])
@given(sky=SKY)
def test_frames_and_units_are_those_of_astropy(frame: str, unit: str, sky: np.ndarray) -> None:
    lon, lat = sky.T if unit == "deg" else np.radians(sky.T)
    ra, dec = to_icrs_degrees(lon, lat, unit=unit, frame=frame)
    expected = SkyCoord(*sky.T, unit=units.deg, frame=frame).icrs
    apart = SkyCoord(ra, dec, unit=units.deg).separation(expected).to_value(units.uas)
    assert apart.max() < 1  # microarcseconds; a pixel at order 29 has 400
    assert np.abs(dec).max() <= 90


def test_galactic_centre_and_pole_are_where_the_definition_puts_them() -> None:
    """Blaauw et al. 1960, in ICRS: The Hipparcos and Tycho Catalogues, volume 1, section 1.5.3."""
    ra, dec = to_icrs_degrees(np.array([0.0, 0.0]), np.array([0.0, 90.0]), unit="deg", frame="galactic")
    np.testing.assert_allclose(ra, [266.40499, 192.85948], atol=1e-5)
    np.testing.assert_allclose(dec, [-28.93617, 27.12825], atol=1e-5)


@pytest.mark.parametrize("frame", ["icrs", "galactic", "fk5"])
def test_conversion_does_not_depend_on_the_batch(frame: str) -> None:
    rng = np.random.default_rng(1)
    lon, lat = rng.uniform(-6, 12, 5001), rng.uniform(-1.5, 1.5, 5001)
    whole = to_icrs_degrees(lon, lat, unit="rad", frame=frame)
    for piece in (slice(0, 1), slice(17, 30), slice(3, 5000), slice(5000, 5001)):
        cut = to_icrs_degrees(lon[piece], lat[piece], unit="rad", frame=frame)
        assert np.array_equal(cut, np.array(whole)[:, piece])
