"""What a delete makes of a version: leaves without the rows, margins, and the records that take them away.

Nothing is committed here: what comes of it fits to the version that it was made of, and to no other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hipslake.catalog.change import GroupChange, MarginChange, changed_group, changed_margin
from hipslake.catalog.committing import newest_version
from hipslake.catalog.layouts import delete_work
from hipslake.catalog.metadata import CatalogMetadata, Deletion, KeyChanges, KeyRecords
from hipslake.catalog.metadata.key_records import described_run
from hipslake.catalog.partitions import PARTITION_SCHEMA
from hipslake.catalog.records.record_order import RecordOrder
from hipslake.catalog.records.record_rows import DELETE_COLUMN, key_of
from hipslake.catalog.records.records_change import RecordsChange
from hipslake.catalog.records.run_files import run_folder, write_run_files
from hipslake.catalog.row_sets import ORDINAL_SHIFT
from hipslake.catalog.schema import ROW_COLUMN, ROW_IDENTITY
from hipslake.catalog.standing import Standing
from hipslake.engine.model import Engine
from hipslake.engine.reordering import in_order
from hipslake.errors import (
    ConflictError,
    VerificationError,
)
from hipslake.planning.splits import assign_targets
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.sphere.pixel_tree import PixelTree
from hipslake.sphere.pixels import HEALPIX_COLUMN
from hipslake.steps.append.set_aside import set_aside_rows
from hipslake.steps.append.settled_night import SettledNight
from hipslake.steps.delete.tasks import RESULT_SCHEMA, DeleteTask, LeafOfGroup
from hipslake.steps.ingest.draft import check_total
from hipslake.steps.ingest.superseded_rows import write_rows
from hipslake.steps.margin.build_margins import MarginUpdate
from hipslake.steps.margin.state import MarginOrder
from hipslake.steps.row_lists import EndList, RowList
from hipslake.steps.rows_to_correct import FoundRows
from hipslake.storage.folder import Storage

_GOES = "goes.arrow"
_WENT_ORDER = 12  # of the pixels that say about where rows go
_NO_FILES = PARTITION_SCHEMA.empty_table()


@dataclass(frozen=True)
class DeletedRows:
    """What a delete has made of a version.

    Attributes
    ----------
    base : CatalogMetadata
    deletion : Deletion
    changes : dict of str to GroupChange
        By column group.
    margins : dict of float to MarginChange
        By distance.
    records : KeyRecords or None
        Mode upsert: those of the next version.
    """

    base: CatalogMetadata
    deletion: Deletion
    changes: dict[str, GroupChange]
    margins: dict[float, MarginChange]
    records: KeyRecords | None

    def next_version(
        self, catalog: Storage, spec: CatalogSpec, write_id: str, library_version: str
    ) -> CatalogMetadata:
        """The version that comes after the one that was worked on.

        Raises
        ------
        ConflictError
            Others have committed since.
        VerificationError
            The column groups do not agree on how many rows there are.
        """
        base, newest = self.base, newest_version(catalog)
        if newest is None or newest.version != base.version:
            raise ConflictError("the rows to delete were looked for in a version that is not the newest")
        groups = tuple(
            changed_group(
                group,
                self.changes[group.name],
                spec=spec,
                name=group.name,
                schema=group.to_arrow(),
                storage=catalog,
                write_id=write_id,
            )
            for group in base.groups
        )
        margins = tuple(
            changed_margin(
                margin,
                self.margins[margin.radius_arcsec],
                name=margin.name,
                group=margin.group,
                arcsec=margin.radius_arcsec,
                storage=catalog,
                write_id=write_id,
            )
            for margin in base.margins
        )
        metadata = base.followed_by(
            write_id,
            library_version=library_version,
            total_rows=base.total_rows - self.deletion.rows,
            total_bytes=sum(group.bytes for group in groups),
            groups=groups,
            margins=margins,
            deletions=(*(base.deletions or ()), self.deletion),
            key_records=self.records,
        )
        check_total(metadata, f"{self.deletion.rows} rows were deleted", mend="Run Catalog.verify()")
        return metadata


@dataclass(frozen=True)
class DeletionJob:
    """A delete of rows of one version.

    Attributes
    ----------
    catalog : Storage
        At the catalog's root.
    base : CatalogMetadata
        The version.
    spec : CatalogSpec
        That it was made by.
    engine : Engine
    write_id : str
        The write that the files go into.
    ordinal : int
        Of the deletion.
    """

    catalog: Storage
    base: CatalogMetadata
    spec: CatalogSpec
    engine: Engine
    write_id: str
    ordinal: int

    def make(self, found: FoundRows, chosen: str, task_bytes: int) -> DeletedRows:
        """Write what differs; nothing is committed."""
        base, keyed = self.base, self.base.key_records is not None
        work = self.catalog.sub(delete_work(self.write_id))
        rows = found.rows.select(ROW_IDENTITY).combine_chunks()
        rows = in_order(rows, np.lexsort([rows[name].to_numpy() for name in reversed(ROW_IDENTITY)]))
        write_rows(work, _GOES, rows)
        goes = RowList(folder=work.uri(), paths=(_GOES,), count=rows.num_rows)
        ordinals, counts = np.unique(rows[ROW_COLUMN].to_numpy() >> ORDINAL_SHIFT, return_counts=True)
        deletion = Deletion(
            ordinal=self.ordinal,
            write_id=self.write_id,
            rows=rows.num_rows,
            chosen=chosen,
            rows_of=None if keyed else dict(zip(ordinals.tolist(), counts.tolist(), strict=True)),
        )
        changes = self._changes(goes, work if keyed else None, task_bytes)
        margins = self._margins(goes, changes)
        records = self._records(found.rows, goes, work) if keyed else None
        self.catalog.delete_tree(delete_work(self.write_id))
        return DeletedRows(base, deletion, changes, margins, records)

    def _changes(self, goes: RowList, aside: Storage | None, task_bytes: int) -> dict[str, GroupChange]:
        """The leaves that hold the rows, written anew."""
        h29 = np.concatenate(list(goes.along_curve()))
        standing = {group.name: self._losing(group.name, h29) for group in self.base.groups}
        work = [LeafOfGroup(name, leaf) for name, each in standing.items() for leaf in range(len(each.tree))]
        sizes = [pc.sum(standing[name].files(leaf)["bytes"]).as_py() for name, leaf in work]
        numbers = assign_targets(np.array(sizes, np.int64), task_bytes)
        tasks = [
            tuple(each for each, number in zip(work, numbers.tolist(), strict=True) if number == task)
            for task in range(int(numbers[-1]) + 1)
        ]
        schemas = {group.name: group.to_arrow() for group in self.base.groups}
        task = DeleteTask(
            self.catalog,
            self.write_id,
            self.spec,
            schemas,
            standing,
            tuple(tasks),
            goes,
            aside,
            self.engine.counter(),
        )
        rows = sum(pc.sum(each.table["rows"]).as_py() for each in standing.values())
        with self.engine.progress("delete", rows=rows, done=task.done):
            files = self.engine.run(task, tasks=len(tasks), result=RESULT_SCHEMA)
        changes = {}
        for name, each in standing.items():
            mine = files.filter(pc.equal(files["group"], name))
            taken_out = pc.sum(mine["taken_out"]).as_py()
            if taken_out != goes.count:
                raise VerificationError(
                    f"column group {name!r}: {goes.count} rows were to be deleted, and {taken_out} were "
                    "there; nothing is changed. Run Catalog.verify()"
                )
            came = mine.filter(pc.is_valid(mine["path"])).select(PARTITION_SCHEMA.names)
            changes[name] = GroupChange(each.table, came.cast(PARTITION_SCHEMA), _NO_FILES)
        return changes

    def _losing(self, group: str, h29: np.ndarray) -> Standing:
        """The leaves of a group that hold some of the pixels, which ascend."""
        described = self.base.group(group)
        tree = PixelTree(*described.leaf_pixels())
        places = np.unique(tree.find(h29))
        pixels = tree.select(places[places >= 0])
        table = described.table_near(self.catalog, pixels.start, pixels.stop)
        order, npix = table["order"].to_numpy().astype(np.int64), table["npix"].to_numpy()
        return Standing.of(table.filter(pa.array(pixels.places_of(order, npix) >= 0)))

    def _margins(self, goes: RowList, changes: dict[str, GroupChange]) -> dict[float, MarginChange]:
        """The margins without the rows; where leaves have gone, those of the tiles in their place."""
        margins = self.base.margins
        if not margins:
            return {}
        order = MarginOrder(
            write_id=self.write_id,
            spec=self.spec,
            radii=tuple(margin.radius_arcsec for margin in margins),
            ordinal=self.ordinal,
            goes=goes,
        )
        npix = goes.pixels(_WENT_ORDER)
        update = MarginUpdate(
            catalog=self.catalog,
            order=order,
            schema=self.base.schema_of(order.group),
            group=self.base.group(order.group),
            margins=margins,
            change=changes[order.group],
            came=PixelTree([], []),
            went=PixelTree(np.full(len(npix), _WENT_ORDER), npix),
        )
        return update.run(self.engine)

    def _records(self, rows: pa.Table, goes: RowList, work: Storage) -> KeyRecords:
        """Mode upsert: the records of the version with those of the delete, whose rows are set aside."""
        known, write_id = self.base.key_records, self.write_id
        assert known is not None
        stones = tombstones(rows, self.ordinal, RecordOrder.of(self.base, ()))
        folder = run_folder(write_id, "records")
        files = write_run_files(self.catalog, folder, 0, stones, key_of(rows.schema))
        run = described_run(self.catalog, write_id, "records", files, [self.ordinal])
        nothing = RowList(folder=work.uri(), paths=(), count=0)
        settled = SettledNight(
            goes=goes,
            beaten=goes,
            late=nothing,
            returns=nothing,
            closes=EndList(**nothing.model_dump()),
            closed=EndList(**nothing.model_dump()),
            changes=KeyChanges(run=run, deletes=run.rows, deleted=run.rows),
            stored=known.superseded,
        )
        schemas = {group.name: group.to_arrow() for group in self.base.groups}
        superseded = set_aside_rows(self.catalog, work, write_id, schemas, settled, self.engine)
        return RecordsChange(self.ordinal, run, superseded).applied(
            known, key=known.key, order_by=known.order_by, rows_superseded=known.rows_superseded + goes.count
        )


def tombstones(rows: pa.Table, ordinal: int, order: RecordOrder) -> pa.Table:
    """The records of a deletion, as `hipslake.catalog.metadata.deletions` says.

    Parameters
    ----------
    rows : pyarrow.Table
        The records of the rows that go.
    ordinal : int
        Of the deletion.
    order : RecordOrder
        Of the version that the rows are in.
    """
    of = (ordinal << ORDINAL_SHIFT) | order.nights(rows[ROW_COLUMN].to_numpy())
    columns = {
        ROW_COLUMN: pa.array(of),
        HEALPIX_COLUMN: pa.nulls(rows.num_rows, pa.int64()),
        DELETE_COLUMN: pa.array(np.ones(rows.num_rows, bool)),
    }
    return pa.table([columns.get(name, rows[name]) for name in rows.column_names], schema=rows.schema)
