"""The example of a DAG of one's own that the documentation shows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hipslake import Catalog

from tests.airflow_home import PROJECT

EXAMPLES = PROJECT / "docs" / "examples" / "dags"


BUNDLE = {
    "name": "examples",
    "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
    "kwargs": {"path": str(EXAMPLES)},
}


@pytest.mark.usefixtures("airflow")
def test_operators_serve_in_a_dag_of_ones_own(
    stars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.dag_processing.dagbag import DagBag

    monkeypatch.setenv("AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST", json.dumps([BUNDLE]))
    bag = DagBag(str(EXAMPLES))
    assert bag.import_errors == {}
    run = bag.dags["survey_night"].test()
    assert {str(instance.state) for instance in run.get_task_instances()} == {"success"}
    rows = run.get_task_instance("rows_of").xcom_pull(task_ids="rows_of")
    assert rows == Catalog.open(tmp_path / "warehouse" / "catalogs" / "stars").read().num_rows > 0
