"""Cubes through Spark: the same rows, and the same files, as without it."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.api.cube import Cube
from hipslake.cube.store.cube_files import PATH, read_files
from hipslake.cube.store.operations import append, build
from hipslake.cube.store.row_sources import ParquetRows
from hipslake.engine.this_process import ThisProcess
from hipslake.errors import CubeRowsError, VerificationError
from hipslake.predicates.conditions import C
from hipslake.specs.cube_spec import CubeColumns
from hipslake.steps.cube.request import CubeQueryRequest
from hipslake.storage.folder import Storage

from tests.steps.cubes import cube_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROLES = CubeColumns(dimension_columns=("x",), partition_columns=("p",), index_columns=("i",))
ROWS = 5000


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A seed and an enrichment, in row groups that are not sorted."""
    folder = tmp_path_factory.mktemp("rows")
    random = np.random.default_rng(7)
    x = random.permutation(ROWS)
    seed = pa.table({"p": x % 13, "x": x, "i": x % 100, "s": [f"n{n}" for n in x]})
    more = pa.table({"p": x % 13, "x": x, "w": random.random(ROWS)}).slice(0, ROWS // 2)
    pq.write_table(seed, folder / "seed.parquet", row_group_size=700)
    pq.write_table(more, folder / "more.parquet", row_group_size=900)
    return folder


def sums(cube: Cube) -> list[str]:
    found: list[str] = read_files(cube.storage, cube.metadata.dataset("seed"))["__sha256"].to_pylist()
    return sorted(found)


def test_spark_builds_the_cube_that_this_process_builds(
    spark: SparkSession, files: Path, tmp_path: Path
) -> None:
    from hipslake.spark.cube_frames import query_frame
    from hipslake.spark.engine import SparkEngine

    data = {name: ParquetRows.at(str(files / f"{name}.parquet")) for name in ("seed", "more")}
    late = pa.table({"p": [1, 2], "x": [1, 15], "i": [0, 0], "s": ["new", "new"]})
    cubes = []
    for name, engine in (("here", None), ("spark", SparkEngine(spark))):
        place = Storage.at(tmp_path / name)
        build(place, "c", ROLES, data, engine=engine)
        append(place, {"seed": late}, engine=engine)
        cubes.append(Cube.open(place.uri()))
    here, there = cubes
    query = {"columns": ["w", "s"], "conditions": C("i") < 50}
    expected = here.query(**query)
    assert expected.num_rows == 2500 + 2 - 2  # of the two that came late, both replaced a cell
    assert there.query(**query).equals(expected)
    assert sums(here) == sums(there)
    frame = query_frame(spark, there, **query)
    assert frame.toArrow().select(expected.column_names).sort_by("x").cast(expected.schema).equals(expected)


def test_a_group_is_in_one_partition_of_the_frame_and_groups_are_in_order(
    spark: SparkSession, files: Path, tmp_path: Path
) -> None:
    from hipslake.spark.cube_frames import query_frame
    from pyspark.sql import functions as F  # noqa: N812

    place = Storage.at(tmp_path / "cube")
    build(place, "c", ROLES, {"seed": ParquetRows.at(str(files / "seed.parquet"))})
    cube = Cube.open(place.uri())
    frame = query_frame(spark, cube, columns=["s"], conditions=C("i") < 5, partition_by="i")
    rows = frame.withColumn("task", F.spark_partition_id()).toArrow()
    tasks = rows.group_by("i").aggregate([("task", "count_distinct")])
    assert (
        rows.drop(["task"])
        .cast(cube.query(["s"], C("i") < 5, "i").schema)
        .equals(cube.query(["s"], C("i") < 5, "i"))
    )
    assert tasks["task_count_distinct"].to_pylist() == [1] * 5
    assert query_frame(spark, cube, conditions=C("i") < 0).count() == 0


def test_a_cell_that_comes_twice_is_told_by_spark_too(spark: SparkSession, tmp_path: Path) -> None:
    from hipslake.spark.engine import SparkEngine

    place = Storage.at(tmp_path / "cube")
    twice = pa.table({"p": [0, 0], "x": [1, 1], "i": [1, 2]})
    with pytest.raises(CubeRowsError, match="such as p=0, x=1 with 2 rows"):
        build(place, "c", ROLES, {"seed": twice}, engine=SparkEngine(spark))
    assert place.list(recursive=True) == []


@pytest.mark.parametrize("partitions", [200, pytest.param(1000, marks=pytest.mark.slow)])
def test_an_indexed_condition_opens_the_files_that_match_it_of_very_many_partitions(
    spark: SparkSession, tmp_path: Path, partitions: int
) -> None:
    """Only the data files that match are brought to where the cube is queried; all of these are needed."""
    from hipslake.spark.cube_frames import query_frame

    x = np.arange(4 * partitions)
    wanted = 2 * partitions + 77
    origin = Storage.at(f"memory://{uuid.uuid4().hex}")
    seed = pa.table({"p": x % partitions, "x": x, "i": x // 2})
    more = pa.table({"p": x % partitions, "x": x, "w": x / 2})
    build(origin, "c", ROLES, {"seed": seed, "more": more}, file_rows=2)
    conditions = (C("p") == 77) & (C("i") == wanted // 2)
    plan = Cube.open(origin.uri()).plan(columns=["w"], conditions=conditions)
    needed = [label for read in plan.reads() for labels in read.labels.values() for label in labels]
    # The row is in the second file of p = 77; of the other dataset, which has no index, both may hold it.
    assert len(needed) == plan.files == 3
    files = [entry.path for entry in origin.list(recursive=True)]
    data = {path for path in files if "/p=" in path}
    assert len(data) == 4 * partitions
    place = Storage.at(tmp_path / "cube")
    for path in {*files} - data | {*needed}:
        place.write(path, origin.read(path), durable=False)
    fsspec.filesystem("memory").rm(origin.uri(), recursive=True)
    cube = Cube.open(place.uri())

    def here() -> pa.Table:
        return cube.query(columns=["w"], conditions=conditions)

    def in_spark() -> pa.Table:
        return query_frame(spark, cube, columns=["w"], conditions=conditions).toArrow()

    for ask in (here, in_spark):
        assert ask().to_pylist() == [{"p": 77, "w": wanted / 2, "x": wanted}]
    for path in needed:
        whole = place.read(path)
        place.delete(path)
        with pytest.raises(VerificationError, match=path.rpartition("/")[2]):
            here()
        place.write(path, whole, durable=False)


def test_spark_writes_the_files_of_a_query_that_this_process_writes(
    spark: SparkSession, tmp_path: Path
) -> None:
    from hipslake.spark.engine import SparkEngine
    from hipslake.steps.cube.query_cube import run

    cube_in(tmp_path)
    found = []
    for name, engine in (("here", ThisProcess()), ("spark", SparkEngine(spark))):
        asked = {"conditions": "ok == True", "partition_by": ("i",), "output": name, "task_bytes": 1000}
        place = {"run_uri": f"{tmp_path}/_runs/{name}", "warehouse": str(tmp_path), "cube": "sky"}
        report = run(CubeQueryRequest.model_validate(asked | place), engine)
        folder = tmp_path / "exports" / name
        files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.parquet")}
        found.append((files, report.rows_out, report.files_opened, report.groups))
    assert found[0] == found[1]
    assert found[0][1:] == (14, 6 * 6 * 2, 6), "every group has files in every partition, of both datasets"


def test_the_table_of_files_names_what_lies_there(files: Path, tmp_path: Path) -> None:
    place = Storage.at(tmp_path / "cube")
    metadata = build(place, "c", ROLES, {"seed": ParquetRows.at(str(files / "seed.parquet"))}, file_rows=100)
    table = read_files(place, metadata.dataset("seed"))
    for path, digest in zip(table[PATH].to_pylist(), table["__sha256"].to_pylist(), strict=True):
        assert place.sha256(path) == digest


def test_a_frame_is_computed_once_and_offered(spark: SparkSession, tmp_path: Path) -> None:
    from hipslake.spark.engine import SparkEngine
    from hipslake.spark.frame_rows import frame_rows
    from pyspark.sql import functions as F  # noqa: N812

    place, scratch = Storage.at(tmp_path / "cube"), Storage.at(tmp_path / "scratch")
    frame = spark.range(1000, numPartitions=3).select(
        (F.col("id") % 7).alias("p"), F.col("id").alias("x"), F.rand().alias("i"), F.uuid().alias("s")
    )
    with frame_rows(frame.where("x != 500"), scratch) as rows:
        kept = pa.concat_tables(
            [each for part in range(rows.parts) for each in rows.read(part, ["x", "s", "i"])]
        )
        build(place, "c", ROLES, {"seed": rows}, engine=SparkEngine(spark))
    found = Cube.open(place.uri()).query()
    assert found.num_rows == 999
    assert found.select(["x", "s", "i"]).equals(kept.sort_by("x").cast(found.select(["x", "s", "i"]).schema))
    assert scratch.list() == []
