"""The DAGs that make margins: in an ingest where the spec asks for them, and for a published version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hipslake import Catalog

from tests.dags.dag_runs import Load, states
from tests.steps import in_process
from tests.steps.margins import assert_margins_are_exact

MARGIN = "margin: {arcsec: [3600]}"


def tasks(dag: Any) -> list[str]:
    return [task.task_id for task in dag.topological_sort()]


def test_the_ingest_makes_margins_where_the_spec_asks_for_them(load: Load, specs: Path) -> None:
    in_process.write_spec(specs / "stars.yaml", "x/*.parquet")
    assert "margin" not in tasks(load()["catalog_ingest__stars"])
    in_process.write_spec(specs / "stars.yaml", "x/*.parquet", more=MARGIN)
    found = tasks(load()["catalog_ingest__stars"])
    assert found[found.index("write") :] == ["write", "margin", "verify", "publish", "view"]


def test_margins_and_indices_are_made_side_by_side(load: Load, specs: Path) -> None:
    in_process.write_spec(specs / "stars.yaml", "x/*.parquet", more=f"{MARGIN}\nindex: [id]")
    dag = load()["catalog_ingest__stars"]
    for task_id in ("margin", "index"):
        assert dag.get_task(task_id).upstream_task_ids == {"write"}
        assert dag.get_task(task_id).downstream_task_ids == {"verify"}
    assert dag.get_task("verify").upstream_task_ids == {"margin", "index"}


def test_every_spec_has_a_dag_that_adds_margins(load: Load, stars: Path) -> None:
    dag = load()["catalog_margin__stars"]
    assert tasks(dag) == ["resolve", "margin", "view"]
    assert dag.doc_md
    assert dag.max_active_runs == 1
    assert dag.params["arcsec"] == [10.0]
    assert dag.params.get_param("arcsec").description


def test_the_form_offers_what_the_spec_says(load: Load, specs: Path) -> None:
    in_process.write_spec(specs / "stars.yaml", "x/*.parquet", more="margin: {arcsec: [10, 0.5]}")
    assert load()["catalog_margin__stars"].params["arcsec"] == [10.0, 0.5]


@pytest.mark.parametrize("value", [[], [0], [-1], [36_001], ["10"], "10", None, [10, 10], [True], 10])
def test_distances_out_of_bounds_are_refused(load: Load, stars: Path, value: object) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    with pytest.raises(ParamValidationError):
        load()["catalog_margin__stars"].params.get_param("arcsec").resolve(value)


@pytest.mark.system
def test_a_run_adds_margins_and_another_has_nothing_to_do(
    airflow: Path, load: Load, stars: Path, tmp_path: Path
) -> None:
    in_process.ingest(in_process.start(tmp_path / "warehouse", stars))
    dag = load()["catalog_margin__stars"]
    run = dag.test(run_conf={"arcsec": [3600, 60]})
    assert states(run) == dict.fromkeys(["resolve", "margin", "view"], "success")
    root = tmp_path / "warehouse" / "catalogs" / "stars"
    catalog = Catalog.open(root)
    assert catalog.version == 2
    assert list(assert_margins_are_exact(catalog)) == [3600.0, 60.0]
    catalog.verify().raise_if_failed()
    assert "main_3600arcs" in (root / "collection.properties").read_text()
    assert states(dag.test(run_conf={"arcsec": [60]}))["margin"] == "skipped"
    assert Catalog.open(root).versions() == [1, 2]
