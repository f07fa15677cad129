"""What an index was built of, and where on the curve rows may lie that it does not know."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from hipslake.catalog.changed_places import holds_all_increments
from hipslake.catalog.index import leaves_digest
from hipslake.catalog.index_cuts import CUTS
from hipslake.catalog.layouts import index_root
from hipslake.catalog.metadata import CatalogMetadata, GroupMetadata, Index, IndexedLeaves
from hipslake.catalog.partitions import leaf_spans, read_partition_sidecars, write_partition_sidecars
from hipslake.specs.catalog_spec import Layout
from hipslake.sphere.intervals import Intervals
from hipslake.storage.folder import Storage


class LeavesApart(NamedTuple):
    """The leaf files that only an index was built of, and those that only a version has.

    Tables of `PARTITION_SCHEMA`, along the curve.
    """

    went: pa.Table
    came: pa.Table

    @property
    def places(self) -> Intervals:
        """The order-29 pixels of all of them: everywhere else the index has an entry for each value."""
        return Intervals.together(Intervals.union(*leaf_spans(files)) for files in self)


def listed_leaves(
    storage: Storage, metadata: CatalogMetadata, column: str, write_id: str, *, file_entries: int, values: int
) -> IndexedLeaves:
    """Note the leaf files that an index of a column is built of; a version without sidecars gets one of them.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
    column : str
    write_id : str
        The write of the index.
    file_entries, values : int
        As `IndexedLeaves` has them.
    """
    group = metadata.group(metadata.group_with(column))
    sidecars = group.sidecars
    if sidecars is None:
        name = hashlib.sha256(column.encode()).hexdigest()[:8]
        table = group.table(storage)
        sidecars = write_partition_sidecars(
            storage, write_id, f"indexed_{name}", table, most=max(1, table.num_rows)
        )
    return IndexedLeaves(
        group=group.name,
        file_entries=file_entries,
        cuts=CUTS,
        values=values,
        all_rows=holds_all_increments(metadata),
        digest=files_digest(group),
        sidecars=sidecars,
        pixels=None if group == metadata.groups[0] else metadata.groups[0].pixels,
    )


def files_digest(group: GroupMetadata) -> str:
    """A digest of the leaf files of a group: equal ones have the same files, in the same sidecars."""
    files = group.partitions or () if group.sidecars is None else group.sidecars
    return hashlib.sha256("\n".join(file.path for file in files).encode()).hexdigest()


def knows_all_rows(metadata: CatalogMetadata, index: Index) -> bool:
    """Whether an index has an entry for every row of a version, and no other, as far as metadata tell.

    Where every row of every increment is in the leaves, as it was when the index was built, increments tell
    it: compactions and splits change no row. Else only the leaf files do.
    """
    covers = set(index.writes) == set(metadata.increment_writes)
    if index.built_of is None:
        return covers
    if covers and index.built_of.all_rows and holds_all_increments(metadata):
        return True
    group = _group_of(metadata, index.built_of)
    return group is not None and index.built_of.digest == files_digest(group)


def is_current(metadata: CatalogMetadata, index: Index) -> bool:
    """Whether an index knows every row of a version and names its leaves: what HATS readers need."""
    return knows_all_rows(metadata, index) and index.leaves == leaves_digest(metadata.groups[0])


def hats_index_root(metadata: CatalogMetadata, index: Index) -> str | None:
    """The HATS catalog of an index, relative to the root; None where HATS readers may not use it."""
    if metadata.layout is not Layout.HATS or not is_current(metadata, index) or not index.others:
        return None
    return index_root(index.others[0].partition("/")[0], index.column)


def leaves_apart(storage: Storage, metadata: CatalogMetadata, built_of: IndexedLeaves) -> LeavesApart:
    """Tell the leaf files that an index was built of from those of a version; no leaf is opened.

    Files are the same if they have the same path, or, for one leaf, the same content. Sidecars that both
    name are not read.

    Raises
    ------
    CatalogFormatError
        A sidecar is damaged.
    """
    group = _group_of(metadata, built_of)
    sidecars = (group.sidecars or ()) if group is not None else ()
    shared = {sidecar.path for sidecar in built_of.sidecars} & {sidecar.path for sidecar in sidecars}
    before, now = (
        read_partition_sidecars(storage, [one for one in several if one.path not in shared])
        for several in (built_of.sidecars, sidecars)
    )
    if group is not None and group.sidecars is None:
        now = group.table(storage)
    before, now = _not_in(before, now, "path"), _not_in(now, before, "path")
    before, now = (table.append_column("content", _contents(table)) for table in (before, now))
    if all(pc.count_distinct(table["content"]).as_py() == table.num_rows for table in (before, now)):
        # Else there are files of one leaf with the same bytes, and which of them stayed is not known.
        before, now = _not_in(before, now, "content"), _not_in(now, before, "content")
    return LeavesApart(before.drop_columns("content"), now.drop_columns("content"))


def unknown_places(storage: Storage, metadata: CatalogMetadata, index: Index) -> Intervals:
    """Where rows of a version may lie that an index has no entry for; no leaf is opened.

    Two bounds are known, and such rows lie only where both say so. They are in leaf files that the index
    was not built of. And where all rows of all increments are in the leaves, then and now, they are rows of
    increments that the index does not cover.

    Raises
    ------
    CatalogFormatError
        A sidecar is damaged.
    """
    if knows_all_rows(metadata, index):
        return Intervals.together(())
    built_of = index.built_of
    if built_of is None:
        # Rows of covered increments come back when the increment goes that superseded them.
        if metadata.key_records is not None and not set(index.writes) <= set(metadata.increment_writes):
            return Intervals.whole_sky()
        return _of_nights(storage, metadata, index)
    places = Intervals.union(*leaf_spans(leaves_apart(storage, metadata, built_of).came))
    if built_of.all_rows and metadata.key_records is None and holds_all_increments(metadata):
        places = places.common(_of_nights(storage, metadata, index))
    return places


def _of_nights(storage: Storage, metadata: CatalogMetadata, index: Index) -> Intervals:
    """Where the rows of increments lie that an index does not cover."""
    nights = metadata.increments_of(set(metadata.increment_writes).difference(index.writes), storage)
    return Intervals.together(Intervals.union(*leaf_spans(night.cells(storage))) for night in nights)


def _group_of(metadata: CatalogMetadata, built_of: IndexedLeaves) -> GroupMetadata | None:
    return next((group for group in metadata.groups if group.name == built_of.group), None)


def _not_in(files: pa.Table, others: pa.Table, name: str) -> pa.Table:
    return files.filter(pc.invert(pc.is_in(files[name], others[name].combine_chunks())))


def _contents(files: pa.Table) -> pa.ChunkedArray:
    """A text per file, equal where a leaf has the same bytes; of files without a checksum the path."""
    known = pc.greater(pc.utf8_length(files["sha256"]), 0)
    leaf = [files[name].cast(pa.string()) for name in ("order", "npix")]
    return pc.binary_join_element_wise(*leaf, pc.if_else(known, files["sha256"], files["path"]), "/")
