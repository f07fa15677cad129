"""Dates and times of texts, as exact numbers of seconds.

Proleptic Gregorian dates of four-digit years, the time of day after `T` or a space, and a zone.
"""

from __future__ import annotations

import datetime
import re
from fractions import Fraction
from typing import NamedTuple

import numpy as np

_MOMENT = re.compile(
    r"(?P<year>\d{4})(?:-(?P<month>\d\d)(?:-(?P<day>\d\d)"
    r"(?:[T ](?P<time>\d\d(?::\d\d(?::\d\d(?:\.\d+)?)?)?)(?P<zone>[zZ]|[-+]\d\d(?::?\d\d)?)?)?)?)?",
    re.ASCII,
)
_TIME = re.compile(r"(\d\d)(?::(\d\d)(?::(\d\d)(\.\d+)?)?)?", re.ASCII)
_DAY = 86_400
_EPOCH = datetime.date(1970, 1, 1)
_MOST_DIGITS = 30


class Moment(NamedTuple):
    """A point in time: seconds since 1970 began, in UTC or in the zone that is meant."""

    seconds: Fraction
    has_zone: bool


def moment_of(text: str) -> Moment:
    """The moment that a text says; a bare year or month is its first day.

    Raises
    ------
    ValueError
        It says none.

    Examples
    --------
    >>> moment_of("1970-01-02T01:00:00.5+01:00")
    Moment(seconds=Fraction(172801, 2), has_zone=True)
    """
    match = _MOMENT.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no moment")
    day = np.datetime64(f"{match['year']}-{match['month'] or '01'}-{match['day'] or '01'}", "D")
    seconds = Fraction(int(day.astype(np.int64)) * _DAY)
    if match["time"]:
        seconds += seconds_of(match["time"])
    zone = match["zone"]
    if zone and zone not in "zZ":
        hours, minutes = int(zone[1:3]), int(zone[3:].lstrip(":") or 0)
        if hours > 23 or minutes > 59:
            raise ValueError(f"{text!r} has no such zone")
        seconds -= (-1 if zone[0] == "-" else 1) * (hours * 3600 + minutes * 60)
    return Moment(seconds, zone is not None)


def seconds_of(text: str) -> Fraction:
    """The seconds since midnight that a time of day says.

    Raises
    ------
    ValueError
        It says none.
    """
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no time of day")
    hours, minutes, seconds = (int(part or 0) for part in match.groups()[:3])
    fraction = match[4] or ".0"
    if hours > 23 or minutes > 59 or seconds > 59 or len(fraction) > _MOST_DIGITS:
        raise ValueError(f"{text!r} is no time of day")
    return hours * 3600 + minutes * 60 + seconds + Fraction(f"0{fraction}")


def moment_of_value(value: datetime.date | np.datetime64) -> Moment:
    """The moment of a date, datetime or datetime64."""
    if isinstance(value, np.datetime64):
        days = value.astype("datetime64[D]")
        within = value - days
        ticks, (unit, step) = int(within.astype(np.int64)), np.datetime_data(within.dtype)
        per_second = {"D": Fraction(1, _DAY), "h": Fraction(1, 3600), "m": Fraction(1, 60), "s": Fraction(1)}
        scale = per_second.get(unit) or Fraction(
            {"ms": 10**3, "us": 10**6, "ns": 10**9, "ps": 10**12, "fs": 10**15, "as": 10**18}[unit]
        )
        return Moment(int(days.astype(np.int64)) * _DAY + Fraction(ticks * step) / scale, False)
    if not isinstance(value, datetime.datetime):
        return Moment(Fraction((value - _EPOCH).days * _DAY), False)
    zone = value.tzinfo
    since = value - datetime.datetime(1970, 1, 1, tzinfo=None if zone is None else datetime.UTC)
    whole = since.days * _DAY + since.seconds
    nanos = int(getattr(value, "nanosecond", 0))  # of pandas
    return Moment(Fraction(whole) + Fraction(since.microseconds * 1000 + nanos, 10**9), zone is not None)
