"""Files that hold tables of a warehouse, spoilt: sidecars and point maps."""

from __future__ import annotations

import hashlib
import io
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hipslake.catalog.hats.point_map import PointMap
from hipslake.catalog.partitions import PARTITION_SCHEMA, Sidecar, read_sidecar
from hipslake.errors import HipslakeError
from hipslake.steps.tables import read_table
from hipslake.storage import Storage

from tests.catalog.little import WRITE
from tests.fuzz.mutation import spoilt
from tests.fuzz.target import Case, Target


@cache
def _tables() -> list[bytes]:
    rows = [(1, 5, f"{WRITE}/a.parquet", 3, 99, "0" * 64), (2, 9, f"{WRITE}/b.parquet", 4, 99, "1" * 64)]
    table = pa.Table.from_pylist(
        [dict(zip(PARTITION_SCHEMA.names, row, strict=True)) for row in rows], PARTITION_SCHEMA
    )
    made = []
    for checked in (True, False):
        sink = io.BytesIO()
        pq.write_table(table, sink, write_page_checksum=checked, compression="zstd" if checked else "none")
        made.append(sink.getvalue())
    return made


def _table_file(random: Random) -> Case:
    data = spoilt(random, random.choice(_tables()), _tables(), most=random.choice((1, 2, 4)))
    return Case(data, ".parquet", {"told": random.random() < 0.8})


def _read_table_file(case: Case, folder: Path) -> None:
    """A table that was damaged before its checksum was taken, or after."""
    storage = Storage.at(folder)
    storage.write("t.parquet", case.data)
    digest = hashlib.sha256(case.data).hexdigest() if case.told["told"] else "0" * 64
    refused: list[HipslakeError] = []
    sidecar = Sidecar(path="t.parquet", rows=2, sha256=digest)
    for use in (
        lambda: read_sidecar(storage, sidecar, PARTITION_SCHEMA),
        lambda: read_sidecar(storage, sidecar, PARTITION_SCHEMA, ["order", "npix"]),
        lambda: read_table(storage, "t.parquet"),
    ):
        try:
            use()
        except HipslakeError as error:
            refused.append(error)
    if refused:
        raise refused[0]


@cache
def _point_maps() -> list[bytes]:
    return [
        PointMap(2, np.array([1, 5]), np.array([3, 4])).to_fits(),
        PointMap(1, np.arange(48), np.ones(48, np.int64)).to_fits(),
    ]


def _point_map(random: Random) -> Case:
    return Case(spoilt(random, random.choice(_point_maps()), most=random.choice((1, 2, 4))), ".fits")


def _read_point_map(case: Case, folder: Path) -> None:
    found = PointMap.from_fits(case.data)
    _ = (found.pixels, found.sky_fraction)


SIDECAR = Target("sidecar", _table_file, _read_table_file, share=3)
POINT_MAP = Target("point map", _point_map, _read_point_map, share=1)
