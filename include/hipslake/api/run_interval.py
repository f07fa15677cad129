"""The interval of time that rows are of, as a program gives it."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from numbers import Real
from typing import Any

from hipslake.errors import InputError, SpecError
from hipslake.steps.run import Window

_MJD_ZERO = datetime(1858, 11, 17, tzinfo=UTC)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = timedelta(days=1)
_FORMS = "give a date, a time, a Modified Julian Date, or a pair of them"


def window_of_interval(interval: Any) -> Window:
    """Return the window that an interval stands for.

    Parameters
    ----------
    interval
        A start and an end (a pair, or an array of two), or a start alone, from which on a day counts. A time
        is a `datetime` (UTC where it has no time zone), a `date`, a text in ISO 8601, a `numpy.datetime64`, a
        time of astropy of any scale, or a number: a Modified Julian Date, in UTC.

    Raises
    ------
    SpecError
        If it is none, or ends before it starts.

    Examples
    --------
    >>> window_of_interval(61000).start
    datetime.datetime(2025, 11, 21, 0, 0, tzinfo=datetime.timezone.utc)
    >>> window_of_interval(("2026-11-20T12:00", "2026-11-21T12:00")).end
    datetime.datetime(2026, 11, 21, 12, 0, tzinfo=datetime.timezone.utc)
    """
    if isinstance(interval, list | tuple) or _is_array(interval):
        if len(interval) != 2:
            raise SpecError(f"interval: has {len(interval)} times; give a start and an end")
        start, end = (_moment(each) for each in interval)
        if end <= start:
            raise SpecError(f"interval: ends at {end.isoformat()}, not after its start {start.isoformat()}")
        return Window(start=start, end=end, origin="params")
    start = _moment(interval)
    try:
        return Window(start=start, end=start + _DAY, origin="params")
    except OverflowError:
        raise _no_time(interval) from None


_FIRST_MJD, _LAST_MJD = 15020, 88069


def _is_array(given: Any) -> bool:
    """Whether it holds several times: an array of numpy, pandas or astropy, of one dimension."""
    shape = getattr(given, "shape", None)
    return isinstance(shape, tuple) and len(shape) == 1


def _moment(given: Any) -> datetime:
    if hasattr(given, "to_datetime") and hasattr(given, "scale"):  # of astropy
        return _moment_of_astropy(given)
    if hasattr(given, "as_py"):  # of Arrow
        given = given.as_py()
    if hasattr(given, "dtype") and hasattr(given, "item"):  # of numpy
        if getattr(given, "shape", ()) != ():
            raise _no_time(given)
        plain = given.astype("datetime64[us]") if given.dtype.kind == "M" else given
        given = plain.item()
    try:
        if isinstance(given, bool):
            raise _no_time(given)
        if isinstance(given, Real):
            days = float(given)
            if not _FIRST_MJD <= days <= _LAST_MJD:
                raise SpecError(
                    f"interval: the number {given} is no Modified Julian Date of 1900 to 2100; of a Julian "
                    "Date take 2400000.5 off, and write years and dates as texts, such as 2026-11-20"
                )
            return _MJD_ZERO + _microseconds(days)
        if isinstance(given, str):
            given = datetime.fromisoformat(given)
        if isinstance(given, datetime):
            aware = given if given.tzinfo is not None else given.replace(tzinfo=UTC)
            return datetime.fromtimestamp(aware.timestamp(), UTC)
        if isinstance(given, date):
            return datetime(given.year, given.month, given.day, tzinfo=UTC)
    except (ValueError, OverflowError, OSError):
        raise _no_time(given) from None
    raise _no_time(given)


def _moment_of_astropy(time: Any) -> datetime:
    from astropy.time import Time

    from hipslake.api.astropy_rows import utc_microseconds

    if not isinstance(time, Time) or not time.isscalar:  # but a difference of times, say
        raise _no_time(time)
    try:
        found, mask = utc_microseconds(time)
    except InputError as error:
        raise SpecError(f"interval: {error}") from None
    if mask:
        raise _no_time(time)
    try:
        return _EPOCH + timedelta(microseconds=int(found))
    except OverflowError:
        raise _no_time(time) from None


def _microseconds(days: float) -> timedelta:
    whole = days // 1
    return timedelta(days=whole, microseconds=round((days - whole) * 86_400_000_000))


def _no_time(given: Any) -> SpecError:
    return SpecError(f"interval: {given!r} is no time; {_FORMS}")
