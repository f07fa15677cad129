"""The files of a version log: their names, and the little that the log itself reads in them."""

from __future__ import annotations

import json
import re
from typing import Any

from hipslake.errors import CatalogFormatError
from hipslake.storage.plain_json import plain_json

POINTER = "metadata.json"
"""A copy of the newest version: what readers read first."""
CURRENT = "current"
"""A symbolic link to the folder of a version's write, with all of its leaves in it."""
VERSIONS = "_versions"
"""The folder of the log."""
TOMBSTONES = f"{VERSIONS}/vacuumed/known.json"
"""Which versions are tombstones, and the write of each: so that a vacuum need not read all of them."""

TOMBSTONE_BYTES = 1024
"""No tombstone is larger."""

MOST_VERSIONS = 10**9

_NAME = re.compile(rf"{VERSIONS}/(\d{{8,10}})\.json")


def version_path(number: int) -> str:
    """The metadata file of a version, or its tombstone.

    Examples
    --------
    >>> version_path(3)
    '_versions/00000003.json'
    """
    return f"{VERSIONS}/{number:08d}.json"


def version_number(path: str) -> int | None:
    """The inverse of `version_path`; None for other files, as for those of numbers that no version has."""
    match = _NAME.fullmatch(path)
    number = int(match[1]) if match else 0
    return number if 0 < number <= MOST_VERSIONS and version_path(number) == path else None


def tombstone(number: int, write_id: object) -> bytes:
    """What stands in the place of a vacuumed version."""
    return json.dumps({"tombstone": True, "version": number, "write_id": write_id}).encode()


def is_tombstone(data: bytes, where: str) -> bool:
    """Whether the content of a version's file says that the version was vacuumed."""
    return len(data) <= TOMBSTONE_BYTES and head(data, where).get("tombstone") is True


def head(data: bytes, where: str) -> dict[str, Any]:
    """The keys of a metadata file or tombstone.

    Raises
    ------
    CatalogFormatError
        It is no JSON object.
    """
    try:
        document = plain_json(data)
    except ValueError as error:
        raise CatalogFormatError(f"{where}: not JSON ({error}); restore the file or ingest again") from error
    if not isinstance(document, dict):
        raise CatalogFormatError(f"{where}: not a JSON object; restore the file or ingest again")
    return document
