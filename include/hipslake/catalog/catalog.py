"""A published catalog, opened for reading: `from hipslake import Catalog`."""

from __future__ import annotations

from hipslake.catalog.surface.joins import CatalogJoins
from hipslake.catalog.surface.rows import CatalogRows
from hipslake.catalog.surface.upkeep import CatalogUpkeep


class Catalog(CatalogRows, CatalogJoins, CatalogUpkeep):
    """One version of a catalog.

    Made by `Catalog.open`. It stays the same, whatever is published afterwards; open again for the newest.

    ====================================== ===============================================================
    `hipslake.catalog.surface.opened`      `open`, `name`, `version`, `schema`, `pixels`, `pixel_at`, ...
    `hipslake.catalog.surface.rows`        `read`, `tables`, `find`, `to_pandas`, `to_spark`, `export`
    `hipslake.catalog.surface.joins`       `crossmatch`, `join`, `time_series`
    `hipslake.catalog.surface.upkeep`      `verify`, `repair`, `build_margin`, `rollback`, `vacuum`
    ====================================== ===============================================================

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
        The version's.
    """
