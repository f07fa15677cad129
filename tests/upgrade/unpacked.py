"""The fixtures of this folder, unpacked."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds

PLACE = Path("/tmp/hipslake-upgrade")
"""Where fixtures are made: stands in them, as the place of source files, of runs and of tables."""


def unpacked(name: str, place: Path) -> Path:
    """Unpack a fixture: `warehouse`, and `landing` with the source files; returns the folder."""
    with tarfile.open(Path(__file__).with_name(f"{name}.tar.xz")) as archive:
        archive.extractall(place, filter="data")
    return place


def landed(place: Path, *parts: str) -> pa.Table:
    """The rows of source files, by plain pyarrow."""
    return ds.dataset(str(place.joinpath("landing", *parts)), format="parquet").to_table()
