"""What LSDB makes of margins: `lsdb_margins.py CATALOG` prints JSON. For the peers' interpreter."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import lsdb
import numpy as np
from hats import read_hats
from hats.io.validation import is_valid_catalog
from scipy.spatial import cKDTree

ARCSEC = 60.0


def pairs_of_the_whole_sky(ra: np.ndarray, dec: np.ndarray) -> int:
    lon, lat = np.radians(ra), np.radians(dec)
    vectors = np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=1)
    return 2 * len(cKDTree(vectors).query_pairs(2 * np.sin(np.radians(ARCSEC / 3600) / 2)))


def pairs(left: Any, right: Any) -> int:
    found = left.crossmatch(
        right, radius_arcsec=ARCSEC, n_neighbors=100, suffixes=("_a", "_b"), suffix_method="all_columns"
    ).compute()
    return int((found["source_id_a"] != found["source_id_b"]).sum())


def main(root: Path) -> dict[str, Any]:
    collection = read_hats(root)
    names = [Path(margin).name for margin in collection.all_margins]
    folders = {Path(margin).name: root / margin for margin in collection.all_margins}
    default = lsdb.open_catalog(root)
    catalog = lsdb.open_catalog(root, margin_cache=collection.all_margins[-1])
    alone = lsdb.open_catalog(root / collection.collection_properties.hats_primary_table_url)
    rows = catalog.compute()
    return {
        "rows": {name: len(lsdb.read_hats(folders[name]).compute()) for name in names},
        "valid": {name: is_valid_catalog(folders[name], strict=True) for name in names},
        "default": default.margin.hc_structure.catalog_info.margin_threshold,
        "pairs": pairs(catalog, catalog),
        "pairs without margin": pairs(alone, alone),
        "pairs of the whole sky": pairs_of_the_whole_sky(rows["ra"].to_numpy(), rows["dec"].to_numpy()),
    }


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
