"""The rows of a scan in one leaf: what functions, threads and other processes are given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from hipslake.catalog.reading import Part, PartReader
from hipslake.sphere.pixels import Pixel

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class ScanPartition:
    """The rows of a scan in one leaf, not read yet. It can be sent to other processes.

    Attributes
    ----------
    reader : PartReader
    part : Part
        The leaf files.
    """

    reader: PartReader
    part: Part

    @property
    def pixel(self) -> Pixel:
        """The leaf's pixel; of several column groups, that of the coarsest leaf there."""
        return self.part.pixel

    def __repr__(self) -> str:
        return f"ScanPartition({self.pixel})"

    def to_arrow(self) -> pa.Table:
        """The rows, ordered by (`_healpix_29`, `_row`); errors as for `Catalog.read`."""
        return self.reader.read(self.part)

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a pandas DataFrame."""
        return self.to_arrow().to_pandas()
