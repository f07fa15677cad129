"""Changes of margins: which tiles they were worked out from, and whether those are what they were.

A margin is local: the rows near a tile. But an append that divides a tile, or adds a leaf where none was,
makes margins that others did not know of; so a change fits only to a version with the tiles it counted on.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from hipslake.catalog.change import GroupChange, changed_margin
from hipslake.catalog.metadata import Margin
from hipslake.catalog.partitions import PARTITION_SCHEMA
from hipslake.errors import ConflictError
from hipslake.sphere.pixel_tree import PixelTree
from hipslake.storage.folder import Storage


@dataclass(frozen=True)
class MarginChange:
    """What a write changes in one margin.

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

    def apply(
        self,
        margin: Margin | None,
        *,
        name: str,
        group: str,
        arcsec: float,
        storage: Storage,
        write_id: str,
    ) -> Margin:
        """The margin after the change; parameters and errors as of `changed_margin`."""
        change = GroupChange(self.removed, self.added, PARTITION_SCHEMA.empty_table())
        return changed_margin(
            margin, change, name=name, group=group, arcsec=arcsec, storage=storage, write_id=write_id
        )

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
