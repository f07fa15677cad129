"""Whether two intervals of a schedule, one after the other, fill in the same URI of a source.

The runs of both would find the same files. Names that come again after others (`{{ start:%d }}` of a daily
schedule, say) may be used for new files each time, and are none of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from functools import lru_cache
from itertools import pairwise

from hipslake.specs.cron import Cron
from hipslake.specs.template import fields_of, fill_template

_FORMS = ("%Y", "%Y-%m", "%Y-%m-%d", "%Y-%m-%dT%H", "%Y-%m-%dT%H-%M")
_PERIODS = {"hour": "%Y%m%d%H", "day": "%Y%m%d", "month": "%Y%m", "year": "%Y"}
_FIRST = date(2024, 1, 1)
_YEARS = 40  # all combinations of weekdays, weeks and leap years, and the years without one
_MOST_DAYS = 1500
_WHOLE_DAYS = 3  # of which all intervals are looked at; of others those where the day changes

Interval = tuple[datetime, datetime]


def check_uris_apart(uri: str, schedule: str) -> None:
    """Refuse a URI that is the same for an interval of a schedule and the next one.

    Parameters
    ----------
    uri : str
        With fields, as of `fill_template`.
    schedule : str
        A cron expression that was checked.

    Raises
    ------
    ValueError
        The message names two such intervals, and a form that tells them apart.
    """
    found = _shared(fields_of(uri), schedule)
    if found is None:
        return
    one, other = found
    form = next(form for form in _FORMS if _shared(f"{{{{ start:{form} }}}}", schedule) is None)
    period = _period(one, other)
    several = (
        f"has several intervals in one {period}" if period else "does not tell its intervals apart by it"
    )
    raise ValueError(
        f"source.uri: schedule {schedule!r} {several}, and all their runs would add the same files, as those "
        f"from {one[0]:%Y-%m-%dT%H:%M} and from {other[0]:%Y-%m-%dT%H:%M} on; write a finer form, such as "
        f"{{{{ start:{form} }}}}, or a schedule with fewer runs"
    )


@lru_cache(1024)
def _shared(uri: str, schedule: str) -> tuple[Interval, Interval] | None:
    """The first two intervals, one after the other, with one URI."""
    for (one, first), (other, second) in pairwise(_filled(uri, Cron.parse(schedule))):
        if first == second and one[1] == other[0]:
            return one, other
    return None


def _filled(uri: str, cron: Cron) -> Iterator[tuple[Interval, str]]:
    """Give intervals with their URIs: all of the first days, then the first and the last ones of each day."""
    for interval in _intervals(cron):
        yield interval, fill_template(uri, *interval)


def _intervals(cron: Cron) -> Iterator[Interval]:
    edges = cron.times if len(cron.times) <= 3 else (*cron.times[:2], cron.times[-1])
    for number, (day, after) in enumerate(pairwise(cron.dates(_FIRST, _YEARS))):
        if number == _MOST_DAYS:
            return
        next_day = datetime.combine(after, cron.times[0], UTC)
        moments = [datetime.combine(day, at, UTC) for at in (cron.times if number < _WHOLE_DAYS else edges)]
        if len(moments) == len(cron.times):
            yield from pairwise([*moments, next_day])
        else:
            yield moments[0], moments[1]
            yield moments[-1], next_day


def _period(one: Interval, other: Interval) -> str | None:
    """What both begin in, or end in; None of intervals of years."""
    for period, form in _PERIODS.items():
        if any(a.strftime(form) == b.strftime(form) for a, b in zip(one, other, strict=True)):
            return period
    return None
