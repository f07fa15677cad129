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
from hipslake.catalog.metadata import EarlierIncrements, Increment, Rejects, SourceEntry, Sources
from hipslake.catalog.metadata.increments import Cell, set_aside
from hipslake.catalog.partitions import PARTITION_SCHEMA, Sidecar, read_sidecar
from hipslake.steps.tables import read_table
from hipslake.storage.folder import Storage

from tests.catalog.little import WRITE
from tests.fuzz.mutation import spoilt
from tests.fuzz.target import Case, Target, refusals


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


@cache
def _increments() -> tuple[EarlierIncrements, list[bytes]]:
    """Two increments set aside, and the files that hold them."""
    where, lies = Storage.at("memory://fuzz-increments"), Sidecar(path=f"{WRITE}/c", rows=3, sha256="0" * 64)
    files = (SourceEntry(uri="s3://b/x.fits", size=9, stamp="s", rows=3),)
    rejects = Rejects(rows=2, path=f"{WRITE}/_rejects", reasons={"ra null": 2})
    whole = Increment(
        ordinal=0,
        rows=3,
        write_id=WRITE,
        fingerprint="f" * 64,
        sources=Sources(files=1, rows=5, bytes=9, entries=files),
        rejects=rejects,
        leaves=(Cell(order=1, npix=5, rows=3),),
    )
    night = Increment(
        ordinal=1,
        key="2026-11-21T00:00:00+00:00",
        rows=3,
        write_id=WRITE,
        fingerprint="f" * 64,
        sources=Sources(files=1, rows=3, bytes=9, sidecar=lies),
        coverage=lies,
    )
    told = set_aside([whole, night], where, WRITE)
    made = [where.read(told.path)]
    sink = io.BytesIO()
    pq.write_table(pq.read_table(io.BytesIO(made[0])), sink, compression="none")
    return told, [*made, sink.getvalue()]


def _table_file(random: Random) -> Case:
    increments = random.random() < 0.4
    tables = _increments()[1] if increments else _tables()
    data = spoilt(random, random.choice(tables), tables, most=random.choice((1, 2, 4)))
    return Case(data, ".parquet", {"told": random.random() < 0.8, "increments": increments})


def _read_table_file(case: Case, folder: Path) -> None:
    """A table that was damaged before its checksum was taken, or after."""
    storage = Storage.at(folder)
    storage.write("t.parquet", case.data)
    digest = hashlib.sha256(case.data).hexdigest() if case.told["told"] else "0" * 64
    if case.told["increments"]:
        earlier = _increments()[0].model_copy(update={"path": "t.parquet", "sha256": digest})
        assert [each.write_id for each in earlier.read(storage)] == list(earlier.writes)
        return
    sidecar = Sidecar(path="t.parquet", rows=2, sha256=digest)
    with refusals() as tried:
        tried(lambda: read_sidecar(storage, sidecar, PARTITION_SCHEMA))
        tried(lambda: read_sidecar(storage, sidecar, PARTITION_SCHEMA, ["order", "npix"]))
        tried(lambda: read_table(storage, "t.parquet"))


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
