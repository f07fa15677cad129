"""Tables opened for reading, held against what pyiceberg and pyarrow read."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hipslake import Table
from hipslake.errors import (
    CorruptFileError,
    InputError,
    SchemaMismatchError,
    SpecError,
    VersionNotFoundError,
)
from hipslake.storage.folder import Storage

from tests.tables.sinking import Lake


def rows(first: int, count: int = 200) -> pa.Table:
    rng = np.random.default_rng(first)
    return pa.table(
        {
            "id": np.arange(first, first + count),
            "flux": pa.array(rng.normal(size=count), mask=rng.uniform(size=count) < 0.2),
            "band": rng.choice(["g", "r"], count),
            "at": pa.array(rng.integers(0, 10**15, count), pa.int64()).cast(pa.timestamp("us")),
        }
    )


def test_an_iceberg_table_is_what_pyiceberg_reads_at_every_snapshot(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    spec = lake.spec(partition=["band"])
    for first in (0, 200, 400):
        lake.sink(spec, rows(first))
    table = Table.open("survey.sample", warehouse=lake.warehouse, iceberg=spec.iceberg)
    expected = lake.rows(spec)
    assert table.read().sort_by("id").cast(expected.schema).equals(expected)
    assert (
        table.read(["flux", "id"])
        .sort_by("id")
        .equals(expected.select(["flux", "id"]).cast(table.read(["flux", "id"]).schema))
    )
    assert (table.rows, table.name) == (600, "survey.sample")
    assert table.schema.names == expected.column_names
    versions = table.versions()
    assert [each.rows for each in versions] == [200, 400, 600]
    assert versions[-1].version == table.version
    assert versions[0].created <= versions[1].created <= datetime.datetime.now(datetime.UTC)
    for each in versions:
        older = Table.open(
            "survey.sample",
            each.version,
            warehouse=lake.warehouse,
            iceberg=spec.iceberg.model_dump(exclude_none=True),
        )
        of_snapshot = lake.table(spec).scan(snapshot_id=each.version).to_arrow().sort_by("id")
        assert older.rows == of_snapshot.num_rows
        assert older.read().sort_by("id").cast(of_snapshot.schema).equals(of_snapshot)
    lake.sink(spec, rows(600))
    assert table.rows == table.read().num_rows == 600, "what was opened stays as it was"
    with pytest.raises(VersionNotFoundError, match="has no snapshot 17"):
        Table.open("survey.sample", 17, warehouse=lake.warehouse, iceberg=spec.iceberg)
    with pytest.raises(SpecError, match=r"no table 'survey\.other'; there are survey\.sample"):
        Table.open("survey.other", warehouse=lake.warehouse, iceberg=spec.iceberg)
    shown = table._repr_html_()
    assert "3 versions" in shown
    assert "<td>flux</td>" in shown
    assert repr(table) == f"Table('survey.sample', version={table.version}, rows=600)"


def test_a_folder_of_files_is_what_pyarrow_reads(tmp_path: Path) -> None:
    folder = tmp_path / "lake"
    for band in ("g", "r"):
        for at in range(3):
            place = folder / f"band={band}" / f"part-{at}.parquet"
            place.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(rows(1000 * at + (band == "r") * 500).drop_columns(["band"]), place)
    (folder / "_SUCCESS").write_text("")
    (folder / "_temporary").mkdir()
    pq.write_table(rows(0), folder / "_temporary" / "half.parquet")
    table = Table.open(folder)
    expected = ds.dataset(folder, format="parquet", partitioning="hive").to_table()
    assert table.read().sort_by("id").equals(expected.select(table.schema.names).sort_by("id"))
    assert table.rows == 1200 == sum(part.num_rows for part in table.tables(["band"]))
    assert set(table.read(["band"])["band"].to_pylist()) == {"g", "r"}
    assert (table.version, table.versions()) == (None, [])
    assert table.totals.files == 6
    assert repr(Table.open(str(folder))) == f"Table({str(folder)!r}, rows=1200)"
    assert "<td>flux</td>" in table._repr_html_()


def test_a_folder_in_a_store_is_read(storage: Storage) -> None:
    for band in ("g", "r"):
        sink = pa.BufferOutputStream()
        pq.write_table(rows(0 if band == "g" else 200).drop_columns(["band"]), sink)
        storage.write(f"band={band}/a.parquet", sink.getvalue().to_pybytes())
    table = Table.open(storage.uri())
    assert table.rows == 400
    assert table.read(["id"])["id"].to_pylist() == list(range(400))
    assert table.read(["band"])["band"].to_pylist() == ["g"] * 200 + ["r"] * 200


def test_files_that_are_older_than_a_column_have_nulls(tmp_path: Path) -> None:
    pq.write_table(rows(0).drop_columns(["flux"]), tmp_path / "a.parquet")
    pq.write_table(rows(200), tmp_path / "b.parquet")
    table = Table.open(tmp_path)
    assert table.rows == 400
    assert table.read(["flux"])["flux"].slice(0, 200).null_count == 200


def test_what_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no Parquet file"):
        Table.open(tmp_path / "nothing")
    with pytest.raises(SpecError, match="neither namespace"):
        Table.open("sample")
    (tmp_path / "delta" / "_delta_log").mkdir(parents=True)
    (tmp_path / "delta" / "_delta_log" / "00000000000000000000.json").write_text("{}")
    pq.write_table(rows(0), tmp_path / "delta" / "a.parquet")
    with pytest.raises(CorruptFileError, match="nothing up to version 0 says what the table is"):
        Table.open(tmp_path / "delta")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "a.parquet").write_bytes(b"no parquet at all")
    with pytest.raises(CorruptFileError, match="bad"):
        Table.open(tmp_path / "bad")
    (tmp_path / "good").mkdir()
    pq.write_table(rows(0), tmp_path / "good" / "a.parquet")
    with pytest.raises(VersionNotFoundError, match="has no versions"):
        Table.open(tmp_path / "good", 3)
    with pytest.raises(SchemaMismatchError, match="no column 'nope'; its columns are id, flux"):
        Table.open(tmp_path / "good").read(["nope"])
