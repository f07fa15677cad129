"""Everything that the DAGs of tables do, in catalogs of PostgreSQL and behind REST, by whole runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hipslake.tables.iceberg import commit as committing

from tests.dags.dag_runs import Load
from tests.dags.table_story import Row, Story, night_of, rows_of
from tests.stores.iceberg_catalogs import KINDS, Service, running_service
from tests.stores.proxy import running_proxy

AUDITED = """\
partition: ["bucket[2](id)", day(ts)]
branch: audit
audit: {rows: {min: 1}, unique: [id], ranges: {mag: {max: 40}}}
tag: "night-{{ night }}"
vacuum: {keep_versions: 1, keep_days: 0}
"""
INTERVALS = """\
partition: [day(ts)]
mode: overwrite-interval
interval: ts
write: {write}
"""
KEYED = """\
partition: ["bucket[2](id)"]
mode: upsert
key: [id]
order_by: seq
operation: {{column: op, insert: I, update: U, delete: D}}
write: {write}
vacuum: {{keep_versions: 1, keep_days: 0}}
"""
PACKED = "name: packed\ntype: compaction\ntable: survey.{name}\nmode: sort\nsort: [id]\nschedule: manual\n"
pytestmark = [pytest.mark.system]


@pytest.fixture(params=KINDS)
def story(
    request: pytest.FixtureRequest,
    airflow: Path,
    load: Load,
    specs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Story]:
    monkeypatch.setenv("HIPSLAKE_STALE_SECONDS", "0")
    with running_service(request.param, tmp_path) as service:
        monkeypatch.setenv("AIRFLOW_CONN_SURVEY", json.dumps(service.connection))
        for name in service.environment:
            monkeypatch.setenv(name, "another's")  # put back after the test
        tables = specs.parent / "tables"
        tables.mkdir()
        yield Story(service, load, tables, str(tmp_path / "warehouse"), tmp_path / "landing")


def night(number: int, ids: range, mag: float = 1.0) -> list[Row]:
    return [(each, number, mag + each) for each in ids]


@pytest.mark.sampled(3)
def test_nights_are_audited_on_a_branch_tagged_mended_and_sunk_again(story: Story) -> None:
    story.spec("nights", AUDITED)
    passed = {"sink": "success", "audit": "success"}
    nights = {1: night(1, range(8)), 2: night(2, range(8, 16))}
    for number, rows in nights.items():
        story.land("nights", number, rows_of(number, rows))
        assert story.sink("nights", number) == passed
    assert story.read("nights") == sorted(nights[1] + nights[2])
    nothing = story.sink("nights", 2)
    assert nothing["sink"] == nothing["audit"] == "skipped"

    story.land("nights", 3, rows_of(3, night(3, range(16, 20), mag=100.0)))
    assert story.sink("nights", 3) == {"sink": "success", "audit": "failed"}
    assert "ranges: mag lies at most 40" in story.report("audit")["error"]["message"]
    assert story.read("nights") == sorted(nights[1] + nights[2])
    assert "audit" in story.table("nights").refs()
    nights[3] = night(3, range(16, 20))
    story.land("nights", 3, rows_of(3, nights[3]))
    assert story.sink("nights", 3) == passed

    nights[1] = night(1, range(4, 8), mag=2.0)  # as when a night is processed again
    story.land("nights", 1, rows_of(1, nights[1]))
    assert story.sink("nights", 1) == passed
    assert story.read("nights") == sorted(nights[1] + nights[2] + nights[3])
    table = story.table("nights")
    assert set(table.refs()) == {"main", *(f"night-{night_of(number)}" for number in nights)}
    tagged = table.scan(snapshot_id=table.refs()[f"night-{night_of(1)}"].snapshot_id).to_arrow()
    assert {4, 5, 6, 7} <= set(tagged["id"].to_pylist())
    assert len(tagged) == 16

    assert set(story.run("table_vacuum__nights", dry_run=False).values()) == {"success"}
    kept = {each.snapshot_id for each in story.table("nights").snapshots()}
    assert kept == {each.snapshot_id for each in story.table("nights").refs().values()}
    assert story.read("nights") == sorted(nights[1] + nights[2] + nights[3])


@pytest.mark.sampled(6)
@pytest.mark.parametrize("write", ["copy-on-write", "merge-on-read"])
def test_intervals_are_overwritten(story: Story, write: str) -> None:
    story.spec("intervals", INTERVALS.format(write=write))
    nights = {number: night(number, range(6)) for number in (1, 2)}
    for number, rows in nights.items():
        story.land("intervals", number, rows_of(number, rows))
        assert story.sink("intervals", number) == {"sink": "success"}
    nights[1] = night(1, range(3), mag=5.0)
    story.land("intervals", 1, rows_of(1, nights[1]))
    assert story.sink("intervals", 1) == {"sink": "success"}
    assert story.sink("intervals", 1) == {"sink": "skipped"}
    assert story.read("intervals") == sorted(nights[1] + nights[2])


@pytest.mark.sampled(6)
@pytest.mark.parametrize("write", ["copy-on-write", "merge-on-read"])
def test_keyed_rows_change_are_deleted_packed_and_evolve(story: Story, write: str) -> None:
    story.spec("objects", KEYED.format(write=write))
    story.spec("packed", PACKED.format(name="objects"), files=False)
    first = night(1, range(20))
    story.land("objects", 1, rows_of(1, first, "I" * 20))
    assert story.sink("objects", 1) == {"sink": "success"}
    second = [(3, 2, 0.5), (5, 2, 0.0), (30, 2, 7.0), (4, 0, 9.0)]  # the last is older than its row
    story.land("objects", 2, rows_of(2, second, "UDIU"))
    assert story.sink("objects", 2) == {"sink": "success"}
    due = {row[0]: row for row in first} | {3: second[0], 30: second[2]}
    del due[5]
    assert story.read("objects") == sorted(due.values())
    deletes = [task.delete_files for task in story.table("objects").scan().plan_files()]
    assert any(deletes) == (write == "merge-on-read")

    assert set(story.run("table_delete__objects", filters="mag >= 20", force=True).values()) == {"success"}
    assert set(story.run("table_delete__objects", keys=["0", "1"], force=True).values()) == {"success"}
    due = {key: row for key, row in due.items() if row[2] < 20 and key > 1}
    assert story.read("objects") == sorted(due.values())

    assert set(story.run("table_compact__packed").values()) == {"success"}
    report = story.report("compact_table")
    assert (report["rows_in"], report["rows_out"]) == (len(due), len(due))
    table = story.table("objects")
    assert not any(task.delete_files for task in table.scan().plan_files())
    assert story.read("objects") == sorted(due.values())

    changed = KEYED.format(write=write).replace('"bucket[2](id)"', "day(ts)").replace("order_by: seq\n", "")
    story.spec("objects", changed + "rename: {mag: magnitude}\nsort: [ts]\n")
    third = [(6, 3, 0.25), (40, 3, 8.0)]
    story.land("objects", 3, rows_of(3, third, "UI", mag="magnitude"))
    assert set(story.run("table_evolve__objects", window_start=night_of(3)).values()) == {"success"}
    assert story.table("objects").metadata_location == table.metadata_location  # a plan, as the form has it
    planned = story.report("evolve_table")["changes"]
    run = story.run("table_evolve__objects", dry_run=False, window_start=night_of(3))
    assert set(run.values()) == {"success"}
    assert story.report("evolve_table")["changes"] == planned
    assert "column mag is renamed magnitude" in planned
    table = story.table("objects")
    assert [each.name for each in table.spec().fields] == ["ts_day"]
    assert story.sink("objects", 3) == {"sink": "success"}
    due |= {6: third[0], 40: third[1]}
    assert story.read("objects", "magnitude") == sorted(due.values())

    assert set(story.run("table_compact__packed").values()) == {"success"}
    assert set(story.run("table_vacuum__objects", dry_run=False).values()) == {"success"}
    assert len(story.table("objects").snapshots()) == 1
    assert story.read("objects", "magnitude") == sorted(due.values())
    assert story.sink("objects", 3) == {"sink": "skipped"}


def test_a_task_that_does_not_know_of_its_commit_is_retried(
    airflow: Path, load: Load, specs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committing, "_LOOKS", 1)
    with running_service("small rest", tmp_path) as small, running_proxy(small.connection["host"]) as proxy:
        service = Service(small.iceberg, {**small.connection, "host": proxy.endpoint})
        monkeypatch.setenv("AIRFLOW_CONN_SURVEY", json.dumps(service.connection))
        for name in service.environment:
            monkeypatch.setenv(name, "another's")
        tables = specs.parent / "tables"
        tables.mkdir()

        def at_once() -> dict[str, Any]:
            dags = load()
            for task in dags["iceberg_sink__nights"].tasks:
                task.retry_delay = timedelta(0)
            return dags

        story = Story(service, at_once, tables, str(tmp_path / "warehouse"), tmp_path / "landing")
        story.spec("nights", "")
        due: list[Row] = []
        for number, how in enumerate([{}, {"after": True}, {"hold": True}]):
            due += night(number, range(4))
            story.land("nights", number, rows_of(number, night(number, range(4))))
            body = b'{"error": {"message": "a fault", "type": "CommitStateUnknownException", "code": 500}}'
            fault = proxy.fail("POST", "/tables/nights$", status=500, body=body, **how)
            assert story.sink("nights", number) == {"sink": "success"}
            assert fault.met == 1
            proxy.release()
            assert story.read("nights") == sorted(due)
