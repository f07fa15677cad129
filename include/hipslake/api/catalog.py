"""A published catalog, opened for reading: `from hipslake import Catalog`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hipslake.api.catalog_joins import CatalogJoins
from hipslake.api.catalog_scans import CatalogScans
from hipslake.api.catalog_upkeep import CatalogUpkeep
from hipslake.sphere.intervals import PixelLike
from hipslake.sphere.regions import Region


class Catalog(CatalogScans, CatalogJoins, CatalogUpkeep):
    """One version of a catalog.

    Made by `Catalog.open`. It stays the same, whatever is published afterwards; open again for the newest.

    ================================== =====================================================================
    `hipslake.catalog.catalog_reader`  `open`, `name`, `schema`, `pixels`, `read`, `find`, `export`, ...
    `hipslake.api.catalog_scans`       `scan`, `head`, `sample`, `map_partitions`, `statistics`, `plot`, ...
    `hipslake.api.catalog_joins`       `crossmatch`, `join`, `time_series`
    `hipslake.api.catalog_upkeep`      `verify`, `repair`, `build_margin`, `rollback`, `vacuum`
    ================================== =====================================================================

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
        The version's.
    """

    def to_spark(
        self,
        spark: Any,
        columns: Sequence[str] | None = None,
        pixels: Iterable[PixelLike] | None = None,
        group: str | None = None,
        region: Region | str | None = None,
    ) -> Any:
        """Read as a Spark DataFrame, lazily, of the needed leaf files; filter it with `where`.

        Parameters
        ----------
        spark : pyspark.sql.SparkSession
        columns, pixels, group, region
            As for `read`. Rows have no order in Spark. The cut of a region runs in Python on the executors,
            which need hipslake then.

        Returns
        -------
        pyspark.sql.DataFrame
        """
        from hipslake.spark.catalog_frames import read_spark

        return read_spark(self, spark, columns=columns, pixels=pixels, group=group, region=region)
