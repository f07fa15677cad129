"""When DAGs run, checked when a spec is read and not when the scheduler first meets it."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

_PRESET_FIELDS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@quarterly": "0 0 1 */3 *",
    "@yearly": "0 0 1 1 *",
}
PRESETS = tuple(_PRESET_FIELDS)
_FIELDS = (
    ("minute", 0, 59),
    ("hour", 0, 23),
    ("day of month", 1, 31),
    ("month", 1, 12),
    ("day of week", 0, 7),
)
_NAMES = {
    "month": ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"],
    "day of week": ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"],
}
_ITEM = re.compile(r"(\*|\w+(?:-\w+)?)(?:/([1-9]\d*))?")


def check_cron(text: str) -> str:
    """Return a five-field cron expression or preset as it is; `ValueError` names the field that is wrong.

    Examples
    --------
    >>> check_cron("30 2 * * MON-FRI")
    '30 2 * * MON-FRI'
    """
    if text in PRESETS:
        return text
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise ValueError(
            f"{text!r} is no schedule; write five cron fields, such as '30 2 * * *', or {', '.join(PRESETS)}"
        )
    for field, (name, low, high) in zip(fields, _FIELDS, strict=True):
        for item in field.split(","):
            match = _ITEM.fullmatch(item)
            bounds = match[1].split("-") if match and match[1] != "*" else []
            if match is None or not all(_in_range(bound, name, low, high) for bound in bounds):
                takes = f"{low} to {high}, *, lists, ranges, /step"
                raise ValueError(f"{field!r} is no {name} of a cron schedule; it takes {takes}")
    return text


def check_schedule(text: str) -> str:
    """Return `manual`, or a cron expression as it is; `ValueError` says what is wrong.

    Examples
    --------
    >>> check_schedule("manual")
    'manual'
    """
    return text if text == MANUAL else check_cron(text)


MANUAL = "manual"
"""The schedule of what would follow others by itself, and is to run by hand only."""

Following = Annotated[str, AfterValidator(check_schedule)] | None
"""A cron expression, `manual`, or None: after each change of what the outcome is made of."""


def intervals_within(text: str) -> str | None:
    """What several intervals of a schedule lie in: an "hour", a "day" or a "month"; None: none of them.

    Examples
    --------
    >>> [intervals_within(text) for text in ("*/20 * * * *", "@hourly", "0 3 * * *", "0 3 1 * *")]
    ['hour', 'day', 'month', None]
    """
    fields = _PRESET_FIELDS.get(text, text).split()
    minute, hour, day, _, weekday = (not field.isalnum() for field in fields)
    if minute:
        return "hour"
    if hour:
        return "day"
    return "month" if day and weekday else None


def _in_range(bound: str, name: str, low: int, high: int) -> bool:
    return bound.upper() in _NAMES.get(name, ()) or (
        bound.isascii() and bound.isdigit() and low <= int(bound) <= high
    )
