"""Positions as text are those that astropy understands."""

from __future__ import annotations

import pytest
from astropy import units
from astropy.coordinates import SkyCoord
from hipslake.errors import RegionError
from hipslake.sphere.position_text import POSITION_FORMS, parse_position
from hypothesis import given
from hypothesis import strategies as st

SKY = st.tuples(st.floats(0, 359.9999), st.floats(-89.9999, 89.9999))
DEGREES = ("{} {}", "{},{}", " {} , {} ", "ra {} dec {}", "RA={}, DEC={}", "icrs {} {}", "{}d {}d")


def apart(found: object, place: SkyCoord) -> float:
    """Arcseconds between what was understood and a position."""
    ra, dec = found[:2]  # type: ignore[index]
    return float(SkyCoord(ra, dec, unit="deg").separation(place).arcsec)


@given(SKY, st.sampled_from([":", " ", "hms"]), st.sampled_from([" ", ", ", " ; "]))
def test_sexagesimal_texts_are_understood_as_astropy_does(
    at: tuple[float, float], sep: str, mid: str
) -> None:
    place = SkyCoord(*at, unit="deg")
    lon = place.ra.to_string(unit=units.hourangle, sep=sep, precision=6, pad=sep != "hms")
    lat = place.dec.to_string(
        unit=units.deg, sep="dms" if sep == "hms" else sep, precision=5, alwayssign=True
    )
    found = parse_position(f"{lon}{mid}{lat}")
    assert found is not None
    assert apart(found, place) < 1e-4
    assert apart(found, SkyCoord(f"{lon} {lat}", unit=(units.hourangle, units.deg))) < 1e-6


@given(SKY, st.sampled_from(DEGREES))
def test_degrees_are_understood_exactly(at: tuple[float, float], form: str) -> None:
    found = parse_position(form.format(*map(repr, at)))
    assert found is not None
    assert found[:2] == at


@given(SKY, st.sampled_from(["galactic {} {}", "gal {} {}", "l {} b {}", "l={}, b={}", "{} {} galactic"]))
def test_galactic_texts_are_understood_as_astropy_does(at: tuple[float, float], form: str) -> None:
    found = parse_position(form.format(*(f"{each:.9f}" for each in at)))
    assert found is not None
    assert found.frame == "galactic"
    assert apart(found, SkyCoord(*at, unit="deg", frame="galactic").icrs) < 1e-4


@given(SKY, st.sampled_from(["ecliptic {} {}", "ecl {} {}", "lon {} lat {}"]))
def test_ecliptic_texts_are_understood_as_astropy_does(at: tuple[float, float], form: str) -> None:
    found = parse_position(form.format(*(f"{each:.9f}" for each in at)))
    assert found is not None
    assert apart(found, SkyCoord(*at, unit="deg", frame="barycentricmeanecliptic").icrs) < 1e-4


@given(SKY)
def test_names_of_surveys_hold_their_position(at: tuple[float, float]) -> None:
    place = SkyCoord(*at, unit="deg")
    lon = place.ra.to_string(unit=units.hourangle, sep="", precision=4, pad=True)
    lat = place.dec.to_string(unit=units.deg, sep="", precision=3, pad=True, alwayssign=True)
    for name in (f"J{lon}{lat}", f"SDSS J{lon}{lat}", f"j{lon}{lat}"):
        found = parse_position(name)
        assert found is not None
        assert apart(found, place) < 0.002


@pytest.mark.parametrize(
    ("text", "ra", "dec"),
    [
        ("05 34 31.94 +22 00 52.2", 83.633083, 22.0145),
        ("5h34m31.94s +22d0m52.2s", 83.633083, 22.0145),
        ("5h34m -22d30m", 83.5, -22.5),
        ("05:34.5 -00:30", 83.625, -0.5),
        ("-10 5", 350, 5),
        ("10.5-5.25", 10.5, -5.25),
        ("83.5−22", 83.5, -22),  # noqa: RUF001
        ("J0534-2201", 83.5, -22.016667),
        ("83d30m0s +22d30m0s", 83.5, 22.5),
        ("83°30′0″ +22°30′0″", 83.5, 22.5),  # noqa: RUF001
    ],
)
def test_forms_by_hand(text: str, ra: float, dec: float) -> None:
    found = parse_position(text)
    assert found is not None
    assert found[:2] == pytest.approx((ra, dec), abs=1e-6)


@pytest.mark.parametrize("form", POSITION_FORMS)
def test_the_forms_that_messages_name_are_understood(form: str) -> None:
    assert parse_position(form.partition(" (")[0]) is not None


@pytest.mark.parametrize(
    "text", ["", "5", "HD 209458", "NGC 1", "a b", "1 2 3", "cone 1 2 3deg", "--1 2", "nan 1", "x" * 5000]
)
def test_what_is_no_position_is_none(text: str) -> None:
    assert parse_position(text) is None


@pytest.mark.parametrize(
    "text", ["10 91", "galactic 10 -95", "800 1", "5:61:00 +1:00:00", "05:34:75 +22:00:00", "J053475+220000"]
)
def test_what_is_not_on_the_sky_is_told(text: str) -> None:
    with pytest.raises(RegionError, match="outside"):
        parse_position(text)


@pytest.mark.parametrize(
    "text",
    [
        "40 30 00 +20 00 00",
        "30:15:20 +10:20:30",
        "25h0m0s +5d0m0s",
        "0534+22",
        "0528-13",
        "galactic 12h0m 5d0m",
    ],
)
def test_what_could_be_read_as_another_place_is_refused(text: str) -> None:
    with pytest.raises(RegionError):
        parse_position(text)
