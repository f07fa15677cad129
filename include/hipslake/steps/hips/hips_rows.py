"""What a HiPS is made of: the rows of a version, part by part along the curve, and their columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.catalog.catalog_reader import CatalogReader
from hipslake.catalog.moc_files import region_of
from hipslake.catalog.placement import icrs_of, icrs_position
from hipslake.catalog.reading import Part, parts, read_parts
from hipslake.catalog.schema import ROW_COLUMN
from hipslake.catalog.selection import Selection, joined_schema, select
from hipslake.exports.hips.progressive_order import (
    RowRanks,
    TileLimits,
    check_orders_rows,
    order_of_span,
    row_ranks,
)
from hipslake.exports.hips.tile_lines import check_columns, has_cells, row_lines
from hipslake.specs.catalog_spec import PositionSpec
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixels import HEALPIX_COLUMN
from hipslake.steps.given_files import check_region
from hipslake.steps.hips.request import HipsRequest

_DEGREES = {b"unit": b"deg"}


@dataclass(frozen=True)
class HipsSource:
    """The rows and columns that a request asks for, of a version that was opened.

    Attributes
    ----------
    catalog : CatalogReader
    request : HipsRequest
    ranking : Selection
        What is read to say which rows come first.
    rows : Selection
        What is read of a row that is shown.
    left_out : tuple of str
        Columns that tiles have no form for; none if columns are asked for by name.
    """

    catalog: CatalogReader
    request: HipsRequest
    ranking: Selection
    rows: Selection
    left_out: tuple[str, ...]

    @classmethod
    def of(cls, catalog: CatalogReader, request: HipsRequest) -> HipsSource:
        """Resolve a request.

        Raises
        ------
        SchemaMismatchError
            There is no such column, or tiles have no form for it, or no order of rows follows from it.
        RegionError, FilterError
            The region or the filter is not understood.
        """
        check_region(request.region, request.warehouse)
        metadata = catalog.metadata
        region = None if request.region is None else region_of(request.region)
        schema, position = joined_schema(metadata), icrs_position(metadata)
        wanted, left_out = _wanted(request, schema)
        order_by = [] if request.order_by is None else [request.order_by]
        ranking = select(metadata, [HEALPIX_COLUMN, *order_by], request.filters, region=region)
        needed = [HEALPIX_COLUMN, *order_by, position.ra, position.dec, *wanted]
        select(metadata, request.columns)  # a name that is there twice is refused
        rows = select(metadata, list(dict.fromkeys(needed)), request.filters, region=region)
        for name in order_by:
            check_orders_rows(schema.field(name))
        found = cls(catalog, request, ranking, rows, left_out)
        check_columns(found.schema)
        return found

    @property
    def limits(self) -> TileLimits:
        """How many rows tiles have."""
        asked = self.request
        return TileLimits(asked.allsky_rows, asked.tile_rows, asked.deepest_order)

    @cached_property
    def parts(self) -> list[Part]:
        """The parts of the sky that are read one after the other: pixels, along the curve."""
        inside = self.rows.inside(None)
        return parts(self.catalog.storage, self.catalog.metadata, list(self.rows.columns), inside)

    @cached_property
    def spans(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The order-29 pixels [start, stop) of each part, int64[p] each."""
        start = np.array([part.start for part in self.parts], np.int64)
        return start, np.array([part.stop for part in self.parts], np.int64)

    @cached_property
    def orders(self) -> NDArray[np.int64]:
        """The order of the pixel of each part, int64[p]."""
        return order_of_span(*self.spans)

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of tiles: right ascension and declination first, in ICRS degrees."""
        position = self._position
        placed = [self._axis(name) for name in (position.ra, position.dec)]
        if not self._is_icrs:
            taken = set(self._others)
            placed = [pa.field(_free(name, taken), pa.float64(), metadata=_DEGREES) for name in ("ra", "dec")]
        others = [self.rows.schema.field(name) for name in self._others]
        first = placed[0]
        if first.name.startswith("#"):  # a line that begins so is a comment
            taken = {field.name for field in [*placed[1:], *others]}
            placed[0] = first.with_name(_free(first.name.strip("# ") or "ra", taken))
        return pa.schema([*placed, *others])

    def ranked(self, low: int, high: int) -> Iterator[tuple[int, NDArray[np.int64], RowRanks]]:
        """Read what ranks the rows of the parts [low, high): part, `_healpix_29`, ranks; in their order."""
        for part, table in self._read(self.ranking, low, high):
            yield part, table[HEALPIX_COLUMN].to_numpy(), self._ranks(table)

    def shown(self, low: int, high: int) -> Iterator[tuple[int, NDArray[np.int64], RowRanks, pa.Array]]:
        """Read the rows of the parts [low, high): part, `_healpix_29`, ranks, and their lines."""
        for part, table in self._read(self.rows, low, high):
            yield part, table[HEALPIX_COLUMN].to_numpy(), self._ranks(table), row_lines(self._cells(table))

    def _read(self, selection: Selection, low: int, high: int) -> Iterator[tuple[int, pa.Table]]:
        """The rows of each part in [low, high), in the order of `_healpix_29`."""
        start, stop = self.spans
        pixels = Intervals.union(start[low:high], stop[low:high])
        part, waiting = low, [selection.schema.empty_table()]
        for table in read_parts(self.catalog.storage, self.catalog.metadata, selection, pixels):
            cuts = np.searchsorted(table[HEALPIX_COLUMN].to_numpy(), stop[part:high])
            done = 0
            for cut in cuts.tolist():
                if cut == table.num_rows:  # more may come
                    break
                waiting.append(table.slice(done, cut - done))
                yield part, pa.concat_tables(waiting)
                part, waiting, done = part + 1, [selection.schema.empty_table()], cut
            waiting.append(table.slice(done))
        while part < high:
            yield part, pa.concat_tables(waiting)
            part, waiting = part + 1, [selection.schema.empty_table()]

    def _ranks(self, table: pa.Table) -> RowRanks:
        by = self.request.order_by
        values = None if by is None else table[by]
        return row_ranks(table[HEALPIX_COLUMN].to_numpy(), values, descending=self.request.descending)

    def _cells(self, table: pa.Table) -> pa.Table:
        """The columns of tiles."""
        position = self._position
        placed: list[pa.ChunkedArray] = [table[position.ra], table[position.dec]]
        if not self._is_icrs:
            placed = [pa.chunked_array([each]) for each in icrs_of(table, position)]
        return pa.table([*placed, *(table[name] for name in self._others)], schema=self.schema)

    @cached_property
    def _position(self) -> PositionSpec:
        return icrs_position(self.catalog.metadata)

    @property
    def _is_icrs(self) -> bool:
        return self._position.frame == "icrs" and self._position.unit == "deg"

    @property
    def _others(self) -> list[str]:
        """The columns after the position."""
        wanted, _ = _wanted(self.request, joined_schema(self.catalog.metadata))
        drawn = (self._position.ra, self._position.dec) if self._is_icrs else ()
        return [name for name in wanted if name not in drawn]

    def _axis(self, name: str) -> pa.Field:
        return self.rows.schema.field(name)


def _wanted(request: HipsRequest, schema: pa.Schema) -> tuple[list[str], tuple[str, ...]]:
    """The columns that are asked for, or all that tiles have a form for; and those left out."""
    if request.columns is not None:
        return list(request.columns), ()
    fields = [field for field in schema if field.name not in (HEALPIX_COLUMN, ROW_COLUMN)]
    formless = tuple(field.name for field in fields if not has_cells(field.type))
    return [field.name for field in fields if field.name not in formless], formless


def _free(name: str, taken: set[str]) -> str:
    """A name like this one that no other column has."""
    while name in taken:
        name += "_icrs"
    return name
