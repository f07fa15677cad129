"""An Iceberg table as `hipslake.tables.protocol` has it: what sinks and vacuums ask of a table."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.table import Table

from hipslake.clustering.planning import ClusterMark
from hipslake.errors import ConflictError
from hipslake.specs.table_place import IcebergSpec
from hipslake.specs.table_spec import TableSpec
from hipslake.specs.vacuum_spec import Retention
from hipslake.storage.folder import Storage
from hipslake.tables.alterations import TableAlteration
from hipslake.tables.branch_protocol import BranchState
from hipslake.tables.iceberg.branch_publishing import drop_branch, publish_branch
from hipslake.tables.iceberg.branches import branch_of, is_published, on_branch
from hipslake.tables.iceberg.catalogs import find_table, open_catalog, open_table
from hipslake.tables.iceberg.iceberg_state import IcebergState
from hipslake.tables.iceberg.table_shape import evolve_table, fitting_table
from hipslake.tables.iceberg.write_folders import (
    sweep_writes,
)
from hipslake.tables.marks import SinkMark
from hipslake.tables.protocol import ShapedTable, TableState, TableVacuumOutcome, WriteChange

if TYPE_CHECKING:
    from hipslake.tables.iceberg.compacted_table import IcebergCompaction


class IcebergTable:
    """A table of an Iceberg catalog.

    Parameters
    ----------
    spec : IcebergSpec
        Of the catalog.
    warehouse : str
    name : str
        Namespace and table.
    branch : str, optional
        That is looked at and sunk into; by default main. Vacuums and compactions are of main.
    """

    def __init__(self, spec: IcebergSpec, warehouse: str, name: str, branch: str | None = None) -> None:
        self._catalog = open_catalog(spec, warehouse)
        self._name = name
        self._branch = branch

    def close(self) -> None:
        self._catalog.close()

    def now(self) -> IcebergState | None:
        table = find_table(self._catalog, self._name)
        return None if table is None else self._shown(table)

    def existing(self) -> IcebergState:
        return self._shown(open_table(self._catalog, self._name))

    def shaped(self, spec: TableSpec, stored: pa.Schema) -> ShapedTable:
        table, created, changes = fitting_table(self._catalog, spec, stored)
        if self._branch is not None and table.current_snapshot() is None:
            _begin_main(table)
            table = open_table(self._catalog, self._name)
        return ShapedTable(self._shown(table), created, changes)

    def evolve(
        self, spec: TableSpec, stored: pa.Schema | None, *, dry_run: bool = True
    ) -> tuple[TableAlteration, ...]:
        return evolve_table(self._catalog, spec, stored, dry_run=dry_run)

    def branch(self) -> BranchState | None:
        if self._branch is None or (table := find_table(self._catalog, self._name)) is None:
            return None
        found = branch_of(table, self._branch)
        return None if found is None else found.state(self._branch)

    def publish(self, head: int, tag_of: Callable[[SinkMark], str | None]) -> bool:
        assert self._branch is not None, "main is published"
        return publish_branch(self._catalog, self._name, self._branch, head, tag_of)

    def is_published(self, version: int) -> bool:
        return is_published(open_table(self._catalog, self._name), version)

    def drop_branch(self) -> None:
        if self._branch is not None and find_table(self._catalog, self._name) is not None:
            drop_branch(self._catalog, self._name, self._branch)

    def _shown(self, table: Table) -> IcebergState:
        return IcebergState(on_branch(table, self._branch), branch=self._branch)

    def sweep(self, stale_after: float | None = None) -> list[str]:
        return sweep_writes(self._catalog, self._name, stale_after)

    def vacuum(
        self, retention: Retention, *, now: datetime, dry_run: bool = True, orphan_days: float | None = None
    ) -> TableVacuumOutcome:
        from hipslake.tables.iceberg.expire_snapshots import vacuum_table  # a sink needs nothing of it

        return vacuum_table(
            self._catalog, self._name, retention, now=now, dry_run=dry_run, orphan_days=orphan_days
        )

    def compaction(self, run: Storage, by: ClusterMark | None = None) -> IcebergCompaction:
        from hipslake.tables.iceberg.compacted_table import IcebergCompaction  # a sink needs nothing of it

        return IcebergCompaction(self._catalog, self._name, run, by)


def _begin_main(table: Table) -> None:
    """Commit a snapshot without files, which a branch can begin at, unless others are first."""

    def check(now: TableState) -> None:
        if now.version is not None:
            raise ConflictError(f"table {'.'.join(table.name())}: others have committed to it meanwhile")

    with suppress(ConflictError), IcebergState(table).writing() as write:
        write.commit(WriteChange([]), check)
