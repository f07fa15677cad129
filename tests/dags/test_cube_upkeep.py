"""The DAGs that see to cubes: their forms, and whole runs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from hipslake.api.cube import Cube

from tests.dags.dag_runs import Load
from tests.steps.cubes import cube_in, everything

FORMS = {
    "cube_remove_partitions": ["cube", "conditions", "datasets", "dry_run"],
    "cube_delete": ["cube", "datasets", "confirm", "dry_run"],
    "cube_copy": ["cube", "target", "datasets", "overwrite"],
    "cube_stats": ["cube", "version"],
    "cube_cleanup__sky": ["keep_versions", "keep_days", "dry_run"],
}
SPEC = {
    "name": "sky",
    "dimension_columns": ["x"],
    "partition_columns": ["p"],
    "datasets": {"seed": {"parquet": "/nowhere/*.parquet"}},
    "vacuum": {"keep_versions": 3, "schedule": "0 4 * * *"},
}


@pytest.fixture
def warehouse(specs: Path, tmp_path: Path) -> Path:
    folder = specs.parent / "cubes"
    folder.mkdir()
    (folder / "sky.yaml").write_text(yaml.safe_dump(SPEC))
    (folder / "bad.yaml").write_text("name: bad\n")
    cube_in(tmp_path / "warehouse")
    return tmp_path / "warehouse"


def executed(dag: Any, **params: Any) -> dict[str, Any]:
    (task,) = dag.tasks
    run = SimpleNamespace(dag_id=dag.dag_id, run_id="by hand", run_type="manual")
    form = {name: dag.params.get_param(name).value for name in dag.params if name not in params}
    found: dict[str, Any] = task.execute({"params": form | params, "dag_run": run})
    return found


def test_every_operation_has_a_form_that_explains_itself_and_removes_nothing_unasked(
    load: Load, warehouse: Path
) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    dags = load()
    for dag_id, fields in FORMS.items():
        dag = dags[dag_id]
        assert list(dag.params) == fields
        assert dag.doc_md.startswith("### ")
        for name in fields:
            param = dag.params.get_param(name)
            assert param.schema.get("title")
            assert param.description
            if name == "dry_run":
                assert param.value is True
            if name == "cube":
                assert "sky" in param.schema["examples"]
    assert dags["cube_cleanup__sky"].params.get_param("keep_versions").value == 3
    assert type(dags["cube_cleanup__sky"].timetable).__name__ == "CronTriggerTimetable"
    assert "cube_cleanup__bad" not in dags
    before = everything(warehouse)
    assert executed(dags["cube_remove_partitions"], cube="sky", conditions="p == 1")["rows_out"] == 17
    with pytest.raises(AirflowFailException, match="confirm: '' is not 'sky'"):
        executed(dags["cube_delete"], cube="sky")
    assert executed(dags["cube_delete"], cube="sky", confirm="sky")["dry_run"] is True
    assert executed(dags["cube_stats"], cube="sky")["rows_out"] == 100
    assert executed(dags["cube_cleanup__sky"])["dry_run"] is True
    assert everything(warehouse) == before


OUT_OF_BOUNDS: list[tuple[str, str, Any]] = [
    ("cube_remove_partitions", "cube", ""),
    ("cube_remove_partitions", "conditions", "x" * 10_001),
    ("cube_remove_partitions", "dry_run", "no"),
    ("cube_delete", "datasets", "seed"),
    ("cube_delete", "confirm", "x" * 201),
    ("cube_copy", "target", ""),
    ("cube_copy", "target", None),
    ("cube_copy", "overwrite", 1),
    ("cube_stats", "version", -1),
    ("cube_cleanup__sky", "keep_versions", 0),
]
SENSELESS: list[tuple[str, dict[str, Any], str]] = [
    ("cube_remove_partitions", {"conditions": "os.remove('x')"}, "ConditionError"),
    ("cube_remove_partitions", {"conditions": "x == 1"}, "CubeError: partitions are removed by"),
    ("cube_remove_partitions", {"cube": "../catalogs/stars", "conditions": "p == 1"}, "SpecError"),
    ("cube_delete", {"confirm": "sky", "datasets": ["../seed"]}, "CubeError: .*no dataset"),
    ("cube_copy", {"target": "../sky"}, "SpecError: cube '../sky' is neither"),
    ("cube_stats", {"cube": "nobody"}, "CatalogNotFoundError"),
]


def test_params_out_of_bounds_are_refused(load: Load, warehouse: Path) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    dags = load()
    for dag_id, name, value in OUT_OF_BOUNDS:
        with pytest.raises(ParamValidationError):
            dags[dag_id].params.get_param(name).resolve(value)


def test_what_makes_no_sense_fails_at_once_and_changes_nothing(load: Load, warehouse: Path) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    dags, before = load(), everything(warehouse)
    for dag_id, params, message in SENSELESS:
        given = {"cube": "sky", **params} | ({"dry_run": False} if "dry_run" in FORMS[dag_id] else {})
        with pytest.raises(AirflowFailException, match=message):
            executed(dags[dag_id], **given)
        assert everything(warehouse) == before


@pytest.mark.system
def test_a_copy_is_made_by_a_run_and_its_asset_says_so(airflow: Path, load: Load, warehouse: Path) -> None:
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session

    run = load()["cube_copy"].test(run_conf={"cube": "sky", "target": "twin"})
    assert {task.task_id: str(task.state) for task in run.get_task_instances()} == {"copy": "success"}
    assert Cube.open(f"{warehouse}/cubes/twin").query().num_rows == 60
    with create_session() as session:
        events = session.query(AssetEvent).join(AssetModel, AssetEvent.asset_id == AssetModel.id)
        (event,) = events.filter(
            AssetModel.uri == "hipslake://cubes/twin", AssetEvent.source_run_id == run.run_id
        )
        assert event.extra["version"] == 1
