"""The HiPS of a catalog side by side at their output, a folder for each version, and what names the newest.

`current` is a symbolic link to the newest, where the file system has links; `hipslist`, as the standard has
it, names the newest everywhere.
"""

from __future__ import annotations

import hashlib
import re
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from hipslake.errors import NotWritableError, SpecError, VerificationError
from hipslake.exports.export_folder import UNFINISHED
from hipslake.exports.hips.hips_files import HIPS_LIST, PROPERTIES, hips_list
from hipslake.steps.hips.request import HipsRequest
from hipslake.steps.run import now_utc
from hipslake.storage.folder import Storage
from hipslake.storage.plain_json import plain_json

CURRENT_HIPS = "current"
HIPS_MANIFEST = "hips.json"
_FOLDER = re.compile(r"v(?P<version>[1-9]\d{0,9})-[0-9a-f]{8}")
_STAGED = re.compile(r"\.v[1-9]\d{0,9}-[0-9a-f]{8}\.[0-9a-f]{8}\.tmp")
_DEAD_AFTER = timedelta(days=7)  # no task works as long


class HipsFolder(NamedTuple):
    """A finished HiPS."""

    name: str
    version: int
    created: str
    catalog_uri: str
    options: str
    rows: int
    tiles: int
    files: int
    bytes: int
    deepest: int


def folder_name(version: int, run_uri: str) -> str:
    """The folder of the HiPS that a run makes of a version.

    Examples
    --------
    >>> folder_name(3, "/data/warehouse/_runs/catalog_hips__gaia/first")
    'v3-3871f54f'
    """
    return f"v{version}-{hashlib.sha256(run_uri.encode()).hexdigest()[:8]}"


def options_of(request: HipsRequest) -> str:
    """The digest of all that the files of a HiPS depend on, but for the version of the catalog."""
    apart = {
        "run_uri", "warehouse", "version", "output", "service_url", "keep_versions", "task_bytes", "created"
    }  # fmt: skip
    return hashlib.sha256(request.model_dump_json(exclude=apart).encode()).hexdigest()


def finished_hips(target: Storage) -> list[HipsFolder]:
    """The HiPS that are whole, the oldest version first; of one version, the one that was made first."""
    found = []
    for entry in target.list():
        name = entry.path
        if not _FOLDER.fullmatch(name) or target.is_file(f"{name}/{UNFINISHED}"):
            continue
        try:
            told = plain_json(target.read(f"{name}/{HIPS_MANIFEST}"))
            found.append(HipsFolder(name, **{key: told[key] for key in HipsFolder._fields[1:]}))
        except (FileNotFoundError, ValueError, KeyError, TypeError):  # others' folder, or a part of one
            continue
    return sorted(found, key=lambda each: (each.version, each.created, each.name))


def check_place(target: Storage, catalog_uri: str) -> None:
    """Look whether HiPS of a catalog can be published at a place.

    Raises
    ------
    SpecError
        HiPS of another catalog lie there: one list names one catalog.
    NotWritableError
        Somebody else has something there that has the name of what is written; or it is a web server.
    """
    target.refuse_web_server("")
    others = sorted({each.catalog_uri for each in finished_hips(target)} - {catalog_uri})
    if others:
        raise SpecError(f"{target.uri()} holds the HiPS of {others[0]}; give another output")
    if target.is_local and target.exists(CURRENT_HIPS) and target.symlink_target(CURRENT_HIPS) is None:
        raise NotWritableError(f"{target.uri(CURRENT_HIPS)} is no link of ours; give another output")
    listed = target.read(HIPS_LIST) if target.is_file(HIPS_LIST) else b""
    if listed and not _properties(listed.decode(errors="replace")).get("hips_builder", "").startswith(
        "hipslake "
    ):
        raise NotWritableError(f"{target.uri(HIPS_LIST)} is a list of others; give another output")


def point_at_newest_hips(target: Storage, service_url: str | None, preferred: str) -> str:
    """Let `current` and the list of HiPS name the newest version; return its folder.

    They are written again where another run has taken that away meanwhile, so that they name what is there.

    Parameters
    ----------
    target : Storage
        With a finished HiPS.
    service_url : str, optional
        Where the folder is served.
    preferred : str
        The folder that is taken if there are several of the newest version.

    Raises
    ------
    NotWritableError
        There is none any more.
    VerificationError
        The one to name is damaged.
    """
    base = (service_url or _address(target)).rstrip("/")
    while True:
        finished = finished_hips(target)
        if not finished:
            raise NotWritableError(
                f"{target.uri(preferred)} was deleted while it was published; run it again"
            )
        newest = [each for each in finished if each.version == finished[-1].version]
        name = next((each.name for each in newest if each.name == preferred), newest[-1].name)
        try:
            fields = _properties(target.read(f"{name}/{PROPERTIES}").decode())
        except FileNotFoundError:
            if not target.is_file(f"{name}/{HIPS_MANIFEST}"):
                continue
            raise VerificationError(f"{target.uri(name)} has lost files; delete it, and run again") from None
        target.write(HIPS_LIST, hips_list(fields, f"{base}/{name}").encode())
        if target.is_local:
            target.symlink(CURRENT_HIPS, name)
        if target.is_file(f"{name}/{HIPS_MANIFEST}"):
            return name


def remove_old_hips(target: Storage, keep_versions: int, kept: str) -> list[str]:
    """Delete HiPS of older versions, older ones of the same version, and what runs that died have left.

    Parameters
    ----------
    target : Storage
    keep_versions : int
        The newest so many versions stay.
    kept : str
        The folder that stays of its version; what `current` names.

    Returns
    -------
    list of str
        The folders.
    """
    finished = finished_hips(target)
    numbers = sorted({each.version for each in finished}, reverse=True)[:keep_versions]
    last = {each.version: each for each in finished}
    last |= {each.version: each for each in finished if each.name == kept}
    removed = [
        each.name for each in finished if each.version not in numbers or _is_older(each, last[each.version])
    ]
    for name in removed:
        _remove(target, name)
    dead = [name for name in _unfinished_folders(target) if _is_dead(target, name)]
    for name in dead:
        target.delete_tree(name)
    return [*removed, *dead]


def _is_older(one: HipsFolder, other: HipsFolder) -> bool:
    """Whether a HiPS was made before another one of the same version; a later one is another run's."""
    return (one.created, one.name) < (other.created, other.name)


def _remove(target: Storage, name: str) -> None:
    """Delete a HiPS; what is left of it, should this process be killed, is known for a part."""
    staged = f".{name}.{'0' * 8}.tmp"
    if target.is_local and target.move_folder(name, staged):
        target.delete_tree(staged)
        return
    target.write(f"{name}/{UNFINISHED}", b"")
    target.delete_tree(name)


def _unfinished_folders(target: Storage) -> list[str]:
    staged = [entry.path for entry in target.unfinished() if _STAGED.fullmatch(entry.path)]
    begun = [entry.path for entry in target.list() if _FOLDER.fullmatch(entry.path)]
    return [*staged, *(name for name in begun if target.is_file(f"{name}/{UNFINISHED}"))]


def _is_dead(target: Storage, name: str) -> bool:
    """Whether a folder that is no whole HiPS was begun so long ago that nobody works on it."""
    mark = f"{name}/{UNFINISHED}"
    try:
        written = target.written(mark if target.is_file(mark) else name)
    except FileNotFoundError:
        return False
    return written is not None and written < (now_utc() - _DEAD_AFTER).timestamp()


def _properties(text: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {key.strip(): value.strip() for key, _, value in pairs}


def _address(target: Storage) -> str:
    """The URL of a folder."""
    return f"file://{quote(Path(target.uri()).as_posix())}" if target.is_local else target.uri()
