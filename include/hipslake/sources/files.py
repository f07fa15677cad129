"""Source files: found by a glob, frozen when listed, recognised when read."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from hipslake.errors import InputError, SourceNotFoundError
from hipslake.sources.model import SourceFile
from hipslake.specs.environment import expand
from hipslake.storage import Storage

_MAGIC = re.compile(r"[*?\[]")


def list_files(uri: str) -> list[SourceFile]:
    """Return the files that match a glob, sorted by URI.

    Parameters
    ----------
    uri
        A path or URL with `*`, `?`, `[...]` or `**`; environment variables as `${NAME}`.

    Raises
    ------
    SourceNotFoundError
        When no file matches.
    InputError
        When the URI names a folder: waiting for files would not help.
    SpecError
        When a variable is not set.
    """
    expanded = expand(uri)
    storage, pattern = _rooted(expanded)
    found = [(storage.uri(entry.path), entry) for entry in storage.glob(pattern)]
    if not found:
        folder = storage.uri(pattern)
        if _MAGIC.search(pattern) is None and storage.exists(pattern):
            raise InputError(
                f"{expanded} is a folder; name its files, such as {folder.rstrip('/')}/*.parquet"
            )
        raise SourceNotFoundError(f"no file matches {expanded}; put the files there or correct source.uri")
    found.sort(key=lambda pair: pair[0])
    return [
        SourceFile(ordinal=ordinal, uri=uri, size=entry.size, stamp=entry.stamp)
        for ordinal, (uri, entry) in enumerate(found)
    ]


def located(file: SourceFile) -> tuple[Storage, str]:
    """Return the storage that holds a file, and the file's path in it."""
    folder, _, name = file.uri.rpartition("/")
    return Storage.at(folder or "/"), name


def check_unchanged(file: SourceFile) -> None:
    """Raise `InputError` when a file is gone, or is no longer the one that was listed."""
    storage, name = located(file)
    try:
        entry = storage.entry(name)
    except FileNotFoundError:
        raise InputError(f"{file.uri} was deleted after the run listed it; start a new run") from None
    if (entry.size, entry.stamp) != (file.size, file.stamp):
        raise InputError(
            f"{file.uri} was changed after the run listed it ({file.size} bytes of {file.stamp}, "
            f"now {entry.size} bytes of {entry.stamp}); start a new run"
        )


def _rooted(uri: str) -> tuple[Storage, str]:
    """Split a glob into the folder that no wildcard is in, and the rest."""
    scheme, separator, path = uri.rpartition("://")
    parts = PurePosixPath(path).parts
    fixed = next((i for i, part in enumerate(parts) if _MAGIC.search(part)), len(parts) - 1)
    fixed = max(1, min(fixed, len(parts) - 1))  # the root or the bucket is never part of the pattern
    return Storage.at(scheme + separator + str(PurePosixPath(*parts[:fixed]))), "/".join(parts[fixed:])
