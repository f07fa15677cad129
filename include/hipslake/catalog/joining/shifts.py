"""How far the rows of a catalog move: a bound, from the footers of its leaf files."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq

from hipslake.catalog.leaf import read_footer
from hipslake.catalog.leaf_rows import told
from hipslake.joins.motion import AU_KM_YR_PER_S, MAS, largest_shift
from hipslake.specs.join_specs import MotionColumns
from hipslake.sphere.coordinates import positions
from hipslake.storage.column_chunks import ColumnChunks
from hipslake.storage.folder import Storage

_THREADS = 16


def largest_shift_in(
    storage: Storage, groups: Sequence[Sequence[str]], motion: MotionColumns, years: float
) -> float:
    """A bound on how far any row of some leaf files moves.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    groups : sequence of sequences of str
        The leaf files of every column group that has some of the columns. Only footers are read, unless one
        does not say what its columns hold. Where the columns lie in one group, no row group moves farther
        than what it holds itself; in several, the largest values of all rows count as those of one row.
    motion : MotionColumns
    years : float

    Returns
    -------
    float
        Arcseconds; infinite where nothing bounds it.
    """
    with ThreadPoolExecutor(_THREADS) as pool:
        found = [
            list(pool.map(lambda path: _most_in(storage, path, motion), paths)) for paths in groups if paths
        ]
    bounds = [bound for files in found for file in files for bound in file]
    if len(found) > 1 and bounds:
        bounds = [_Most(*np.max(bounds, axis=0).tolist())]
    return max((bound.shift(years) for bound in bounds), default=0.0)


class _Most(NamedTuple):
    """The largest absolute values of some rows."""

    pmra: float
    pmdec: float
    parallax: float
    radial_velocity: float

    def shift(self, years: float) -> float:
        receding = self.radial_velocity / AU_KM_YR_PER_S * self.parallax * MAS
        return largest_shift(float(np.hypot(self.pmra, self.pmdec)), years, receding=receding)


def _most_in(storage: Storage, path: str, motion: MotionColumns) -> list[_Most]:
    """Of every row group of a file."""
    footer = read_footer(storage, path)
    columns = {footer.schema.column(at).path: at for at in range(len(footer.schema))}
    chunks = ColumnChunks(footer)
    groups = [_RowGroup(storage, path, number, chunks, columns) for number in range(footer.num_row_groups)]
    names = (motion.pmra, motion.pmdec, motion.parallax, motion.radial_velocity)
    with told(storage, path):
        return [_Most(*map(group.most, names)) for group in groups]


@dataclass(frozen=True)
class _RowGroup:
    storage: Storage
    path: str
    number: int
    chunks: ColumnChunks
    columns: dict[str, int]

    def most(self, name: str | None) -> float:
        """The largest absolute value of a column; 0 where the file has none: it may be older than that."""
        at = None if name is None else self.columns.get(name)
        if at is None:
            return 0.0
        statistics = self.chunks(self.number, at).statistics
        if statistics is None or not statistics.has_min_max:  # nothing but NaN, say
            return self._most_read(name)
        return max(abs(float(statistics.min)), abs(float(statistics.max)))

    def _most_read(self, name: str | None) -> float:
        path, filesystem = self.storage.arrow_path(self.path), self.storage.arrow_filesystem()
        with pq.ParquetFile(path, filesystem=filesystem) as file:
            column = file.read_row_group(self.number, columns=[name])[name]
        values, _ = positions(column, column)
        return float(np.max(np.abs(values), where=~np.isnan(values), initial=0.0))
