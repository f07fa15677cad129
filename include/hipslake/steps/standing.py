"""What stands once a step has committed: a version of a catalog, a table or a cube, and what it holds.

Read from the version itself, so that reports stay what their steps did.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from typing import Literal

from hipslake.catalog.metadata import CatalogMetadata
from hipslake.cube.store.cube_commit import read_version
from hipslake.specs.base import Frozen
from hipslake.specs.table_spec import IcebergSpec
from hipslake.steps.append.request import AppendReport
from hipslake.steps.compact.request import CompactReport
from hipslake.steps.compact_table.request import CompactTableReport
from hipslake.steps.compact_table.resolve_compaction import FrozenCompaction
from hipslake.steps.cube.cube_report import CubeReport
from hipslake.steps.index.request import BuildIndexReport
from hipslake.steps.ingest.publish import PublishReport
from hipslake.steps.margin.request import MarginReport
from hipslake.steps.report import Report
from hipslake.steps.run import RunFolder
from hipslake.steps.sink.request import SinkReport, SinkRequest
from hipslake.steps.upkeep.rollback_catalog import RollbackReport
from hipslake.storage.folder import Storage
from hipslake.versions.log import VersionLog

_OF_CATALOGS = (PublishReport, AppendReport, RollbackReport, CompactReport, MarginReport, BuildIndexReport)


class ColumnType(Frozen):
    """A column, and its type in words."""

    name: str
    type: str


class Standing(Frozen):
    """A version, and what it holds."""

    kind: Literal["catalog", "table", "cube"]
    name: str  # of a table: namespace.table
    uri: str
    version: str  # of a table: the id of its snapshot
    rows: int  # of a cube: cells of the seed
    bytes: int
    files: int
    partitions: int | None = None  # None: the version does not say
    columns: tuple[ColumnType, ...] = ()


def standing_after(report: Report, run_uri: str) -> Standing | None:
    """Return the version that a step has committed, None if it has committed none.

    Parameters
    ----------
    report : Report
        Of a step that went well.
    run_uri : str
        The step's run folder.

    Raises
    ------
    HipslakeError
        If the version cannot be read, say since it was vacuumed meanwhile.
    """
    if isinstance(report, _OF_CATALOGS) and report.version is not None:
        return catalog_standing(report.catalog_uri, report.version)
    if isinstance(report, CubeReport) and report.version is not None:
        return cube_standing(report.cube_uri, report.version)
    if isinstance(report, SinkReport) and report.snapshot_id is not None:
        sunk = SinkRequest(run_uri=run_uri).frozen()
        return table_standing(sunk.spec.iceberg, sunk.warehouse, sunk.spec.table)
    if isinstance(report, CompactTableReport) and report.version and not report.dry_run:
        frozen = RunFolder(run_uri).read(RunFolder.RUN, FrozenCompaction)
        if frozen.spec.table is not None:
            return table_standing(frozen.spec.iceberg, frozen.warehouse, frozen.spec.table)
    return None


def catalog_standing(uri: str, version: int) -> Standing:
    """Return what a version of a catalog holds."""
    storage = Storage.at(uri)
    metadata = CatalogMetadata.from_json(VersionLog(storage).read(version), where=storage.uri())
    return Standing(
        kind="catalog",
        name=metadata.catalog,
        uri=storage.uri(),
        version=str(metadata.version),
        rows=metadata.total_rows,
        bytes=metadata.total_bytes,
        files=sum(group.files for group in metadata.groups),
        partitions=sum(group.leaves for group in metadata.groups),
        columns=_distinct((each.name, each.type) for group in metadata.groups for each in group.columns),
    )


def cube_standing(uri: str, version: int) -> Standing:
    """Return what a version of a cube holds."""
    storage = Storage.at(uri)
    metadata = read_version(storage, version)
    return Standing(
        kind="cube",
        name=metadata.cube,
        uri=storage.uri(),
        version=str(metadata.version),
        rows=metadata.dataset(metadata.roles.seed).rows,
        bytes=sum(each.bytes for each in metadata.tables),
        files=sum(each.files for each in metadata.tables),
        partitions=metadata.alignment.included if metadata.alignment is not None else None,
        columns=_distinct((each.name, each.type) for data in metadata.datasets for each in data.columns),
    )


def table_standing(spec: IcebergSpec, warehouse: str, name: str) -> Standing | None:
    """Return what the newest snapshot of a table holds, as its summary says; None if there is none."""
    from hipslake.tables.catalogs import open_catalog, open_table, reaching

    with closing(open_catalog(spec, warehouse)) as catalog, reaching(catalog.name):
        table = open_table(catalog, name)
    snapshot = table.current_snapshot()
    if snapshot is None:
        return None
    told = snapshot.summary.additional_properties if snapshot.summary else {}
    return Standing(
        kind="table",
        name=name,
        uri=table.location(),
        version=str(snapshot.snapshot_id),
        rows=int(told.get("total-records", 0)),
        bytes=int(told.get("total-files-size", 0)),
        files=int(told.get("total-data-files", 0)),
        columns=_distinct((each.name, str(each.field_type)) for each in table.schema().fields),
    )


def _distinct(columns: Iterable[tuple[str, str]]) -> tuple[ColumnType, ...]:
    """Each name once: groups of a catalog repeat the position, datasets of a cube its dimensions."""
    return tuple(ColumnType(name=name, type=kind) for name, kind in dict(reversed([*columns])).items())[::-1]
