"""What a catalog has published, by what its files hold."""

from __future__ import annotations

import hashlib
from pathlib import Path

import hipslake
import pyarrow.compute as pc
import pyarrow.parquet as pq


def data_files(catalog: hipslake.Catalog) -> dict[str, str]:
    """The data files of a version, margins and indices too: path in the folder of its write -> SHA-256.

    Of lists of leaf files, which name the write, what they hold without its name.
    """
    root, write = Path(catalog.uri), catalog.metadata.write_id
    return {
        str(path.relative_to(root / write)): _listed(path, write)
        if path.name.startswith("indexed_")
        else hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted((root / write).rglob("*.parquet"))
        if path.name not in ("_metadata", "_common_metadata", "partition_info.parquet")
    }


def _listed(path: Path, write: str) -> str:
    table = pq.read_table(path)
    paths = pc.replace_substring(table["path"], write, "")
    table = table.set_column(table.column_names.index("path"), "path", paths)
    assert table.num_rows
    return hashlib.sha256(str(table.to_pylist()).encode()).hexdigest()


def leaves(catalog: hipslake.Catalog) -> list[tuple[int, int, int, str]]:
    """The leaf files of a version along the curve: order, pixel, rows, and SHA-256 as it is on disk."""
    table = catalog.metadata.partitions(None, catalog.storage)
    sums = [hashlib.sha256(catalog.storage.read(path)).hexdigest() for path in table["path"].to_pylist()]
    return list(zip(*(table[name].to_pylist() for name in ("order", "npix", "rows")), sums, strict=True))


def folders(root: Path) -> set[str]:
    """The folders of writes in a catalog; none where nothing was ever published."""
    if not root.exists():
        return set()
    return {path.name for path in root.iterdir() if path.is_dir() and not path.name.startswith("_")} - {
        "current"
    }
