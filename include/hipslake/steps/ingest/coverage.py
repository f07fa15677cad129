"""Where on the sky the rows of a run lie, as its histogram counted them."""

from __future__ import annotations

import pyarrow.compute as pc

from hipslake.catalog.hats.point_map import MAP_ORDER, PointMap
from hipslake.planning.pixel_histogram import CELL_COLUMNS
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.steps.run import RunFolder
from hipslake.steps.tables import read_table


def coverage_of(folder: RunFolder, spec: CatalogSpec) -> PointMap:
    """The rows of a counted run per pixel, at the order of HATS maps or coarser."""
    counted = max(spec.mapping_order, spec.lowest_order)  # every row is in a cell of this order, or deeper
    order = pc.field("order") == min(MAP_ORDER, counted)
    cells = read_table(folder.storage, RunFolder.PER_ORDER, CELL_COLUMNS, order)
    if not cells.num_rows:  # none is deeper
        cells = read_table(folder.storage, RunFolder.HISTOGRAM, CELL_COLUMNS)
    return PointMap.from_cells(*(cells[name].to_numpy() for name in CELL_COLUMNS))
