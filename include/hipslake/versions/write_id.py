"""Write ids: the names of the folders in which writing runs put their files."""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime

_RANDOM_BYTES = 6
_WRITE_ID = re.compile(r"\d{8}T\d{4}-[0-9a-f]{4,}")
_IN_BYTES = re.compile(rb"(?<![0-9A-Za-z])\d{8}T\d{4}-[0-9a-f]{4,}(?![0-9A-Za-z])")


def new_write_id(now: datetime) -> str:
    """A new write id: UTC time and random digits. Where work begins at once, `claim_write` makes sure of it.

    So many digits that chance does not draw the id of a published write again: no heartbeat stands there any
    more that would tell.

    Parameters
    ----------
    now
        The time, with a time zone.

    Examples
    --------
    >>> new_write_id(datetime(2026, 11, 21, 3, 30, tzinfo=UTC))
    '20261121T0330-...'
    """
    return f"{now.astimezone(UTC):%Y%m%dT%H%M}-{secrets.token_hex(_RANDOM_BYTES)}"


def is_write_id(name: str) -> bool:
    """Whether a name has the form of a write id, and so begins with a time that there is."""
    if _WRITE_ID.fullmatch(name) is None:
        return False
    try:
        write_time(name)
    except ValueError:  # another's folder, by chance: the 99th month of a year
        return False
    return True


def write_time(write_id: str) -> datetime:
    """When the write id was drawn, to the minute.

    Examples
    --------
    >>> write_time("20261121T0330-7f3a")
    datetime.datetime(2026, 11, 21, 3, 30, tzinfo=datetime.timezone.utc)
    """
    return datetime.strptime(write_id.partition("-")[0], "%Y%m%dT%H%M").replace(tzinfo=UTC)


def write_ids_in(data: bytes) -> set[str]:
    """Every write id that a metadata file names: its own, those of its files, those of its increments."""
    return {match.decode() for match in _IN_BYTES.findall(data)}
