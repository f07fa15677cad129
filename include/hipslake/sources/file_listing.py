"""Source files: found by a glob, frozen when listed, recognised when read."""

from __future__ import annotations

import logging
import re
from pathlib import PurePosixPath
from typing import NamedTuple

from hipslake.errors import InputError, SourceNotFoundError
from hipslake.sources.links import LinkBounds, places_of
from hipslake.sources.source_file import LIST_AGAIN, SourceFile
from hipslake.specs.environment import expand
from hipslake.storage.folder import Storage

_MAGIC = re.compile(r"[*?\[]")
_LONGEST_PATTERN = 4096  # PATH_MAX of Linux
_NAMED = 5  # of what is passed over, in messages


class FileListing(NamedTuple):
    """The files that match a glob, sorted by URI, and the URIs that match it and are not read."""

    files: list[SourceFile]
    passed_over: tuple[str, ...]  # hidden files (their names begin with a dot), folders, pipes

    def log_passed_over(self, log: logging.Logger) -> None:
        """Warn of what is not read, if there is any."""
        if self.passed_over:
            log.warning(
                "%d names match and are not read, as they are hidden files, folders or pipes: %s%s",
                len(self.passed_over),
                ", ".join(self.passed_over[:_NAMED]),
                ", ..." if len(self.passed_over) > _NAMED else "",
            )


def list_files(uri: str) -> FileListing:
    """Return the files that match a glob, sorted by URI, and what matches it and is passed over.

    Parameters
    ----------
    uri
        A path or URL with `*`, `?`, `[...]` or `**`; environment variables as `${NAME}`.

    Raises
    ------
    SourceNotFoundError
        When no file matches.
    InputError
        When the URI names a folder: waiting for files would not help. When a link leads out of the landing.
        When the pattern is longer than any path.
    SpecError
        When a variable is not set.
    """
    expanded = expand(uri)
    storage, pattern = rooted(expanded)
    if len(pattern) > _LONGEST_PATTERN:  # longer than any path; the time to read one grows with its square
        raise InputError(f"a pattern of {len(pattern)} characters: a path has at most {_LONGEST_PATTERN}")
    matches = storage.matches(pattern)
    found = [(storage.uri(entry.path), entry) for entry in matches.files]
    passed_over = tuple(storage.uri(entry.path) for entry in matches.passed_over)
    if not found:
        folder = storage.uri(pattern)
        if _MAGIC.search(pattern) is None and storage.exists(pattern):
            raise InputError(
                f"{expanded} is a folder; name its files, such as {folder.rstrip('/')}/*.parquet"
            )
        but = (
            f" but hidden files, folders or pipes ({', '.join(passed_over[:_NAMED])})" if passed_over else ""
        )
        raise SourceNotFoundError(
            f"no file matches {expanded}{but}; put the files there or correct source.uri"
        )
    found.sort(key=lambda pair: pair[0])
    bounds = LinkBounds(places_of(storage))
    files = [
        SourceFile(
            ordinal=ordinal, uri=uri, size=entry.size, stamp=entry.stamp, place=bounds.within(uri).place
        )
        for ordinal, (uri, entry) in enumerate(found)
    ]
    return FileListing(files, passed_over)


def located(file: SourceFile) -> tuple[Storage, str]:
    """Return the storage that holds a file, and the file's path in it; of a link, of what it leads to.

    Raises
    ------
    InputError
        The file has become a link out of the folder in which it was listed.
    """
    uri = file.uri
    if file.place is not None:
        uri = LinkBounds([file.place]).within(uri).real
    folder, _, name = uri.rpartition("/")
    return Storage.at(folder or "/"), name


def check_unchanged(file: SourceFile) -> None:
    """Raise `InputError` when a file is gone, or is no longer the one that was listed."""
    storage, name = located(file)
    try:
        entry = storage.entry(name)
    except FileNotFoundError:
        raise InputError(f"{file.uri} was deleted after the run listed it; {LIST_AGAIN}") from None
    if (entry.size, entry.stamp) != (file.size, file.stamp):
        raise InputError(
            f"{file.uri} was changed after the run listed it ({file.size} bytes of {file.stamp}, "
            f"now {entry.size} bytes of {entry.stamp}); {LIST_AGAIN}"
        )


def rooted(uri: str) -> tuple[Storage, str]:
    """Split a glob into the folder that no wildcard is in, and the rest."""
    scheme, separator, path = uri.rpartition("://")
    parts = PurePosixPath(path).parts
    fixed = next((i for i, part in enumerate(parts) if _MAGIC.search(part)), len(parts) - 1)
    fixed = max(1, min(fixed, len(parts) - 1))  # the root or the bucket is never part of the pattern
    return Storage.at(scheme + separator + str(PurePosixPath(*parts[:fixed]))), "/".join(parts[fixed:])
