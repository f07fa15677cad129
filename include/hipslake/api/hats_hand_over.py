"""Scans for LSDB: the HATS tree of a version, opened by LSDB and cut exactly to the rows of the scan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hipslake.catalog.selection import RegionCut
from hipslake.errors import SpecError
from hipslake.optional_packages import imported
from hipslake.predicates.evaluation import passing
from hipslake.predicates.predicate_tree import Predicate
from hipslake.specs.catalog_spec import Layout
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixels import HEALPIX_COLUMN
from hipslake.sphere.regions import Moc

if TYPE_CHECKING:
    from hipslake.api.scan import Scan

_PLACE = "place among the rows of a partition"


@dataclass(frozen=True)
class RowTest:
    """Which rows of a data frame of LSDB are rows of a scan.

    Attributes
    ----------
    schema : pyarrow.Schema
        Of the columns that decide, `_healpix_29` among them, which is the index of the frame.
    filter : Predicate or None
    cut : RegionCut or None
    pixels : Intervals or None
    """

    schema: pa.Schema
    filter: Predicate | None
    cut: RegionCut | None
    pixels: Intervals | None

    def __call__(self, frame: Any) -> Any:
        """The rows of the frame that are rows of the scan."""
        rows = pa.table(
            [
                _cast(pa.array(frame.index if field.name == HEALPIX_COLUMN else frame[field.name]), field)
                for field in self.schema
            ],
            schema=self.schema,
        )
        rows = rows.append_column(_PLACE, pa.array(np.arange(rows.num_rows)))
        if self.pixels is not None:
            rows = rows.filter(pa.array(self.pixels.hold(rows[HEALPIX_COLUMN].to_numpy())))
        if self.cut is not None:
            rows = self.cut.inside(rows)
        if self.filter is not None:
            rows = passing(self.filter, rows)
        return frame.iloc[rows[_PLACE].to_numpy()]


def to_lsdb(scan: Scan, options: dict[str, Any]) -> Any:
    """A catalog of LSDB of a scan; as `Scan.to_lsdb`."""
    metadata, selection = scan.catalog.metadata, scan.selection
    if metadata.layout is not Layout.HATS:
        raise SpecError(
            f"catalog {metadata.catalog} has layout {metadata.layout.value}, and LSDB reads HATS alone: "
            "ingest it with layout hats, or take to_dask()"
        )
    group, *others = selection.columns
    if others:
        told = "; ".join(f"{name}: {', '.join(taken)}" for name, taken in selection.columns.items())
        raise SpecError(
            f"catalog {metadata.catalog}: LSDB opens one column group, and these columns are of several "
            f"({told}); take columns of one, or to_dask()"
        )
    path = scan.catalog.path(group)
    lsdb = imported("lsdb", "Scan.to_lsdb")
    search = imported("lsdb.core.search.region_search", "Scan.to_lsdb")
    wanted = [name for name in scan.columns if name != HEALPIX_COLUMN]
    test = _test_of(scan, group)
    needed = list(dict.fromkeys([*wanted, *test.schema.names]))
    needed.remove(HEALPIX_COLUMN)
    opened: dict[str, Any] = {"columns": needed}
    near = selection.inside(scan.pixels)
    if near is not None:
        opened |= {
            "search_filter": search.MOCSearch(Moc(near).to_mocpy(), fine=False),
            "error_empty_filter": False,
        }
    margin = next((each for each in metadata.margins if each.group == group), None)
    if metadata.adopted is not None:  # its margins are no trees of HATS
        margin = None
    if margin is not None:
        opened["margin_cache"] = metadata.margin_uri(margin, scan.catalog.storage)
    catalog = lsdb.open_catalog(path, **(opened | options))
    if test.pixels is not None or test.filter is not None or test.cut is not None:
        catalog = catalog.map_partitions(test)
    return catalog[wanted]


def _test_of(scan: Scan, group: str) -> RowTest:
    selection = scan.selection
    names = {HEALPIX_COLUMN} | (set() if selection.filter is None else set(selection.filter.columns))
    if selection.cut is not None:
        names |= {selection.cut.position.ra, selection.cut.position.dec}
    fields = [field for field in scan.catalog.schema_of(group) if field.name in names]
    return RowTest(pa.schema(fields), selection.filter, selection.cut, scan.pixels)


def _cast(column: pa.Array | pa.ChunkedArray, field: pa.Field) -> pa.Array | pa.ChunkedArray:
    return column if column.type == field.type else column.cast(field.type)
