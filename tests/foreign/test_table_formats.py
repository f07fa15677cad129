"""Globs over files that belong to a table format: no door takes them for plain files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.errors import InputError

from tests.foreign.doors import GOOD, Door, cube, ingest
from tests.steps.sinks import Lake

LOGS = {
    "_delta_log/00000000000000000000.json": "Delta Lake",
    ".hoodie/hoodie.properties": "Hudi",
    "_spark_metadata/0": "Spark's streaming",
    "metadata/v1.metadata.json": "Iceberg",
    "metadata/00001-ab.gz.metadata.json": "Iceberg",
    "_versions/00000001.json": "a catalog or a cube of hipslake",
}


def sink(folder: Path, root: Path) -> pa.Table:
    """By the steps of a sink, of which the first freezes the files."""
    root.mkdir()
    lake = Lake(root)
    lake.write_spec(f"source: {{files: {{uri: '{folder}/*.parquet', format: parquet}}}}\n")
    lake.run_files()
    return lake.table.scan().to_arrow()


def table(root: Path, log: str, inside: str) -> Path:
    """A table of a format, whose files lie in a folder of it; not all of them are live."""
    (root / inside).mkdir(parents=True)
    for name in ("a", "b"):
        pq.write_table(GOOD, root / inside / f"{name}.parquet")
    (root / log).parent.mkdir(exist_ok=True)
    (root / log).write_text("{}")
    return root


@pytest.mark.parametrize("inside", ["", "data", "p=1/q=2"])
@pytest.mark.parametrize("log", LOGS)
@pytest.mark.parametrize("door", [ingest, sink, cube])
def test_files_of_a_table_are_refused_by_its_name(tmp_path: Path, door: Door, log: str, inside: str) -> None:
    root = table(tmp_path / "table", log, inside)
    with pytest.raises(InputError, match=LOGS[log]) as told:
        door(root / inside, tmp_path / "lake")
    assert str(root) in str(told.value)


@pytest.mark.parametrize("door", [ingest, sink, cube])
def test_a_folder_that_is_called_like_one_of_a_table_is_no_table(tmp_path: Path, door: Door) -> None:
    folder = tmp_path / "metadata"
    folder.mkdir()
    pq.write_table(GOOD, folder / "a.parquet")
    (tmp_path / "notes.json").write_text("{}")
    assert door(folder, tmp_path / "lake").num_rows == 10
