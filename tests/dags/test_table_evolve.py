"""The DAG that changes a table as its spec asks: its form, and whole runs of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.specs.spec_folder import load_spec
from hipslake.specs.table_spec import TableSpec
from hipslake.steps.evolve_table.request import EvolveTableReport
from hipslake.steps.run import RunFolder, run_uri

from tests.dags.dag_runs import Load, check_form, states
from tests.tables.sinking import Lake

EVOLVE = "table_evolve__sample"
SPEC = """\
name: sample
table: survey.sample
source: {{files: {{uri: '{root}/landing/{place}*.parquet', format: parquet}}}}
iceberg: {{uri: "sqlite:///{root}/state/iceberg.db"}}
"""


@pytest.fixture
def table(specs: Path, tmp_path: Path) -> Path:
    """The spec of a table, where the DAG files look."""
    folder = specs.parent / "tables"
    folder.mkdir()
    (folder / "sample.yaml").write_text(SPEC.format(root=tmp_path, place=""))
    return folder / "sample.yaml"


def test_each_table_has_one_whose_form_shows_the_plan_first(load: Load, table: Path, tmp_path: Path) -> None:
    dag = load()[EVOLVE]
    assert [task.task_id for task in dag.topological_sort()] == ["evolve_table"]
    assert dag.get_task("evolve_table").outlets == []
    assert set(dag.params) == {"dry_run"}
    assert dag.params["dry_run"] is True
    assert "are refused where anything else would have to be changed" in dag.doc_md
    table.write_text(SPEC.format(root=tmp_path, place="{{{{ night }}}}/".format()) + "evolve: all\n")
    dag = load()[EVOLVE]
    assert set(dag.params) == {"dry_run", "window_start", "window_end"}
    assert "by themselves (`evolve: all`)" in dag.doc_md
    check_form(dag.params)


@pytest.mark.system
def test_a_plan_is_shown_and_then_done(airflow: Path, load: Load, table: Path, tmp_path: Path) -> None:
    spec = load_spec(table, TableSpec)
    lake = Lake(tmp_path)
    lake.warehouse = str(table.parents[2] / "warehouse")

    def evolve(**conf: Any) -> tuple[str, EvolveTableReport]:
        run = load()[EVOLVE].test(run_conf=conf)
        folder = RunFolder(run_uri(lake.warehouse, EVOLVE, run.run_id))
        report = folder.read(RunFolder.report_path("evolve_table"), EvolveTableReport)
        return states(run)["evolve_table"], report

    (tmp_path / "landing").mkdir()
    pq.write_table(pa.table({"id": [1], "filter": ["g"], "x": [0.5]}), tmp_path / "landing" / "a.parquet")
    state, report = evolve()
    assert (state, report.text) == (
        "success",
        "There is no table survey.sample yet: the first sink makes it.",
    )
    lake.sink(spec, pa.table({"id": pa.array([7], pa.int32()), "band": ["r"]}))
    table.write_text(table.read_text() + "rename: {band: filter}\npartition: [filter]\n")
    wanted = (
        "column band is renamed filter",
        "column x is added (double)",
        "column id is widened from int to long",
        "what comes is partitioned by filter, not by nothing",
    )
    before = lake.table(spec).metadata_location
    state, report = evolve(dry_run=True)
    assert (state, report.changes) == ("success", wanted)
    assert report.text.startswith("Of table survey.sample, this would be changed:\n- column band is renamed")
    assert lake.table(spec).metadata_location == before
    state, report = evolve(dry_run=False)
    assert (state, report.changes) == ("success", wanted)
    assert [str(field.field_type) for field in lake.table(spec).schema().fields] == [
        "long",
        "string",
        "double",
    ]
    assert lake.rows(spec).to_pylist() == [{"id": 7, "filter": "r", "x": None}]
    state, report = evolve(dry_run=False)
    assert (state, report.text) == ("skipped", "Table survey.sample is as its spec asks.")
    table.write_text(table.read_text().replace("partition: [filter]", "partition: [void(nowhere)]"))
    assert states(load()[EVOLVE].test(run_conf={"dry_run": True})) == {"evolve_table": "failed"}
