"""Changes: what a write takes from a version and adds to it, and the next version that comes of it.

A change was worked out on one version, but may be applied to a later one, if nobody has touched the same sky
in between: it names the files that it replaces, and the pixels of those that it adds. A margin is local, too:
the rows near a tile. But an append that divides a tile, or adds a leaf where none was, makes margins that
others did not know of; so the change of a margin fits only to a version with the tiles that it counted on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hipslake.catalog.describe import MAX_INLINE, describe_columns, describe_group, describe_margin
from hipslake.catalog.metadata import GroupMetadata, Margin
from hipslake.catalog.partitions import (
    PARTITION_SCHEMA,
    PartitionSidecar,
    curve_sorted,
    leaf_spans,
    pixel_ranges,
    pixels_in,
    read_partition_sidecars,
    total_of,
    write_partition_sidecars,
)
from hipslake.catalog.schema import schema_text
from hipslake.errors import ConflictError
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.threshold import Threshold
from hipslake.sphere.pixel_tree import PixelTree
from hipslake.sphere.pixels import starts
from hipslake.storage.folder import Storage


@dataclass(frozen=True)
class GroupChange:
    """The changes of a write in one column group.

    Attributes
    ----------
    removed, added, beside : pyarrow.Table
        Partitions, as `PARTITION_SCHEMA`. The added ones lie where no leaf is, or where removed ones were.
        Those beside are further files of leaves that stay.
    """

    removed: pa.Table
    added: pa.Table
    beside: pa.Table

    @property
    def came(self) -> pa.Table:
        """All partitions that there were not before."""
        return pa.concat_tables([self.added, self.beside])


@dataclass(frozen=True)
class MarginChange:
    """The changes of a write in one margin.

    Attributes
    ----------
    removed, added : pyarrow.Table
        Margin files, as `PARTITION_SCHEMA`.
    used : PixelTree
        Tiles of the version that it was worked out on, whose margins went into it.
    made : PixelTree
        Tiles of the version to come, whose margins it says.
    """

    removed: pa.Table
    added: pa.Table
    used: PixelTree
    made: PixelTree

    def check_fits(self, margin: Margin, before: PixelTree, after: PixelTree, storage: Storage) -> None:
        """Check that the change fits to a version that it was not worked out on.

        Parameters
        ----------
        margin : Margin
            In that version.
        before, after : PixelTree
            The tiles of that version, and those of the version to come.
        storage : Storage
            At the catalog's root.

        Raises
        ------
        ConflictError
            A tile has been divided or joined, or has a margin where it had none.
        """
        known = before.places_of(self.used.order, self.used.npix)
        if (known < 0).any() or (after.places_of(self.made.order, self.made.npix) < 0).any():
            raise ConflictError(f"margin {margin.name!r}: others have divided the same sky")
        table = margin.table_near(storage, self.used.start, self.used.stop)
        order, npix = table["order"].to_numpy(), table["npix"].to_numpy()
        stands = self.used.places_of(order, npix) >= 0
        if set(table.filter(pa.array(stands))["path"].to_pylist()) != set(self.removed["path"].to_pylist()):
            raise ConflictError(f"margin {margin.name!r}: others have changed it around the same leaves")


def changed_group(
    group: GroupMetadata | None,
    change: GroupChange,
    *,
    spec: CatalogSpec,
    name: str,
    schema: pa.Schema,
    storage: Storage,
    write_id: str,
    max_inline: int = MAX_INLINE,
) -> GroupMetadata:
    """Describe a column group after a change; write the sidecars that differ, and none that do not.

    Parameters
    ----------
    group : GroupMetadata or None
        The group in the version that the change is applied to; None if there is no version yet.
    change : GroupChange
    spec, name, schema
        The group as it will be.
    storage : Storage
        At the catalog's root.
    write_id : str
        The write that makes the change.
    max_inline : int
        As for `describe_group`.

    Raises
    ------
    ConflictError
        The version is not one that the change fits to: a file that it replaces is not there any more, or
        another leaf stands where it adds one.
    """
    if group is None or group.sidecars is None:
        table = PARTITION_SCHEMA.empty_table() if group is None else group.table(storage)
        partitions = _applied(table, change, name, spec.threshold_of(name))
        return describe_group(
            spec, name, schema, partitions, storage=storage, write_id=write_id, max_inline=max_inline
        )
    files = _files_after(group, change, name, spec.threshold_of(name), storage, write_id, max_inline)
    return group.model_copy(
        update={
            **files,
            "leaves": len(_pixels(group, change)[0]),
            "threshold": spec.threshold_of(name),
            "parquet": spec.parquet,
            "columns": describe_columns(schema),
            "arrow_schema": schema_text(schema),
        }
    )


def changed_margin(
    margin: Margin | None,
    change: MarginChange,
    *,
    name: str,
    group: str,
    arcsec: float,
    storage: Storage,
    write_id: str,
    max_inline: int = MAX_INLINE,
) -> Margin:
    """Describe a margin after a change; write the sidecars that differ, and none that do not.

    Parameters
    ----------
    margin : Margin or None
        The margin in the version that the change is applied to; None if there is no version yet.
    change : MarginChange
    name, group, arcsec
        As for `describe_margin`.
    storage, write_id, max_inline
        As for `changed_group`.

    Raises
    ------
    ConflictError
        As for `changed_group`. `MarginChange.check_fits` knows of further conflicts.
    """
    files_change = GroupChange(change.removed, change.added, PARTITION_SCHEMA.empty_table())
    if margin is None or margin.sidecars is None:
        table = PARTITION_SCHEMA.empty_table() if margin is None else margin.table(storage)
        partitions = _applied(table, files_change, name, None)
        return describe_margin(
            name, group, arcsec, partitions, storage=storage, write_id=write_id, max_inline=max_inline
        )
    files = _files_after(margin, files_change, name, None, storage, write_id, max_inline)
    return margin.model_copy(update=files)


def leaves_after(group: GroupMetadata | None, change: GroupChange) -> PixelTree:
    """The leaves of a column group after a change."""
    if group is None:
        return PixelTree(change.added["order"].to_numpy(), change.added["npix"].to_numpy())
    return PixelTree(*_pixels(group, change))


def _files_after(
    group: GroupMetadata | Margin,
    change: GroupChange,
    name: str,
    threshold: Threshold | None,
    storage: Storage,
    write_id: str,
    max_inline: int,
) -> dict[str, Any]:
    """The fields that groups and margins with sidecars have in common."""
    assert group.sidecars is not None
    near = _near(group.sidecars, change)
    table = read_partition_sidecars(storage, [group.sidecars[at] for at in near])
    after = _applied(table, change, name, threshold)
    fresh: list[PartitionSidecar] = []
    for stretch in _stretches(group.sidecars, near, after):
        fresh += write_partition_sidecars(
            storage, write_id, f"partitions_{name}", stretch, most=max_inline, first_number=len(fresh)
        )
    others = [sidecar for at, sidecar in enumerate(group.sidecars) if at not in set(near.tolist())]
    return {
        "rows": group.rows + _difference(change, "rows"),
        "bytes": group.bytes + _difference(change, "bytes"),
        "files": group.files + change.came.num_rows - change.removed.num_rows,
        "pixels": pixel_ranges(*_pixels(group, change)),
        "sidecars": tuple(sorted([*others, *fresh], key=lambda sidecar: sidecar.start)),
    }


def _applied(table: pa.Table, change: GroupChange, group: str, threshold: Threshold | None) -> pa.Table:
    """The partitions after the change, along the curve."""
    gone = pc.is_in(table["path"], value_set=change.removed["path"].combine_chunks())
    if (pc.sum(gone).as_py() or 0) != change.removed.num_rows:
        raise ConflictError(f"column group {group!r}: a file that is to be replaced is not there any more")
    kept = table.filter(pc.invert(gone))
    leaves = set(_pixels_of(kept))
    fresh, more = _pixels_of(change.added), _pixels_of(change.beside)
    after = curve_sorted(pa.concat_tables([kept, change.came]))
    start, stop = leaf_spans(after)
    nested = (start[1:] < stop[:-1]) & ((start[1:] != start[:-1]) | (stop[1:] != stop[:-1]))
    if nested.any() or not leaves.isdisjoint(fresh):
        raise ConflictError(f"column group {group!r}: another leaf stands where one is to be added")
    if not leaves.issuperset(more):
        raise ConflictError(f"column group {group!r}: a leaf that is to get a file is not there any more")
    _check_threshold(after, start, change, threshold, group)
    return after


def _pixels_of(table: pa.Table) -> list[tuple[int, int]]:
    return list(zip(table["order"].to_pylist(), table["npix"].to_pylist(), strict=True))


def _check_threshold(
    after: pa.Table, start: np.ndarray, change: GroupChange, threshold: Threshold | None, group: str
) -> None:
    """Leaves that others gave a file too may have become too large; one who merges again splits them."""
    if threshold is None or not change.beside.num_rows:
        return
    first = np.flatnonzero(np.append(True, start[1:] != start[:-1]))
    sizes = np.add.reduceat(after[threshold.unit.value].to_numpy(), first)
    if np.any(sizes[np.diff(np.append(first, len(start))) > 1] > threshold.value):
        raise ConflictError(f"column group {group!r}: with another's file beside ours, a leaf is too large")


def _near(sidecars: tuple[PartitionSidecar, ...], change: GroupChange) -> np.ndarray:
    """The places of the sidecars that a change concerns: where its pixels lie, or else come to lie."""
    both = pa.concat_tables([change.removed, change.came])
    start, stop = leaf_spans(both)
    begin = np.array([sidecar.start for sidecar in sidecars])
    end = np.array([sidecar.stop for sidecar in sidecars])
    first = np.searchsorted(end, start, side="right")
    last = np.searchsorted(begin, stop, side="left") - 1
    home = np.clip(np.minimum(first, last), 0, len(sidecars) - 1)  # between two: the one before
    met = np.zeros(len(sidecars) + 1, np.int64)
    np.add.at(met, home, 1)
    np.add.at(met, np.maximum(last, home) + 1, -1)
    return np.flatnonzero(np.cumsum(met[:-1]) > 0)


def _stretches(
    sidecars: tuple[PartitionSidecar, ...], near: np.ndarray, after: pa.Table
) -> Iterator[pa.Table]:
    """What replaces each run of neighbouring sidecars, so that nothing new reaches over one that stays.

    Parameters
    ----------
    near : int64[n]
        The places of the sidecars that are replaced.
    after : pyarrow.Table
        What they hold from now on, along the curve.
    """
    first_of_run = near[1:][np.diff(near) > 1]
    begin = np.array([sidecars[at].start for at in first_of_run.tolist()], np.int64)
    cuts = np.searchsorted(leaf_spans(after)[0], begin)
    for low, high in pairwise([0, *cuts.tolist(), after.num_rows]):
        yield after.slice(low, high - low)


def _pixels(group: GroupMetadata | Margin, change: GroupChange) -> tuple[np.ndarray, np.ndarray]:
    order, npix = pixels_in(group.pixels)
    removed, _ = leaf_spans(change.removed)
    kept = ~np.isin(starts(order, npix), removed)  # leaves are disjoint: no two start at the same place
    return (
        np.concatenate([order[kept], change.added["order"].to_numpy().astype(np.int64)]),
        np.concatenate([npix[kept], change.added["npix"].to_numpy()]),
    )


def _difference(change: GroupChange, column: str) -> int:
    return total_of(change.came, column) - total_of(change.removed, column)
