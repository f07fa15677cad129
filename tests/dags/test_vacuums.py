"""The DAGs that vacuum tables, and the catalogs that joins and cubes make."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.dags.dag_runs import Load, check_form
from tests.system import sinks
from tests.tables.sinking import Lake, utc

TABLE = """\
name: sample
source: {{files: {{uri: "{root}/landing/*.parquet", format: parquet}}}}
iceberg: {{uri: "sqlite:///{root}/state/iceberg.db"}}
table: survey.sample
vacuum: {{keep_versions: 2, keep_days: 0, schedule: "0 5 * * SUN"}}
"""
JOIN = """\
name: a_x_b
type: crossmatch
left: {catalog: a}
right: {catalog: b}
radius_arcsec: 1
vacuum: {keep_versions: 3, schedule: "0 6 * * *"}
"""
CUBE = """\
name: sky
dimension_columns: [id]
partition_columns: [pixel]
pixel_orders: {pixel: 1}
seed: stars
materialise: {name: joined, vacuum: {keep_versions: 4}}
datasets:
  stars: {catalog: stars}
"""


@pytest.fixture
def dags(load: Load, specs: Path, tmp_path: Path) -> dict[str, Any]:
    """The DAGs of a table, a join and a cube, and of each kind one whose spec cannot be read."""
    for kind, name, text in (
        ("tables", "sample", TABLE.format(root=tmp_path)),
        ("joins", "a_x_b", JOIN),
        ("joins", "broken", "name: broken\ntype: crossmatch\n"),
        ("cubes", "sky", CUBE),
        ("cubes", "broken", "name: broken\n"),
    ):
        folder = specs.parent / kind
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.yaml").write_text(text)
    return load()


def test_each_has_a_vacuum_as_its_spec_says(dags: dict[str, Any]) -> None:
    vacuums = {dag_id for dag_id in dags if "_vacuum__" in dag_id}
    assert vacuums == {"table_vacuum__sample", "catalog_vacuum__a_x_b", "catalog_vacuum__joined"}
    kept = {dag_id: dags[dag_id].params["keep_versions"] for dag_id in vacuums}
    assert kept == {"table_vacuum__sample": 2, "catalog_vacuum__a_x_b": 3, "catalog_vacuum__joined": 4}
    assert dags["catalog_vacuum__a_x_b"].schedule.expression == "0 6 * * *"
    assert dags["table_vacuum__sample"].schedule.expression == "0 5 * * SUN"
    assert dags["catalog_vacuum__joined"].schedule is None
    for dag_id in vacuums:
        params = dags[dag_id].params
        assert dags[dag_id].doc_md
        check_form(params)


@pytest.mark.parametrize(("run_type", "left"), [("scheduled", 2), ("manual", 4)])
def test_a_vacuum_deletes_where_the_schedule_started_it(
    dags: dict[str, Any], tmp_path: Path, run_type: str, left: int
) -> None:
    lake = Lake(tmp_path)
    spec = lake.spec()
    for night in range(4):
        lake.sink(spec, sinks.rows(10 * night, 10, night), start=utc(f"2026-01-0{night + 1}T00:00:00"))
    task = dags["table_vacuum__sample"].get_task("vacuum_table")
    run = SimpleNamespace(dag_id="table_vacuum__sample", run_id="clean", run_type=run_type)
    params = {"keep_versions": 2, "keep_days": 0, "dry_run": True}
    summary = task.execute({"params": params, "dag_run": run})
    assert summary["dry_run"] is (run_type == "manual")
    assert len(lake.table(spec).snapshots()) == left
    assert lake.rows(spec)["id"].to_pylist() == [*range(40)]


def test_a_table_that_is_not_there_yet_is_no_fault(dags: dict[str, Any]) -> None:
    task = dags["table_vacuum__sample"].get_task("vacuum_table")
    run = SimpleNamespace(dag_id="table_vacuum__sample", run_id="clean", run_type="scheduled")
    params = {"keep_versions": 2, "keep_days": 0, "dry_run": True}
    assert task.execute({"params": params, "dag_run": run})["files"] == 0
