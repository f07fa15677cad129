"""Trees of others, made from one of ours: the same rows under other names, in other forms and orders."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import healpy
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.catalog.publishing import Published

Change = Callable[[Path], None]


def tree_of(published: Published, target: Path) -> Path:
    """A copy of the HATS tree of a version's primary group, as it lies there."""
    write = Path(published.storage.uri(published.metadata.write_id))
    shutil.copytree(write / published.metadata.groups[0].name, target)
    return target


def tree_of_many_leaves(target: Path, leaves: int, order: int = 6) -> Path:
    """A HATS tree of one order that has two rows in each of its first leaves, written by pyarrow alone."""
    schema = pa.schema({"_healpix_29": pa.int64(), "id": pa.int64(), "ra": pa.float64(), "dec": pa.float64()})
    inside = np.array([1, 1 << 40])  # where in a pixel its rows lie
    footers = []
    for npix in range(leaves):
        h29 = (npix << 2 * (29 - order)) + inside
        ra, dec = healpy.pix2ang(1 << 29, h29, nest=True, lonlat=True)
        name = f"Norder={order}/Dir={npix // 10000 * 10000}/Npix={npix}.parquet"
        path = target / "dataset" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        table = pa.table({"_healpix_29": h29, "id": 2 * npix + np.arange(2), "ra": ra, "dec": dec}, schema)
        pq.write_table(table, path, metadata_collector=footers)
        footers[-1].set_file_path(name)
    pq.write_metadata(schema, target / "dataset" / "_common_metadata")
    pq.write_metadata(schema, target / "dataset" / "_metadata", metadata_collector=footers)
    lines = ["Norder,Npix,num_rows", *(f"{order},{npix},2" for npix in range(leaves))]
    (target / "partition_info.csv").write_text("\n".join(lines) + "\n")
    said = {
        "obs_collection": "many",
        "dataproduct_type": "object",
        "hats_nrows": 2 * leaves,
        "hats_col_ra": "ra",
        "hats_col_dec": "dec",
        "hats_order": order,
        "hats_version": "v1.0",
    }
    text = "".join(f"{name}={value}\n" for name, value in said.items())
    (target / "hats.properties").write_text(text)
    return target


def leaves(tree: Path) -> list[Path]:
    """The leaf files, in no order."""
    return [path for path in tree.rglob("Npix=*.parquet") if path.is_file()]


def without_leaf(tree: Path, leaf: Path) -> None:
    """The tree as others would write it without a leaf."""
    rows = pq.read_metadata(leaf).num_rows
    order, npix = (part.partition("=")[2] for part in (leaf.parts[-3], leaf.stem))
    leaf.unlink()
    info = tree / "partition_info.csv"
    lines = info.read_text().splitlines()
    kept = [line for line in lines if not line.startswith(f"{order},{npix}")]
    assert len(kept) == len(lines) - 1
    info.write_text("\n".join(kept) + "\n")
    (tree / "dataset" / "_metadata").unlink(missing_ok=True)
    (tree / "point_map.fits").unlink(missing_ok=True)
    for name in ("properties", "hats.properties"):
        text = (tree / name).read_text()
        (tree / name).write_text(text.replace("hats_nrows=1500", f"hats_nrows={1500 - rows}"))


def without(*names: str) -> Change:
    """Files that a tree may lack."""

    def change(tree: Path) -> None:
        for name in names:
            for path in tree.rglob(name):
                path.unlink()

    return change


def old_names(tree: Path) -> None:
    """The property file of HATS before 0.5."""
    (tree / "hats.properties").unlink()


def hipscat(tree: Path) -> None:
    """The format before HATS: other names, no `dataset/`, and an index of another kind."""
    said = dict(line.split("=", 1) for line in (tree / "properties").read_text().splitlines())
    info = {
        "catalog_name": said["obs_collection"],
        "catalog_type": "object",
        "total_rows": int(said["hats_nrows"]),
        "epoch": "J2000",
        "ra_column": said["hats_col_ra"],
        "dec_column": said["hats_col_dec"],
    }
    for path in leaves(tree):
        table = pq.read_table(path, partitioning=None).drop_columns(["_healpix_29"])
        index = np.arange(table.num_rows, dtype=np.uint64)  # nobody is to look at it
        pq.write_table(table.append_column("_hipscat_index", pa.array(index)), path)
    for name in ("properties", "hats.properties"):
        (tree / name).unlink()
    for name in ("_metadata", "_common_metadata"):
        (tree / "dataset" / name).unlink(missing_ok=True)
    for path in (tree / "dataset").iterdir():
        path.rename(tree / path.name)
    (tree / "catalog_info.json").write_text(json.dumps(info))


def unplaced(tree: Path) -> None:
    """Files without `_healpix_29`."""
    for path in leaves(tree):
        pq.write_table(pq.read_table(path, partitioning=None).drop_columns(["_healpix_29"]), path)
    without("_metadata", "_common_metadata")(tree)


def mixed_up(tree: Path) -> None:
    """Rows in no order, `_healpix_29` unsigned and last, several row groups."""
    rng = np.random.default_rng(3)
    for path in leaves(tree):
        table = pq.read_table(path, partitioning=None)
        table = table.take(pa.array(rng.permutation(table.num_rows)))
        index = table["_healpix_29"].cast(pa.uint64())
        table = table.drop_columns(["_healpix_29"]).append_column("_healpix_29", index)
        pq.write_table(table, path, row_group_size=37)
    without("_metadata", "_common_metadata")(tree)


def folders(tree: Path) -> None:
    """A folder of files for each leaf."""
    for path in leaves(tree):
        table = pq.read_table(path, partitioning=None)
        folder = path.with_suffix("")
        path.unlink()
        folder.mkdir()
        cut = table.num_rows // 3
        pq.write_table(table.slice(cut), folder / "part1.parquet")
        if cut:
            pq.write_table(table.slice(0, cut), folder / "part0.parquet")
    without("_metadata")(tree)
    for name in ("properties", "hats.properties"):
        text = (tree / name).read_text().replace("hats_npix_suffix=.parquet", "hats_npix_suffix=/")
        (tree / name).write_text(text)


VARIANTS: dict[str, list[Change]] = {
    "as it is": [],
    "without partition_info.csv": [without("partition_info.csv")],
    "by a listing": [without("partition_info.csv", "_metadata")],
    "without _common_metadata": [without("_common_metadata", "_metadata")],
    "bare": [without("partition_info.csv", "_metadata", "_common_metadata", "point_map.fits", "*.moc*")],
    "properties": [old_names],
    "hipscat": [hipscat],
    "unplaced": [unplaced],
    "mixed up": [mixed_up],
    "folders": [folders],
    "folders, by a listing": [folders, without("partition_info.csv")],
    "folders, mixed up": [mixed_up, folders],
    "mixed up and unplaced": [mixed_up, unplaced],
}
"""What is done to a tree, in turn."""


def variant(published: Published, name: str, target: Path) -> Path:
    """A tree of others that has the rows of a catalog of ours."""
    tree = tree_of(published, target)
    for change in VARIANTS[name]:
        change(tree)
    return tree
