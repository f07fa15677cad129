"""What a step has committed, and what it was made of; read from the versions themselves."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import closing
from typing import Literal

from hipslake.catalog.metadata import CatalogMetadata
from hipslake.cube.store.cube_commit import read_version
from hipslake.sources.source_file import SourceFile
from hipslake.specs.base import Frozen
from hipslake.specs.table_place import TablePlace
from hipslake.steps.frozen_run import FrozenInputs
from hipslake.steps.run import RunFolder
from hipslake.storage.folder import Storage
from hipslake.storage.plain_json import plain_json
from hipslake.versions.log import VersionLog

_MOST_FOLDERS = 20
"""Of source files that are listed one by one; of more, the folder that holds them all is given."""


class ColumnType(Frozen):
    """A column, and the name of its type."""

    name: str
    type: str


class CommittedVersion(Frozen):
    """A version that a step has committed, and what it holds."""

    kind: Literal["catalog", "table", "cube"]
    name: str  # of a table: namespace.table
    uri: str
    version: str  # of a table: the id of its snapshot
    rows: int | None  # of a cube: cells of the seed; None: the version does not say
    bytes: int
    files: int
    partitions: int | None = None  # None: the version does not say
    columns: tuple[ColumnType, ...] = ()


class Origin(Frozen):
    """Something that a step has read."""

    kind: Literal["files", "catalog", "table", "cube"]
    uri: str  # of files: their folder; of a table: its location
    version: str | None = None
    bytes: int | None = None  # None: not known
    files: int | None = None


def catalog_version(uri: str, version: int) -> CommittedVersion:
    """Return what a version of a catalog holds."""
    storage = Storage.at(uri)
    metadata = CatalogMetadata.from_json(VersionLog(storage).read(version), where=storage.uri())
    return CommittedVersion(
        kind="catalog",
        name=metadata.catalog,
        uri=storage.uri(),
        version=str(metadata.version),
        rows=metadata.total_rows,
        bytes=metadata.total_bytes,
        files=sum(group.files for group in metadata.groups),
        partitions=sum(group.leaves for group in metadata.groups),
        columns=_columns((each.name, each.type) for group in metadata.groups for each in group.columns),
    )


def cube_version(uri: str, version: int) -> CommittedVersion:
    """Return what a version of a cube holds."""
    storage = Storage.at(uri)
    metadata = read_version(storage, version)
    return CommittedVersion(
        kind="cube",
        name=metadata.cube,
        uri=storage.uri(),
        version=str(metadata.version),
        rows=metadata.dataset(metadata.roles.seed).rows,
        bytes=sum(each.bytes for each in metadata.tables),
        files=sum(each.files for each in metadata.tables),
        partitions=metadata.alignment.included if metadata.alignment is not None else None,
        columns=_columns((each.name, each.type) for data in metadata.datasets for each in data.columns),
    )


def table_version(spec: TablePlace, warehouse: str, name: str) -> CommittedVersion | None:
    """Return what the newest snapshot of a table holds, by its summary; None if there is none."""
    from hipslake.tables.opening import open_table

    with closing(open_table(spec, warehouse, name)) as opened:
        table = opened.existing()
    if table.version is None:
        return None
    totals = table.totals
    return CommittedVersion(
        kind="table",
        name=name,
        uri=table.location,
        version=str(table.version),
        rows=totals.rows,
        bytes=totals.bytes or 0,
        files=totals.files or 0,
        columns=_columns(table.column_types),
    )


def origins_of_run(run_uri: str) -> tuple[Origin, ...]:
    """Return what the run of a catalog reads: all sides of its join, or its source files."""
    folder = RunFolder(run_uri)
    if not folder.storage.exists(RunFolder.JOIN):
        return origins_of_files(FrozenInputs.of(folder).files)
    join = plain_json(folder.document(RunFolder.JOIN))
    sides = (join["left"], join["right"], *(each["side"] for each in join.get("further", ())))
    found = [Origin(kind="catalog", uri=side["uri"], version=str(side["version"])) for side in sides]
    return tuple(dict.fromkeys(found))


def origins_of_files(files: Iterable[SourceFile]) -> tuple[Origin, ...]:
    """Return the folders of some files."""
    sizes: dict[str, list[int]] = {}
    for file in files:
        sizes.setdefault(file.uri.rpartition("/")[0], []).append(file.size)
    if len(sizes) > _MOST_FOLDERS:
        parts = [folder.split("/") for folder in sizes]
        shared = 0
        while all(len(each) > shared and each[shared] == parts[0][shared] for each in parts):
            shared += 1
        sizes = {"/".join(parts[0][:shared]): [size for each in sizes.values() for size in each]}
    return tuple(
        Origin(kind="files", uri=folder or "/", bytes=sum(each), files=len(each))
        for folder, each in sorted(sizes.items())
    )


def folder_of_pattern(pattern: str) -> str:
    """Return the folder under which all files of a pattern lie.

    Examples
    --------
    >>> folder_of_pattern("s3://survey/night=*/part-?.parquet"), folder_of_pattern("/data/stars.parquet")
    ('s3://survey', '/data')
    """
    plain = re.split(r"[*?\[]", pattern, maxsplit=1)[0]
    return plain.rpartition("/")[0] or "/"


def _columns(columns: Iterable[tuple[str, str]]) -> tuple[ColumnType, ...]:
    """Each name once: groups of a catalog repeat the position, datasets of a cube its dimensions."""
    return tuple(ColumnType(name=name, type=kind) for name, kind in dict(reversed([*columns])).items())[::-1]
