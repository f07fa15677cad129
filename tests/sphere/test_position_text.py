"""Positions as text are those that astropy understands."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

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


# Signs behind the numbers of the first and of the second angle, and what stands between the two.
PAIRS = [
    ("hms", "dms", ""),  # 05h34m31.9s+22d00m52s
    (":", ":", ""),
    (" ", " ", " "),
    ("hms", "dms", " "),
    (":", ":", "  "),
    (("h ", "m ", "s"), ("d ", "m ", "s"), ", "),
    (("h", "'", '"'), ("°", "'", '"'), " "),
    (("\u02b0", "\u1d50", "\u02e2"), ("°", "\u2032", "\u2033"), " "),
    (("h", "m", "s"), ("°", "'", "''"), "; "),
    (("hr", "min", "sec"), ("deg", "arcmin", "arcsec"), " "),
]
AROUND = ["{}", "({})", "[{}]", "  {} ", "J2000 {}", "icrs: {}", "{} (J2000)", "{}, fk5"]


@given(
    SKY, st.sampled_from(PAIRS), st.sampled_from(AROUND), st.integers(0, 4), st.sampled_from("-\u2212\u2013")
)
def test_sexagesimal_forms_are_understood_as_astropy_wrote_them(
    at: tuple[float, float], pair: tuple[Any, Any, str], around: str, digits: int, minus: str
) -> None:
    place = SkyCoord(*at, unit="deg")
    lon = place.ra.to_string(unit=units.hourangle, sep=pair[0], precision=digits, pad=True)
    lat = place.dec.to_string(unit=units.deg, sep=pair[1], precision=digits, pad=True, alwayssign=True)
    found = parse_position(around.format(f"{lon}{pair[2]}{lat}".replace("-", minus)))
    assert found is not None
    assert apart(found, place) < 10 ** (1.2 - digits)
    again = SkyCoord(
        place.ra.to_string(unit=units.hourangle, sep="hms", precision=digits),
        place.dec.to_string(unit=units.deg, sep="dms", precision=digits),
    )
    assert apart(found, again) < 1e-6


FORMS = {
    "icrs": [
        *("({}, {})", "[{} {}]", "{}d {}d", "{} , {}", "{}{:+}", "{} deg, {} deg", "{} {} J2000"),
        *("{}\u00b0, {}\u00b0", "{}\u00ba{:+}\u00ba", "RA {}\u00b0 DE {}\u00b0"),
        *("RA={} Dec={}", "ra: {}, dec: {}", "\u03b1 {} \u03b4 {}"),
    ],
    "galactic": [
        *("l={} b={}", "l {}, b {}", "(l={}, b={})", "glon={} glat={}", "galactic lon {} lat {}"),
        *("{} {} gal", "gal {}, {}", "galactic: {} {}"),
    ],
    "ecliptic": ["lon={} lat={}", "\u03bb={}\u00b0 \u03b2={}\u00b0", "{} {} ecl"],
}
FRAMES = {"icrs": "icrs", "galactic": "galactic", "ecliptic": "barycentricmeanecliptic"}


@pytest.mark.parametrize(("frame", "form"), [(frame, form) for frame in FORMS for form in FORMS[frame]])
@given(at=SKY, minus=st.sampled_from("-\u2212"))
def test_decimal_forms_are_understood_as_astropy_places_them(
    frame: str, form: str, at: tuple[float, float], minus: str
) -> None:
    lon, lat = (round(each, 6) for each in at)
    found = parse_position(form.format(lon, lat).replace("-", minus))
    assert found is not None
    assert found.frame == frame
    assert apart(found, SkyCoord(lon, lat, unit="deg", frame=FRAMES[frame]).icrs) < 1e-4


@given(SKY)
def test_axes_may_be_named_in_any_order(at: tuple[float, float]) -> None:
    assert parse_position(f"dec={at[1]!r} ra={at[0]!r}") == parse_position(f"ra={at[0]!r} dec={at[1]!r}")
    assert parse_position(f"b {at[1]!r}, l {at[0]!r}") == parse_position(f"l {at[0]!r} b {at[1]!r}")


@given(SKY)
def test_names_of_2mass_have_decimals_without_a_point(at: tuple[float, float]) -> None:
    place = SkyCoord(*at, unit="deg")
    lon = place.ra.to_string(unit=units.hourangle, sep="", precision=2, pad=True).replace(".", "")
    lat = place.dec.to_string(unit=units.deg, sep="", precision=1, pad=True, alwayssign=True).replace(".", "")
    for name in (f"2MASS J{lon}{lat}", f"2MASSW J{lon}{lat}", f"J{lon}{lat}"):
        found = parse_position(name)
        assert found is not None
        assert apart(found, place) < 0.2


@given(st.text("0123456789.+-:hdms'\" ,;()[]=raeclb\u00b0j", max_size=60))
def test_any_text_is_a_position_on_the_sky_or_none_or_refused(text: str) -> None:
    try:
        found = parse_position(text)
    except RegionError:
        return
    assert found is None or (0 <= found.ra < 360 and -90 <= found.dec <= 90)


@pytest.mark.parametrize(
    "piece", ["1 ", "1:", "1h", "+", "ra ", "j1", "a b ", "0 0 0 ", "((", "l=", "1'", " "]
)
def test_long_texts_take_no_longer_for_each_letter(piece: str) -> None:
    """Also of texts that repeat what expressions with backtracking would try again and again."""
    begun = time.thread_time()
    for text in (piece * (200 // len(piece)), f"{piece * 60}x"[-200:]):
        with suppress(RegionError):
            parse_position(text)
    assert time.thread_time() - begun < 0.1  # of the processor: others may have it meanwhile


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
        ("2MASS J05343194+2200522", 83.633083, 22.0145),
        ("SDSS J053431.94+220052.2", 83.633083, 22.0145),
        ("WISEA J0534.5-0030.5", 83.625, -0.508333),
        ("(83.6, 22.0)", 83.6, 22),
        ("[83.6 22.0]", 83.6, 22),
        ("83.6d 22.0d", 83.6, 22),
        ("83.6\u00b0, +22.0\u00b0", 83.6, 22),
        ("RA=83.6 Dec=22", 83.6, 22),
        ("05h34m31.94s+22d00m52.2s", 83.633083, 22.0145),
        ("05:34:31.94+22:00:52.2", 83.633083, 22.0145),
        ("5h34m31.94s \u22120\u00b030\u2032", 83.633083, -0.5),
        ("05:34:31.94 -0.5", 83.633083, -0.5),
        ("5.5h 22d", 82.5, 22),
        ("RA 05:34:31.94 Dec +22:00:52.2", 83.633083, 22.0145),
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
    "text",
    [
        "",
        "5",
        "HD 209458",
        "NGC 1",
        "a b",
        "1 2 3",
        "cone 1 2 3deg",
        "--1 2",
        "nan 1",
        "x" * 5000,
        "supergalactic 10 20",
        "b1950 5h34m 22d0m",
        "83,6331 22,0145",
        "05 34 31,9 +22 00 52",
        "2020-01-05",
        "10:20:30",
        "ra 5 b 7",
        "ra 5 ra 7",
        "12m 5s",
        "22d 5h",
        "J05343+22005",
        "12 30 +",
        "5:6: 7:8",
    ],
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
        "10 20 30 40",  # 10h 20m, 30d 40m, or 10h 20m 30s, 40d
        "10 20 30 40 50",
        "12 30 -5",
        "83.6 +22:00:52",  # degrees, or hours
        "-05:34:00 +22:00:00",
        "053431.9+220052",
    ],
)
def test_what_could_be_read_as_another_place_is_refused(text: str) -> None:
    with pytest.raises(RegionError):
        parse_position(text)
