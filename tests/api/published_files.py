"""What a catalog has published, by what its files hold."""

from __future__ import annotations

import hashlib
from pathlib import Path

import hipslake


def data_files(catalog: hipslake.Catalog) -> dict[str, str]:
    """The data files of a version, margins and indices too: path in the folder of its write -> SHA-256."""
    root = Path(catalog.uri)
    written = root / catalog.metadata.write_id
    return {
        str(path.relative_to(written)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(written.rglob("*.parquet"))
        if path.name not in ("_metadata", "_common_metadata", "partition_info.parquet")
    }


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
