"""Mode upsert: which rows of a version go, which of a run come late, and which return; as tasks are told."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hipslake.catalog.metadata import Increment, KeyChanges, RecordRun
from hipslake.planning.pixel_histogram import Histogram
from hipslake.specs.base import Frozen
from hipslake.sphere.pixel_tree import PixelTree
from hipslake.sphere.pixels import MAX_ORDER, starts
from hipslake.steps.append.request import attempt_path
from hipslake.steps.row_lists import EndList, RowList
from hipslake.steps.run import RunFolder

_WENT_ORDER = 12  # of the pixels that say about where rows go
_SETTLED = "settled.json"


class SettledNight(Frozen):
    """What a run does to a version.

    Attributes
    ----------
    goes : RowList
        Rows of leaves that are taken out.
    beaten : RowList
        Of these, rows of other increments: superseded from now on.
    late : RowList
        Rows of the run that do not come in, as newer ones stand: superseded from the beginning.
    returns : RowList
        Superseded rows that come in again.
    closes : EndList
        With intervals of validity: rows of other increments whose interval ends otherwise than before.
    closed : EndList
        With intervals of validity: rows of the run whose interval has an end.
    changes : KeyChanges
        As the metadata of the increment tell them.
    stored : tuple of RecordRun
        The superseded rows of the version.
    """

    goes: RowList
    beaten: RowList
    late: RowList
    returns: RowList
    closes: EndList
    closed: EndList
    changes: KeyChanges
    stored: tuple[RecordRun, ...]

    def cells(self, counted: Histogram) -> Histogram:
        """The rows that come into leaves, per pixel: some of those counted, and those that return."""
        rows = counted.rows.copy()
        tree = PixelTree(counted.order, counted.npix)
        further: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
        for listed, sign in ((self.late, -1), (self.returns, 1)):
            for h29 in listed.along_curve():
                at = tree.find(h29)
                np.add.at(rows, at[at >= 0], sign)
                further.append(h29[at < 0])
        pixels, more = np.unique(np.concatenate(further), return_counts=True)
        order = np.concatenate([counted.order.astype(np.uint8), np.full(len(pixels), MAX_ORDER, np.uint8)])
        npix = np.concatenate([counted.npix.astype(np.int64), pixels])
        rows = np.concatenate([rows, more])
        along = np.argsort(starts(order.astype(np.int64), npix), kind="stable")
        along = along[rows[along] > 0]
        return Histogram(order[along], npix[along], rows[along])

    def went(self) -> PixelTree:
        """The pixels that rows go from, or change in."""
        npix = np.union1d(self.goes.pixels(_WENT_ORDER), self.closes.pixels(_WENT_ORDER))
        return PixelTree(np.full(len(npix), _WENT_ORDER), npix)

    def rows_superseded(self, earlier: Increment | None) -> int:
        """By how many rows there are more superseded ones; `earlier` is the increment that is replaced."""
        stood = self.goes.count - self.beaten.count  # rows of that increment in leaves
        more = self.beaten.count + self.late.count - self.returns.count
        return more - (earlier.rows - stood if earlier is not None else 0)

    def store(self, folder: RunFolder, write_id: str) -> None:
        """Leave it to the tasks of an attempt."""
        folder.write(attempt_path(write_id, _SETTLED), self)

    @classmethod
    def load(cls, folder: RunFolder, write_id: str) -> SettledNight:
        """What was left to the tasks of an attempt."""
        return folder.read(attempt_path(write_id, _SETTLED), cls)
