"""Positions as text, as people write them: degrees, hours and sexagesimal degrees, galactic, ecliptic."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from hipslake.errors import RegionError
from hipslake.sphere.angle_text import AnglePart, WrittenAngle, angle_of, plain_signs, two_angles
from hipslake.sphere.regions.region import checked, written

SkyFrame = Literal["icrs", "galactic", "ecliptic"]

_LONGEST = 200
_FRAMES: dict[str, SkyFrame] = {
    **dict.fromkeys(("icrs", "fk5", "j2000", "j2000.0", "eq", "equatorial"), "icrs"),
    **dict.fromkeys(("gal", "galactic"), "galactic"),
    **dict.fromkeys(("ecl", "ecliptic"), "ecliptic"),
}
_AXES: dict[str, tuple[SkyFrame, int]] = {
    **dict.fromkeys(("ra", "alpha", "\u03b1"), ("icrs", 0)),
    **dict.fromkeys(("dec", "de", "decl", "delta", "\u03b4"), ("icrs", 1)),
    **dict.fromkeys(("l", "glon"), ("galactic", 0)),
    **dict.fromkeys(("b", "glat"), ("galactic", 1)),
    **dict.fromkeys(("lon", "elon", "\u03bb"), ("ecliptic", 0)),
    **dict.fromkeys(("lat", "elat", "\u03b2"), ("ecliptic", 1)),
}
"""The words for axes: their frame, and whether they are the first of it or the second."""
_BRACKETS = {"(": ")", "[": "]"}
_AXIS = re.compile(r"(?<![^\W\d_])([^\W\d_]+)\s*[=:]?")
_SIGNED = re.compile(r"(\d+)(?:\.\d*)?[-+]\d+(?:\.\d*)?")
_PART = r"(\d{2})(\d{2})(\d{2}(?:\.?\d+|\.)?|\.\d+)?"
_SURVEY_NAME = re.compile(rf"(?:[a-z0-9-]+\s+){{0,3}}j\s*{_PART}([-+]){_PART}")
POSITION_FORMS = (
    "83.6331 22.0145 (degrees)",
    "05:34:31.9 +22:00:52",
    "5h34m31.9s +22d0m52s",
    "RA=83.6331 Dec=22.0145",
    "galactic 184.56 -5.78 (or l=184.56 b=-5.78)",
    "ecliptic 84.1 -1.29",
    "J053431.9+220052",
)
"""The forms that are understood, for messages."""


class TextPosition(NamedTuple):
    """A position that a text names."""

    ra: float  # ICRS degrees, [0, 360)
    dec: float
    lon: float  # as it was given, degrees
    lat: float
    frame: SkyFrame

    def __str__(self) -> str:
        place = f"RA {self.ra:.6f}, Dec {self.dec:+.6f}"
        if self.frame == "icrs":
            return place
        return f"{place} ({self.frame} {written(self.lon)} {written(self.lat)})"


def parse_position(text: str) -> TextPosition | None:
    """The position that a text names; None where it is none.

    Parameters
    ----------
    text : str
        Right ascension and declination: two numbers of degrees; or sexagesimal hours and degrees, with
        colons, blanks or units between; or a name of a survey made of them, `J053431.9+220052`. Or
        galactic or ecliptic (J2000) coordinates, beside the word or with `l` and `b`. Brackets around all,
        commas between, and typographic signs do no harm.

    Raises
    ------
    RegionError
        It is one, but outside of the sky; or it could be several.

    Examples
    --------
    >>> print(parse_position("05:34:31.94 +22:00:52.2"))
    RA 83.633083, Dec +22.014500
    >>> print(parse_position("2MASS J05343194+2200522"))
    RA 83.633083, Dec +22.014500
    >>> print(parse_position("l=0, b=0"))
    RA 266.404988, Dec -28.936178 (galactic 0 0)
    >>> parse_position("HD 209458") is None
    True
    """
    if len(text) > _LONGEST:
        return None
    plain = plain_signs(text)
    if match := _SURVEY_NAME.fullmatch(plain):
        return _of_name(match)
    if _BRACKETS.get(plain[:1]) == plain[-1:]:
        plain = plain[1:-1].strip()
    frame, rest = _split_frame(plain)
    match = _SIGNED.fullmatch(rest)
    if match and (int(match[1]) > 360 or re.match(r"0\d{3}", rest)):
        raise RegionError(f"{plain}: is no pair of degrees; for the name of a survey write J{plain}")
    named = _split_axes(rest)
    if named is None:
        angles, frame = two_angles(rest), frame or "icrs"
    else:
        angles, frame = named[1], frame if frame and named[0] == "ecliptic" else named[0]
    return None if angles is None else _of_angles(plain, frame, *angles)


def _of_angles(text: str, frame: SkyFrame, first: WrittenAngle, second: WrittenAngle) -> TextPosition | None:
    if second.unit == "h":
        return None
    if frame != "icrs" and first.unit == "h":
        raise RegionError(f"{text}: {frame} coordinates are in degrees, and not in hours")
    sexagesimal = [len(angle.parts) > 1 for angle in (first, second)]
    if sexagesimal == [False, True] and not first.unit:
        raise RegionError(f"{text}: is {first.parts[0].text} in degrees or in hours? Write its unit")
    if sexagesimal == [True, False] and first.parts[0].behind == second.parts[0].behind == "":
        raise RegionError(f"{text}: where the first of two angles ends is not told; write units or colons")
    hours = first.unit == "h" or (frame == "icrs" and sexagesimal[0] and not first.unit)
    if first.sign == "-" and hours:
        raise RegionError(f"{text}: a right ascension in hours is from 0 to 24")
    lon = 15 * first.value("hour", "longitude") if hours else first.value("deg", "longitude")
    return _placed(lon, second.value("deg", "latitude"), frame)


def _split_frame(text: str) -> tuple[SkyFrame | None, str]:
    """The frame that the first or the last word of a text names, and the rest."""
    before, _, rest = text.replace(":", ": ", 1).partition(" ") if text[:1].isalpha() else ("", "", "")
    if (frame := _FRAMES.get(before.rstrip(":,"))) and rest:
        return frame, rest.strip(" :")
    rest, _, behind = text.rpartition(" ")
    if (frame := _FRAMES.get(behind.strip("()"))) and rest:
        return frame, rest.rstrip(" ,;")
    return None, text


def _split_axes(text: str) -> tuple[SkyFrame, tuple[WrittenAngle, WrittenAngle] | None] | None:
    """The frame and the two angles of a text with words for its axes; None where it has none."""
    found = [(match, _AXES[match[1]]) for match in _AXIS.finditer(text) if match[1] in _AXES]
    if not found:
        return None
    frames, places = {frame for _, (frame, _) in found}, [place for _, (_, place) in found]
    if len(found) != 2 or len(frames) != 1 or sorted(places) != [0, 1] or found[0][0].start() > 0:
        return None
    middle = found[1][0]
    texts = (text[found[0][0].end() : middle.start()].rstrip(" ,;"), text[middle.end() :])
    angles = [angle_of(each.strip()) for each in texts]
    first, second = angles if places == [0, 1] else angles[::-1]
    return frames.pop(), None if first is None or second is None else (first, second)


def _of_name(match: re.Match[str]) -> TextPosition:
    lon, lat = (
        WrittenAngle(
            sign, tuple(AnglePart(text, "") for text in _of_digits(*match.groups()[first : first + 3]))
        )
        for sign, first in (("", 0), (match[4], 4))
    )
    return _placed(15 * lon.value("hour", "name"), lat.value("deg", "name"), "icrs")


def _of_digits(whole: str, minutes: str, rest: str | None) -> list[str]:
    """The numbers of a part of a name: a fraction of minutes, or seconds and their decimals behind them."""
    if rest is None:
        return [whole, minutes]
    if rest.startswith("."):
        return [whole, minutes + rest]
    return [whole, minutes, rest if "." in rest else f"{rest[:2]}.{rest[2:]}"]


def _placed(lon: float, lat: float, frame: SkyFrame) -> TextPosition:
    axes = {"icrs": ("ra", "dec"), "galactic": ("l", "b"), "ecliptic": ("lon", "lat")}[frame]
    lon = checked(lon, -360.0, 720.0, what=f"{axes[0]}, degrees,")
    lat = checked(lat, -90.0, 90.0, what=f"{axes[1]}, degrees,")
    if frame == "icrs":
        return TextPosition(lon % 360.0, lat, lon, lat, frame)
    from astropy import units
    from astropy.coordinates import BarycentricMeanEcliptic, Galactic, SkyCoord

    made = {"galactic": Galactic(), "ecliptic": BarycentricMeanEcliptic()}[frame]
    place = SkyCoord(lon, lat, unit=units.deg, frame=made).icrs
    return TextPosition(float(place.ra.deg) % 360.0, float(place.dec.deg), lon, lat, frame)
