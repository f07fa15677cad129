"""The DAG of exports: its form, and whole runs of it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from hipslake import Catalog

from tests.dags.dag_runs import Load
from tests.steps import in_process

CONE = "cone 80 30 3deg"


@pytest.fixture
def root(tmp_path: Path, stars: Path) -> Path:
    """The catalog `stars`."""
    in_process.ingest(in_process.start(tmp_path / "warehouse", stars))
    return tmp_path / "warehouse" / "catalogs" / "stars"


def test_there_is_one_with_a_form_that_explains_itself(load: Load, stars: Path) -> None:
    dag = load()["catalog_export"]
    assert [task.task_id for task in dag.tasks] == ["export"]
    assert "cone 56.75" in dag.doc_md
    assert list(dag.params) == [
        "catalog",
        "version",
        "changes_since",
        "key",
        "region",
        "columns",
        "filters",
        "format",
        "output",
        "overwrite",
    ]
    for name in dag.params:
        schema = dag.params.get_param(name).schema
        assert schema.get("title")
        assert dag.params.get_param(name).description
    assert dag.params.get_param("catalog").schema["examples"] == ["stars"]


def test_without_any_spec_there_is_one_too(load: Load, specs: Path) -> None:
    assert "catalog_export" in load()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("catalog", "../stars"),
        ("catalog", None),
        ("catalog", "Stars"),
        ("version", 0),
        ("version", "1"),
        ("changes_since", 0),
        ("changes_since", "now"),
        ("key", "id"),
        ("key", [""]),
        ("region", 3),
        ("region", "cone " * 100_000),
        ("columns", "id"),
        ("columns", [1]),
        ("columns", [""]),
        ("filters", "x" * 10_001),
        ("format", "hdf5"),
        ("output", ""),
        ("output", None),
        ("overwrite", "yes"),
    ],
)
def test_params_out_of_bounds_are_refused(load: Load, stars: Path, name: str, value: object) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    with pytest.raises(ParamValidationError):
        load()["catalog_export"].params.get_param(name).resolve(value)


def executed(dag: Any, **params: Any) -> dict[str, Any]:
    run = SimpleNamespace(dag_id="catalog_export", run_id="by hand")
    found: dict[str, Any] = dag.get_task("export").execute({"params": params, "dag_run": run})
    return found


def test_the_task_exports_what_its_form_says(load: Load, root: Path, tmp_path: Path) -> None:
    output = tmp_path / "out" / "some.fits.parquet"
    summary = executed(
        load()["catalog_export"],
        catalog="stars",
        version="1",
        region=CONE,
        columns=["mag", "id"],
        filters="mag < 13",
        format="parquet",
        output=str(output),
        overwrite=False,
    )
    expected = Catalog.open(root).read(["mag", "id"], "mag < 13", region=CONE)
    assert pq.read_table(output).equals(expected)
    assert (summary["rows_out"], summary["output"], summary["version"]) == (expected.num_rows, str(output), 1)
    assert summary["files"] == 1


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"catalog": "nobody"}, "CatalogNotFoundError"),
        ({"region": "cone 1 2 3"}, "RegionError: region 'cone 1 2 3' is not understood"),
        ({"filters": "magg < 3"}, "FilterError: .*did you mean 'mag'"),
        ({"columns": ["magg"]}, "SchemaMismatchError"),
        ({"output": "x.txt"}, "SpecError"),
    ],
)
def test_what_makes_no_sense_fails_at_once(
    load: Load, root: Path, params: dict[str, Any], message: str
) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    with pytest.raises(AirflowFailException, match=message):
        executed(load()["catalog_export"], **({"catalog": "stars", "output": "x.csv"} | params))


@pytest.mark.system
def test_a_run_with_the_defaults_exports_everything(airflow: Path, load: Load, root: Path) -> None:
    run = load()["catalog_export"].test(run_conf={"catalog": "stars", "output": "all.csv"})
    assert {task.task_id: str(task.state) for task in run.get_task_instances()} == {"export": "success"}
    lines = (root.parents[1] / "exports" / "all.csv").read_text().splitlines()
    assert len(lines) == 3001
