"""Rows of a table are deleted by keys or a filter: from Python, and as a step that is run again."""

from __future__ import annotations

import datetime as dt
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
from hipslake.api.table import Table
from hipslake.errors import ConflictError, FilterError, InputError, SchemaMismatchError, SpecError
from hipslake.specs.table_spec import TableSpec
from hipslake.steps.registry import STEPS
from hipslake.steps.run import run_uri
from hipslake.steps.table_delete import run as deleting
from hipslake.steps.table_delete.request import DeleteTableRowsReport, DeleteTableRowsRequest
from hipslake.tables.iceberg.data_files import has_delete_files

from tests.system.sinks import orphans
from tests.tables.plain_reader import counted, plain_rows
from tests.tables.sinking import Lake, utc

MODES = ("copy-on-write", "merge-on-read")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def sample(first: int = 0, count: int = 100) -> pa.Table:
    ids = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "band": pa.array([("g", "r", None)[number % 3] for number in ids], pa.string()),
            "x": [float(number) for number in ids],
        }
    )


def opened(lake: Lake, spec: TableSpec) -> Table:
    return Table.open(spec.table, iceberg=spec.iceberg, warehouse=lake.warehouse)


def check(lake: Lake, spec: TableSpec, wanted: pa.Table) -> None:
    assert counted(opened(lake, spec).read().to_pylist()) == counted(wanted.to_pylist())
    assert counted(lake.table(spec).scan().to_arrow().to_pylist()) == counted(wanted.to_pylist())
    assert counted(plain_rows(lake.table(spec))) == counted(wanted.to_pylist())
    assert orphans(lake.table(spec)) == []


@pytest.mark.parametrize("write", MODES)
def test_rows_go_by_keys_and_by_filters(lake: Lake, write: str) -> None:
    spec = lake.spec(partition=["band"])
    lake.sink(spec, sample())
    lake.sink(lake.spec(name="more", partition=["band"]), sample(100, 50))
    table = opened(lake, spec)
    assert table.deletion is None
    table = table.delete([5, 120, 777, 5], key="id", write=write, max_fraction=0.02)
    assert table.deletion is not None
    assert (table.deletion.rows, table.deletion.missing_keys) == (2, 1)
    assert table.deletion.chosen == "keys: 4 given"
    table = table.delete(filters="x >= 10 and x < 20 and band = 'g'", write=write, max_fraction=0.1)
    assert table.deletion is not None
    assert (table.deletion.rows, table.deletion.missing_keys) == (3, 0)
    table = table.delete(filters=[("band", "==", "r")], write=write, force=True)  # whole files
    assert table.deletion is not None
    whole = pa.concat_tables([sample(), sample(100, 50)])
    gone = pa.array([5, 120, 12, 15, 18], pa.int64())
    stay = whole.filter(pc.invert(pc.is_in(whole["id"], gone)))
    stay = stay.filter(pc.fill_null(pc.not_equal(stay["band"], "r"), True))
    check(lake, spec, stay)
    version = table.version
    assert table.delete([5], key="id").version == version  # nothing is left to delete
    again = table.delete(filters=pc.field("x") == 147, write=write, force=True)
    assert again.deletion is not None
    assert (again.version != version, again.deletion.rows) == (True, 1)


@pytest.mark.parametrize("write", MODES)
def test_keys_of_several_columns_and_types(lake: Lake, write: str) -> None:
    names = [uuid.UUID(int=number) for number in range(20)]
    days = [dt.date(2026, 11, 1) + dt.timedelta(days=number % 4) for number in range(20)]
    rows = pa.table(
        {"name": pa.array([each.bytes for each in names], pa.uuid()), "day": days, "n": range(20)}
    )
    spec = lake.spec()
    lake.sink(spec, rows)
    table = opened(lake, spec)
    by_name = table.delete([names[3].bytes, names[19].bytes], key="name", force=True, write=write)
    assert by_name.deletion is not None
    assert by_name.deletion.rows == 2
    pairs = [(days[4], 4), (days[5], 5), (days[6], 5)]
    both = by_name.delete(pairs, key=["day", "n"], force=True, write=write)
    assert both.deletion is not None
    assert (both.deletion.rows, both.deletion.missing_keys) == (2, 1)
    assert sorted(both.read(["n"])["n"].to_pylist()) == [n for n in range(20) if n not in (3, 19, 4, 5)]


def test_keys_are_of_the_identifier_fields_unless_others_are_named(lake: Lake) -> None:
    spec = lake.spec()
    lake.sink(spec, sample())
    with pytest.raises(SpecError, match="has no identifier fields; name the columns"):
        opened(lake, spec).delete([1])
    with lake.table(spec).update_schema(allow_incompatible_changes=True) as update:
        update.update_column("id", required=True)
        update.set_identifier_fields("id")
    assert opened(lake, spec).delete([1]).deletion is not None


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({}, SpecError, "exactly one of keys and filters; neither was given"),
        ({"keys": [1], "filters": "id = 1"}, SpecError, "keys and filters was given"),
        ({"filters": "x >= 0"}, SpecError, "100 of the 100 rows of table survey.sample would be deleted"),
        ({"keys": [1, 2], "key": "id"}, SpecError, "2 of the 100 rows .* max_fraction lets 1 pass"),
        ({"keys": [1], "key": "nothing"}, SchemaMismatchError, "table survey.sample has no column 'nothing'"),
        ({"keys": [1.5], "key": "x"}, SpecError, "key: column 'x' is of type double"),
        ({"keys": ["a"], "key": "id"}, SchemaMismatchError, "keys: column 'id' is of type int64"),
        ({"keys": [None], "key": "id"}, InputError, "values of 'id' are null"),
        ({"filters": "nothing = 1"}, FilterError, "no column 'nothing'"),
        ({"filters": "id ="}, FilterError, "table survey.sample"),
        ({"filters": " "}, SpecError, "names no column"),
        ({"filters": "id = 1", "max_fraction": 2}, SpecError, "max_fraction: 2 is no part"),
        ({"filters": "id = 1", "write": "somehow"}, SpecError, "write: 'somehow' is neither"),
    ],
)
def test_what_is_refused_changes_nothing(
    lake: Lake, given: dict[str, Any], error: type[Exception], message: str
) -> None:
    spec = lake.spec()
    lake.sink(spec, sample())
    before = lake.table(spec).current_snapshot()
    with pytest.raises(error, match=message):
        opened(lake, spec).delete(**given)
    assert lake.table(spec).current_snapshot() == before
    assert orphans(lake.table(spec)) == []


def test_folders_take_no_deletes(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    pq.write_table(sample(), folder / "a.parquet")
    with pytest.raises(SpecError, match="takes no deletes"):
        Table.open(folder).delete(filters="id = 1")


@pytest.mark.parametrize("write", MODES)
def test_rows_that_come_meanwhile_go_too(lake: Lake, monkeypatch: pytest.MonkeyPatch, write: str) -> None:
    from hipslake.tables.iceberg.iceberg_state import IcebergWrite

    spec = lake.spec()
    lake.sink(spec, sample())
    commit, calls = IcebergWrite.commit, []

    def overtaken(self: IcebergWrite, *given: Any, **more: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            monkeypatch.setattr(IcebergWrite, "commit", commit)
            lake.sink(lake.spec(name="other"), sample(500, 10).append_column("y", pa.array([1] * 10)))
            lake.sink(lake.spec(name="same"), sample(5, 1))
        return commit(self, *given, **more)

    monkeypatch.setattr(IcebergWrite, "commit", overtaken)
    table = opened(lake, spec).delete([5, 6], key="id", write=write, force=True)
    assert table.deletion is not None
    assert table.deletion.rows == 3
    assert sorted(table.read(["id"])["id"].to_pylist()) == [
        *(number for number in range(100) if number not in (5, 6)),
        *range(500, 510),
    ]
    assert orphans(lake.table(spec)) == []


def test_an_append_that_is_sunk_again_brings_its_rows_anew(lake: Lake) -> None:
    spec = lake.spec()
    lake.sink(spec, sample(), start=utc("2026-11-20T00:00"))
    lake.sink(spec, sample(100, 10), start=utc("2026-11-21T00:00"))
    opened(lake, spec).delete([5, 105], key="id", force=True)
    lake.sink(spec, sample(0, 50), start=utc("2026-11-20T00:00"))
    found = lake.rows(spec)["id"].to_pylist()
    assert found == [*range(50), *(number for number in range(100, 110) if number != 105)]


def test_the_table_says_how_rows_go_unless_the_delete_does(lake: Lake) -> None:
    spec = lake.spec(properties={"write.delete.mode": "merge-on-read", "write.merge.mode": "copy-on-write"})
    lake.sink(spec, sample())
    [file] = lake.live(spec)
    opened(lake, spec).delete([5], key="id", force=True)
    assert lake.live(spec) == [file]
    assert has_delete_files(lake.table(spec))
    opened(lake, spec).delete([6], key="id", write="copy-on-write", force=True)
    assert file not in lake.live(spec)
    assert not has_delete_files(lake.table(spec))  # they have gone with the file
    assert lake.rows(spec)["id"].to_pylist() == [n for n in range(100) if n not in (5, 6)]


def request(lake: Lake, **given: Any) -> DeleteTableRowsRequest:
    spec = lake.spec()
    usual = {
        "run_uri": run_uri(lake.warehouse, "table_delete__sample", "run"),
        "warehouse": lake.warehouse,
        "iceberg": spec.iceberg,
        "table": spec.table,
    }
    return DeleteTableRowsRequest.model_validate(usual | given)


def test_the_step_says_what_it_did(lake: Lake) -> None:
    spec = lake.spec()
    lake.sink(spec, sample())
    csv.write_csv(pa.table({"id": [1, 2, 700], "more": [0, 0, 0]}), f"{lake.root}/keys.csv")
    asked = request(lake, keys_file=f"{lake.root}/keys.csv", key=("id",), force=True, write="merge-on-read")
    report = STEPS["delete_table"].perform(asked)
    assert isinstance(report, DeleteTableRowsReport)
    assert (report.deleted, report.missing_keys, report.rows_in, report.rows_out) == (2, 1, 100, 98)
    assert (report.delete_files, report.files_removed) == (1, 0)
    committed = report.committed(asked.run_uri)
    assert committed is not None
    assert (committed.version, committed.rows) == (str(report.snapshot_id), None)
    assert [each.kind for each in report.origins(asked.run_uri)] == ["table"]
    again = STEPS["delete_table"].perform(asked)
    assert isinstance(again, DeleteTableRowsReport)
    assert (again.deleted, again.snapshot_id, again.missing_keys) == (0, None, 3)
    assert again.committed(asked.run_uri) is None


def test_a_run_that_died_after_its_commit_finds_what_it_did(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = lake.spec()
    lake.sink(spec, sample())
    real = deleting.delete_table_rows

    def killed(*given: Any, **more: Any) -> Any:
        real(*given, **more)
        raise KeyboardInterrupt

    asked = request(lake, filters="id < 2", force=True)
    with monkeypatch.context() as patch:
        patch.setattr(deleting, "delete_table_rows", killed)
        with pytest.raises(KeyboardInterrupt):
            STEPS["delete_table"].perform(asked)
    report = STEPS["delete_table"].perform(asked)
    assert isinstance(report, DeleteTableRowsReport)
    assert report.deleted == 2
    current = lake.table(spec).current_snapshot()
    assert current is not None
    assert report.snapshot_id == current.snapshot_id


def test_a_delete_that_is_overtaken_for_ever_is_an_error(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    from hipslake.steps.table_delete import table_deleting

    spec = lake.spec()
    lake.sink(spec, sample())
    monkeypatch.setattr(table_deleting, "TRIES", 2)
    monkeypatch.setattr(table_deleting, "wait_for_others", lambda attempt: None)

    def overtaken(*given: Any, **more: Any) -> None:
        raise ConflictError("others were first")

    monkeypatch.setattr("hipslake.tables.iceberg.iceberg_state.IcebergWrite.commit", overtaken)
    with pytest.raises(ConflictError):
        opened(lake, spec).delete([1], key="id")
    assert orphans(lake.table(spec)) == []
