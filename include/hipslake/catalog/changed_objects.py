"""Objects that changed since they placed the rows of a catalog: which are gone, and which came elsewhere.

Rows of a catalog that objects placed lie where these were. So they go on fitting to the objects as long as
none of these comes again at another place than its rows lie at. The objects of then and of now are compared
by the change feed, which opens only leaf files that differ. Those that are gone are kept with the mark of the
column: rows of theirs may be there, and an object may come back long after. Only of objects that did come
elsewhere are rows looked for, and only where they would lie.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, suppress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hipslake.catalog.changes.change_feed import ChangeFeed
from hipslake.catalog.changes.change_rows import CHANGE_COLUMN, INSERT
from hipslake.catalog.checks.co_partition_checks import compared_whole, objects_root
from hipslake.catalog.co_partitioning import (
    MarkAfter,
    check_marked,
    known_together,
    placed_by,
    ways_out,
)
from hipslake.catalog.column_files import ColumnFiles
from hipslake.catalog.committing import newest_version
from hipslake.catalog.gone_objects import ID, gone_objects, gone_schema
from hipslake.catalog.metadata import CatalogMetadata, CoPartitioned, PlacingObjects
from hipslake.catalog.partitions import write_sidecar
from hipslake.catalog.records.superseded_files import superseded_files
from hipslake.engine.model import Engine
from hipslake.engine.this_process import ThisProcess
from hipslake.errors import CoPartitionError, SpecError, VersionNotFoundError
from hipslake.joins.key_codes import plain_keys
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixels import HEALPIX_COLUMN, centers29
from hipslake.storage.folder import Storage
from hipslake.versions.log import VersionLog
from hipslake.versions.pins import keep_for_reading

MOST_CHANGED = 32 << 20
"""Most objects that may differ between two versions, to be held in memory: 16 bytes each, or their texts."""

_SIDECAR = "gone_objects"
_SHOWN = 3
_PLACED = [ID, HEALPIX_COLUMN]
_BACK = "_back"  # where an object came again


class PlacedRows:
    """The rows of a version that objects placed, by a column of their ids.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
    mark : CoPartitioned
        Of the column; it names objects.
    """

    def __init__(self, storage: Storage, metadata: CatalogMetadata, mark: CoPartitioned) -> None:
        assert mark.objects is not None
        self.storage, self.metadata = storage, metadata
        self.column, self.objects = mark.column, mark.objects
        self.root = objects_root(storage, mark.objects)

    def gone_at(self, now: CatalogMetadata, engine: Engine) -> tuple[pa.Table, bool]:
        """The objects that rows may be of and that a version of the objects has not, and where they were.

        Parameters
        ----------
        now : CatalogMetadata
            The version of the objects.
        engine : Engine
            For what is compared whole, as the version that placed the rows was vacuumed.

        Returns
        -------
        gone : pyarrow.Table
            Columns `id` and `_healpix_29`, sorted.
        some_moved : bool
            Whether there are objects that came elsewhere, of which there are no rows in this version.

        Raises
        ------
        CoPartitionError
            Rows lie where their objects no longer are.
        """
        known = gone_objects(self.storage, self.metadata, self.column, self.objects)
        if set(self.objects.writes) == set(now.increment_writes):
            return known, False
        before = version_of(self.root, self.objects)
        if before is None:
            return self._compared_whole(now, engine), True
        removed, added = self._differences(before, now)
        candidates = _distinct(pa.concat_tables([known, removed]))
        back = candidates.join(added.rename_columns([ID, _BACK]), ID, join_type="inner")
        back = back.filter(pc.not_equal(back[HEALPIX_COLUMN], back[_BACK]))
        self._refuse(self.having(back), now)
        staying = pc.invert(pc.is_in(candidates[ID], value_set=added[ID].combine_chunks()))
        return candidates.filter(staying), bool(back.num_rows)

    def having(self, objects: pa.Table) -> pa.Table:
        """Those of some objects (`id` and `_healpix_29`) that have rows at their place."""
        if not objects.num_rows:
            return objects
        h29 = np.unique(objects[HEALPIX_COLUMN].to_numpy())
        near = ColumnFiles.of(self.storage, self.metadata, self.column, meeting=Intervals.union(h29, h29 + 1))
        found = [objects.schema.empty_table().select(_PLACED)]
        for files in (near, *self._superseded()):
            for batch in files.batches():
                keys, h29 = batch.column(self.column), batch.column(HEALPIX_COLUMN)
                here = pa.table({ID: plain_keys(keys), HEALPIX_COLUMN: h29})
                here = here.filter(pc.is_in(here[ID], value_set=objects[ID].combine_chunks()))
                found.append(_distinct(here))
        return objects.join(_distinct(pa.concat_tables(found)), _PLACED, join_type="left semi")

    def _superseded(self) -> Iterator[ColumnFiles]:
        """Mode upsert: rows that newer ones beat may come back where they were."""
        if self.metadata.key_records is not None:
            yield superseded_files(self.storage, self.metadata, self.column)

    def _differences(self, before: CatalogMetadata, now: CatalogMetadata) -> tuple[pa.Table, pa.Table]:
        """The objects that only the earlier version has at their place, and those that only the later has."""
        column = self.objects.column
        found: dict[bool, list[pa.Table]] = {False: [], True: []}
        count = 0
        with ExitStack() as held:
            for version in (before.version, now.version):
                keep_for_reading(held, self.root, version)
            for table in ChangeFeed.of(self.root, before, now, [column], key=()).tables():
                count += table.num_rows
                if count > MOST_CHANGED:
                    raise CoPartitionError(
                        f"more than {MOST_CHANGED} rows of {now.catalog} differ between version "
                        f"{before.version}, which placed the rows of {self.metadata.catalog}, and version "
                        f"{now.version}; ingest {self.metadata.catalog} anew"
                    )
                table = table.filter(pc.is_valid(table[column]))
                objects = pa.table({ID: plain_keys(table[column]), HEALPIX_COLUMN: table[HEALPIX_COLUMN]})
                came = pc.equal(table[CHANGE_COLUMN], INSERT)
                found[True].append(objects.filter(came))
                found[False].append(objects.filter(pc.invert(came)))
        none = gone_schema(self.metadata, self.column).empty_table()
        removed, added = (_distinct(pa.concat_tables([none, *found[came]])) for came in (False, True))
        return removed, added

    def _compared_whole(self, now: CatalogMetadata, engine: Engine) -> pa.Table:
        """The same as `gone_at`, of all rows and all objects."""
        rows = [ColumnFiles.of(self.storage, self.metadata, self.column), *self._superseded()]
        with ExitStack() as held:
            keep_for_reading(held, self.root, now.version)
            objects = ColumnFiles.of(self.root, now, self.objects.column)
            pairs = self.metadata.total_rows + self.metadata.rows_superseded + now.total_rows
            gone, moved = compared_whole(rows, objects, pairs, engine)
        self._refuse(moved.rename_columns([ID, HEALPIX_COLUMN, _BACK]), now)
        return gone

    def _refuse(self, moved: pa.Table, now: CatalogMetadata) -> None:
        """Raise an error about rows that lie where their objects no longer are, if there are any."""
        if not moved.num_rows:
            return
        moved = moved.sort_by(ID)
        ids = moved[ID].unique()
        shown = "; ".join(
            f"{row[ID]!r} from {_place(row[HEALPIX_COLUMN])} to {_place(row[_BACK])}"
            for row in moved.slice(0, _SHOWN).to_pylist()
        )
        raise CoPartitionError(
            f"{len(ids)} objects of {now.catalog} that have rows in {self.metadata.catalog}, version "
            f"{self.metadata.version}, are at another place in version {now.version} than these rows, which "
            f"they had placed before; the first: {shown}. Bring these objects back to where they were, or "
            f"give them new ids; or delete their rows from {self.metadata.catalog}, or ingest it anew"
        )


def mark_after(
    storage: Storage,
    base: CatalogMetadata,
    mark: CoPartitioned,
    now: CatalogMetadata,
    write_id: str,
    engine: Engine,
) -> MarkAfter:
    """Hold the rows of a version against objects that changed since they placed them.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    base : CatalogMetadata
        The version.
    mark : CoPartitioned
        Of a run that was placed by the objects of now.
    now : CatalogMetadata
        The version of the objects that placed it.
    write_id : str
        The write that is to keep which objects are gone.
    engine : Engine

    Raises
    ------
    SpecError
        The rows lie where their objects no longer are, or were placed by objects of another catalog.
    """
    standing = base.mark_of(mark.column)
    assert standing is not None
    assert mark.objects is not None
    before = standing.objects
    if before is None or (before.catalog, before.column) != (mark.objects.catalog, mark.objects.column):
        what = "their own positions" if before is None else f"{before.catalog}.{before.column}"
        raise SpecError(
            f"the rows of {base.catalog}, version {base.version}, were placed by {what}, and those of this "
            f"run by {mark.objects.catalog}.{mark.objects.column}; ingest {base.catalog} anew"
        )
    try:
        gone, some_moved = PlacedRows(storage, base, standing).gone_at(now, engine)
    except CoPartitionError as error:
        raise SpecError(str(error)) from error
    sidecar = before.gone
    if not gone.equals(gone_objects(storage, base, mark.column, before)):
        sidecar = write_sidecar(storage, write_id, _SIDECAR, gone) if gone.num_rows else None
    objects = mark.objects.model_copy(update={"gone": sidecar})
    return MarkAfter(mark.column, before, objects, base.version if some_moved else None)


def check_joinable(
    left: tuple[Storage, CatalogMetadata], right: tuple[Storage, CatalogMetadata], on: tuple[str, str]
) -> None:
    """Whether equal values of two columns are in leaves that overlap: by what versions say, or else compared.

    Parameters
    ----------
    left, right : (Storage, CatalogMetadata)
        Each at its catalog's root.
    on : (str, str)
        The column of each.

    Raises
    ------
    CoPartitionError
        They are not, or it is not known; the message names the column and the ways out.
    """
    check_marked(left[1], right[1], on)
    if known_together(left[1], right[1], on):
        return
    try:
        _compare(left, right, on)
    except CoPartitionError as error:
        raise CoPartitionError(f"{error}. {ways_out(left[1], right[1], on)}") from error


def version_of(root: Storage, objects: PlacingObjects) -> CatalogMetadata | None:
    """A version of the objects that has exactly the increments which placed rows; None if none is left."""
    log, writes = VersionLog(root), set(objects.writes)
    for number in reversed(log.numbers()):
        with suppress(VersionNotFoundError):
            metadata = CatalogMetadata.from_json(log.read(number))
            if set(metadata.increment_writes) == writes:
                return metadata
    return None


def _compare(
    left: tuple[Storage, CatalogMetadata], right: tuple[Storage, CatalogMetadata], on: tuple[str, str]
) -> None:
    """Hold rows of both sides against one version of the objects, and what is gone against each other."""
    sides = ((*left, on[0]), (*right, on[1]))
    marks = [metadata.mark_of(column) for _, metadata, column in sides]
    placed = [
        PlacedRows(storage, metadata, mark)
        for (storage, metadata, _), mark in zip(sides, marks, strict=True)
        if mark is not None and mark.objects is not None
    ]
    now = None
    if len({rows.root.uri() for rows in placed}) == 1:
        own = [side for side, mark in zip(sides, marks, strict=True) if mark is not None and not mark.objects]
        for _, metadata, column in own or reversed(sides):
            objects = placed_by(metadata, column)
            now = now or (version_of(placed[0].root, objects) if objects is not None else None)
        now = now or (newest_version(placed[0].root) if not own else None)
    if now is None:
        raise CoPartitionError(
            f"{left[1].catalog}.{on[0]}, version {left[1].version}, and {right[1].catalog}.{on[1]}, version "
            f"{right[1].version}, were placed by different rows of a catalog that is not beside them"
        )
    engine = ThisProcess()
    gone = [rows.gone_at(now, engine)[0] for rows in placed]
    if len(placed) < 2:
        return
    both = gone[0].join(gone[1].rename_columns([ID, _BACK]), ID, join_type="inner")
    both = placed[0].having(both.filter(pc.not_equal(both[HEALPIX_COLUMN], both[_BACK])))
    names = [ID, _BACK, HEALPIX_COLUMN]
    both = placed[1].having(both.select([ID, HEALPIX_COLUMN, _BACK]).rename_columns(names))
    if both.num_rows:
        first = both.sort_by(ID).slice(0, 1).to_pylist()[0]
        raise CoPartitionError(
            f"{both.num_rows} objects that are gone have rows at different places; the first: "
            f"{first[ID]!r} at {_place(first[_BACK])} in {left[1].catalog}, and at "
            f"{_place(first[HEALPIX_COLUMN])} in {right[1].catalog}"
        )


def _distinct(objects: pa.Table) -> pa.Table:
    distinct = objects.group_by(_PLACED).aggregate([]).select(_PLACED)
    return distinct.sort_by([(name, "ascending") for name in _PLACED])


def _place(h29: int) -> str:
    ra, dec = centers29(np.array([h29]))
    return f"({ra[0]:.6f}, {dec[0]:.6f})"
