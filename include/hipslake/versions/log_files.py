"""The files of a version log: their names, and the keys that the log itself reads."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from hipslake.errors import CatalogFormatError, NotReadableError
from hipslake.storage.folder import Storage
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
_CHECKSUM = "sha256"

UNSIGNED = "0" * 64
"""The placeholder of the checksum while it is computed."""

_LAST_KEY = re.compile(rb'"sha256": "([0-9a-f]{64})"\s*\}\s*\Z')
_TAIL = 160  # bytes at the end of a file that hold the key
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
    """The inverse of `version_path`; None for all other paths."""
    match = _NAME.fullmatch(path)
    number = int(match[1]) if match else 0
    return number if 0 < number <= MOST_VERSIONS and version_path(number) == path else None


def listed_versions(storage: Storage) -> dict[int, int]:
    """The size in bytes of every version's file in the log, by number; tombstones are among them."""
    found = ((version_number(entry.path), entry.size) for entry in storage.list(VERSIONS))
    return {number: size for number, size in found if number is not None}


class Vacuuming(NamedTuple):
    """When a version was vacuumed, and what the vacuum kept: see `hipslake.specs.vacuum_spec.Retention`."""

    at: datetime
    keep_versions: int
    keep_days: float

    def __str__(self) -> str:
        versions = f"{self.keep_versions} version{'s' if self.keep_versions != 1 else ''}"
        days = f"{self.keep_days:g} day{'s' if self.keep_days != 1 else ''}"
        return (
            f"on {self.at.astimezone(UTC):%Y-%m-%d %H:%M} UTC, by a vacuum that keeps the newest {versions}, "
            f"and others for {days} after the next one came"
        )


def tombstone(number: int, write_id: object, vacuuming: Vacuuming | None = None) -> bytes:
    """The content of the file that replaces a vacuumed version; None: it is not known how it was vacuumed."""
    document: dict[str, object] = {"tombstone": True, "version": number, "write_id": write_id}
    if vacuuming is not None:
        document |= {
            "vacuumed": vacuuming.at.astimezone(UTC).isoformat(),
            "keep_versions": vacuuming.keep_versions,
            "keep_days": vacuuming.keep_days,
        }
    return json.dumps(document).encode()


def vacuuming_of(document: Mapping[str, Any]) -> Vacuuming | None:
    """What a tombstone says of how its version was vacuumed; None if nothing, as those of older libraries."""
    at, versions, days = (document.get(key) for key in ("vacuumed", "keep_versions", "keep_days"))
    try:
        moment = datetime.fromisoformat(at)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    if moment.tzinfo is None or not isinstance(versions, int) or not isinstance(days, int | float):
        return None
    return Vacuuming(moment, versions, days)


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


class TombstoneList(NamedTuple):
    """The content of `_versions/vacuumed/known.json`; no versions if it is damaged.

    Attributes
    ----------
    vacuumed : dict of int to str
        The versions that were vacuumed, by number, each with the write that had committed it. Some may be
        missing: then their tombstones have to be read.
    sound : bool
        Whether the file agrees with the checksum in it.
    missing : bool
    """

    vacuumed: dict[int, str]
    sound: bool
    missing: bool = False


def read_tombstone_list(storage: Storage) -> TombstoneList:
    """Read the list of tombstones; `storage` is at the root of the catalog."""
    try:
        noted = plain_json(storage.read(TOMBSTONES))
    except FileNotFoundError:
        return TombstoneList({}, sound=True, missing=True)
    except (ValueError, NotReadableError):
        return TombstoneList({}, sound=False)
    if not isinstance(noted, dict):
        return TombstoneList({}, sound=False)
    checksum = noted.pop(_CHECKSUM, None)
    try:
        vacuumed = {int(number): str(write_id) for number, write_id in noted.items()}
    except ValueError:
        return TombstoneList({}, sound=False)
    changed = checksum not in (None, _checksum_of(vacuumed))  # older libraries kept none
    if changed or not all(0 < number <= MOST_VERSIONS for number in vacuumed):
        return TombstoneList({}, sound=False)
    return TombstoneList(vacuumed, sound=True)


def write_tombstone_list(storage: Storage, vacuumed: Mapping[int, str]) -> None:
    """Replace the list of tombstones."""
    noted = _as_keys(vacuumed) | {_CHECKSUM: _checksum_of(vacuumed)}
    storage.write(TOMBSTONES, json.dumps(noted).encode())


def _as_keys(vacuumed: Mapping[int, str]) -> dict[str, str]:
    return {str(number): write_id for number, write_id in sorted(vacuumed.items())}


def _checksum_of(vacuumed: Mapping[int, str]) -> str:
    return hashlib.sha256(json.dumps(_as_keys(vacuumed)).encode()).hexdigest()


def signed(data: bytes) -> bytes:
    """A metadata file, whose last key has zeros, with its checksum there.

    The key `sha256` comes last. Its digits are the SHA-256 of the file with zeros in their place:

        zeros=$(printf 0%.0s $(seq 64))
        sed 's/"sha256": "[0-9a-f]\\{64\\}"$/"sha256": "'$zeros'"/' 00000003.json | sha256sum

    Versions that older libraries committed have none.
    """
    start, stop = _place(data)
    return data[:start] + hashlib.sha256(data).hexdigest().encode() + data[stop:]


def is_signed(data: bytes) -> bool:
    """Whether a metadata file has a checksum of itself, correct or not."""
    return _found(data) is not None


def is_intact(data: bytes) -> bool:
    """Whether a metadata file agrees with its checksum; True if it has none."""
    if not is_signed(data):
        return True
    start, stop = _place(data)
    plain = data[:start] + UNSIGNED.encode() + data[stop:]
    return hashlib.sha256(plain).hexdigest().encode() == data[start:stop]


def _found(data: bytes) -> re.Match[bytes] | None:
    return _LAST_KEY.search(data, max(0, len(data) - _TAIL))


def _place(data: bytes) -> tuple[int, int]:
    found = _found(data)
    if found is None:
        raise ValueError("the metadata has no place for a checksum")
    return found.span(1)
