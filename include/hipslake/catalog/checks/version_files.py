"""Whether the file of a version, or a copy of it, is what was committed: by itself, and beside its copies."""

from __future__ import annotations

from hipslake.catalog.checks.findings import Problem, ProblemKind
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.errors import CatalogFormatError, NotReadableError
from hipslake.storage.folder import Storage
from hipslake.versions.digest import is_intact
from hipslake.versions.log_files import head, version_path
from hipslake.versions.write_id import is_write_id

_RESTORE = "restore the file from a copy: no other file says what it said"


def text_of(storage: Storage, path: str) -> bytes | None:
    """The content of a file; None if there is none, and nothing of what is there but no file to be read."""
    try:
        return storage.read(path)
    except (FileNotFoundError, IsADirectoryError):
        return None
    except NotReadableError:
        if storage.is_local:
            return b""
        raise


def version_problem(number: int, data: bytes | None, where: str = "") -> Problem | None:
    """What is wrong with the file of a version by itself, or with a copy of it; None if nothing is.

    Parameters
    ----------
    number : int
        Of the version.
    data : bytes or None
        The file; None if there is none.
    where : str
        The path of the file, if it is not that of the version.
    """
    path = where or version_path(number)
    if data is None:
        return log_problem(path, "is missing, though this version or a newer one was committed", missing=True)
    try:
        says = head(data, path).get("version")
        if says != number:
            return log_problem(
                path, f"is the file of version {says}: it was replaced, or swapped with another"
            )
        metadata = CatalogMetadata.from_json(data, where=path)
    except CatalogFormatError as error:
        return log_problem(path, str(error))
    if not is_intact(data):
        return log_problem(path, "is not, letter by letter, what was committed: its checksum differs")
    if not is_write_id(metadata.write_id):
        return log_problem(path, f"{metadata.write_id!r} is no write")
    if metadata.parent != (number - 1 or None):
        return log_problem(path, f"says that it came after version {metadata.parent}, not {number - 1}")
    return None


def number_of(data: bytes) -> int | None:
    """The number of the version that a file is of; None where anything is wrong with it."""
    try:
        says = head(data, "").get("version")
    except CatalogFormatError:
        return None
    return says if isinstance(says, int) and version_problem(says, data, "metadata.json") is None else None


def log_problem(path: str, message: str, *, missing: bool = False) -> Problem:
    """A problem of a file of the log that no other file can mend."""
    kind = ProblemKind.MISSING_FILE if missing else ProblemKind.VERSION_LOG
    return Problem.of(kind, path, message, _RESTORE)
