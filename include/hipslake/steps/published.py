"""What a catalog has published, as far as a run needs to know before it adds to it."""

from __future__ import annotations

import json
from typing import Any

from hipslake.errors import VersionNotFoundError
from hipslake.storage import Storage
from hipslake.versions.log import VersionLog


def newest_version(catalog: Storage) -> int | None:
    """Return the number of the newest version, or None if nothing is published."""
    return VersionLog(catalog).newest()


def newest_fingerprint(catalog: Storage) -> tuple[int | None, str | None]:
    """Return number and fingerprint of the newest version; None twice if nothing is published."""
    log = VersionLog(catalog)
    newest = log.newest()
    if newest is None:
        return None, None
    return newest, _document(log.read(newest)).get("fingerprint")


def version_of_write(catalog: Storage, write_id: str) -> int | None:
    """Return the version that this write committed, or None."""
    for number, data in _versions(catalog):
        if _document(data).get("write_id") == write_id:
            return number
    return None


def names_write(catalog: Storage, write_id: str) -> bool:
    """Return whether any version still names the write's folder; no file in it may be written again then."""
    return any(write_id.encode() in data for _, data in _versions(catalog))


def _versions(catalog: Storage) -> list[tuple[int, bytes]]:
    """Return number and content of every version that was not vacuumed, newest first."""
    log = VersionLog(catalog)
    found = []
    for number in sorted(log.numbers(), reverse=True):
        try:
            found.append((number, log.read(number)))
        except VersionNotFoundError:
            continue
    return found


def _document(data: bytes) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(data)
    return document
