"""The DAG that deletes rows of a table: its form, and whole runs of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
import pytest
from hipslake.specs.spec_folder import load_spec
from hipslake.specs.table_spec import TableSpec
from hipslake.steps.run import RunFolder, run_uri
from hipslake.steps.table_delete.request import DeleteTableRowsReport
from hipslake_airflow.params import catalog as forms

from tests.dags.dag_runs import Load, check_form, states
from tests.tables.sinking import Lake

DELETE = "table_delete__sample"
SPEC = """\
name: sample
table: survey.sample
source: {{files: {{uri: /nowhere/*.parquet, format: parquet}}}}
iceberg: {{uri: "sqlite:///{root}/state/iceberg.db"}}
"""
KEYED = "mode: upsert\nkey: [id]\nwrite: merge-on-read\n"


@pytest.fixture
def table(specs: Path, tmp_path: Path) -> Path:
    """The spec of a table, where the DAG files look."""
    folder = specs.parent / "tables"
    folder.mkdir()
    (folder / "sample.yaml").write_text(SPEC.format(root=tmp_path) + KEYED)
    return folder / "sample.yaml"


def test_each_table_has_one(load: Load, table: Path, tmp_path: Path) -> None:
    dag = load()[DELETE]
    assert [task.task_id for task in dag.topological_sort()] == ["delete_table"]
    assert [outlet.uri for outlet in dag.get_task("delete_table").outlets] == ["hipslake://tables/sample"]
    fields = {"keys", "keys_file", "filters", "max_fraction", "force"}
    assert set(dag.params) == fields
    assert dag.params["max_fraction"] == forms.MAX_FRACTION
    assert "Files of deletes say which rows" in dag.doc_md
    table.write_text(SPEC.format(root=tmp_path))
    dag = load()[DELETE]
    assert set(dag.params) == {*fields, "key"}
    assert "write.delete.mode" in dag.doc_md
    check_form(dag.params)


@pytest.mark.parametrize(
    ("name", "value"), [("keys", "17"), ("keys_file", ""), ("filters", 17), ("key", "id"), ("key", [""])]
)
def test_values_out_of_bounds_are_refused(
    load: Load, table: Path, tmp_path: Path, name: str, value: object
) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    table.write_text(SPEC.format(root=tmp_path))
    with pytest.raises(ParamValidationError):
        load()[DELETE].params.get_param(name).resolve(value)


@pytest.mark.system
def test_rows_go_by_every_field_of_the_form(airflow: Path, load: Load, table: Path, tmp_path: Path) -> None:
    spec = load_spec(table, TableSpec)
    lake = Lake(tmp_path)
    lake.warehouse = str(table.parents[2] / "warehouse")
    lake.sink(spec, pa.table({"id": range(100), "x": [float(number) for number in range(100)]}))

    def delete(**conf: Any) -> Any:
        return load()[DELETE].test(run_conf=conf)  # a DAG keeps the values of its last form

    def ids() -> list[int]:
        found: list[int] = lake.rows(spec)["id"].to_pylist()
        return found

    assert states(delete(filters="x > 50")) == {"delete_table": "failed"}
    assert ids() == list(range(100))
    run = delete(filters="x >= 90", max_fraction=0.1)
    assert states(run) == {"delete_table": "success"}
    folder = RunFolder(run_uri(lake.warehouse, DELETE, run.run_id))
    report = folder.read(RunFolder.report_path("delete_table"), DeleteTableRowsReport)
    assert (report.deleted, report.rows_out, report.delete_files) == (10, 90, 1)
    assert states(delete(filters="x >= 90")) == {"delete_table": "skipped"}
    delete(keys=["0", "1", "777"], force=True)
    csv.write_csv(pa.table({"x": [0.0], "id": [2]}), tmp_path / "keys.csv")
    delete(keys_file=f"{tmp_path}/keys.csv", force=True)
    assert ids() == list(range(3, 90))
