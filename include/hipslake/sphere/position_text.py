"""Positions as text, as people write them: degrees, hours and sexagesimal degrees, galactic, ecliptic."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from hipslake.errors import RegionError
from hipslake.sphere.regions.region import checked, written

SkyFrame = Literal["icrs", "galactic", "ecliptic"]

_LONGEST = 200
_NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
_FRAMES: dict[SkyFrame, str] = {
    "icrs": r"icrs|fk5|j2000|eq|equatorial",
    "galactic": r"gal|galactic",
    "ecliptic": r"ecl|ecliptic",
}
_AXES: dict[SkyFrame, tuple[str, str]] = {
    "icrs": (r"ra|alpha|α", r"dec|de|delta|δ"),  # noqa: RUF001
    "galactic": (r"l|glon", r"b|glat"),
    "ecliptic": (r"lon|elon|λ", r"lat|elat|β"),
}
_SECONDS = r"(?:\s*(\d{1,2}(?:\.\d*)?)\s*(?:s|\"|\u2033|'')?)?"
_SEXAGESIMAL = re.compile(
    rf"(\d{{1,3}})\s*(?P<unit>[hd°:]|(?=\s))\s*(\d{{1,2}}(?:\.\d*)?)\s*['\u2032m:]?{_SECONDS}"
    rf"\s*[,;\s]\s*([-+])?(\d{{1,2}})\s*(?:[d°:]|(?=\s))\s*(\d{{1,2}}(?:\.\d*)?)\s*['\u2032m:]?{_SECONDS}"
)
_DECIMAL = re.compile(rf"({_NUMBER})\s*(?:d|deg|°)?\s*[,;\s]\s*({_NUMBER})\s*(?:d|deg|°)?")
_SIGNED = re.compile(rf"({_NUMBER})([-+](?:\d+(?:\.\d*)?|\.\d+))")
_PART = r"(\d{2})(\d{2})(\d{2}(?:\.\d*)?|\.\d+)?"
_SURVEY_NAME = re.compile(rf"(?:[a-z0-9]+\s+)?j\s*{_PART}([-+]){_PART}", re.I)
POSITION_FORMS = (
    "83.6331 22.0145 (degrees)",
    "05:34:31.9 +22:00:52",
    "5h34m31.9s +22d0m52s",
    "galactic 184.56 -5.78 (or l 184.56 b -5.78)",
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
        colons, spaces or units between; or a name of a survey made of them, `J053431.9+220052`. Or
        galactic or ecliptic (J2000) coordinates, after the word or with `l` and `b`.

    Raises
    ------
    RegionError
        It is one, but outside of the sky.

    Examples
    --------
    >>> print(parse_position("05:34:31.94 +22:00:52.2"))
    RA 83.633083, Dec +22.014500
    >>> print(parse_position("galactic 0 0"))
    RA 266.404988, Dec -28.936178 (galactic 0 0)
    >>> parse_position("HD 209458") is None
    True
    """
    if len(text) > _LONGEST:
        return None
    plain = " ".join(text.replace("\u2212", "-").split())  # also the typographic minus
    if match := _SURVEY_NAME.fullmatch(plain):
        return _of_name(match)
    frame, rest = _split_frame(plain.lower())
    if match := _DECIMAL.fullmatch(rest):
        return _placed(float(match[1]), float(match[2]), frame)
    if match := _SIGNED.fullmatch(rest):
        if abs(float(match[1])) > 360 or re.match(r"0\d{3}", match[1]):
            raise RegionError(f"{plain}: is no pair of degrees; for the name of a survey write J{plain}")
        return _placed(float(match[1]), float(match[2]), frame)
    if match := _SEXAGESIMAL.fullmatch(rest):
        unit = match["unit"]
        hours = frame == "icrs" and unit not in ("d", "°")
        if unit == "h" and not hours:
            raise RegionError(f"{plain}: {frame} coordinates are in degrees, and not in hours")
        lon = _sexagesimal(match[1], match[3], match[4], "longitude")
        if hours:
            lon = 15 * _hours(lon, f"; for degrees write {match[1]}d{match[3]}m")
        lat = _sexagesimal(match[6], match[7], match[8], "latitude")
        return _placed(lon, -lat if match[5] == "-" else lat, frame)
    return None


def _split_frame(text: str) -> tuple[SkyFrame, str]:
    """The frame that a text names, and what is left of it: two coordinates."""
    for frame, words in _FRAMES.items():
        before, after = rf"(?:{words})[\s:]+(.+)", rf"(.+?)\s+(?:{words})"
        if match := re.fullmatch(before, text) or re.fullmatch(after, text):
            named = _split_axes(match[1])
            return frame, named[1] if named else match[1]
    return _split_axes(text) or ("icrs", text)


def _split_axes(text: str) -> tuple[SkyFrame, str] | None:
    for frame, (lon, lat) in _AXES.items():
        named = rf"(?:{lon})(?![a-z])\s*[=:]?\s*(.+?)[\s,;]*\b(?:{lat})(?![a-z])\s*[=:]?\s*(.+)"
        if match := re.fullmatch(named, text):
            return frame, f"{match[1]} {match[2]}"
    return None


def _of_name(match: re.Match[str]) -> TextPosition:
    hours, minutes, seconds, sign, degrees, arcmin, arcsec = match.groups()
    lon = 15 * _hours(_named(hours, minutes, seconds))
    lat = _named(degrees, arcmin, arcsec)
    return _placed(lon, -lat if sign == "-" else lat, "icrs")


def _hours(hours: float, hint: str = "") -> float:
    """A right ascension in hours, which end at 24."""
    if hours > 24:
        raise RegionError(f"a right ascension of {written(hours)} hours is beyond 24{hint}")
    return hours


def _named(whole: str, minutes: str, rest: str | None) -> float:
    """A part of a name; what begins with a point is a fraction of the minutes."""
    if rest is not None and rest.startswith("."):
        return _sexagesimal(whole, minutes + rest, None, "name")
    return _sexagesimal(whole, minutes, rest, "name")


def _sexagesimal(whole: str, minutes: str, seconds: str | None, what: str) -> float:
    parts = checked(float(minutes), 0, 60, what=f"minutes of the {what}")
    small = checked(float(seconds or 0), 0, 60, what=f"seconds of the {what}")
    return float(whole) + parts / 60 + small / 3600


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
