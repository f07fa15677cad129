"""Files in the folders of a table that no snapshot names, whoever wrote them.

What dead writes of this library leave is swept without being looked for:
`hipslake.tables.iceberg.write_folders`. Other engines leave files that nothing tells of; these are found by
listing, and told from files of writes that still go on by their age.
"""

from __future__ import annotations

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from hipslake.storage.addresses import normal_address
from hipslake.storage.folder import Storage
from hipslake.tables.iceberg.catalogs import open_table
from hipslake.tables.iceberg.commit import commit_uuid
from hipslake.tables.iceberg.commit_attempts import attempts_of, writes_of
from hipslake.tables.iceberg.data_locations import DATA, METADATA
from hipslake.tables.iceberg.write_folders import living_writes, named_files
from hipslake.tables.old_files import OrphanFile, is_data_name, old_files
from hipslake.versions.heartbeat import StoreClock

_KEPT = ("version-hint.text",)  # by which catalogs of folders find the newest metadata


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
    unnamed = [
        (root, entry)
        for root, entry in listed
        if is_data_name(entry)
        and entry.path.rpartition("/")[2] not in _KEPT
        and not any(each in entry.path for each in living)
        and normal_address(root.uri(entry.path)) not in standing
    ]
    return old_files(unnamed, clock, days)


def _living(table: Table) -> set[str]:
    """What the names of the files of writes that go on have in them."""
    writes = {*living_writes(table), *(attempt.write_id for attempt in attempts_of(table))}
    return {text for write in writes for text in (write, str(commit_uuid(write)))}
