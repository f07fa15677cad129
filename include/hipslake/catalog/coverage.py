"""Where on the sky the rows of increments lie, counted from the leaf files that hold them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.catalog.checksums import checksum_of
from hipslake.catalog.column_files import ColumnFiles
from hipslake.catalog.hats.point_map import MAP_ORDER, PointMap
from hipslake.catalog.leaf_rows import column_batches
from hipslake.catalog.metadata import CatalogMetadata, GroupMetadata, Increment
from hipslake.catalog.partitions import COVERAGE_SCHEMA, Sidecar, sidecar_bytes, write_sidecar
from hipslake.catalog.row_sets import ORDINAL_SHIFT
from hipslake.catalog.schema import ROW_COLUMN
from hipslake.sphere.pixels import HEALPIX_COLUMN, MAX_ORDER
from hipslake.storage.folder import Storage
from hipslake.storage.small_files import in_threads

_ASCENDING = ("npix",)  # of a coverage: most pixels follow one another


def coverage_table(found: PointMap) -> pa.Table:
    """The rows per pixel of a map, as `COVERAGE_SCHEMA`."""
    columns = {"order": [found.order] * len(found.npix), "npix": found.npix, "rows": found.rows}
    return pa.table(columns, schema=COVERAGE_SCHEMA)


def write_coverage(storage: Storage, write_id: str, found: PointMap) -> Sidecar:
    """Store the rows per pixel of an increment as the sidecar `coverage` of its write."""
    return write_sidecar(storage, write_id, "coverage", coverage_table(found), ascending=_ASCENDING)


def coverage_map(increment: Increment, storage: Storage) -> PointMap:
    """The rows per pixel of an increment; `storage` is at the catalog's root."""
    table = increment.cells(storage)
    return PointMap.from_cells(*(table[name].to_numpy() for name in ("order", "npix", "rows")))


def count_anew(
    storage: Storage, metadata: CatalogMetadata, increments: Collection[Increment]
) -> Iterator[tuple[Sidecar, bytes]]:
    """The coverage of increments as it was stored, where it can be told from their rows: path and content.

    The rows are read once, two columns of them. Each coverage is tried at every order that it may have been
    stored with, and in both forms; it is given only if its checksum is the one that the version names.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
        Of a version that holds the increments.
    increments : collection of Increment
        Those whose coverage is wanted.

    Raises
    ------
    VerificationError
        A leaf file is missing or damaged.
    """
    counted = _counted(storage, metadata, {increment.ordinal for increment in increments})
    for increment in increments:
        wanted, rows = increment.coverage, counted[increment.ordinal]
        if wanted is None or increment.by_leaf:
            continue
        npix = np.flatnonzero(rows)
        cells = np.full(len(npix), MAP_ORDER), npix, rows[npix]
        maps = (PointMap.from_cells(*cells, highest_order=order) for order in range(MAP_ORDER, -1, -1))
        forms = (sidecar_bytes(coverage_table(each), form) for each in maps for form in (_ASCENDING, ()))
        data = next((data for data in forms if checksum_of(data) == wanted.sha256), None)
        if data is not None:
            yield wanted, data


def map_of_files(storage: Storage, group: GroupMetadata, paths: Iterable[str]) -> PointMap:
    """Rows per pixel of some leaf files, at the order of HATS maps: one column of them is read.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    group : GroupMetadata
        The column group that they are of, in any version.
    paths : iterable of str

    Raises
    ------
    VerificationError
        A file is missing or damaged.
    """
    schema, shift = group.to_arrow(), 2 * (MAX_ORDER - MAP_ORDER)

    def counted(path: str) -> NDArray[np.int64]:
        batches = column_batches(storage, path, schema, [HEALPIX_COLUMN])
        return np.concatenate(
            [np.empty(0, np.int64), *(batch.column(0).to_numpy() >> shift for batch in batches)]
        )

    counts = np.zeros(12 << (2 * MAP_ORDER), np.int64)
    for pixels in in_threads(storage, counted, list(paths)):
        np.add.at(counts, pixels, 1)
    occupied = np.flatnonzero(counts)
    return PointMap(MAP_ORDER, occupied, counts[occupied])


def _counted(
    storage: Storage, metadata: CatalogMetadata, ordinals: Collection[int]
) -> dict[int, NDArray[np.int64]]:
    """Rows per pixel of the maps' order, for each of some increments."""
    counts = {ordinal: np.zeros(12 << (2 * MAP_ORDER), np.int64) for ordinal in ordinals}
    column = ROW_COLUMN if metadata.numbers_rows else HEALPIX_COLUMN
    for batch in ColumnFiles.of(storage, metadata, column).batches():
        pixels = batch.column(0).to_numpy() >> (2 * (MAX_ORDER - MAP_ORDER))
        if not metadata.numbers_rows:  # all are of one increment
            ordinals = np.full(len(pixels), metadata.increments[0].ordinal)
        else:
            ordinals = batch.column(1).to_numpy() >> ORDINAL_SHIFT
        for ordinal, found in counts.items():
            np.add.at(found, pixels[ordinals == ordinal], 1)
    return counts
