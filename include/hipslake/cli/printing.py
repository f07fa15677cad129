"""How answers are printed: tables of text, numbers as people read them, and JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from typing import Any

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def print_json(value: Any) -> None:
    """Print a value as JSON; models, dates, numbers that are none, and bytes become what JSON has."""
    print(as_json(value, indent=1))


def as_json(value: Any, indent: int | None = None) -> str:
    """Return the JSON of a value.

    Examples
    --------
    >>> as_json({"x": float("nan"), "t": date(2026, 11, 20)})
    '{"x": null, "t": "2026-11-20"}'
    """
    return json.dumps(_plain(value), indent=indent, ensure_ascii=False)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows below the names of their columns, numbers to the right; None is a dash."""
    given = [list(row) for row in rows]
    texts = [[_cell(value) for value in row] for row in given]
    right = [
        bool(given) and all(isinstance(row[at], int | float | None) for row in given)
        for at in range(len(columns))
    ]
    widths = [max(map(len, cells)) for cells in zip(columns, *texts, strict=True)]
    for cells in ([each.upper() for each in columns], *texts):
        padded = (
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(cells, widths, right, strict=True)
        )
        print("  ".join(padded).rstrip())


def size_text(size: float | None) -> str | None:
    """Return a number of bytes in the unit that fits.

    Examples
    --------
    >>> size_text(512), size_text(3 << 20)
    ('512 B', '3.0 MiB')
    """
    if size is None:
        return None
    at = 0
    while abs(size) >= 1024 and at < len(_UNITS) - 1:
        size, at = size / 1024, at + 1
    return f"{size:.0f} B" if at == 0 else f"{size:.1f} {_UNITS[at]}"


def counted(number: int, what: str) -> str:
    """Return a number with what it counts.

    Examples
    --------
    >>> counted(1, "leaf file"), counted(12345, "row")
    ('1 leaf file', '12,345 rows')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def time_text(moment: datetime) -> str:
    """Return a time to the second, in UTC."""
    return moment.strftime("%Y-%m-%d %H:%M:%S")


def printable(text: str) -> str:
    """Return a text on one line, with what could steer a terminal escaped."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def to_terminal() -> bool:
    """Whether somebody sees what is written to stderr as it comes."""
    return sys.stderr.isatty()


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return printable(str(value))


def _plain(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return _plain(value.model_dump(mode="json"))
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return value if value - value == 0 else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    return str(value)
