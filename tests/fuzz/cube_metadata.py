"""Metadata of cubes, spoilt."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from hipslake.api.cube import Cube
from hipslake.catalog.schema import schema_text
from hipslake.cube.store.metadata import CubeMetadata
from hipslake.storage.folder import Storage

from tests.catalog.little import WRITE
from tests.fuzz.documents import json_of
from tests.fuzz.target import Case, Target


@cache
def _cube() -> dict[str, Any]:
    schema = pa.schema([("pixel", pa.int64()), ("id", pa.int64()), ("mag", pa.float64())])
    columns = [{"name": field.name, "type": str(field.type)} for field in schema]
    dataset = {
        "name": "seed",
        "rows": 3,
        "bytes": 9,
        "files": 1,
        "partition_columns": ["pixel"],
        "columns": columns,
        "arrow_schema": schema_text(schema),
        "table": {"path": f"{WRITE}/_sidecars/seed.parquet", "sha256": "0" * 64},
        "writes": [WRITE],
        "indices": [{"column": "id", "parts": [f"{WRITE}/indices/seed/id/0.parquet"]}],
        "source": {"kind": "parquet", "uri": "x/*", "content": "c", "taken": "t"},
    }
    roles = {"dimension_columns": ["id"], "partition_columns": ["pixel"], "seed": "seed"}
    told = {"cube": "sky", "version": 1, "parent": None, "write_id": WRITE, "created": "2026-11-21T03:30:00Z"}
    told |= {
        "library_version": "0.1.0",
        "operation": "build",
        "roles": roles,
        "file_rows": 10,
        "datasets": [dataset],
        "mark": "",
        "alignment": None,
        "joined": None,
    }
    return json.loads(CubeMetadata.model_validate(told).to_json())


def _read_cube(case: Case, folder: Path) -> None:
    storage = Storage.at(folder)
    storage.write("_versions/00000001.json", case.data)
    cube = Cube.open(str(folder))
    for dataset in cube.metadata.tables:
        dataset.to_arrow()
    cube.metadata.dataset(cube.metadata.roles.seed)


TARGET = Target("cube metadata", json_of(_cube), _read_cube, share=3)
