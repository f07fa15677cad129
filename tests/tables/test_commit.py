"""Commits beside other writers: what they added survives, what they took away is a conflict."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hipslake.engine.this_process import ThisProcess
from hipslake.errors import CommitStateUnknownError, ConflictError, SchemaMismatchError, SpecError
from hipslake.specs.table_spec import TableSpec
from hipslake.tables.iceberg import iceberg_table, table_shape
from hipslake.tables.iceberg.catalogs import open_catalog, open_table
from hipslake.tables.iceberg.commit import TableChange, commit, snapshot_of
from hipslake.tables.iceberg.commit_attempts import ATTEMPTS
from hipslake.tables.iceberg.data_files import IcebergFile, live_files
from hipslake.tables.iceberg.file_writer import FileWriter, WrittenFile
from hipslake.tables.iceberg.write_folders import claim, finish, heartbeat, sweep_writes, writes_of
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitStateUnknownException
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import DoubleType, LongType, StringType

from tests.system.sinks import orphans
from tests.tables.sinking import Lake


def rows(first: int, count: int, band: str = "g") -> pa.Table:
    return pa.table({"id": pa.array(range(first, first + count), pa.int64()), "band": [band] * count})


def compacted(table: Table) -> tuple[list[WrittenFile], str]:
    """One file per band with all rows of the table."""
    write = claim(table)
    writer = FileWriter.of(table, (), write)
    found = table.scan().to_arrow()
    bands = sorted(set(found["band"].to_pylist()))
    files = []
    for band in bands:
        mine = found.filter(pa.compute.equal(found["band"], band)).sort_by("id")
        files.append(writer.write(mine, (band,) if table.spec().fields else (), band))
    return files, write


@pytest.fixture(params=[[], ["band"]], ids=["unpartitioned", "partitioned"])
def spec(lake: Lake, request: pytest.FixtureRequest) -> TableSpec:
    spec = lake.spec(partition=request.param)
    for first, band in ((0, "g"), (10, "r"), (20, "g")):
        lake.sink(spec, rows(first, 10, band))
    return spec


def test_who_comes_second_to_make_a_table_takes_the_first_and_leaves_nothing(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.sink(lake.spec(), rows(0, 5))
    found, asked = table_shape.find_table, 0

    def not_there_yet(*given: Any) -> Table | None:
        nonlocal asked
        asked += 1  # first by the sink, then by who would make the table
        return None if asked <= 2 else found(*given)

    monkeypatch.setattr(table_shape, "find_table", not_there_yet)
    monkeypatch.setattr(iceberg_table, "find_table", not_there_yet)
    lake.sink(lake.spec(), rows(5, 5))
    monkeypatch.undo()
    assert lake.rows(lake.spec())["id"].to_pylist() == list(range(10))
    assert orphans(lake.table(lake.spec())) == []


def test_files_are_replaced_beside_an_append_that_came_first(lake: Lake, spec: TableSpec) -> None:
    catalog, table = open_catalog(spec.iceberg, lake.warehouse), lake.table(spec)
    before = live_files(table)
    files, write = compacted(table)
    lake.sink(spec, rows(30, 5, "i"))
    done = commit(catalog, spec.table, TableChange(Operation.REPLACE, write, files, before))
    finish(done.table, write, [file.path for file in files])
    assert lake.rows(spec)["id"].to_pylist() == list(range(35))
    assert len(lake.live(spec)) == len(files) + 1
    summary = lake.table(spec).current_snapshot().summary  # type: ignore[union-attr]
    assert summary is not None
    assert summary.operation.value == "replace"
    assert (summary["total-records"], summary["deleted-data-files"]) == ("35", "3")
    assert orphans(lake.table(spec)) == []


def test_an_append_in_the_moment_of_the_commit_survives(lake: Lake, spec: TableSpec) -> None:
    catalog, table = open_catalog(spec.iceberg, lake.warehouse), lake.table(spec)
    files, write = compacted(table)
    asked = []

    def append_first(_: Table) -> None:
        asked.append(len(asked))
        if len(asked) == 1:
            lake.sink(spec, rows(30, 5, "i"))

    change = TableChange(Operation.REPLACE, write, files, live_files(table))
    done = commit(catalog, spec.table, change, append_first)
    finish(done.table, write, [file.path for file in files], attempts=done.attempts)
    assert done.attempts == 2
    assert lake.rows(spec)["id"].to_pylist() == list(range(35))
    assert orphans(lake.table(spec)) == []


def test_who_replaces_files_that_another_has_replaced_is_told(lake: Lake, spec: TableSpec) -> None:
    catalog, table = open_catalog(spec.iceberg, lake.warehouse), lake.table(spec)
    before = live_files(table)
    (first, first_write), (second, second_write) = compacted(table), compacted(table)
    commit(catalog, spec.table, TableChange(Operation.REPLACE, first_write, first, before))
    with pytest.raises(ConflictError, match=r"3 files that were read are gone, such as .*; run it again"):
        commit(catalog, spec.table, TableChange(Operation.REPLACE, second_write, second, before))
    assert lake.rows(spec)["id"].to_pylist() == list(range(30))


class LosesAnswers(SqlCatalog):
    """A catalog whose answers to commits get lost; `lands` says whether the commits stand."""

    lands = True

    def commit_table(self, *given: Any) -> Any:
        if self.lands:
            super().commit_table(*given)
        raise CommitStateUnknownException("the connection was closed")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("lands", [True, False])
def test_a_commit_whose_answer_is_lost_is_looked_for(lake: Lake, spec: TableSpec, lands: bool) -> None:
    plain, table = open_catalog(spec.iceberg, lake.warehouse), lake.table(spec)
    losing = LosesAnswers(plain.name, **plain.properties)
    losing.lands = lands
    files, write = compacted(table)
    change = TableChange(Operation.REPLACE, write, files, live_files(table))
    if lands:
        done = commit(losing, spec.table, change)
        assert done.table.snapshot_by_id(done.snapshot_id) == snapshot_of(lake.table(spec), write)
        assert (
            commit(plain, spec.table, change).snapshot_id == done.snapshot_id
        )  # also when it is asked again
    else:
        with pytest.raises(CommitStateUnknownError, match="run it again: it finds out"):
            commit(losing, spec.table, change)
        assert commit(plain, spec.table, change).snapshot_id
    assert lake.rows(spec)["id"].to_pylist() == list(range(30))
    assert len(lake.live(spec)) == len(files)


class Interrupted(ThisProcess):
    """An engine in whose first exchange, or while rows are written as they come, something else happens."""

    def __init__(self, act: Any) -> None:
        super().__init__(2)
        self.act = act
        self._lock = threading.Lock()

    def exchange(self, **given: Any) -> pa.Table:
        found = super().exchange(**given)
        self.check_running()
        return found

    def check_running(self) -> None:
        with self._lock:
            act, self.act = self.act, None
        if act is not None:
            act()


def test_an_upsert_that_was_overtaken_replaces_the_rows_that_came_meanwhile(lake: Lake) -> None:
    upsert = lake.spec(mode="upsert", key="id", partition=["band"])
    append = lake.spec(name="other", partition=["band"])
    lake.sink(upsert, rows(0, 10, "g"))
    other = Lake(lake.root / "other", Interrupted(lambda: lake.sink(append, rows(5, 10, "r"))))
    other.warehouse = lake.warehouse
    done = other.sink(upsert, rows(8, 4, "i"))
    assert done.rows_updated == 6  # two that stood there, and four that came meanwhile
    found = lake.rows(upsert)
    assert found["id"].to_pylist() == [0, 1, 2, 3, 4, 5, 5, 6, 6, 7, 7, 8, 9, 10, 11, 12, 13, 14]
    assert found.filter(pa.compute.equal(found["band"], "i"))["id"].to_pylist() == [8, 9, 10, 11]
    assert orphans(lake.table(upsert)) == []  # of the try that was overtaken


def test_a_table_that_is_partitioned_anew_while_it_is_written_gets_no_values_of_the_old_fields(
    lake: Lake,
) -> None:
    spec = lake.spec(partition=["bucket[16](id)"])
    lake.sink(spec, rows(0, 10))

    def divide_anew() -> None:
        with lake.table(spec).update_spec() as update:
            update.remove_field("id_bucket_16")
            update.add_field("id", BucketTransform(4), "id_bucket_4")

    other = Lake(lake.root / "other", Interrupted(divide_anew))
    other.warehouse = lake.warehouse
    with pytest.raises(SchemaMismatchError, match=r"is partitioned by bucket\[4\]\(id\), the spec says"):
        other.sink(spec, rows(10, 10))
    assert lake.rows(spec)["id"].to_pylist() == list(range(10))


@pytest.mark.parametrize("change", ["drops", "drops and adds", "requires"])
def test_a_column_that_another_drops_while_rows_are_written_has_their_values(lake: Lake, change: str) -> None:
    spec = lake.spec(partition=["bucket[4](id)"])
    lake.sink(spec, rows(0, 10))

    def alter() -> None:
        if change == "requires":
            with lake.table(spec).update_schema(allow_incompatible_changes=True) as update:
                update._set_column_requirement("band", required=True)
            return
        with lake.table(spec).update_schema() as update:
            update.delete_column("band")
        if change == "drops and adds":
            with lake.table(spec).update_schema() as update:
                update.add_column("band", StringType())

    other = Lake(lake.root / "other", Interrupted(alter))
    other.warehouse = lake.warehouse
    done = other.sink(spec, rows(10, 10, "r"))
    found = lake.rows(spec)
    old = ["g" if change == "requires" else None] * 10
    assert (done.created, done.rows_out) == (False, 10)
    assert done.columns_added == (("band",) if change == "drops" else ())
    assert (found["id"].to_pylist(), found["band"].to_pylist()) == (list(range(20)), [*old, *["r"] * 10])
    assert orphans(lake.table(spec)) == []


def test_a_column_that_another_renames_or_widens_while_rows_are_written_keeps_their_values(
    lake: Lake,
) -> None:
    spec = lake.spec(partition=["bucket[4](id)"])
    small = [pa.array(range(10), pa.int32()), pa.array([1.5] * 10, pa.float32())]
    lake.sink(spec, rows(0, 10).append_column("n", small[0]).append_column("x", small[1]))

    def alter() -> None:
        with lake.table(spec).update_schema() as update:
            update.rename_column("band", "filter")
            update.update_column("n", LongType())
            update.update_column("x", DoubleType())

    other = Lake(lake.root / "other", Interrupted(alter))
    other.warehouse = lake.warehouse
    other.sink(spec, rows(10, 10, "r").append_column("n", small[0]).append_column("x", small[1]))
    found = lake.rows(spec)
    assert found["filter"].to_pylist() == ["g"] * 10 + ["r"] * 10
    assert found["n"].to_pylist() == [*range(10), *range(10)]
    assert (found["n"].type, found["x"].to_pylist()) == (pa.int64(), [1.5] * 20)
    upsert = lake.spec(mode="upsert", key=["n", "filter"], partition=["bucket[4](id)"])  # by old bounds
    more = pa.table({"id": [99], "filter": ["r"], "n": pa.array([3], pa.int64()), "x": [2.5]})
    assert lake.sink(upsert, more).rows_updated == 1
    assert lake.rows(spec).num_rows == 20


def test_an_upsert_is_not_bothered_by_files_that_hold_none_of_its_keys(lake: Lake) -> None:
    upsert = lake.spec(mode="upsert", key="id")
    append = lake.spec(name="other")
    lake.sink(upsert, rows(0, 10))
    other = Lake(lake.root / "other", Interrupted(lambda: lake.sink(append, rows(500, 10))))
    other.warehouse = lake.warehouse
    done = other.sink(upsert, rows(8, 4))
    assert (done.rows_updated, done.files_read) == (2, 1)
    assert len(lake.table(upsert).snapshots()) == 3


def test_two_sinks_of_one_interval_at_once_land_once(lake: Lake) -> None:
    from tests.tables.sinking import utc

    spec = lake.spec(partition=["bucket[2](id)"])
    uri, start = lake.land(rows(0, 10)), utc("2026-01-01T00:00:00")
    other = Lake(lake.root / "other", Interrupted(lambda: lake.sink(spec, uri=uri, start=start)))
    other.warehouse = lake.warehouse
    assert other.sink(spec, uri=uri, start=start).skipped
    assert lake.rows(spec)["id"].to_pylist() == list(range(10))


def test_a_sweep_leaves_living_writes_alone(lake: Lake, spec: TableSpec) -> None:
    catalog, table = open_catalog(spec.iceberg, lake.warehouse), lake.table(spec)
    files, write = compacted(table)
    with heartbeat(table, write) as beating:
        assert sweep_writes(catalog, spec.table, 60.0) == []
        beating.confirm()
    dead = claim(table)
    FileWriter.of(table, (), dead).write(rows(0, 3), ("g",) if table.spec().fields else (), "left")
    with heartbeat(table, dead) as beating:
        assert any(
            path.endswith("left.parquet") for path in sweep_writes(catalog, spec.table, 0.0, keep=[write])
        )
        with pytest.raises(Exception, match="this write was swept, because its run looked dead"):
            beating.confirm()
    assert all(Path(file.path).exists() for file in files)
    assert writes_of(table).is_local


def test_an_attempt_that_was_half_put_up_is_swept(lake: Lake, spec: TableSpec) -> None:
    catalog, table = open_catalog(spec.iceberg, lake.warehouse), lake.table(spec)
    folder = Path(writes_of(table).uri(ATTEMPTS))
    folder.mkdir(parents=True, exist_ok=True)
    half = folder / ".20261124T1403-b5f88d260f90.2a855b13.json.4396c6f7.tmp"
    half.write_text("{")
    sweep_writes(catalog, spec.table, 60.0)
    assert half.exists()  # its writer may be about to write the rest
    sweep_writes(catalog, spec.table, 0.0)
    assert not half.exists()


def test_the_bounds_of_files_are_told(lake: Lake, spec: TableSpec) -> None:
    table = lake.table(spec)
    files = [IcebergFile(file, table) for file in live_files(table)]
    ids, bands = ([file.bounds(name) for file in files] for name in ("id", "band"))
    assert sorted(pair for pair in ids if pair) == [(0, 9), (10, 19), (20, 29)]
    assert sorted(pair[0] for pair in bands if pair) == ["g", "g", "r"]
    assert [file.rows for file in files] == [10, 10, 10]
    assert [file.null_count("id") for file in files] == [0, 0, 0]


def test_an_unknown_table_is_told_with_those_that_there_are(lake: Lake, spec: TableSpec) -> None:
    catalog = open_catalog(spec.iceberg, lake.warehouse)
    with pytest.raises(SpecError, match=r"has no table 'survey\.nothing'; there are survey\.sample"):
        open_table(catalog, "survey.nothing")
    with pytest.raises(SpecError, match=r"has no table 'none\.x'; namespace 'none' holds no table"):
        open_table(catalog, "none.x")
