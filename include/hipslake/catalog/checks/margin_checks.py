"""Checks of margins: every row that belongs there, no other, and each as its leaf has it.

What the margins must hold of a leaf is worked out from the leaf anew, and compared with what their files hold
of its stretch of the curve. So every leaf is read once, and every row of leaves and margins is looked at.

Where a version before was checked, only the margins near leaves that came or went since are, and of leaves
those near these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Lock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from cachetools import LRUCache, cached
from numpy.typing import NDArray

from hipslake.catalog.border_rows import BorderRows, border_rows
from hipslake.catalog.checks.findings import MarginFindings, Problem, ProblemKind
from hipslake.catalog.leaf import encode_leaf, write_options
from hipslake.catalog.leaf_form import given_schema
from hipslake.catalog.leaf_rows import leaf_batches
from hipslake.catalog.merging import within
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.partitions import leaf_spans, total_of
from hipslake.catalog.placement import icrs_of, icrs_position
from hipslake.catalog.schema import ROW_COLUMN
from hipslake.catalog.standing import Standing
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.margin_geometry import border_of, borders_of, margin_pairs, rows_within, tiles_near
from hipslake.sphere.pixels import HEALPIX_COLUMN, Pixel
from hipslake.storage.folder import Storage

MOST_BYTES = 64 << 20  # of small files, kept in memory at once
LARGEST_FILE = 2 << 20  # of these, as it is stored; larger ones are read by row groups, each time
_EITHER_WAY = 1e-6  # arcseconds around the limit
_WHOLE_SKY = Pixel(0, 0).interval[0], Pixel(0, 11).interval[1]


class MarginChecks:
    """Checks the margins of a version, leaf by leaf; the same leaf gives the same findings in any process.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
    before : CatalogMetadata, optional
        A version whose margins are right, of the same distances.

    Attributes
    ----------
    leaves : int64[n]
        The leaves to look at, by their places along the curve.
    """

    def __init__(
        self, storage: Storage, metadata: CatalogMetadata, before: CatalogMetadata | None = None
    ) -> None:
        self._storage = storage
        self._margins = metadata.margins
        self._position = icrs_position(metadata)
        self._leaves, self._parquet = metadata.schema_of(), metadata.groups[0].parquet
        self._schema = given_schema(self._leaves)
        self._standing = Standing.of(metadata.groups[0].table(storage))
        self._tiles = self._standing.tree.tiling()
        self._files = [Standing.of(margin.table(storage)) for margin in metadata.margins]
        self._recent = RecentFiles(self._whole)

        self._held = [np.ones(len(self._tiles), bool) for _ in self._margins]
        self.leaves: NDArray[np.int64] = np.arange(len(self._standing.tree))
        if before is not None:
            self._hold_what_changed(before.groups[0].table(storage))

    @property
    def margin_rows(self) -> dict[str, int]:
        """Rows of each margin in the files that are looked at, as the metadata has it."""
        counts = {}
        for margin, files, held in zip(self._margins, self._files, self._held, strict=True):
            of_tile = self._tiles.find(leaf_spans(files.table)[0])
            counts[margin.name] = int(files.table["rows"].to_numpy()[held[of_tile]].sum())
        return counts

    def rows(self, leaf: int) -> int:
        """Rows of a leaf, as the metadata has it."""
        return total_of(self._standing.files(leaf), "rows")

    def check(self, leaf: int) -> MarginFindings:
        """Hold the margins against one leaf, given by its place along the curve.

        Raises
        ------
        VerificationError
            A file cannot be read; it could when its own content was checked.
        """
        pixel = self._standing.tree[leaf]
        problems: list[Problem] = []
        counts = {}
        for at, (margin, expected) in enumerate(zip(self._margins, self._expected(leaf), strict=True)):
            counts[margin.name] = 0
            for tile in self._tiles_of(at, pixel, expected):
                path, found = self._found(at, tile, pixel)
                counts[margin.name] += found.num_rows
                wanted = expected.get(tile, self._schema.empty_table())
                if wrong := self._difference(self._tiles[tile], margin.radius_arcsec, wanted, found):
                    message = f"of the rows of {pixel} that lie near {self._tiles[tile]}, {wrong}"
                    problems.append(Problem.of(ProblemKind.MARGIN, path or margin.name, message))
        return MarginFindings(problems=tuple(problems), rows=counts)

    def _expected(self, leaf: int) -> list[dict[int, pa.Table]]:
        """Per margin, the rows of a leaf that belong to the margin of each tile."""
        parts: list[dict[int, list[pa.RecordBatch]]] = [{} for _ in self._margins]
        most = max(margin.radius_arcsec for margin in self._margins)
        border = Intervals(*border_of(self._standing.tree[leaf], most))
        files = self._standing.files(leaf)
        for path, size in zip(files["path"].to_pylist(), files["bytes"].to_pylist(), strict=True):
            for rows in border_rows(self._storage, path, size, self._leaves, self._position, border):
                for margin, found in zip(self._margins, parts, strict=True):
                    self._sort_out(rows, margin.radius_arcsec, found)
        return [
            {tile: _sorted(pa.Table.from_batches(batches)) for tile, batches in found.items()}
            for found in parts
        ]

    def _sort_out(self, rows: BorderRows, arcsec: float, found: dict[int, list[pa.RecordBatch]]) -> None:
        """Add rows to those of the tiles that they are near to."""
        row, tile = margin_pairs(self._tiles, rows.h29, rows.ra, rows.dec, arcsec)
        for place in np.unique(tile).tolist():
            first, last = np.searchsorted(tile, [place, place + 1])
            found.setdefault(place, []).append(rows.take(row[first:last]))

    def _tiles_of(self, at: int, pixel: Pixel, expected: dict[int, pa.Table]) -> list[int]:
        """The tiles whose margin has rows of a leaf, or may have some."""
        order, npix = np.array([pixel.order]), np.array([pixel.npix])
        near = tiles_near(self._tiles, order, npix, self._margins[at].radius_arcsec).tolist()
        return [tile for tile in sorted({*near, *expected}) if self._held[at][tile]]

    def _hold_what_changed(self, before: pa.Table) -> None:
        """Look at nothing but the margins that leaves which came or went may have changed.

        These are the tiles near to such leaves, and those that were none: what has rows in their margins are
        leaves near to them.
        """
        now = self._standing.table
        sides = [
            table.filter(pc.invert(pc.is_in(table["path"], value_set=other["path"].combine_chunks())))
            for table, other in ((before, now), (now, before))
        ]
        apart = pa.concat_tables(sides)
        order, npix = (apart[name].to_numpy().astype(np.int64) for name in ("order", "npix"))
        old = Standing.of(before).tree.tiling()
        fresh = old.places_of(self._tiles.order, self._tiles.npix) < 0
        near = np.zeros(len(self._tiles), bool)
        for margin, held in zip(self._margins, self._held, strict=True):
            arcsec = margin.radius_arcsec
            held[:] = fresh
            held[tiles_near(self._tiles, *borders_of(order, npix, arcsec), arcsec)] = True
            edges = borders_of(self._tiles.order[held], self._tiles.npix[held], arcsec)
            near[tiles_near(self._tiles, *edges, arcsec)] = True
        tree = self._standing.tree
        self.leaves = np.flatnonzero(near[self._tiles.find(tree.start)])

    def _found(self, at: int, tile: int, pixel: Pixel) -> tuple[str, pa.Table]:
        """The rows of a leaf in the margin of a tile, and the path of their file; "" if there is none."""
        standing = self._files[at]
        place = int(standing.tree.find([self._tiles.start[tile]])[0])
        if place < 0 or standing.tree[place] != self._tiles[tile]:
            return "", self._schema.empty_table()
        [file] = standing.files(place).to_pylist()
        path, size = file["path"], file["bytes"]
        if size > LARGEST_FILE:
            batches = leaf_batches(self._storage, path, size, self._schema, pixel.interval)
        else:
            batches = [within(batch, *pixel.interval) for batch in self._recent.batches(path, size)]
        return path, pa.Table.from_batches(batches, self._schema)

    def _whole(self, path: str, size: int) -> list[pa.RecordBatch]:
        return leaf_batches(self._storage, path, size, self._schema, _WHOLE_SKY)

    def _difference(self, tile: Pixel, arcsec: float, expected: pa.Table, found: pa.Table) -> str:
        if expected.equals(found) or self._encoded(expected) == self._encoded(found):  # NaN is not NaN
            return ""
        expected, found = (self._decided(tile, arcsec, rows) for rows in (expected, found))
        if self._encoded(expected) == self._encoded(found):
            return ""
        missing, strange = _apart(expected, found), _apart(found, expected)
        if not missing and not strange:
            return "some differ from those of the leaf"
        return f"{missing} are missing and {strange} do not belong here"

    def _decided(self, tile: Pixel, arcsec: float, rows: pa.Table) -> pa.Table:
        """The rows that are not so close to the limit that they may be in the margin or not."""
        ra, dec = icrs_of(rows, self._position)
        near = rows_within(tile, ra, dec, arcsec - _EITHER_WAY)
        far = rows_within(tile, ra, dec, arcsec + _EITHER_WAY)
        return rows.filter(pa.array(near == far))

    def _encoded(self, rows: pa.Table) -> bytes:
        if not rows.num_rows:
            return b""
        options = write_options(self._parquet, self._schema)
        return bytes(encode_leaf([rows], self._schema, options).to_pybytes())


def _sorted(rows: pa.Table) -> pa.Table:
    return rows.combine_chunks().take(pa.array(np.lexsort(list(_keys(rows))[::-1])))


def _keys(rows: pa.Table) -> Iterator[NDArray[np.int64]]:
    yield rows[HEALPIX_COLUMN].to_numpy()
    if ROW_COLUMN in rows.schema.names:
        yield rows[ROW_COLUMN].to_numpy()


def _apart(rows: pa.Table, others: pa.Table) -> int:
    """How many rows are not among others, by what tells them apart."""
    keys = [column.name for column in rows.schema if column.name in (HEALPIX_COLUMN, ROW_COLUMN)]
    counted = [table.select(keys).group_by(keys).aggregate([([], "count_all")]) for table in (rows, others)]
    joined = counted[0].join(counted[1], keys=keys, join_type="left outer", right_suffix="_there")
    here, there = joined["count_all"].to_numpy(), joined["count_all_there"].fill_null(0).to_numpy()
    return int(np.maximum(here - there, 0).sum())


class RecentFiles:
    """A cache of the rows of small files, least recently used ones go first; safe to share between threads.

    The margin of a tile has rows of all leaves around it, so a walk along the curve comes back to a margin
    file once for each of them: nine times in a plain tiling, and far more often where a margin is wide.

    Parameters
    ----------
    read : callable
        Reads a file whole, given by its path and its size in bytes.
    most_bytes : int, optional
        Rows in memory that are kept together.
    """

    def __init__(
        self, read: Callable[[str, int], list[pa.RecordBatch]], most_bytes: int = MOST_BYTES
    ) -> None:
        kept: LRUCache[str, list[pa.RecordBatch]] = LRUCache(most_bytes, getsizeof=_bytes_of)
        self._read = cached(kept, key=lambda path, size: path, lock=Lock())(read)

    def batches(self, path: str, size: int) -> list[pa.RecordBatch]:
        """All rows of a file.

        Raises
        ------
        VerificationError
            The file is missing or damaged.
        """
        return self._read(path, size)


def _bytes_of(batches: list[pa.RecordBatch]) -> int:
    return sum(batch.nbytes for batch in batches)
