"""Where the rows of a catalog may differ between two of its versions: told from metadata, without a leaf.

Two bounds are known, and rows differ only where both say that they may. Leaf files that both versions have
hold the same rows in both; files are told apart by their checksums, so that a file which was written once
more with the same rows is no change. And where all rows of all increments are in the catalog, rows differ
only where those of increments lie that only one version has: compactions and splits change nothing.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from hipslake.catalog.comparing import files_apart
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.partitions import leaf_spans
from hipslake.catalog.schema import ROW_IDENTITY
from hipslake.catalog.validity import validity_of
from hipslake.sphere.intervals import Intervals
from hipslake.storage.folder import Storage


def changed_places(storage: Storage, old: CatalogMetadata, new: CatalogMetadata) -> Intervals:
    """Where rows of two versions may differ, in any column.

    Parameters
    ----------
    storage : Storage
        At the catalog's root. Read are sidecars of partitions that only one version names, and the coverage
        of such increments.
    old, new : CatalogMetadata
        With the same columns: see `has_columns_of`.

    Returns
    -------
    Intervals
        Order-29 pixels. Everywhere else both versions have the same rows, in the same order.
    """
    changed = _of_files(storage, old, new)
    if holds_all_increments(old) and holds_all_increments(new):
        changed = changed.common(_of_increments(storage, old, new))
    return changed


def has_columns_of(old: CatalogMetadata, new: CatalogMetadata) -> bool:
    """Whether two versions have the same columns in the same groups, and place rows by the same ones."""
    return old.position == new.position and _columns(old) == _columns(new)


def _columns(metadata: CatalogMetadata) -> list[tuple[str, list[pa.Field]]]:
    return [
        (group.name, [field for field in group.to_arrow() if field.name not in ROW_IDENTITY])
        for group in metadata.groups
    ]


def _of_files(storage: Storage, old: CatalogMetadata, new: CatalogMetadata) -> Intervals:
    """The pixels of leaf files that only one version has."""
    found = []
    for group in new.groups:
        went, came, _ = files_apart(storage, old.group(group.name), group)
        for mine, other in ((went, came), (came, went)):
            found.append(Intervals.union(*leaf_spans(_not_among(mine, other))))
    return Intervals.together(found)


def _not_among(files: pa.Table, others: pa.Table) -> pa.Table:
    """The files that are not, with the same content, also among others: for the same pixel, as often."""
    keys = ["order", "npix", "sha256"]
    counts = others.group_by(keys).aggregate([([], "count_all")]).rename_columns([*keys, "there"])
    mine = files.group_by(keys).aggregate([([], "count_all")]).rename_columns([*keys, "here"])
    both = mine.join(counts, keys)
    return both.filter(pc.not_equal(both["here"], pc.fill_null(both["there"], 0)))


def holds_all_increments(metadata: CatalogMetadata) -> bool:
    """Whether every row of every increment is in the catalog, so that increments say which rows it has.

    With intervals of validity, they are all there, but a night also changes rows of others.
    """
    if validity_of(metadata) is not None:
        return False
    earlier = metadata.earlier.total_rows if metadata.earlier else 0
    brought = earlier + sum(increment.rows for increment in metadata.increments)
    return metadata.adopted is None and all(group.rows == brought for group in metadata.groups)


def _of_increments(storage: Storage, old: CatalogMetadata, new: CatalogMetadata) -> Intervals:
    """Where the rows of increments lie that only one version has."""
    had, has = set(old.increment_writes), set(new.increment_writes)
    apart = [*old.increments_of(had - has, storage), *new.increments_of(has - had, storage)]
    return Intervals.together(Intervals.union(*leaf_spans(each.cells(storage))) for each in apart)
