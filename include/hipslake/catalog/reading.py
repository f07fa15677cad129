"""Reading the rows of a version: leaf by leaf along the curve, column groups joined again by `_row`.

Leaves of different groups are nested or disjoint, and each is ordered by (`_healpix_29`, `_row`). So the
leaves of any group inside the coarsest leaf there, one after the other, hold the same rows in the same order
as those of any other group: together they are a part, and parts are read one after the other.

All files of a part hold the same rows in the same order, whatever their group: the join is to lay their
columns side by side, after a look at `_row`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.catalog.leaf_rows import ALONG, read_leaf
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.partitions import leaf_spans
from hipslake.catalog.schema import ROW_COLUMN
from hipslake.catalog.selection import Selection
from hipslake.engine.reordering import in_sort_order
from hipslake.engine.this_process import read_ahead
from hipslake.errors import VerificationError
from hipslake.predicates.evaluation import passing
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixels import HEALPIX_COLUMN
from hipslake.storage.folder import Storage


@dataclass
class Part:
    """The leaf files, per group, that hold the rows of one stretch of the curve."""

    start: int  # order-29 pixels [start, stop)
    stop: int
    paths: dict[str, list[str]]
    gathered: set[str]  # groups of which a leaf has several files here
    bytes: int = 0  # of all these files


def parts(
    storage: Storage, metadata: CatalogMetadata, groups: list[str], pixels: Intervals | None = None
) -> list[Part]:
    """The stretches of the curve that are read one after the other: the coarsest leaves of all groups.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
    groups : list of str
        Column groups to read.
    pixels : Intervals, optional
        Leaves that hold nothing of these are left out.
    """
    tables = [
        metadata.partitions(group, storage)
        if pixels is None
        else metadata.group(group).table_near(storage, pixels.start, pixels.stop)
        for group in groups
    ]
    start, stop = zip(*map(leaf_spans, tables), strict=True)
    first, last = _coarsest(np.concatenate(start), np.concatenate(stop))
    found = [
        Part(int(a), int(b), {group: [] for group in groups}, set()) for a, b in zip(first, last, strict=True)
    ]
    for group, table, begin, end in zip(groups, tables, start, stop, strict=True):
        chosen = np.arange(len(begin)) if pixels is None else np.flatnonzero(pixels.touch(begin, end))
        homes = np.searchsorted(first, begin[chosen], side="right") - 1
        paths = table["path"].take(pa.array(chosen)).to_pylist()
        sizes = table["bytes"].to_numpy()[chosen].tolist()
        for home, path, size in zip(homes.tolist(), paths, sizes, strict=True):
            found[home].paths[group].append(path)
            found[home].bytes += size
        for home in homes[1:][begin[chosen][1:] == begin[chosen][:-1]].tolist():
            found[home].gathered.add(group)
    return [part for part in found if any(part.paths.values())]


def _coarsest(
    start: NDArray[np.int64], stop: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of nested or disjoint intervals, those that lie in no other; sorted."""
    along = np.lexsort((-stop, start))
    start, stop = start[along], stop[along]
    reach = np.maximum.accumulate(stop)
    outer = np.concatenate([[True], start[1:] >= reach[:-1]]) if len(start) else np.empty(0, bool)
    return start[outer], stop[outer]


def read_parts(
    storage: Storage,
    metadata: CatalogMetadata,
    selection: Selection,
    pixels: Intervals | None = None,
) -> Iterator[pa.Table]:
    """The rows of a selection, as one table per part, ordered by (`_healpix_29`, `_row`).

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
    selection : Selection
    pixels : Intervals, optional
        Only rows inside these.

    Raises
    ------
    VerificationError
        A leaf file is missing or damaged, or the groups do not hold the same rows.
    """
    pixels = selection.inside(pixels)
    work = parts(storage, metadata, list(selection.columns), pixels)
    schemas = {group: metadata.schema_of(group) for group in selection.columns}
    yield from read_ahead(lambda part: read_part(storage, part, selection, schemas, pixels), work)


def read_part(
    storage: Storage,
    part: Part,
    selection: Selection,
    schemas: dict[str, pa.Schema],
    pixels: Intervals | None,
) -> pa.Table:
    """The rows of a selection in one part, ordered by (`_healpix_29`, `_row`).

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    part : Part
    selection : Selection
    schemas : dict of str to pyarrow.Schema
        Of the column groups that are read.
    pixels : Intervals or None
        Only rows inside these; of a selection with a region, inside its cover.

    Raises
    ------
    VerificationError
        A leaf file is missing or damaged, or the groups do not hold the same rows.
    """
    inside = None if pixels is None else pixels.within(part.start, part.stop)
    cut = selection.cut
    if cut is not None and inside is not None and cut.is_sure_of(inside):
        cut = None
    if inside is not None and inside.start.tolist() == [part.start] and inside.stop.tolist() == [part.stop]:
        inside = None  # all of it
    several = len(selection.columns) > 1
    condition = selection.filter if not several else None
    tables = {}
    for group, columns in selection.columns.items():
        paths = part.paths[group]
        needed = [name for name in columns if cut is not None or name not in selection.cut_only]
        gathered = group in part.gathered
        for key, is_needed in (
            (HEALPIX_COLUMN, inside is not None or cut is not None or gathered),
            (ROW_COLUMN, several or gathered),
        ):
            if is_needed and key not in needed:
                needed.append(key)
        leaves = [read_leaf(storage, path, schemas[group], needed, condition, inside) for path in paths]
        table = _one_table(leaves, schemas[group]) if leaves else None
        if table is not None and gathered:
            table = in_sort_order(table, ALONG)
        tables[group] = table
    table = _side_by_side(storage, part, tables, selection)
    if table is None:
        return selection.schema.empty_table()
    if cut is not None:
        table = cut.inside(table)
    if several and selection.filter is not None:
        table = passing(selection.filter, table)
    return table.select(selection.schema.names).cast(selection.schema)


def _one_table(leaves: list[pa.Table], schema: pa.Schema) -> pa.Table:
    """Files of one group together; older ones may have columns of which newer ones also hold nulls."""
    common = pa.schema([schema.field(name) for name in leaves[0].schema.names])
    return pa.concat_tables([leaf.cast(common) for leaf in leaves])


def _side_by_side(
    storage: Storage, part: Part, tables: dict[str, pa.Table | None], selection: Selection
) -> pa.Table | None:
    """One table with the columns of all groups, whose rows are the same in the same order; None: no rows.

    A group whose leaves are finer has no leaf, and so no table, where there is no row.
    """
    missing = any(table is None for table in tables.values())
    if missing and not any(table is not None and table.num_rows for table in tables.values()):
        return None
    first, *others = tables
    joined = tables[first]
    for other in others:
        table = tables[other]
        if joined is None or table is None or not joined[ROW_COLUMN].equals(table[ROW_COLUMN]):
            paths = part.paths[first][:1] + part.paths[other][:1]
            raise VerificationError(
                f"{storage.uri()}: groups {first!r} and {other!r} do not hold the same rows around "
                f"{' and '.join(paths)}; Catalog.verify() tells more"
            )
        for name in table.column_names:
            if name not in joined.column_names:
                joined = joined.append_column(table.schema.field(name), table[name])
    return joined
