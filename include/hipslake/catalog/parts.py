"""The parts of a catalog that are read one after the other, with the leaf files of each.

Leaves of different groups are nested or disjoint, and each is ordered by (`_healpix_29`, `_row`). So the
leaves of any group inside the coarsest leaf there, one after the other, hold the same rows in the same order
as those of any other group.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.catalog.metadata import CatalogMetadata
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixels import starts, stops
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
    order = [table["order"].to_numpy() for table in tables]
    npix = [table["npix"].to_numpy() for table in tables]
    start = [starts(o, n) for o, n in zip(order, npix, strict=True)]
    stop = [stops(o, n) for o, n in zip(order, npix, strict=True)]
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
