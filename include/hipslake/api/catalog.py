"""A published catalog, opened for reading: `from hipslake import Catalog`."""

from __future__ import annotations

from hipslake.api.catalog_joins import CatalogJoins
from hipslake.api.catalog_upkeep import CatalogUpkeep
from hipslake.catalog.reader import CatalogRows


class Catalog(CatalogRows, CatalogJoins, CatalogUpkeep):
    """One version of a catalog.

    Made by `Catalog.open`. It stays the same, whatever is published afterwards; open again for the newest.

    ====================================== ===============================================================
    `hipslake.catalog.opened`      `open`, `name`, `version`, `schema`, `pixels`, `pixel_at`, ...
    `hipslake.catalog.reader`        `read`, `tables`, `find`, `to_pandas`, `to_spark`, `export`
    `hipslake.api.catalog_joins`       `crossmatch`, `join`, `time_series`
    `hipslake.api.catalog_upkeep`      `verify`, `repair`, `build_margin`, `rollback`, `vacuum`
    ====================================== ===============================================================

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
        The version's.
    """
