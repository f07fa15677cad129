"""The note that vacuums keep of tombstones, so that nobody need read every one of them again.

`_versions/vacuumed/known.json` says of each vacuumed version which write had committed it, and under `sha256`
what the checksum of all that is. It may be missing, or say less: what it does not say, tombstones do.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import NamedTuple

from hipslake.errors import NotReadableError
from hipslake.storage.folder import Storage
from hipslake.storage.plain_json import plain_json
from hipslake.versions.log_files import MOST_VERSIONS, TOMBSTONES

_CHECKSUM = "sha256"


class Noted(NamedTuple):
    """What the note says: the vacuumed versions, each with its write; nothing, where it is not as written."""

    vacuumed: dict[int, str]
    sound: bool
    missing: bool = False


def noted(storage: Storage) -> Noted:
    """Read the note; `storage` is at the root of the catalog."""
    try:
        told = plain_json(storage.read(TOMBSTONES))
    except FileNotFoundError:
        return Noted({}, sound=True, missing=True)
    except (ValueError, NotReadableError):
        return Noted({}, sound=False)
    if not isinstance(told, dict):
        return Noted({}, sound=False)
    checksum = told.pop(_CHECKSUM, None)
    try:
        vacuumed = {int(number): str(write_id) for number, write_id in told.items()}
    except ValueError:
        return Noted({}, sound=False)
    changed = checksum not in (None, _checksum_of(vacuumed))  # older libraries kept none
    if changed or not all(0 < number <= MOST_VERSIONS for number in vacuumed):
        return Noted({}, sound=False)
    return Noted(vacuumed, sound=True)


def note(storage: Storage, vacuumed: Mapping[int, str]) -> None:
    """Replace the note."""
    told = _told(vacuumed) | {_CHECKSUM: _checksum_of(vacuumed)}
    storage.write(TOMBSTONES, json.dumps(told).encode())


def _told(vacuumed: Mapping[int, str]) -> dict[str, str]:
    return {str(number): write_id for number, write_id in sorted(vacuumed.items())}


def _checksum_of(vacuumed: Mapping[int, str]) -> str:
    return hashlib.sha256(json.dumps(_told(vacuumed)).encode()).hexdigest()
