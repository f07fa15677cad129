"""`{{ night }}` in the URI of a source, or in a name: the interval of a run, in UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime

NIGHT = "%Y-%m-%d"
_FIELD = re.compile(r"\{\{(.*?)\}\}")
_INSIDE = re.compile(r"\s*(night|(start|end)\s*:\s*(\S.*?))\s*")


def is_templated(uri: str, where: str = "source.uri") -> bool:
    """Whether a URI has fields to fill; `where` names it in messages.

    Raises
    ------
    ValueError
        If a field is none that there is.

    Examples
    --------
    >>> is_templated("/survey/night={{ night }}/*.parquet")
    True
    """
    for field in _FIELD.findall(uri):
        if not _INSIDE.fullmatch(field):
            raise ValueError(
                f"{where}: {{{{{field}}}}} is not known; write {{{{ night }}}} for the date of the "
                "interval's start, or a form of its own such as {{ start:%Y/%m/%dT%H }} or {{ end:%Y%m%d }}"
            )
    if "{{" in _FIELD.sub("", uri):
        raise ValueError(f"{where}: '{{{{' is not closed by '}}}}'")
    return bool(_FIELD.search(uri))


def fields_of(uri: str) -> str:
    """Return the part of a URI that has fields, from the first to the last.

    Examples
    --------
    >>> fields_of("/survey/{{ start:%Y }}/{{ night }}.csv")
    '{{ start:%Y }}/{{ night }}'
    """
    found = list(_FIELD.finditer(uri))
    return uri[found[0].start() : found[-1].end()] if found else ""


def fill_template(uri: str, start: datetime, end: datetime | None) -> str:
    """Put an interval into a URI.

    Parameters
    ----------
    uri : str
        With `{{ night }}` (the date of the start), `{{ start:FORMAT }}` and `{{ end:FORMAT }}`, as
        `datetime.strftime` takes them.
    start, end : datetime
        With time zones; the end may be open.

    Raises
    ------
    ValueError
        If the URI asks for an end and there is none.

    Examples
    --------
    >>> fill_template("s3://survey/{{ start:%Y }}/{{ night }}.csv", datetime(2026, 11, 21, tzinfo=UTC), None)
    's3://survey/2026/2026-11-21.csv'
    """

    def fill(match: re.Match[str]) -> str:
        found = _INSIDE.fullmatch(match[1])
        assert found, "checked when the spec was read"
        moment = end if found[2] == "end" else start
        if moment is None:
            raise ValueError(f"{match[0]} asks for the end of the interval, which is open; give window_end")
        return moment.astimezone(UTC).strftime(found[3] or NIGHT)

    return _FIELD.sub(fill, uri)
