"""Regions as text, as they are typed into a form: `cone 56.75 24.12 3deg`."""

from __future__ import annotations

import re

import numpy as np

from hipslake.errors import RegionError
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixels import MAX_ORDER, starts, stops
from hipslake.sphere.regions.box import Box
from hipslake.sphere.regions.cone import Cone
from hipslake.sphere.regions.pixel_regions import Moc, PixelList
from hipslake.sphere.regions.polygon import Polygon
from hipslake.sphere.regions.region import Region

MAX_LISTED_PIXELS = 100_000
_NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
_RANGE_END = r"[-+]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?"  # 1.. is a range from 1
_PER_DEGREE = {"deg": 1, "arcmin": 60, "arcsec": 3600, "mas": 3_600_000}
_CONE = re.compile(rf"({_NUMBER})[\s,]+({_NUMBER})[\s,]+({_NUMBER})\s*({'|'.join(_PER_DEGREE)})")
_BOX = re.compile(
    rf"ra\s+({_RANGE_END})\s*\.\.\s*({_RANGE_END})[\s,]+dec\s+({_RANGE_END})\s*\.\.\s*({_RANGE_END})"
)
_VERTEX = re.compile(rf"\s*({_NUMBER})\s+({_NUMBER})\s*")
_RUN = re.compile(r"(\d{1,19})(?:-(\d{1,19}))?")
_FORMS = {
    "cone": "cone 56.75 24.12 3deg (ra, dec, radius; deg, arcmin, arcsec or mas)",
    "box": "box ra 350..10 dec -5..5",
    "polygon": "polygon 10 0, 20 0, 15 10 (ra and dec of each vertex)",
    "moc": "moc 3/1-4 5/7,9 (order/pixels, NESTED)",
    "pixels": "pixels 2/5 3/100 (order/pixel, NESTED)",
}


def parse_region(text: str) -> Region:
    """The region that a text names; `str(region)` is such a text.

    Parameters
    ----------
    text : str
        `cone RA DEC RADIUS`, `box ra A..B dec C..D`, `polygon RA DEC, RA DEC, ...`, `moc ORDER/PIXELS ...` or
        `pixels ORDER/PIXEL ...`. ICRS, in degrees but for the radius, which has its unit: deg, arcmin, arcsec
        or mas.

    Raises
    ------
    RegionError
        It is no such text, or the region that it names is none.

    Examples
    --------
    >>> parse_region("cone 56.75 24.12 90arcmin")
    Cone(ra=56.75, dec=24.12, radius_deg=1.5)
    >>> str(parse_region("pixels 2/5,6 3/100"))
    'pixels 2/5 2/6 3/100'
    """
    kind, _, rest = text.strip().partition(" ")
    parsers = {"cone": _cone, "box": _box, "polygon": _polygon, "moc": _moc, "pixels": _pixel_list}
    if kind.lower() not in parsers:
        raise RegionError(
            f"region {_short(text)} is of no known kind; write one of: {'; '.join(_FORMS.values())}"
        )
    region = parsers[kind.lower()](rest.strip())
    if region is None:
        raise RegionError(f"region {_short(text)} is not understood; write {_FORMS[kind.lower()]}")
    return region


def parse_moc(text: str) -> Moc:
    """The MOC that a text of orders and pixels names, `3/1-4 5/7,9`; the string form of the standard.

    A pixel that follows without an order is of the one before: `3/1 4 7` and `3/1,4,7` are the same.

    Raises
    ------
    RegionError
        It is no such text, or there is no such pixel.
    """
    runs = _runs(text)
    if runs is None:
        raise RegionError(f"MOC {_short(text)} is not understood; write {_FORMS['moc']}")
    order, first, last = (np.array(column, np.int64) for column in zip(*runs, strict=True)) if runs else _NONE
    return Moc(Intervals.union(starts(order, first), stops(order, last)))


_NONE = (np.empty(0, np.int64),) * 3


def _cone(text: str) -> Cone | None:
    match = _CONE.fullmatch(text)
    if match is None:
        return None
    ra, dec, radius, unit = match.groups()
    return Cone(float(ra), float(dec), float(radius) / _PER_DEGREE[unit])


def _box(text: str) -> Box | None:
    match = _BOX.fullmatch(text)
    return None if match is None else Box(*map(float, match.groups()))


def _polygon(text: str) -> Polygon | None:
    vertices = [_VERTEX.fullmatch(part) for part in text.split(",")]
    if not all(vertices):
        return None
    return Polygon([(float(vertex[1]), float(vertex[2])) for vertex in vertices if vertex])


def _moc(text: str) -> Moc | None:
    return parse_moc(text) if text and _runs(text) is not None else None


def _pixel_list(text: str) -> PixelList | None:
    runs = _runs(text)
    if not text or runs is None:
        return None
    if sum(last - first + 1 for _, first, last in runs) > MAX_LISTED_PIXELS:
        raise RegionError(
            f"region {_short('pixels ' + text)} lists more than {MAX_LISTED_PIXELS} pixels; write moc"
        )
    return PixelList((order, npix) for order, first, last in runs for npix in range(first, last + 1))


def _runs(text: str) -> list[tuple[int, int, int]] | None:
    """Order, first and last pixel of each run; None where it is not understood."""
    order = None
    found = []
    for word in re.split(r"[\s,]+", text.strip(" \t\r\n,")) if text.strip() else []:
        before, slash, run = word.rpartition("/")
        if slash:
            if not re.fullmatch(r"\d{1,2}", before):
                return None
            order = int(before)
            if order > MAX_ORDER:
                raise RegionError(f"there is no order {order}; pixels have orders 0 to {MAX_ORDER}")
            if not run:  # an order that is named without pixels only says how fine a MOC is
                continue
        match = _RUN.fullmatch(run)
        if match is None or order is None:
            return None
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last < 12 << (2 * order):
            raise RegionError(
                f"there are no pixels {run} of order {order}; they are 0 to {(12 << 2 * order) - 1}"
            )
        found.append((order, first, last))
    return found


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")
