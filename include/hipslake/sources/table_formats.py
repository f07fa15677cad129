"""Folders that belong to a table format, and the live files of those, which only its log lists.

Read as plain files, deleted rows come back and rewritten ones come twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from hipslake.errors import InputError, NotReadableError, SpecError
from hipslake.storage.folder import Storage
from hipslake.storage.small_files import Begin

_THREADS = 16  # folders that are looked into at once


class TableFormat(NamedTuple):
    """A format of tables that keeps a log beside its data files.

    Attributes
    ----------
    name : str
    folder : str
        Of the log, below the folder of the table.
    file : re.Pattern
        What a file is called there.
    compact, read : str
        How such a table is compacted, and how its rows are read.
    """

    name: str
    folder: str
    file: re.Pattern[str]
    compact: str
    read: str


_ANY = re.compile(".")
_WRITE_ANEW = "read it with the engine that wrote it, and write its rows into a folder of plain files"

FORMATS = (
    TableFormat("a Delta Lake table", "_delta_log", _ANY, "compact it in its engine: OPTIMIZE", _WRITE_ANEW),
    TableFormat("a Hudi table", ".hoodie", _ANY, "compact it in its engine: run_clustering", _WRITE_ANEW),
    TableFormat(
        "an output of Spark's streaming",
        "_spark_metadata",
        _ANY,
        "read it with Spark, which knows its log, and write its rows into a folder of plain files",
        "read it with Spark, which knows its log, and write its rows into a folder of plain files",
    ),
    TableFormat(
        "an Iceberg table",
        "metadata",
        re.compile(r".*\.metadata\.json(\.gz)?"),
        "name it in the spec by 'table: namespace.table' and its 'iceberg' catalog, in place of 'folder'",
        _WRITE_ANEW,
    ),
    TableFormat(
        "a catalog or a cube of hipslake",
        "_versions",
        re.compile(r"\d{8}\.json"),
        "use catalog_compact for a catalog; a cube needs none",
        "open it as what it is: as 'catalog' of a sink, a join or a dataset of a cube, or by Catalog.open",
    ),
)


def check_plain_folder(folder: Storage, files: Iterable[str]) -> None:
    """Check that a folder is no table of a table format, no part of one, and contains none.

    Parameters
    ----------
    folder : Storage
    files : iterable of str
        All files below it.

    Raises
    ------
    SpecError
        It is.
    """
    where = folder.uri()
    found = _in_files(files) or next(_above(where), None)
    if found is not None:
        place, known = found
        is_uri = place.startswith("/") or "://" in place
        given = place if is_uri else f"{where.rstrip('/')}/{place}".rstrip("/")
        raise SpecError(
            f"folder {where}: {given} is {known.name} (it has {known.folder}/), whose log says "
            f"which files are live; its files are not compacted as plain ones: {known.compact}"
        )


def look_above(begin: Begin, folder: Storage) -> dict[str, Future[TableFormat | None]]:
    """Begin to look for table formats at a folder, and above, while the files below it are listed.

    Parameters
    ----------
    begin : callable
        As `beside` gives it.
    folder : Storage

    Returns
    -------
    dict of str to Future
        For `check_plain_files`, by folder.
    """
    if folder.is_local:  # where nothing is gained
        return {}
    return {place: begin(partial(_format_at, place)) for place in _lineage(folder.uri())}


def check_plain_files(
    uris: Iterable[str], begun: Mapping[str, Future[TableFormat | None]] | None = None
) -> None:
    """Check that no file belongs to a table of a table format.

    Parameters
    ----------
    uris : iterable of str
    begun : mapping of str to Future, optional
        What `look_above` has begun.

    Raises
    ------
    InputError
        One does.
    """
    folders = sorted({uri.rpartition("/")[0] or "/" for uri in uris})
    seen = sorted({each for folder in folders for each in _lineage(folder)})

    def look(place: str) -> TableFormat | None:
        return begun[place].result() if begun and place in begun else _format_at(place)

    with ThreadPoolExecutor(_THREADS) as pool:
        for place, known in zip(seen, pool.map(look, seen), strict=True):
            if known is not None:
                first = next(folder for folder in folders if f"{folder}/".startswith(f"{place.rstrip('/')}/"))
                raise InputError(
                    f"{first} holds files of {known.name}: {place} has {known.folder}/, and its log says "
                    f"which are live; they are not read as plain files: {known.read}"
                )


def _in_files(files: Iterable[str]) -> tuple[str, TableFormat] | None:
    for path in files:
        *parts, name = path.split("/")
        for known in FORMATS:
            if known.folder in parts:
                at = parts.index(known.folder)
                if known.file.match(parts[at + 1] if at + 1 < len(parts) else name):
                    return "/".join(parts[:at]), known
    return None


def _above(uri: str) -> Iterator[tuple[str, TableFormat]]:
    for place in _lineage(uri):
        known = _format_at(place)
        if known is not None:
            yield place, known


def _lineage(uri: str) -> Iterator[str]:
    """Yield a folder and its parents, without folders of partitions (`name=value`), where no table begins."""
    scheme, separator, path = uri.rpartition("://")
    parts = path.strip("/").split("/")
    lead = f"{scheme}{separator}" if separator else "/"
    for count in range(len(parts), 0, -1):
        if "=" not in parts[count - 1]:
            yield lead + "/".join(parts[:count])


def _format_at(place: str) -> TableFormat | None:
    """The format of a table whose root is a folder; None for other folders, also if it cannot be listed."""
    if place.startswith(("http://", "https://")):
        return None  # there are no listings
    storage = Storage.at(place)
    try:
        folders = _folders_of_formats(storage)
        for known in FORMATS:
            if known.folder not in folders:
                continue
            if known.file is _ANY or any(
                known.file.fullmatch(entry.path.rpartition("/")[2]) for entry in storage.list(known.folder)
            ):
                return known
    except NotReadableError:
        pass
    return None


def _folders_of_formats(storage: Storage) -> set[str]:
    if not storage.is_local:  # one request
        return {entry.path for entry in storage.list() if entry.is_dir}
    found = set()
    for name in {known.folder for known in FORMATS}:  # a local folder may hold very many others
        with suppress(FileNotFoundError, NotADirectoryError):
            if storage.entry(name).is_dir:
                found.add(name)
    return found
