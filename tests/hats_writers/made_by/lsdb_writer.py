"""Writes catalogs by the LSDB of this environment: `lsdb_writer.py ROWS FOLDER`, both as of `importer.py`."""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path

import lsdb
import pandas as pd
import pyarrow.parquet as pq

HIGHEST_ORDER = 6
LEAF_ROWS = 100
MARGIN_ARCSEC = 600.0
MATCH_ARCSEC = 5.0


def main(rows: Path, folder: Path) -> None:
    """Write what this version can."""
    writer = _Writer(rows, folder)
    gaia = writer.opened("gaia")
    hipparcos = writer.opened("hipparcos", ra_column="RAICRS", dec_column="DEICRS")
    stars, sources = writer.opened("stars"), writer.opened("sources", catalog_type="source")
    pairs = gaia.crossmatch(hipparcos, suffixes=("_gaia", "_hip"), radius_arcsec=MATCH_ARCSEC)
    nested = stars.join_nested(
        sources, left_on="object_id", right_on="object_id", nested_column_name="sources"
    )
    writer.write("gaia", gaia, "object", rows="gaia")
    writer.write("gaia_margin", gaia.margin, "margin", of="gaia")
    writer.write("hipparcos", hipparcos, "object", rows="hipparcos")
    # its statistics of partitions cannot hold integers of 2^63 and above
    without = {"create_per_partition_statistics": False}
    plain = without if writer.knows("create_per_partition_statistics") else {}
    writer.write("odd", writer.opened("odd"), "object", rows="odd", **plain)
    writer.write("sources", sources, "source", rows="sources")
    writer.write("pairs", pairs, "object")
    writer.write("nested", nested, "object")
    if writer.collects:
        gaia.write_catalog(folder / "gaia_collection", catalog_name="gaia", as_collection=True)
        writer.note("gaia_collection", "collection", rows="gaia")
        writer.note("gaia_collection/gaia_600arcs", "margin", of="gaia_collection")
    if writer.knows("npix_suffix"):
        writer.write("gaia_folders", gaia, "object", rows="gaia", npix_suffix="/")
    if writer.knows("create_parquet_metadata"):
        bare = {"create_parquet_metadata": False, "should_write_skymap": False}
        writer.write("gaia_bare", gaia, "object", rows="gaia", **bare)
    if hasattr(lsdb.io, "to_association"):
        writer.write("forms", writer.opened("forms"), "object", rows="forms")
        writer.association("gaia_to_hipparcos", pairs)
    (folder / "made.json").write_text(json.dumps(writer.made, indent=1))


class _Writer:
    """Opens rows, writes catalogs, and notes what each is."""

    def __init__(self, rows: Path, folder: Path) -> None:
        self.rows, self.folder = rows, folder
        self.made: dict[str, dict[str, str]] = {}
        catalog = lsdb.catalog.Catalog
        self.collects = (
            "as_collection" in inspect.signature(getattr(catalog, "write_catalog", lambda: None)).parameters
        )

    def knows(self, option: str) -> bool:
        """Whether this version writes catalogs by this option."""
        return (
            option in inspect.signature(lsdb.io.to_hats).parameters if hasattr(lsdb.io, "to_hats") else False
        )

    def opened(self, table: str, **options: object) -> lsdb.catalog.Catalog:
        """The rows as a catalog in memory, with a margin."""
        frame = pq.read_table(self.rows / f"{table}.parquet").to_pandas(types_mapper=pd.ArrowDtype)
        known = inspect.signature(lsdb.from_dataframe).parameters
        rows = "partition_rows" if "partition_rows" in known else "threshold"
        return lsdb.from_dataframe(
            frame,
            **{rows: LEAF_ROWS},
            catalog_name=table,
            highest_order=HIGHEST_ORDER,
            margin_threshold=MARGIN_ARCSEC,
            **options,
        )

    def write(
        self, name: str, catalog: object, kind: str, rows: str = "", of: str = "", **options: object
    ) -> None:
        path = self.folder / name
        if hasattr(lsdb.io, "to_hats"):
            lsdb.io.to_hats(catalog, base_catalog_path=path, catalog_name=name, **options)
        else:
            catalog.to_hipscat(str(path), catalog_name=name)
        self.note(name, kind, **{key: value for key, value in (("rows", rows), ("of", of)) if value})

    def association(self, name: str, pairs: object) -> None:
        lsdb.io.to_association(
            pairs,
            base_catalog_path=self.folder / name,
            catalog_name=name,
            primary_catalog_dir=self.folder / "gaia",
            primary_column_association="source_id_gaia",
            primary_id_column="source_id",
            join_catalog_dir=self.folder / "hipparcos",
            join_column_association="HIP_hip",
            join_to_primary_id_column="HIP",
            join_id_column="HIP",
            separation_column="_dist_arcsec",
        )
        self.note(name, "association", of="gaia")

    def note(self, name: str, kind: str, **more: str) -> None:
        self.made[name] = {"kind": kind, **more}


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
