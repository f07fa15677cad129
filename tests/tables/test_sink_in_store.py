"""Tables in an object store, with their catalog in a database."""

from __future__ import annotations

import uuid
from pathlib import Path

import pyarrow as pa
import pytest
from hipslake.tables.iceberg.catalogs import open_catalog
from hipslake.tables.iceberg.file_writer import FileWriter
from hipslake.tables.iceberg.write_folders import claim, sweep_writes

from tests.tables.sinking import Lake


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_table_in_an_object_store_is_sunk_read_and_swept(tmp_path: Path, bucket: str, mode: str) -> None:
    lake = Lake(tmp_path)
    lake.warehouse = f"{bucket}/{uuid.uuid4().hex}"
    key = {"key": "id"} if mode == "upsert" else {}
    spec = lake.spec(partition=["bucket[3](id)"], mode=mode, **key)
    rows = pa.table({"id": list(range(50)), "value": [1.0] * 50})
    done = lake.sink(spec, rows)
    assert done.location.startswith("s3://")
    assert done.files_added == 3
    lake.sink(spec, pa.table({"id": list(range(40, 60)), "value": [2.0] * 20}))
    found = lake.rows(spec)
    assert found.num_rows == (60 if mode == "upsert" else 70)
    catalog = open_catalog(spec.iceberg, lake.warehouse)
    table = lake.table(spec)
    dead = claim(table)
    FileWriter.of(table, (), dead).write(rows, (1,), "left")
    assert sweep_writes(catalog, spec.table) == []  # it has beaten a moment ago
    assert sweep_writes(catalog, spec.table, 0.0, keep=[dead]) == []
    assert sweep_writes(catalog, spec.table, 0.0) == [f"data/{dead}/left.parquet"]
    assert lake.rows(spec).equals(found)
