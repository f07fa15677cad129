"""Deletes of rows of Delta tables, and change data: records that insert, update and delete rows by key."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest
from hipslake.api.table import Table
from hipslake.errors import ConflictError, InputError, SchemaMismatchError, SpecError, VersionNotFoundError
from hipslake.specs.table_spec import TableSpec
from hipslake.steps.registry import STEPS
from hipslake.steps.run import run_uri
from hipslake.steps.table_delete.request import DeleteTableRowsReport, DeleteTableRowsRequest
from hipslake.tables.delta import delta_commit
from hipslake.tables.opening import open_table
from pydantic import ValidationError

from tests.tables.delta.delta_lake import DeltaLake, plain_delta_rows, plain_log, rows, values
from tests.tables.delta.test_delta_interrupted import Killed
from tests.tables.sinking import utc
from tests.tables.test_change_data import CHANGES, records
from tests.tables.test_sink_modes import interval


def content(delta: DeltaLake, spec: TableSpec) -> list[tuple[int, str, int]]:
    found = plain_delta_rows(delta.location(spec))
    return sorted((row["id"], row["data"], row["v"]) for row in found)


@pytest.mark.parametrize("partition", [[], ["group"]])
@pytest.mark.parametrize("by_path", [False, True])
def test_rows_go_by_keys_and_by_filters(delta: DeltaLake, partition: list[str], by_path: bool) -> None:
    spec = delta.spec(partition=partition)
    delta.sink(spec, rows([*range(50)], 0, "g0"), **interval(1))
    delta.sink(spec, rows([*range(50, 100)], 1, "g/1 %"), **interval(2))
    location = delta.location(spec)
    opened = (
        Table.open(location)
        if by_path
        else Table.open(spec.table, warehouse=delta.warehouse, delta={"location": None})
    )
    assert opened.deletion is None
    table = opened.delete([3, 60, 777, 3], key="id", max_fraction=0.02)
    assert table.deletion is not None
    assert (table.version, table.deletion.rows, table.deletion.missing_keys) == (3, 2, 1)
    table = table.delete(filters="id >= 10 and id < 15 and value = 0", force=True)
    assert table.deletion is not None
    assert table.deletion.rows == 5
    stay = [each for each in range(100) if each not in (3, 60, *range(10, 15))]
    assert [each for each, _ in values(location)] == stay
    table = table.delete(filters="value = 1", force=True)  # a whole file
    assert table.deletion is not None
    stay = [each for each in stay if each < 50]
    assert [each for each, _ in values(location)] == stay
    assert table.delete([3], key="id").version == table.version == 5  # nothing is left to delete
    assert Table.open(location, version=2).rows == 100
    last = json.loads((location / "_delta_log" / f"{5:020d}.json").read_text().splitlines()[0])
    assert last["commitInfo"]["operation"] == "DELETE"
    lying = {str(path.relative_to(location)) for path in location.rglob("data/**/*.parquet")}
    assert {path.replace("%25", "%") for path in plain_log(location)} <= lying | set(plain_log(location))


def test_a_version_says_what_its_delete_took_also_behind_a_checkpoint(delta: DeltaLake) -> None:
    spec = delta.spec(properties={"delta.checkpointInterval": "2"})
    delta.sink(spec, rows([*range(10)], 0))
    location = delta.location(spec)
    Table.open(location).delete([3], key="id", force=True)
    assert (location / "_delta_log" / f"{2:020d}.checkpoint.parquet").is_file()
    opened = Table.open(location)
    assert opened.deletion is not None
    assert (opened.version, opened.deletion.rows) == (2, 1)
    assert opened.totals.created is not None
    assert abs((opened.totals.created - opened.versions()[-1].created).total_seconds()) < 1
    assert opened.delete(filters="id < 2", force=True).deletion is not None
    assert [each for each, _ in values(location)] == [2, *range(4, 10)]


def test_a_night_whose_rows_were_deleted_is_replaced(delta: DeltaLake) -> None:
    spec = delta.spec()
    delta.sink(spec, rows([1, 2, 3], 0), **interval(1))
    delta.sink(spec, rows([2, 3, 4], 1), **interval(2))
    location = delta.location(spec)
    Table.open(location).delete([2], key="id", force=True)
    assert values(location) == [(1, 0), (3, 0), (3, 1), (4, 1)]
    delta.sink(spec, rows([2, 9], 0), **interval(1))
    assert values(location) == [(2, 0), (3, 1), (4, 1), (9, 0)]


def test_rows_that_come_as_others_are_deleted_are_looked_through(
    delta: DeltaLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = delta.spec()
    delta.sink(spec, rows([1, 2], 0), **interval(1))
    location = delta.location(spec)
    real = delta_commit.create_version

    def create(*given: Any) -> Any:
        monkeypatch.setattr(delta_commit, "create_version", real)
        delta.sink(spec, rows([2, 5], 1), **interval(2))
        return real(*given)

    monkeypatch.setattr(delta_commit, "create_version", create)
    table = Table.open(location).delete([2], key="id", force=True)
    assert table.deletion is not None
    assert (table.version, table.deletion.rows) == (3, 2)
    assert values(location) == [(1, 0), (5, 1)]


def test_what_a_delta_table_has_not_is_refused(delta: DeltaLake) -> None:
    spec = delta.spec()
    delta.sink(spec, rows([1, 2], 0))
    location = delta.location(spec)
    with pytest.raises(SpecError, match="has no identifier fields; name the columns"):
        Table.open(location).delete([1], force=True)
    with pytest.raises(SpecError, match="1 of the 2 rows"):
        Table.open(location).delete([1], key="id")
    assert values(location) == [(1, 0), (2, 0)]
    assert delta.spec(write="copy-on-write").fingerprint_text() == spec.fingerprint_text()
    audit = {"branch": "audit", "audit": {"rows": {"min": 1}}}
    with pytest.raises(ValidationError, match="branch: a Delta table has no branches and no tags"):
        delta.spec(**audit)
    with pytest.raises(VersionNotFoundError, match="has no tags and no branches, such as 'night'"):
        Table.open(location, version="night")


def test_a_delete_that_died_after_its_commit_finds_it(
    delta: DeltaLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = delta.spec(partition=["group"])
    delta.sink(spec, rows([*range(20)], 0))
    uri = run_uri(delta.warehouse, "table_delete__sample", "by hand")
    request = DeleteTableRowsRequest(
        run_uri=uri,
        warehouse=delta.warehouse,
        format="delta",
        table=spec.table,
        filters="id < 3",
        force=True,
    )
    step = STEPS["delete_table"]
    real = delta_commit.create_version

    def create(*given: Any) -> Any:
        real(*given)
        raise Killed

    monkeypatch.setattr(delta_commit, "create_version", create)
    with pytest.raises(Killed):
        step.perform(request)
    monkeypatch.setattr(delta_commit, "create_version", real)
    report = step.perform(request)
    assert isinstance(report, DeleteTableRowsReport)
    assert (report.snapshot_id, report.deleted) == (2, 3)
    assert [each for each, _ in values(delta.location(spec))] == list(range(3, 20))
    told = report.committed(uri)
    assert told is not None
    assert (told.version, told.rows) == ("2", 17)


@pytest.mark.parametrize("partition", [[], ["data"]])
def test_records_of_a_batch_meet_by_key_in_whatever_partition_their_row_lies(
    delta: DeltaLake, partition: list[str]
) -> None:
    spec = delta.spec(**CHANGES, order_by="v", partition=partition)
    delta.sink(spec, records(*(("I", number, f"d{number % 4}", 1) for number in range(20))))
    night = records(
        ("U", 3, "moved", 2),  # into another partition
        ("D", 4, "x", 2),
        ("D", 5, "d1", 2),
        ("I", 5, "again", 3),  # deleted, and inserted again
        ("D", 6, "x", 4),
        ("U", 6, "twice", 3),  # the delete is the last
        ("D", 99, "x", 2),  # there is none
        ("I", 30, "new", 2),
        ("U", 7, "late", 0),  # older than what stands
    )
    done = delta.sink(spec, night, start=utc("2026-11-20T00:00"))
    wanted = [(number, f"d{number % 4}", 1) for number in range(20) if number not in (3, 4, 5, 6)]
    wanted += [(3, "moved", 2), (5, "again", 3), (30, "new", 2)]
    assert content(delta, spec) == sorted(wanted)
    assert (done.rows_deleted, done.rows_updated, done.outdated, done.missing_deletes) == (2, 2, 1, 1)
    assert Table.open(delta.location(spec)).schema.names == ["id", "data", "v"]
    only = records(*(("D", number, "x", 9) for number, _, _ in wanted))
    assert delta.sink(spec, only, start=utc("2026-11-21T00:00")).rows_deleted == len(wanted)
    assert content(delta, spec) == []


def test_what_is_no_record_is_refused_and_changes_nothing(delta: DeltaLake) -> None:
    spec = delta.spec(**CHANGES, order_by="v", missing_deletes="fail")
    delta.sink(spec, records(("I", 1, "a", 1)))
    before = plain_log(delta.location(spec))
    for night, message in (
        ([("U", 1, "a", 5), ("D", 1, "", 5)], "1 records of the source share key and v"),
        ([("D", 77, "a", 9)], "1 records delete rows that table survey.sample does not have"),
    ):
        with pytest.raises(InputError, match=message):
            delta.sink(spec, records(*night), start=utc("2026-11-20T00:00"))
    assert plain_log(delta.location(spec)) == before


def test_a_delete_ends_as_a_conflict_if_others_keep_changing_the_table(
    delta: DeltaLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hipslake.steps.table_delete import table_deleting

    spec = delta.spec()
    delta.sink(spec, rows([1, 2], 0), **interval(1))
    real, number = delta_commit.create_version, iter(range(2, 20))

    def create(*given: Any) -> Any:
        with monkeypatch.context() as patched:
            patched.setattr(delta_commit, "create_version", real)
            delta.sink(spec, rows([2], 1), **interval(next(number)))
        return real(*given)

    monkeypatch.setattr(table_deleting, "TRIES", 2)
    monkeypatch.setattr(delta_commit, "create_version", create)
    with pytest.raises(ConflictError, match="files that came meanwhile may hold rows to be deleted"):
        Table.open(delta.location(spec)).delete([2], key="id", force=True)
    assert values(delta.location(spec)) == [(1, 0), (2, 0), (2, 1), (2, 1)]


def test_only_columns_are_added_by_a_plan(delta: DeltaLake) -> None:
    spec = delta.spec()
    delta.sink(spec, pa.table({"id": [1]}))
    stored = pa.schema([("id", pa.int64()), ("x", pa.float64())])
    with closing(open_table(spec.place, delta.warehouse, spec.table)) as table:
        planned = table.evolve(spec, stored)
        assert [each.text for each in planned] == ["column x is added"]
        assert table.existing().schema.names == ["id"]
        assert table.evolve(spec, None, dry_run=False) == ()
        assert table.evolve(spec, stored, dry_run=False) == planned
        assert table.evolve(spec, stored, dry_run=False) == ()
        assert table.existing().schema.names == ["id", "x"]
        with pytest.raises(SchemaMismatchError, match="is partitioned by nothing, the spec says id"):
            table.evolve(delta.spec(partition=["id"]), stored)
    for given in ({"evolve": "all"}, {"rename": {"id": "key"}}):
        with pytest.raises(ValidationError, match="of a Delta table, only columns are added"):
            delta.spec(**given)
