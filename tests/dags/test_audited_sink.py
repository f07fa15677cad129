"""Sinks whose rows are audited on a branch: their DAG, and whole runs of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hipslake.steps.audit.request import AuditReport
from hipslake.steps.report import Report
from hipslake.steps.run import RunFolder, run_uri
from hipslake_airflow.web.runs import error_of

from tests.dags.dag_runs import Load, states
from tests.dags.test_iceberg_sink import NIGHTS, last_event, table_of, write_spec
from tests.steps.nights import Survey, night_rows

TWICE = "select id from came group by id having count(*) > 1"
AUDIT = f"branch: audit\naudit: {{ranges: {{mag: {{max: 40}}}}, sql: '{TWICE}'}}\n"
TAGS = "tag: 'night-{{ night }}'\n"


@pytest.fixture
def tables(specs: Path) -> Path:
    """The folder of table specs."""
    folder = specs.parent / "tables"
    folder.mkdir()
    return folder


def test_the_audit_emits_the_asset_and_comes_whatever_was_sunk(load: Load, tables: Path) -> None:
    write_spec(tables, NIGHTS + AUDIT + TAGS)
    dag = load()["iceberg_sink__sample"]
    assert {task.task_id for task in dag.tasks} == {"resolve", "sink", "audit", "confirm"}
    assert dag.get_task("sink").outlets == []
    audit = dag.get_task("audit")
    assert [outlet.uri for outlet in audit.outlets] == ["hipslake://tables/sample"]
    assert audit.upstream_task_ids == {"sink"}
    assert audit.trigger_rule == "none_failed"
    assert set(dag.params) == {"force", "discard_branch", "window_start", "window_end"}
    assert "| branch | `audit`, until the audit is passed |" in dag.doc_md
    assert "| tags | `night-{{ night }}` |" in dag.doc_md


def test_one_run_at_a_time_has_a_branch(load: Load, tables: Path) -> None:
    files = "source: {files: {uri: '/sky/{{ night }}/*.parquet', format: parquet}}\n"
    write_spec(tables, files)
    assert load()["iceberg_sink__sample"].max_active_runs == 4
    write_spec(tables, files + AUDIT)
    assert load()["iceberg_sink__sample"].max_active_runs == 1


@pytest.mark.system
def test_a_night_that_does_not_pass_fails_the_run_until_it_is_mended(
    airflow: Path, load: Load, tables: Path, tmp_path: Path
) -> None:
    survey = Survey(tmp_path)
    write_spec(tables, NIGHTS + AUDIT + TAGS)
    dag = load()["iceberg_sink__sample"]

    def run() -> Any:
        return dag.test()

    def folder(run: Any) -> RunFolder:
        return RunFolder(run_uri(str(tables.parents[1] / "warehouse"), run.dag_id, run.run_id))

    survey.night(0)
    first = run()
    assert states(first) == dict.fromkeys(("resolve", "sink", "audit", "confirm"), "success")
    report = folder(first).read(RunFolder.report_path("audit"), AuditReport)
    assert (report.checks_passed, report.rows_out) == (2, 400)
    event = last_event("hipslake://tables/sample")
    assert (event["rows"], event["snapshot_id"]) == (400, table_of(tables).metadata.current_snapshot_id)

    mag = night_rows(1)["mag"].to_numpy().copy()
    mag[5] = 41.0
    survey.land(1, night_rows(1).set_column(3, "mag", pa.array(mag)))
    survey.append(1)
    refused = run()
    assert states(refused)["audit"] == "failed"
    assert str(refused.state) == "failed"
    failed = folder(refused).read(RunFolder.report_path("audit"), Report)
    assert failed.error is not None
    assert failed.error.kind == "AuditError"
    assert "ranges: mag lies at most 40: 1 values do not, such as 41.0" in failed.error.message
    shown = error_of(str(tables.parents[1] / "warehouse"), refused.dag_id, refused.run_id, ["audit"])
    assert shown is not None
    assert shown.startswith(
        "audit: AuditError: table survey.sample: 1 of 2 checks of the audit are not passed"
    )
    assert table_of(tables).scan().to_arrow().num_rows == 400
    assert last_event("hipslake://tables/sample") == event

    again = run()  # nothing is sunk, and the branch is audited all the same
    assert states(again) == {"resolve": "success", "sink": "skipped", "audit": "failed", "confirm": "skipped"}
    survey.night(1, seed=4)
    assert states(run())["audit"] == "success"
    assert table_of(tables).scan().to_arrow().num_rows == 800
    assert set(table_of(tables).metadata.refs) == {"main", "night-2026-10-01", "night-2026-10-02"}
    idle = run()
    assert states(idle) == {"resolve": "success", "sink": "skipped", "audit": "skipped", "confirm": "skipped"}
