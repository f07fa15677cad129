"""Files in the folders of a table that no snapshot names, whoever wrote them.

What dead writes of this library leave is swept without being looked for:
`hipslake.tables.iceberg.write_folders`. Other engines leave files that nothing tells of; these are found by
listing, and told from files of writes that still go on by their age.
"""

from __future__ import annotations

from typing import NamedTuple

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from hipslake.storage.addresses import normal_address
from hipslake.storage.entry import Entry
from hipslake.storage.folder import Storage
from hipslake.tables.iceberg.catalogs import open_table
from hipslake.tables.iceberg.commit import commit_uuid
from hipslake.tables.iceberg.commit_attempts import attempts_of, writes_of
from hipslake.tables.iceberg.file_writer import DATA
from hipslake.tables.iceberg.write_folders import living_writes, named_files
from hipslake.versions.heartbeat import StoreClock

METADATA = "metadata"
_KEPT = ("version-hint.text",)  # by which catalogs of folders find the newest metadata
_DAY = 24 * 3600


class OrphanFile(NamedTuple):
    """A file that nothing names.

    Attributes
    ----------
    root : Storage
    path : str
        Relative to the root.
    bytes : int
    """

    root: Storage
    path: str
    bytes: int

    @property
    def uri(self) -> str:
        """Where it lies."""
        return self.root.uri(self.path)


def orphan_files(catalog: Catalog, name: str, days: float) -> list[OrphanFile]:
    """The files in the folders `data` and `metadata` of a table that nothing names, sorted by address.

    Files of writes that go on are none, nor those with names that begin with a dot or an underscore, nor any
    of a store that does not say when its files were written. Only the table's own folders are looked into:
    one that `write.data.path` or `write.metadata.path` names may have files of other tables.

    Parameters
    ----------
    catalog : pyiceberg.catalog.Catalog
    name : str
        Of the table.
    days : float
        Younger files are left alone: a write that is not known here may be about to commit them.
    """
    table = open_table(catalog, name)
    location = table.location().rstrip("/")
    roots = [Storage.at(f"{location}/{folder}") for folder in (DATA, METADATA)]
    listed = [(root, entry) for root in roots for entry in root.list(recursive=True)]
    # In this order: a file that was listed is of a write that still goes on, or has committed by now.
    living = _living(table)
    table = open_table(catalog, name)
    standing = {normal_address(path) for path in named_files(table).all}
    clock = StoreClock(writes_of(table))
    found = []
    for root, entry in listed:
        if entry.is_dir or entry.is_special or _is_kept(entry) or any(each in entry.path for each in living):
            continue
        if normal_address(root.uri(entry.path)) in standing:
            continue
        if _age(clock, root, entry.path) >= days * _DAY:
            found.append(OrphanFile(root, entry.path, entry.size))
    return sorted(found, key=lambda file: file.uri)


def _living(table: Table) -> set[str]:
    """What the names of the files of writes that go on have in them."""
    writes = {*living_writes(table), *(attempt.write_id for attempt in attempts_of(table))}
    return {text for write in writes for text in (write, str(commit_uuid(write)))}


def _is_kept(entry: Entry) -> bool:
    *folders, name = entry.path.split("/")
    hidden = name[0] in "._" or any(part[0] in "._" and "=" not in part for part in folders)
    return hidden or name in _KEPT


def _age(clock: StoreClock, root: Storage, path: str) -> float:
    """Seconds; negative if the store does not say, or the file is gone."""
    try:
        now, written = clock.now, root.written(path)
    except FileNotFoundError:
        return -1.0
    return -1.0 if now is None or written is None else now - written
