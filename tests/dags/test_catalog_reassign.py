"""The DAG that gives rows to other objects: its form, and whole runs of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
from hipslake import Catalog
from hipslake.steps.reassign.request import ReassignReport
from hipslake.steps.run import RunFolder, run_uri

from tests.dags.dag_runs import Load, check_form, states, without_key
from tests.steps.upserts import Record, UpsertSurvey

REASSIGN = "catalog_reassign__stars"


def test_catalogs_in_mode_upsert_have_one(load: Load, survey: UpsertSurvey, specs: Path) -> None:
    dag = load()[REASSIGN]
    assert [task.task_id for task in dag.topological_sort()] == ["resolve", "reassign", "view"]
    fields = {"to", "keys", "keys_file", "filters", "region", "column", "max_fraction", "force"}
    assert set(dag.params) == fields
    assert dag.doc_md
    assert "a later record of the key does" in dag.doc_md
    check_form(dag.params)
    text = (specs / "stars.yaml").read_text()
    (specs / "stars.yaml").write_text(f"{text}\nvalidity: {{from: begin, to: end}}\n")
    assert REASSIGN not in load()
    kept = without_key(text)
    (specs / "stars.yaml").write_text(f"{kept}\nmode: append\n")
    assert "catalog_delete__stars" in load()
    assert REASSIGN not in load()


@pytest.mark.parametrize(
    ("name", "value"), [("keys", "17"), ("keys", [1.5]), ("to", 17), ("max_fraction", 1.1), ("force", "yes")]
)
def test_values_out_of_bounds_are_refused(load: Load, survey: UpsertSurvey, name: str, value: object) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    with pytest.raises(ParamValidationError):
        load()[REASSIGN].params.get_param(name).resolve(value)


@pytest.mark.system
def test_rows_get_objects_by_every_field_of_the_form(
    airflow: Path, load: Load, survey: UpsertSurvey, tmp_path: Path
) -> None:
    survey.upsert(0, [Record("I", key, key, 10 + key / 10, 5.0, float(key), 0) for key in range(100)])

    def reassign(**conf: Any) -> Any:
        return load()[REASSIGN].test(run_conf={"column": "night"} | conf)

    def of(night: int) -> list[int]:
        found: list[int] = Catalog.open(survey.root).read(filters=f"night = {night}")["id"].to_pylist()
        return sorted(found)

    refused = reassign(filters="mag > 50", to="1")
    assert states(refused) == {"resolve": "success", "reassign": "failed", "view": "upstream_failed"}
    assert of(0) == list(range(100))
    run = reassign(filters="mag >= 90", to="1", max_fraction=0.1)
    assert set(states(run).values()) == {"success"}
    folder = RunFolder(run_uri(survey.warehouse, REASSIGN, run.run_id))
    report = folder.read(RunFolder.report_path("reassign"), ReassignReport)
    assert (report.reassigned, report.total_rows, report.version, report.parent) == (10, 100, 2, 1)
    again = reassign(filters="mag >= 90", to="1", max_fraction=0.1)
    assert states(again) == {"resolve": "success", "reassign": "skipped", "view": "skipped"}
    assert Catalog.open(survey.root).version == 2
    reassign(keys=["0", "1", "777"], to="2", force=True)
    pq.write_table(pa.table({"night": [2, 3], "id": [2, 3]}), tmp_path / "objects.parquet")
    reassign(keys_file=f"{tmp_path}/objects.parquet", force=True)
    csv.write_csv(pa.table({"id": [4]}), tmp_path / "keys.csv")
    reassign(keys_file=f"{tmp_path}/keys.csv", to="3", force=True)
    reassign(region="cone 10.5 5 2arcsec", to="3", force=True)
    catalog = Catalog.open(survey.root)
    assert (of(1), of(2), of(3)) == ([*range(90, 100)], [0, 1, 2], [3, 4, 5])
    assert catalog.version == 6
    catalog.verify(all=True).raise_if_failed()
