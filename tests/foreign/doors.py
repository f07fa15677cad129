"""The doors through which Parquet files of others come in, each opened on a folder of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hipslake import Catalog, Cube
from hipslake.cube.store.layout import cube_uri
from hipslake.cube.store.operations import align_to_spec
from hipslake.specs.cube_spec import CubeSpec
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record

from tests.steps.in_process import (
    check,
    commit,
    count,
    freeze,
    make_plan,
    start,
    write_leaves,
    write_spec,
)
from tests.tables.compaction import compacting, iceberg
from tests.tables.sinking import Lake

GOOD = pa.table(
    {"id": range(10), "ra": [float(n) for n in range(10)], "dec": [0.5] * 10, "p": [n % 2 for n in range(10)]}
)
"""What a file has in which nothing is odd."""

COLUMNS = ["id", "ra", "dec", "p"]


def land(root: Path, content: bytes, *, beside: pa.Table | None = GOOD) -> Path:
    """A folder with an odd file, and a plain one before it."""
    folder = root / "landing"
    folder.mkdir(parents=True)
    if beside is not None:
        pq.write_table(beside, folder / "a.parquet")
    (folder / "odd.parquet").write_bytes(content)
    return folder


def ingest(folder: Path, root: Path) -> pa.Table:
    """As a catalog."""
    root.mkdir(exist_ok=True)
    spec = write_spec(root / "stars.yaml", f"{folder}/*.parquet", threshold="8 rows")
    run = start(root / "warehouse", spec)
    for step in (freeze, count, make_plan, write_leaves, check, commit):
        step(run)
    return Catalog.open(f"{root}/warehouse/catalogs/stars").read()


def compact_folder(folder: Path, root: Path) -> pa.Table:
    """As a folder that is compacted."""
    given = {"folder": {"uri": str(folder), "output": str(root / "out")}}
    compacting.compact(compacting.request(root, full=True, **given))
    out = compacting.files_in(root / "out") or compacting.files_in(folder)  # of one file, nothing is done
    tables = [pq.ParquetFile(path).read() for path in out]
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="default")


def sink(folder: Path, root: Path) -> pa.Table:
    """As the source of a sink, sorted and partitioned."""
    lake = Lake(root)
    spec = lake.spec(partition=["p"], sort=["id"])
    lake.sink(spec, uri=f"{folder}/*.parquet")
    return lake.rows(spec)


def upsert(folder: Path, root: Path) -> pa.Table:
    """As the source of a sink that replaces rows by their key."""
    lake = Lake(root)
    spec = lake.spec(mode="upsert", key=["id"])
    lake.sink(spec, GOOD)
    lake.sink(spec, uri=f"{folder}/*.parquet")
    return lake.rows(spec)


def cube(folder: Path, root: Path) -> pa.Table:
    """As a dataset of a cube."""
    spec = {
        "name": "c",
        "dimension_columns": ["id"],
        "partition_columns": ["p"],
        "datasets": {"seed": {"parquet": f"{folder}/*.parquet"}},
    }
    align_to_spec(CubeSpec.model_validate(spec), str(root / "warehouse"))
    return Cube.open(cube_uri(str(root / "warehouse"), "c")).query()


def named_by_a_table(folder: Path, root: Path) -> Lake:
    """A table of another engine, of which the odd file is a data file."""
    lake = Lake(root)
    spec = lake.spec()
    lake.sink(spec, *(GOOD.set_column(0, "id", [range(first, first + 10)]) for first in (100, 200)))
    table = lake.table(spec)
    mapping = table.schema().name_mapping.model_dump_json()
    with table.transaction() as change:
        change.set_properties(**{"schema.name-mapping.default": mapping})
        with change.update_snapshot().fast_append() as append:
            for path in folder.glob("odd.parquet"):
                file = DataFile.from_args(
                    content=DataFileContent.DATA,
                    file_path=str(path),
                    file_format=FileFormat.PARQUET,
                    partition=Record(),
                    record_count=rows_in(path),
                    file_size_in_bytes=path.stat().st_size,
                )
                file.spec_id = 0
                append.append_data_file(file)
    return lake


def rows_in(path: Path) -> int:
    """How many rows a file has, if that can be told."""
    try:
        return pq.read_metadata(path).num_rows
    except (pa.ArrowException, OSError):
        return 10


def live_rows(lake: Lake) -> pa.Table:
    """The rows of the live files that were written here: what pyiceberg reads of others is its own matter."""
    written = [path for path in lake.live(lake.spec()) if path.name != "odd.parquet"]
    return pa.concat_tables((pq.read_table(path) for path in written), promote_options="default")


def compact_table(folder: Path, root: Path) -> pa.Table:
    """As data files of a table that is compacted."""
    lake = named_by_a_table(folder, root)
    compacting.compact(iceberg.request(lake, full=True))
    return live_rows(lake)


def cluster_table(folder: Path, root: Path) -> pa.Table:
    """As data files of a table that is clustered."""
    lake = named_by_a_table(folder, root)
    compacting.compact(iceberg.request(lake, full=True, mode="hilbert", columns=["ra"]))
    return live_rows(lake)


def replace_in_table(folder: Path, root: Path) -> pa.Table:
    """As data files of a table whose rows are replaced."""
    lake = named_by_a_table(folder, root)
    spec = lake.spec(name="other", mode="upsert", key=["id"])
    lake.sink(spec, GOOD)
    return live_rows(lake)


def cube_of_a_table(folder: Path, root: Path) -> pa.Table:
    """As data files of a table that a cube is built of."""
    lake = named_by_a_table(folder, root)
    dataset = {"table": "survey.sample", "iceberg": lake.spec().iceberg.model_dump()}
    spec = {
        "name": "c",
        "dimension_columns": ["id"],
        "partition_columns": ["p"],
        "datasets": {"seed": dataset},
    }
    align_to_spec(CubeSpec.model_validate(spec), lake.warehouse)
    return Cube.open(cube_uri(lake.warehouse, "c")).query()


Door = Callable[[Path, Path], pa.Table]

SOURCES: list[Door] = [ingest, compact_folder, sink, upsert, cube]
"""Doors to files that users name."""

TABLES: list[Door] = [compact_table, cluster_table, replace_in_table, cube_of_a_table]
"""Doors to files that a table names."""
