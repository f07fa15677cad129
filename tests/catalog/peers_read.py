"""What LSDB and hats say of a catalog, as JSON. For the peers' interpreter: `peers_read.py ROOT WRITE`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import hats
import lsdb
from hats.io.skymap import read_skymap
from hats.io.validation import is_valid_catalog


def main(root: Path, write: Path) -> dict[str, Any]:
    folders = [path.parent for path in sorted(write.glob("*/hats.properties"))]
    catalog = lsdb.open_catalog(root)
    structure = catalog.hc_structure
    cone = lsdb.open_catalog(root, search_filter=lsdb.ConeSearch(ra=40.0, dec=80.0, radius_arcsec=2 * 3600))
    return {
        "hats": hats.__version__,
        "valid": {folder.name: is_valid_catalog(folder, strict=True) for folder in (root, *folders)},
        "name": catalog.name,
        "properties": structure.catalog_info.model_dump(mode="json", by_alias=True, exclude_none=True),
        "leaves": [[int(pixel.order), int(pixel.pixel)] for pixel in catalog.get_healpix_pixels()],
        "rows": as_rows(catalog.compute()),
        "moc": [int(structure.moc.max_order), float(structure.moc.sky_fraction)],
        "skymap_rows": int(read_skymap(hats.read_hats(root).main_catalog, None).sum()),
        "cone": {
            "partitions": cone.npartitions,
            "rows": as_rows(cone.compute()),
            "filters": [
                [[name, op, int(value)] for name, op, value in both] for both in cone.loading_config.filters
            ],
        },
        "groups": {folder.name: as_rows(lsdb.open_catalog(folder).compute()) for folder in folders},
        "joined": joined(root, write / "details"),
        "extensions": extensions(write) if hasattr(hats.catalog, "CatalogExtension") else None,
    }


def joined(root: Path, other: Path) -> list[str]:
    """The columns of the primary group with those of another; names that both have get a suffix."""
    primary, further = lsdb.open_catalog(root), lsdb.open_catalog(other)
    both = primary.join(
        further,
        left_on="_row",
        right_on="_row",
        suffixes=("", "_again"),
        suffix_method="overlapping_columns",
    )
    rows = both.compute()
    assert len(rows) == len(primary), f"{len(rows)} rows of {len(primary)}"
    return list(rows.columns)


def extensions(write: Path) -> dict[str, list[str]]:
    """The columns of every extension; hats knows extensions from 0.11 on."""
    return {
        path.stem: hats.read_hats(path).extension_info.extension_columns
        for path in sorted(write.glob("*.properties"))
    }


def as_rows(frame: Any) -> dict[str, list[float]]:
    """Every column as a list; the index is `_healpix_29`."""
    frame = frame.reset_index()
    return {name: frame[name].to_numpy().tolist() for name in sorted(frame.columns)}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), Path(sys.argv[2]))))
