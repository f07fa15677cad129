"""The versions that a form proposes: those that lie in a warehouse on this machine's file systems.

DAG files are parsed again and again: nothing is asked of object stores, and only tombstones are opened.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from airflow.sdk import Param
from hipslake.errors import SpecError
from hipslake.specs.environment import expand

MOST_PROPOSED = 50
VERSION_PATTERN = r"^[1-9][0-9]{0,8}$"
_VERSION_FILE = "{number:08d}.json"
_TOMBSTONE_BYTES = 1024  # no tombstone is larger, and no metadata smaller


def version_param(
    help_text: str, proposed: Iterable[int], *, required: bool = False, title: str = "Version"
) -> Param:
    """Return the field of a version; where some are proposed, Airflow's form drops a list of them.

    Parameters
    ----------
    help_text : str
    proposed : iterable of int
        Newest first. Others may be typed: a version may have come since the DAG was parsed.
    required : bool
        Whether it has to be given.
    title : str
        Of the field.
    """
    proposed = list(proposed)
    kinds = ["string", "integer"] if proposed else ["integer"]
    kinds = kinds if required else ["null", *kinds]
    field: dict[str, Any] = {
        "type": kinds if len(kinds) > 1 else kinds[0],
        "minimum": 1,
        "title": title,
        "description": help_text,
    }
    if proposed:
        field |= {
            "examples": [str(number) for number in proposed],
            "pattern": VERSION_PATTERN,
            "maxLength": 9,
        }
    return Param(**field) if required else Param(None, **field)


def proposed_versions(kind: str, *names: str) -> list[int]:
    """Return the numbers of versions that can be read, newest first; at most 50, and none of object stores.

    Parameters
    ----------
    kind : str
        `catalogs` or `cubes`, the folder of the warehouse.
    *names : str
        Of catalogs or cubes.
    """
    try:
        warehouse = expand("${HIPSLAKE_WAREHOUSE}")
    except SpecError:
        return []
    if "://" in warehouse:
        return []
    found = {number for name in names for number in _versions_in(Path(warehouse, kind, name, "_versions"))}
    return sorted(found, reverse=True)[:MOST_PROPOSED]


def _versions_in(folder: Path) -> list[int]:
    try:
        with os.scandir(folder) as entries:
            named = {int(entry.name[:-5]): entry.name for entry in entries if entry.name[:-5].isdecimal()}
    except OSError:
        return []
    numbers = sorted((n for n in named if named[n] == _VERSION_FILE.format(number=n)), reverse=True)
    kept: list[int] = []
    for number in numbers:
        if len(kept) == MOST_PROPOSED:
            break
        if not _is_tombstone(folder / named[number]):
            kept.append(number)
    return kept


def _is_tombstone(file: Path) -> bool:
    try:
        return file.stat().st_size <= _TOMBSTONE_BYTES and b'"tombstone"' in file.read_bytes()
    except OSError:  # it has gone meanwhile
        return True
