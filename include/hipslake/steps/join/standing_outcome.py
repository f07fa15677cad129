"""What a run takes over of the last version of its outcome: leaves that stay, and rows of others.

The rows of the outcome in a place follow from the rows of all sides near it. So only places near rows that
came or went are joined anew; everywhere else the last version has the rows that a full run would find. What a
leaf is follows from the rows in it and in its parent, wherever they come from: so the plan is that of a full
run, and a leaf which is in it as it was, with no place that is joined anew, is named again, and not opened.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.catalog.joining.stretches import StretchPlan
from hipslake.catalog.leaf_rows import leaf_batches
from hipslake.catalog.merging import keys_of, within
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.partitions import leaf_spans
from hipslake.errors import VerificationError
from hipslake.joins.tree_alignment import overlaps
from hipslake.planning.pixel_histogram import Histogram
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixel_tree import PixelTree
from hipslake.sphere.pixels import HEALPIX_COLUMN, MAX_ORDER, Pixel, starts, stops
from hipslake.steps.join.match_pieces import MatchedRows
from hipslake.steps.run import RunFolder
from hipslake.steps.tables import read_table, write_table
from hipslake.storage.folder import Storage
from hipslake.versions.log import VersionLog

_CHANGED = "join/changed.parquet"
_PIECES = 8  # that a stretch is cut into, at most, so that of a leaf only what may have changed is joined


@dataclass(frozen=True)
class StandingOutcome:
    """The last version of an outcome, and where it is joined anew.

    Attributes
    ----------
    catalog : Storage
        At the root of the outcome.
    metadata : CatalogMetadata
        Of the last version, of one column group with one file for each leaf.
    changed : Intervals
        Where all rows are joined anew: whole cells of its coverage. Elsewhere its rows stay.
    """

    catalog: Storage
    metadata: CatalogMetadata
    changed: Intervals

    @cached_property
    def leaves(self) -> pa.Table:
        """Its leaf files, as `PARTITION_SCHEMA`, along the curve."""
        return self.metadata.groups[0].table(self.catalog)

    def file_of(self, pixel: Pixel) -> dict[str, object] | None:
        """The leaf file of a pixel, as `PARTITION_SCHEMA`; None if it is no leaf."""
        (place,) = self._tree.places_of([pixel.order], [pixel.npix]).tolist()
        return None if place < 0 else self.leaves.slice(place, 1).to_pylist()[0]

    @cached_property
    def coverage(self) -> Histogram:
        """The rows of the last version, in cells of one order, about as coarse as the maps of HATS."""
        cells = self.metadata.increments[0].cells(self.catalog)
        found = Histogram(*(cells[name].to_numpy() for name in ("order", "npix", "rows")))
        return found.select(np.argsort(starts(found.order, found.npix)))

    @property
    def share(self) -> float:
        """The part of its rows that lies where all is joined anew, from 0 to 1."""
        inside = self.changed.hold(starts(self.coverage.order, self.coverage.npix))
        return float(self.coverage.rows[inside].sum() / max(self.coverage.total_rows, 1))

    def pieces(self, stretches: StretchPlan) -> tuple[StretchPlan, StandingOutcome]:
        """What is joined of some stretches, and the outcome with all of that as changed.

        Parameters
        ----------
        stretches : StretchPlan
            They hold every left row that may have a part in the outcome, where it is joined anew.
        """
        closed = [self.changed]
        for start, stop in zip(stretches.start.tolist(), stretches.stop.tolist(), strict=True):
            closed.append(self.changed.within(start, stop).at_most(_PIECES))
        changed = Intervals.together(closed)
        at, place = overlaps((stretches.start, stretches.stop), (changed.start, changed.stop))
        start = np.maximum(stretches.start[at], changed.start[place])
        stop = np.minimum(stretches.stop[at], changed.stop[place])
        share = (stop - start) / np.maximum(stretches.stop[at] - stretches.start[at], 1)
        rows = np.maximum(stretches.rows[at] * share, 1).astype(np.int64)
        along = np.argsort(start)
        plan = StretchPlan(start[along], stop[along], rows[along])
        return plan, StandingOutcome(self.catalog, self.metadata, changed)

    def with_cells(self, joined: Histogram) -> Histogram:
        """The rows of the whole outcome, in cells of the order of the coverage.

        Parameters
        ----------
        joined : Histogram
            Of the rows that were joined anew, at that order.
        """
        cells = self.coverage
        cells = cells.select(~self.changed.hold(starts(cells.order, cells.npix)))
        cells = Histogram(cells.order.astype(np.uint8), cells.npix.astype(np.int64), cells.rows)
        whole = Histogram.together([cells, joined])
        return whole.select(np.argsort(starts(whole.order, whole.npix)))

    def leaves_in(
        self, cells: Histogram, most_rows: int, highest_order: int
    ) -> tuple[NDArray[np.bool_], Histogram]:
        """Which cells are known to be divided into leaves that are as they were, and those leaves.

        Parameters
        ----------
        cells : Histogram
            Of the outcome.
        most_rows : int
            Cells with a leaf of more rows are not among them.
        highest_order : int
            Nor those with a leaf of a higher order.

        Returns
        -------
        bool[n], Histogram
        """
        order, npix, rows = (self.leaves[name].to_numpy() for name in ("order", "npix", "rows"))
        inside = PixelTree(cells.order, cells.npix).find(starts(order, npix))
        finer = (inside >= 0) & (order > cells.order[inside]) if len(cells) else np.zeros(len(order), bool)
        known = np.zeros(len(cells), bool)
        known[inside[finer]] = True
        known[inside[finer & ((rows > most_rows) | (order > highest_order))]] = False
        known &= ~self.changed.touch(starts(cells.order, cells.npix), stops(cells.order, cells.npix))
        chosen = finer & known[inside] if len(cells) else finer
        return known, Histogram(order[chosen].astype(np.uint8), npix[chosen], rows[chosen])

    def with_whole_leaves(self, cells: Histogram) -> Histogram:
        """Cells of the outcome with one in place of those of each leaf that is as it was.

        With a threshold in rows, the plan is the same, as such a leaf is none too large: and what it is made
        of grows with what has changed.
        """
        order, npix = (self.leaves[name].to_numpy() for name in ("order", "npix"))
        same = ~self.changed.touch(starts(order, npix), stops(order, npix))
        whole = PixelTree(order[same], npix[same])
        inside = whole.find(starts(cells.order, cells.npix))
        inside[cells.order < np.append(whole.order, MAX_ORDER + 1)[inside]] = -1  # of a cell around leaves
        rows = np.zeros(len(whole), np.int64)
        np.add.at(rows, inside[inside >= 0], cells.rows[inside >= 0])
        filled = rows > 0
        leaves = Histogram(whole.order[filled].astype(np.uint8), whole.npix[filled], rows[filled])
        found = Histogram.together([cells.select(inside < 0), leaves])
        return found.select(np.argsort(starts(found.order, found.npix)))

    def stays(self, plan: pa.Table) -> NDArray[np.bool_]:
        """Which planned leaves are as they were, bool[n].

        Parameters
        ----------
        plan : pyarrow.Table
            Leaves, with order, npix and rows.

        Raises
        ------
        VerificationError
            A leaf that is as it was has other rows than the last version says.
        """
        order, npix, rows = (plan[name].to_numpy() for name in ("order", "npix", "rows"))
        place = self._tree.places_of(order, npix)
        same = (place >= 0) & ~self.changed.touch(*leaf_spans(plan))
        before = self.leaves["rows"].to_numpy()
        if (wrong := np.flatnonzero(same & (before[place] != rows))).size:
            at = int(wrong[0])
            raise VerificationError(
                f"{self.catalog.uri()}, version {self.metadata.version}: Norder={order[at]}, Npix={npix[at]} "
                f"has {before[place[at]]} rows, and {rows[at]} by its coverage; run the join with 'full'"
            )
        return np.asarray(same)

    def files_of(self, plan: pa.Table) -> pa.Table:
        """The leaf files of leaves that are as they were, as `PARTITION_SCHEMA`, in the order of the plan."""
        return self.leaves.take(
            pa.array(self._tree.places_of(plan["order"].to_numpy(), plan["npix"].to_numpy()))
        )

    def rows(self, start: int, stop: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The rows of the last version in [start, stop), order-29 pixels, but maybe not all that lie where
        everything is joined anew.

        Parameters
        ----------
        start, stop : int
        schema : pyarrow.Schema
            What is read of leaf files.
        """
        begin, end = self._tree.start, self._tree.stop
        first, last = np.searchsorted(end, start, side="right"), np.searchsorted(begin, stop)
        for at, leaf in enumerate(self.leaves.slice(first, last - first).to_pylist(), int(first)):
            low, high = max(start, int(begin[at])), min(stop, int(end[at]))
            if self.changed.within(low, high) != Intervals.union([low], [high]):
                yield from leaf_batches(self.catalog, leaf["path"], leaf["bytes"], schema, (low, high))

    @cached_property
    def _tree(self) -> PixelTree:
        return PixelTree(self.leaves["order"].to_numpy(), self.leaves["npix"].to_numpy())


@dataclass(frozen=True)
class OutcomeRows:
    """The rows of an outcome: those that were joined, and those of the last version.

    Attributes
    ----------
    joined : MatchedRows
        Where all was joined anew.
    standing : StandingOutcome or None
        What the other rows are taken from; None: all were joined.
    schema : pyarrow.Schema
        Of leaf files.
    """

    joined: MatchedRows
    standing: StandingOutcome | None
    schema: pa.Schema

    def within(self, start: int, stop: int) -> list[pa.RecordBatch]:
        """The rows in [start, stop), order-29 pixels, in order."""
        return self._merged(start, stop, self.schema)

    def keys_within(self, start: int, stop: int) -> NDArray[np.int64]:
        """`_healpix_29` of those rows."""
        only_keys = pa.schema([self.schema.field(HEALPIX_COLUMN)])
        keys = [keys_of(batch) for batch in self._merged(start, stop, only_keys)]
        return np.concatenate(keys) if keys else np.empty(0, np.int64)

    def _merged(self, start: int, stop: int, schema: pa.Schema) -> list[pa.RecordBatch]:
        if self.standing is None:
            return self.joined.within(start, stop)
        before = list(self.standing.rows(start, stop, schema))
        found, at = [], start
        changed = self.standing.changed.within(start, stop)
        for begin, end in zip(changed.start.tolist(), changed.stop.tolist(), strict=True):
            found += [within(batch, at, begin) for batch in before]
            found += self.joined.within(begin, end)
            at = end
        found += [within(batch, at, stop) for batch in before]
        return [batch for batch in found if batch.num_rows]


def store_standing(folder: RunFolder, standing: StandingOutcome | None) -> None:
    """Leave for the tasks where the outcome is joined anew; None: everywhere."""
    if standing is None:
        folder.storage.delete(_CHANGED)
        return
    changed = standing.changed
    write_table(folder.storage, _CHANGED, pa.table({"start": changed.start, "stop": changed.stop}))


def load_standing(folder: RunFolder, catalog: Storage, version: int | None) -> StandingOutcome | None:
    """Load what `store_standing` has left, of a version of the outcome."""
    if version is None or not folder.storage.is_file(_CHANGED):
        return None
    table = read_table(folder.storage, _CHANGED)
    metadata = CatalogMetadata.from_json(VersionLog(catalog).read(version))
    changed = Intervals(*(table[name].to_numpy() for name in ("start", "stop")))
    return StandingOutcome(catalog, metadata, changed)
