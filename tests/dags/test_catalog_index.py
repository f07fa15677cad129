"""The index in the ingest DAG, and the DAG that builds it anew."""

from __future__ import annotations

from pathlib import Path

from hipslake import Catalog

from tests.dags.dag_runs import Load
from tests.steps.nights import FIRST, Survey, night_rows


def test_a_version_is_indexed_before_it_is_verified(load: Load, stars: Path) -> None:
    assert "catalog_index__stars" not in load()
    stars.write_text(stars.read_text() + "\nindex: [id]\n")
    dags = load()
    dag = dags["catalog_ingest__stars"]
    assert "write" in dag.get_task("index").upstream_task_ids
    assert "index" in dag.get_task("verify").upstream_task_ids
    assert [task.task_id for task in dags["catalog_index__stars"].topological_sort()] == [
        "resolve",
        "index",
        "view",
    ]


def test_the_index_of_a_survey_is_built_anew(load: Load, specs: Path, tmp_path: Path, airflow: Path) -> None:
    survey = Survey(tmp_path, more='schedule: "0 0 * * *"\nindex: [id]')
    (specs / "stars.yaml").write_text(survey.spec.read_text())
    survey.spec.unlink()
    survey.land(0, night_rows(0))
    dags = load()
    end = FIRST.replace(day=FIRST.day + 1)
    night = dags["catalog_ingest__stars"].test(logical_date=end, run_conf={"wait_minutes": 0})
    assert str(night.state) == "success"
    assert str(load()["catalog_index__stars"].test().state) == "success"
    catalog = Catalog.open(survey.root)
    assert catalog.version == 2
    assert catalog.metadata.index_of("id") is not None
    assert catalog.find("id", [3, 5, -1])["id"].to_pylist() in ([3, 5], [5, 3])
    assert "all_indexes=id " in (survey.root / "collection.properties").read_text()
