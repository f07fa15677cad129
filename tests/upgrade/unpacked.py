"""The fixtures of this folder, unpacked."""

from __future__ import annotations

import fcntl
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds

PLACE = Path("/tmp/hipslake-upgrade")
"""Where fixtures are made. They name it, as the place of source files, of runs, and of tables."""


def unpacked(name: str, place: Path) -> Path:
    """Unpack a fixture: `warehouse`, and `landing` with the source files; returns the folder."""
    with tarfile.open(Path(__file__).with_name(f"{name}.tar.xz")) as archive:
        archive.extractall(place, filter="data")
    return place


@contextmanager
def at_its_place(name: str) -> Iterator[Path]:
    """Unpack a fixture where it was made, as its runs and tables need it; one process at a time has it."""
    with PLACE.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(PLACE, ignore_errors=True)
        try:
            yield unpacked(name, PLACE)
        finally:
            shutil.rmtree(PLACE)


def landed(place: Path, *parts: str) -> pa.Table:
    """The rows of source files, by plain pyarrow."""
    return ds.dataset(str(place.joinpath("landing", *parts)), format="parquet").to_table()
