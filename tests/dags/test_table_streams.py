"""The DAGs of tables that a stream feeds: what they wait for, and whole runs of them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.specs.spec_folder import load_spec
from hipslake.specs.table_spec import TableSpec
from hipslake.steps.run import run_uri
from hipslake.steps.stream.request import DrainReport
from hipslake.tables.iceberg.catalogs import open_catalog, open_table
from hipslake_airflow.triggers.stream_files import StreamFilesTrigger

from tests.dags.dag_runs import Load, states


@pytest.fixture
def spec(specs: Path, tmp_path: Path) -> Path:
    """The spec of a stream that is packed after each run."""
    (specs.parent / "tables").mkdir()
    (tmp_path / "landing").mkdir()
    path = specs.parent / "tables" / "alerts.yaml"
    path.write_text(
        f"name: alerts\ntable: survey.alerts\nsource: {{files: {{uri: '{tmp_path}/landing/*.parquet', "
        "format: parquet}}\nstream: {trigger: available_now, source: files, max_files: 1, compact: true}\n"
    )
    return path


def land(tmp_path: Path, name: str, first: int) -> None:
    pq.write_table(pa.table({"id": range(first, first + 3)}), tmp_path / "landing" / name)


def test_a_stream_waits_for_files_all_the_time_or_has_a_schedule(load: Load, spec: Path) -> None:
    dag = load()["iceberg_sink__alerts"]
    order = ["watch", "resolve", "drain", "compact_table"]
    assert [task.task_id for task in dag.topological_sort()] == order
    assert (type(dag.timetable).__name__, dag.max_active_runs) == ("ContinuousTimetable", 1)
    assert dag.max_consecutive_failed_dag_runs == 3
    assert set(dag.params) == {"force", "wait_minutes"}
    assert dag.params["wait_minutes"] == 60
    assert [outlet.uri for outlet in dag.get_task("drain").outlets] == ["hipslake://tables/alerts"]
    assert "| batches | 1 files at most |" in dag.doc_md
    assert "| runs | after files have come |" in dag.doc_md
    text = spec.read_text().replace(", compact: true", ", wait_minutes: 0")
    spec.write_text(f'{text}schedule: "*/10 * * * *"\n')
    dag = load()["iceberg_sink__alerts"]
    assert [task.task_id for task in dag.topological_sort()] == order[:-1]
    assert type(dag.timetable).__name__ == "CronTriggerTimetable"
    assert dag.params["wait_minutes"] == 0
    spec.write_text(f"{text}schedule: manual\n")
    assert type(load()["iceberg_sink__alerts"].timetable).__name__ == "NullTimetable"
    assert {"table_delete__alerts", "table_vacuum__alerts"} <= set(load())


@pytest.mark.system
def test_runs_drain_what_has_come(
    airflow: Path, load: Load, spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[2,4]"}')
    dag = load()["iceberg_sink__alerts"]
    nothing = dag.test(run_conf={"wait_minutes": 0})
    assert states(nothing)["watch"] == "skipped"
    for number in range(3):
        land(tmp_path, f"{number}.parquet", 3 * number)
    run = dag.test(run_conf={"wait_minutes": 0})
    assert states(run) == dict.fromkeys(("watch", "resolve", "drain", "compact_table"), "success")
    warehouse = str(tmp_path / "warehouse")
    folder = run_uri(warehouse, run.dag_id, run.run_id)
    report = DrainReport.model_validate_json(Path(folder, "reports", "drain.json").read_text())
    assert (report.batches, report.source_files, report.rows_out) == (3, 3, 9)
    told = load_spec(spec, TableSpec)
    table = open_table(open_catalog(told.iceberg, warehouse), told.table)
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == list(range(9))
    assert len(table.inspect.files()) == 1
    assert len(table.snapshots()) == 4
    again = load()["iceberg_sink__alerts"].test(run_conf={"wait_minutes": 0})
    assert states(again)["watch"] == "skipped"


def test_the_trigger_fires_when_a_file_comes(spec: Path, tmp_path: Path) -> None:
    arguments = {
        "spec": load_spec(spec, TableSpec).model_dump(mode="json"),
        "warehouse": str(tmp_path / "warehouse"),
        "deadline": (datetime.now(UTC) + timedelta(seconds=0)).isoformat(),
    }
    kind, told = StreamFilesTrigger(**arguments).serialize()
    assert kind.endswith("StreamFilesTrigger")
    assert asyncio.run(_first(StreamFilesTrigger(**told))) == {"changed": False}
    land(tmp_path, "0.parquet", 0)
    assert asyncio.run(_first(StreamFilesTrigger(**told))) == {"changed": True}
    told["warehouse"] = "s3://bucket/warehouse"
    assert asyncio.run(_first(StreamFilesTrigger(**told)))["failure"]["kind"] == "SpecError"


async def _first(trigger: StreamFilesTrigger) -> Any:
    async for event in trigger.run():
        return event.payload
    return None
