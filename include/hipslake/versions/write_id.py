"""Write ids: the names of the folders that runs write their files to."""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime

_RANDOM_BYTES = 6
_WRITE_ID = re.compile(r"\d{8}T\d{4}-[0-9a-f]{4,}")
_IN_BYTES = re.compile(rb"(?<![0-9A-Za-z])\d{8}T\d{4}-[0-9a-f]{4,}(?![0-9A-Za-z])")


def new_write_id(now: datetime) -> str:
    """A new write id: UTC time and random digits. `claim_write` also makes sure that no other run has it.

    The digits are so many that the id of a published write, which has no heartbeat any more, is not drawn
    again by chance.

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
    """Whether a name has the form of a write id, with a valid time."""
    if _WRITE_ID.fullmatch(name) is None:
        return False
    try:
        write_time(name)
    except ValueError:  # a folder of another origin, say with month 99
        return False
    return True


def write_time(write_id: str) -> datetime:
    """The time at which a write id was drawn, to the minute.

    Examples
    --------
    >>> write_time("20261121T0330-7f3a")
    datetime.datetime(2026, 11, 21, 3, 30, tzinfo=datetime.timezone.utc)
    """
    return datetime.strptime(write_id.partition("-")[0], "%Y%m%dT%H%M").replace(tzinfo=UTC)


def write_ids_in(data: bytes) -> set[str]:
    """All write ids in the text of a metadata file: its own, and those of its files and increments."""
    return {match.decode() for match in _IN_BYTES.findall(data)}
