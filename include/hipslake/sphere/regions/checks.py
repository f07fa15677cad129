"""What the numbers of a region have to be, and how they are written."""

from __future__ import annotations

import math

from hipslake.errors import RegionError


def checked(value: float, low: float, high: float, *, what: str) -> float:
    """A number as float, within [low, high].

    Raises
    ------
    RegionError
        It is none, or lies outside; the message says `what` it is.
    """
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise RegionError(f"{what} is a number, not {value!r}") from None
    if not low <= number <= high:  # not NaN either
        raise RegionError(f"{what} is {number:g}, outside [{low:g}, {high:g}]")
    return number


def checked_ra(value: float, *, what: str) -> float:
    """A right ascension in degrees; any of three turns around the sky."""
    return checked(value, -360.0, 720.0, what=f"{what}, degrees,")


def checked_dec(value: float, *, what: str) -> float:
    """A declination in degrees."""
    return checked(value, -90.0, 90.0, what=f"{what}, degrees,")


def written(number: float) -> str:
    """A number as text, as short as reads back to the same one.

    Examples
    --------
    >>> written(3.0), written(0.1), written(-1e-07)
    ('3', '0.1', '-1e-07')
    """
    if number.is_integer() and abs(number) < 1e6:
        return str(math.trunc(number))
    return repr(number)
