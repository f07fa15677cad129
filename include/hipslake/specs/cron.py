"""Cron expressions of five fields: what they are, and the moments that they name.

They mean what croniter makes of them, with which Airflow reads them. Of days of the month and days of the
week that are both given, one has to fit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, time, timedelta
from itertools import product
from typing import NamedTuple

PRESETS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@quarterly": "0 0 1 */3 *",
    "@yearly": "0 0 1 1 *",
}
_ITEM = re.compile(r"(\*|\w+(?:-\w+)?)(?:/([1-9]\d*))?")
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_LONGEST_MONTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class _Field(NamedTuple):
    name: str
    low: int
    high: int  # of what may be written; days of the week: 7 is 0
    names: tuple[str, ...] = ()

    @property
    def largest(self) -> int:
        return 6 if self.high == 7 else self.high


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of week", 0, 7, _WEEKDAYS),
)


class Cron(NamedTuple):
    """The moments of a cron expression, in UTC.

    Attributes
    ----------
    times : tuple of time
        Of each day that fits, ascending.
    days : frozenset of int
        Of the month.
    months : frozenset of int
        From 1.
    weekdays : frozenset of int
        From 0, which is Sunday.
    either : bool
        Whether one of day of month and day of week has to fit, and not both.
    """

    times: tuple[time, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either: bool

    @classmethod
    def parse(cls, text: str) -> Cron:
        """Read five fields, or a preset; `ValueError` names the field that is wrong.

        Examples
        --------
        >>> Cron.parse("30 2,14 1 JAN *").times
        (datetime.time(2, 30), datetime.time(14, 30))
        """
        fields = PRESETS.get(text, text).split()
        if len(fields) != len(_FIELDS):
            wanted = f"write five cron fields, such as '30 2 * * *', or {', '.join(PRESETS)}"
            raise ValueError(f"{text!r} is no schedule; {wanted}")
        minutes, hours, days, months, weekdays = (
            _numbers(given, field) for given, field in zip(fields, _FIELDS, strict=True)
        )
        _, _, day, _, weekday = fields
        # A field that names all days is as good as a star only beside another star.
        every_day = day == "*" or ("*" in weekday and len(days) == 31)
        every_weekday = weekday == "*" or ("*" in day and len(weekdays) == 7)
        times = tuple(time(*at) for at in product(sorted(hours), sorted(minutes)))
        return cls(times, days, months, weekdays, not (every_day or every_weekday))

    def comes(self) -> bool:
        """Whether there is such a day at all: there is no February 30."""
        return self.either or any(min(self.days) <= _LONGEST_MONTHS[month - 1] for month in self.months)

    def dates(self, first: date, years: int) -> Iterator[date]:
        """Give the days that fit, from the first on, over so many years."""
        for number in range(years * 366):
            day = first + timedelta(days=number)
            if day.month not in self.months:
                continue
            of_month, of_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
            if (of_month or of_week) if self.either else (of_month and of_week):
                yield day


def _numbers(text: str, field: _Field) -> frozenset[int]:
    """The numbers that a field names."""
    return frozenset(number for item in text.split(",") for number in _numbers_of_item(item, text, field))


def _numbers_of_item(item: str, text: str, field: _Field) -> Iterator[int]:
    match = _ITEM.fullmatch(item)
    bounds = [] if match is None or match[1] == "*" else match[1].split("-")
    numbers = [_number(bound, field) for bound in bounds]
    if match is None or None in numbers:
        takes = f"{field.low} to {field.high}, *, lists, ranges, /step"
        raise ValueError(f"{text!r} is no {field.name} of a cron schedule; it takes {takes}")
    step = int(match[2] or 1)
    low, high = field.low, field.largest
    if numbers:
        begin, end = numbers[0], numbers[-1]
        assert begin is not None
        assert end is not None
        if len(numbers) == 1:
            yield from range(begin, high + 1, step) if match[2] else (begin,)
            return
        if begin > end:  # over the end of the hour, the week, ...
            last = range(begin, high + 1, step)[-1]
            yield from range(begin, high + 1, step)
            yield from range(low + _left_out(high - last, step, high - low + 1), end + 1, step)
            return
        if begin < end:  # a range from a number to itself goes once round
            low, high = begin, end
    yield from range(low, high + 1, step)


def _left_out(behind: int, step: int, size: int) -> int:
    """How many numbers of the next round are left out, with `behind` numbers after the last one of this."""
    return step - behind if size - 1 - behind + step > size and behind < step else 0


def _number(bound: str, field: _Field) -> int | None:
    """The number that a bound names; None: none of the field."""
    if bound.upper() in field.names:
        return field.names.index(bound.upper()) + field.low
    if not (bound.isascii() and bound.isdigit()) or not field.low <= int(bound) <= field.high:
        return None
    return int(bound) if int(bound) <= field.largest else 0
