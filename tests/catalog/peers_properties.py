"""What LSDB and hats make of the properties of a catalog. For the peers' interpreter: ROOT WRITE."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import hats
import lsdb
import numpy as np
from hats.io import parquet_metadata
from hats.io.skymap import read_skymap


def main(root: Path, write: Path) -> dict[str, Any]:
    collection = hats.read_hats(root)
    catalog = lsdb.open_catalog(root)
    info = catalog.hc_structure.catalog_info
    main_catalog = collection.main_catalog
    whole = lsdb.open_catalog(root, columns="all")
    return {
        "table": _said(info),
        "margin": _said(catalog.margin.hc_structure.catalog_info),
        "collection": _said(collection.collection_properties),
        "columns": list(catalog.columns),
        "margin columns": list(catalog.margin.columns),
        "all columns": list(whole.columns),
        "rows": len(catalog.compute()),
        "cone": len(catalog.cone_search(80.0, 30.0, 3600.0).compute()),
        "matched": len(whole.crossmatch(catalog, radius_arcsec=1.0, suffixes=("", "_b")).compute()),
        "maps": {order: np.flatnonzero(read_skymap(main_catalog, order)).tolist() for order in (2, 4)},
        "map rows": {order: int(read_skymap(main_catalog, order).sum()) for order in (0, 2, 4, 6)},
        "statistics": statistics(root / info_path(root)),
        "extended": extended(root, write),
    }


def info_path(root: Path) -> str:
    """The primary table, by the collection."""
    return str(hats.read_hats(root).collection_properties.hats_primary_table_url)


def statistics(group: Path) -> dict[str, Any]:
    """The statistics of the file, and whether they are those that hats itself finds in the footers."""
    cached, footers = group / "per_partition_statistics.parquet", group / "dataset" / "_metadata"
    mine = parquet_metadata.aggregate_column_statistics_from_cache(cached, exclude_hats_columns=False)
    own = parquet_metadata.aggregate_column_statistics(footers, exclude_hats_columns=False)
    each = parquet_metadata.per_partition_statistics_from_cache(cached, per_row_group=True)
    all_of = parquet_metadata.per_partition_statistics(footers, per_row_group=True)
    return {
        "same": bool((mine.loc[own.index].astype(str) == own.astype(str)).all(axis=None)),
        "columns": sorted(own.index),
        "rows": len(each),
        "row groups": len(all_of),
    }


def extended(root: Path, write: Path) -> dict[str, Any]:
    """The primary table with the columns of its extension, by name and by path."""
    catalog = lsdb.open_catalog(root, columns="all")
    if not hasattr(catalog, "load_extension"):
        return {}
    by_name = catalog.load_extension("details").compute()
    by_path = catalog.load_extension(write / "details.properties").compute()
    return {
        "columns": list(by_name.columns),
        "flux": by_name.sort_values("id")["flux"].tolist(),
        "same": by_name.sort_values("id")["flux"].tolist() == by_path.sort_values("id")["flux"].tolist(),
        "default": list(lsdb.open_catalog(root).load_extension("details").columns),
    }


def _said(properties: Any) -> dict[str, Any]:
    return properties.model_dump(mode="json", by_alias=True, exclude_none=True)  # type: ignore[no-any-return]


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), Path(sys.argv[2]))))
