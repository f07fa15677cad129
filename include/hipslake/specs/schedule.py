"""Cron expressions, checked when a spec is read and not when the scheduler first meets them."""

from __future__ import annotations

import re

PRESETS = ("@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly")
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


def _in_range(bound: str, name: str, low: int, high: int) -> bool:
    return bound.upper() in _NAMES.get(name, ()) or (
        bound.isascii() and bound.isdigit() and low <= int(bound) <= high
    )
