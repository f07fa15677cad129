"""Other engines read what was sunk: the tables of the RFC, and all types."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.peers.running import run_peer
from tests.tables.compaction.compacting import compact, request
from tests.tables.sinking import Lake
from tests.tables.test_sink import RFC, sample

pytestmark = pytest.mark.peers


def every_type() -> pa.Table:
    """A row of values and a row of nulls, of every type that a table may get."""
    moment = dt.datetime(1969, 12, 31, 23, 59, 59, 123456)
    values: dict[str, tuple[object, pa.DataType]] = {
        "b": (True, pa.bool_()),
        "i8": (-5, pa.int8()),
        "u32": (2**32 - 1, pa.uint32()),
        "u64": (2**64 - 1, pa.uint64()),
        "i64": (-(2**63), pa.int64()),
        "f16": (np.float16(1.5), pa.float16()),
        "f64": (float("nan"), pa.float64()),
        "d": (Decimal("-12345678901234567890.123"), pa.decimal128(30, 3)),
        "s": ("銀河", pa.large_string()),
        "w": ("g", pa.dictionary(pa.int8(), pa.string())),
        "raw": (b"\x00\xff", pa.binary()),
        "day": (dt.date(1, 1, 1), pa.date32()),
        "t": (dt.time(1, 2, 3), pa.time32("s")),
        "ts": (moment, pa.timestamp("us")),
        "tz": (moment.replace(tzinfo=dt.UTC), pa.timestamp("ns", tz="Europe/Berlin")),
        "list": ([1, None, 3], pa.list_(pa.int16())),
        "vector": ([1.0, 2.0], pa.list_(pa.float32(), 2)),
        "nested": ({"a": 1, "b": ["x"]}, pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])),
    }
    columns = {name: pa.array([value, None], kind) for name, (value, kind) in values.items()}
    return pa.table({"id": [0, 1], **columns})


def test_polars_and_duckdb_read_what_pyiceberg_reads(tmp_path: Path, peers_python: str) -> None:
    lake = Lake(tmp_path)
    specs = []
    for case, mode, partition in RFC:
        key = {"key": "id"} if mode == "upsert" else {}
        spec = lake.spec(table=f"rfc.case{case}", partition=partition, mode=mode, **key)
        lake.sink(spec, sample(300))
        if mode == "upsert":
            lake.sink(spec, sample(200, seed=1, first=150))
        specs.append(spec)
    void = lake.spec(
        table="rfc.void",
        partition=["void(data)", "void(ts)", "bucket[2](id)"],
        sort=["void(category)", "id"],
        mode="upsert",
        key="id",
    )
    lake.sink(void, sample(300))
    lake.sink(void, sample(200, seed=1, first=150))
    compaction = {"table": void.table, "iceberg": void.iceberg.model_dump(mode="json")}
    report = compact(
        request(tmp_path, mode="zorder", columns=["ts"], partitions="data_null is null", **compaction)
    )
    assert (report.rows_out, report.added.files, len(lake.live(void))) == (350, 2, 2)
    specs.append(void)
    types = lake.spec(table="rfc.types")
    lake.sink(types, every_type())
    specs.append(types)
    arguments = []
    for spec in specs:
        folder = tmp_path / spec.table
        folder.mkdir()
        arguments += [lake.table(spec).metadata_location, str(folder)]
    run_peer(peers_python, Path(__file__).with_name("read_by_peers.py"), *arguments)
    for spec in specs:
        ours = lake.rows(spec)
        assert ours.num_rows == {"rfc.types": 2, "rfc.case3": 350, "rfc.case4": 350, "rfc.void": 350}.get(
            spec.table, 300
        )
        for peer in ("polars", "duckdb"):
            theirs = pq.read_table(tmp_path / spec.table / f"{peer}.parquet").sort_by("id")
            for name in ours.column_names:
                assert same(theirs[name], ours[name]), (spec.table, peer, name)


def same(theirs: pa.ChunkedArray, ours: pa.ChunkedArray) -> bool:
    """Whether two columns hold the same values, NaN included; types may be wider."""
    return str(theirs.cast(ours.type).to_pylist()) == str(ours.to_pylist())


def test_uuids_and_fixed_bytes_are_kept(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    ids = [uuid.UUID(int=n).bytes for n in range(40)]
    column = pa.ExtensionArray.from_storage(pa.uuid(), pa.array(ids, pa.binary(16)))
    rows = pa.table({"id": np.arange(40), "u": column, "f": pa.array([i[-3:] for i in ids], pa.binary(3))})
    spec = lake.spec(partition=["bucket[4](u)", "f"], sort=["u"], mode="upsert", key="u")
    lake.sink(spec, rows)
    done = lake.sink(spec, rows.slice(10, 5))
    assert done.rows_updated == 5
    found = lake.rows(spec)
    assert found["f"].to_pylist() == [i[-3:] for i in ids]
    assert [value.bytes for value in found["u"].to_pylist()] == ids
