"""Parts of pages that a command writes: they stand between two comments that name it."""

from __future__ import annotations

import re

BEGIN = "<!-- make pictures, {name}: begin -->"
END = "<!-- make pictures, {name}: end -->"


def with_part(page: str, name: str, part: str) -> str:
    """Return a page with what stands between the comments of a part replaced.

    Raises
    ------
    ValueError
        If the page does not have the two comments once.

    Examples
    --------
    >>> page = "<!-- make pictures, x: begin -->old<!-- make pictures, x: end -->"
    >>> with_part(page, "x", "new").split()[4:]
    ['-->', 'new', '<!--', 'make', 'pictures,', 'x:', 'end', '-->']
    """
    begin, end = (re.escape(mark.format(name=name)) for mark in (BEGIN, END))
    text, count = re.subn(
        f"({begin}).*?({end})", lambda found: f"{found[1]}\n\n{part}\n\n{found[2]}", page, flags=re.S
    )
    if count != 1:
        raise ValueError(f"the page has the comments of {name!r} {count} times; write them once")
    return text
