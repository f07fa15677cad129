"""The DAG that deletes rows: its form, and whole runs of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
from hipslake import Catalog
from hipslake.errors import CorruptFileError, SourceNotFoundError, SpecError
from hipslake.steps.delete.request import MAX_FRACTION, DeleteReport
from hipslake.steps.keys_file import keys_in
from hipslake.steps.run import RunFolder, run_uri
from hipslake_airflow.params import catalog as forms

from tests.dags.dag_runs import Load, check_form, states, without_key
from tests.steps.upserts import Record, UpsertSurvey

DELETE = "catalog_delete__stars"


def test_catalogs_of_nights_have_one(load: Load, survey: UpsertSurvey, specs: Path) -> None:
    dag = load()[DELETE]
    assert [task.task_id for task in dag.topological_sort()] == ["resolve", "delete", "view"]
    assert set(dag.params) == {"keys", "keys_file", "filters", "region", "max_fraction", "force"}
    assert dag.params["max_fraction"] == forms.MAX_FRACTION == MAX_FRACTION
    assert dag.doc_md
    assert "until a night brings a later record" in dag.doc_md
    check_form(dag.params)
    text = (specs / "stars.yaml").read_text()
    kept = without_key(text)
    replaced = kept.replace("/night={{ night }}", "")
    (specs / "stars.yaml").write_text(replaced)
    assert "catalog_ingest__stars" in load()
    assert DELETE not in load()
    (specs / "stars.yaml").write_text(f"{kept}\nmode: append\n")
    assert "brings all its rows anew" in load()[DELETE].doc_md


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("keys", "17"),
        ("keys", [1.5]),
        ("keys", [[1, 2]]),
        ("keys_file", ""),
        ("filters", 17),
        ("max_fraction", 1.1),
        ("max_fraction", -0.1),
        ("max_fraction", None),
        ("force", "yes"),
    ],
)
def test_values_out_of_bounds_are_refused(load: Load, survey: UpsertSurvey, name: str, value: object) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    with pytest.raises(ParamValidationError):
        load()[DELETE].params.get_param(name).resolve(value)


@pytest.mark.system
def test_rows_go_by_every_field_of_the_form(
    airflow: Path, load: Load, survey: UpsertSurvey, tmp_path: Path
) -> None:
    survey.upsert(0, [Record("I", key, key, 10 + key / 10, 5.0, float(key), 0) for key in range(100)])

    def delete(**conf: Any) -> Any:
        return load()[DELETE].test(run_conf=conf)  # a DAG keeps the values of its last form

    def ids() -> list[int]:
        found: list[int] = Catalog.open(survey.root).read()["id"].to_pylist()
        return sorted(found)

    refused = delete(filters="mag > 50")
    assert states(refused) == {"resolve": "success", "delete": "failed", "view": "upstream_failed"}
    assert ids() == list(range(100))
    run = delete(filters="mag >= 90", max_fraction=0.1)
    assert set(states(run).values()) == {"success"}
    folder = RunFolder(run_uri(survey.warehouse, DELETE, run.run_id))
    report = folder.read(RunFolder.report_path("delete"), DeleteReport)
    assert (report.deleted, report.total_rows, report.version, report.parent) == (10, 90, 2, 1)
    again = delete(filters="mag >= 90")
    assert states(again) == {"resolve": "success", "delete": "skipped", "view": "skipped"}
    assert Catalog.open(survey.root).version == 2
    delete(keys=["0", "1", "777"], force=True)
    pq.write_table(pa.table({"id": [2, 3]}), tmp_path / "keys.parquet")
    delete(keys_file=f"{tmp_path}/keys.parquet", force=True)
    csv.write_csv(pa.table({"mag": [0.0], "id": [4]}), tmp_path / "keys.csv")
    delete(keys_file=f"{tmp_path}/keys.csv", force=True)
    delete(region="cone 10.5 5 2arcsec", force=True)
    assert ids() == list(range(6, 90))
    Catalog.open(survey.root).verify(all=True).raise_if_failed()


def test_files_that_are_none_of_keys(tmp_path: Path) -> None:
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and no more of it")
    (tmp_path / "text").write_text("root:x:0\nroot:x,0,secret\n")
    with pytest.raises(CorruptFileError, match="neither Parquet nor CSV"):
        keys_in(f"{tmp_path}/broken.parquet")
    with pytest.raises(CorruptFileError, match="neither Parquet nor CSV") as told:
        keys_in(f"{tmp_path}/text")
    assert "secret" not in str(told.value)
    with pytest.raises(SourceNotFoundError, match="does not exist"):
        keys_in(f"{tmp_path}/gone.csv")
    with pytest.raises(SpecError, match="no regular file"):
        keys_in("/dev/zero")
