"""Cubes of Iceberg tables: a snapshot is pinned, and what it lacks of the one before is taken out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hipslake.api.cube import Cube
from hipslake.cube.store.cube_files import PATH, read_files
from hipslake.cube.store.dataset_sources import opened, source_now
from hipslake.cube.store.layout import cube_uri
from hipslake.cube.store.operations import align_to_spec
from hipslake.errors import SourceNotFoundError, VersionNotFoundError
from hipslake.specs.cube_spec import CubeSpec
from hipslake.specs.table_spec import TableSpec

from tests.tables.sinking import Lake

ROWS = pa.table({"id": range(40), "p": [n % 4 for n in range(40)], "mag": [n * 0.5 for n in range(40)]})


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def table_spec(lake: Lake) -> TableSpec:
    return lake.spec(partition=["p"], mode="upsert", key="id")


def cube_spec(lake: Lake, **table: Any) -> CubeSpec:
    iceberg = table_spec(lake).iceberg.model_dump()
    return CubeSpec.model_validate(
        {
            "name": "c",
            "dimension_columns": ["id"],
            "partition_columns": ["p"],
            "datasets": {"seed": {"table": "survey.sample", "iceberg": iceberg, **table}},
        }
    )


def files(lake: Lake) -> dict[int, str]:
    cube = Cube.open(cube_uri(lake.warehouse, "c"))
    table = read_files(cube.storage, cube.metadata.dataset("seed"))
    return dict(zip(table["p"].to_pylist(), table[PATH].to_pylist(), strict=True))


def rows(lake: Lake) -> pa.Table:
    return Cube.open(cube_uri(lake.warehouse, "c")).query().select(ROWS.column_names).sort_by("id")


def test_a_cube_follows_the_snapshots_of_a_table(lake: Lake) -> None:
    table = table_spec(lake)
    lake.sink(table, ROWS)
    align_to_spec(cube_spec(lake), lake.warehouse)
    assert rows(lake).equals(lake.rows(table).select(ROWS.column_names))
    before = files(lake)
    lake.sink(table, pa.table({"id": [2, 100], "p": [2, 2], "mag": [-1.0, -2.0]}))
    found = align_to_spec(cube_spec(lake), lake.warehouse)
    assert found.version == 2
    assert rows(lake).equals(lake.rows(table).select(ROWS.column_names))
    assert {p for p, path in files(lake).items() if before[p] != path} == {2}
    source = found.dataset("seed").source
    current = lake.table(table).current_snapshot()
    assert source is not None
    assert current is not None
    assert source.snapshot == current.snapshot_id
    assert align_to_spec(cube_spec(lake), lake.warehouse).version == 2


def test_a_pinned_snapshot_is_read_whatever_came_later(lake: Lake) -> None:
    table = table_spec(lake)
    lake.sink(table, ROWS)
    first = lake.table(table).current_snapshot()
    assert first is not None
    dataset = cube_spec(lake).datasets["seed"]
    pinned = source_now(dataset, lake.warehouse).source
    lake.sink(table, pa.table({"id": [2], "p": [2], "mag": [-1.0], "late": ["x"]}))
    source = opened(dataset, pinned, lake.warehouse)
    assert source.schema.names == ROWS.column_names
    read = pa.concat_tables(
        [each for part in range(source.parts) for each in source.read(part, ["id", "mag"])]
    )
    assert read.sort_by("id").equals(ROWS.select(["id", "mag"]).cast(read.schema))
    align_to_spec(cube_spec(lake, snapshot=first.snapshot_id), lake.warehouse)
    assert rows(lake).equals(ROWS.cast(rows(lake).schema))


def test_what_is_not_there_is_told(lake: Lake) -> None:
    with pytest.raises(SourceNotFoundError, match=r"no table 'survey\.sample'"):
        align_to_spec(cube_spec(lake), lake.warehouse)
    lake.sink(table_spec(lake), ROWS)
    with pytest.raises(VersionNotFoundError, match="no snapshot 7; it may have expired"):
        align_to_spec(cube_spec(lake, snapshot=7), lake.warehouse)
    dataset = cube_spec(lake).datasets["seed"]
    gone = source_now(dataset, lake.warehouse).source.model_copy(update={"snapshot": 7})
    with pytest.raises(VersionNotFoundError):
        opened(dataset, gone, lake.warehouse)
