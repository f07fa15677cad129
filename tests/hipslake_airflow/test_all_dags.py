"""All DAGs come of one file: none is lost among hundreds of specs, and a task makes its own only."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hipslake.errors import SpecError
from hipslake.specs import spec_folder
from hipslake_airflow import check_specs, spec_dags
from hipslake_airflow.all_dags import pipeline_names

from tests import airflow_home

SPECS = 300
ONLY = "_AIRFLOW_PARSING_CONTEXT_DAG_ID"  # where Airflow notes which DAG a task wants
CATALOG: dict[str, Any] = {
    "source": {"uri": "/data/{name}/*.parquet", "format": "parquet"},
    "position": {"ra": "ra", "dec": "dec"},
    "margin": {"arcsec": [10]},
    "schedule": "30 2 * * *",
}
OF_A_CATALOG = ("ingest", "margin", "repair", "rollback", "vacuum", "verify")


def write(folder: Path, kind: str, name: str, fields: dict[str, Any]) -> Path:
    path = folder / kind / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump({"name": name} | fields))
    return path


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Hundreds of catalogs, a broken one, joins, sinks into few tables, compactions and cubes."""
    folder = tmp_path_factory.mktemp("specs")
    for number in range(SPECS):
        write(folder, "catalogs", f"survey_{number:03}", CATALOG)
    write(folder, "catalogs", "broken", CATALOG | {"thresold": "1M rows"})
    side = {"catalog": "survey_000"}
    for number in range(40):
        join = {"type": "crossmatch", "left": side, "right": {"catalog": f"survey_{number + 1:03}"}}
        write(folder, "joins", f"match_{number}", join | {"radius_arcsec": 1})
        sink = {"table": f"sky.t{number % 5}", "source": {"catalog": f"survey_{number:03}"}}
        write(folder, "tables", f"sink_{number}", sink)
        compaction = {"type": "compaction", "table": f"sky.t{number % 5}"}
        write(folder, "tables", f"compact_{number}", compaction)
    cube = {
        "dimension_columns": ["x"],
        "partition_columns": ["p"],
        "seed": "base",
        "datasets": {"base": {"catalog": "survey_000"}},
        "materialise": {"name": "joined"},
    }
    write(folder, "cubes", "sky", cube)
    return folder


@pytest.fixture(scope="module")
def every_dag(many: Path) -> dict[str, Any]:
    """The DAGs of all of them, which tests only look at."""
    return dict(spec_dags(many))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each spec file is read, and each folder listed."""
    counted: Counter[str] = Counter()

    def counting(name: str) -> Callable[..., Any]:
        done = getattr(spec_folder, name)

        def call(path: Path, *rest: Any) -> Any:
            counted[f"{name} {path.name}"] += 1
            return done(path, *rest)

        return call

    for name in ("find_specs", "load_yaml", "spec_type"):
        monkeypatch.setattr(spec_folder, name, counting(name))
    return counted


def test_hundreds_of_specs_are_each_read_once_in_time(many: Path, asked: Counter[str]) -> None:
    begun = time.process_time()
    dags = spec_dags(many)
    seconds = time.process_time() - begun
    for number in range(SPECS):
        ids = {f"catalog_{what}__survey_{number:03}" for what in OF_A_CATALOG}
        assert ids <= dags.keys()
    assert {f"catalog_crossmatch__match_{number}" for number in range(40)} <= dags.keys()
    assert {"catalog_vacuum__joined", "catalog_repair__joined", "cube_align__sky"} <= dags.keys()
    assert set(asked.values()) == {1}
    assert len([each for each in asked if each.startswith("find_specs")]) == 4
    assert not [dag_id for dag_id, dag in dags.items() if "broken" in dag_id or "failing" in dag.tags]
    assert seconds < 30  # what Airflow gives to the import of a file by default; here it takes three to six


def test_a_file_of_a_folder_reads_the_specs_of_that_folder_alone(
    many: Path, tmp_path: Path, asked: Counter[str]
) -> None:
    """However many others a deployment has: reading a DAG file again costs what its own specs cost."""
    for number in range(20):
        write(tmp_path, "catalogs", f"own_{number:02}", CATALOG)
    made = spec_dags(tmp_path)
    own = {f"own_{number:02}" for number in range(20)}
    read = {each: times for each, times in asked.items() if each.startswith("load_yaml")}
    assert read == {f"load_yaml {name}.yaml": 1 for name in own}
    assert {dag.partition("__")[2] for dag in made} - {""} == own


def test_sinks_are_followed_by_the_compactions_of_their_table(
    many: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ONLY, "table_compact__compact_3")
    [dag] = spec_dags(many).values()
    followed = {asset.name for asset in dag.timetable.asset_condition.objects}
    assert followed == {f"table/sink_{number}" for number in range(3, 40, 5)}


@pytest.mark.parametrize(
    ("dag_id", "read"),
    [
        ("catalog_ingest__survey_007", {"survey_007.yaml"}),
        ("catalog_vacuum__survey_007", {"survey_007.yaml"}),
        ("catalog_vacuum__match_7", {"match_7.yaml"}),
        ("catalog_vacuum__joined", set()),
        ("catalog_crossmatch__match_7", {"match_7.yaml"}),
        ("catalog_export", set()),
        ("no_such__dag", set()),
    ],
)
def test_a_task_makes_its_own_dag_of_its_own_spec(
    many: Path, asked: Counter[str], monkeypatch: pytest.MonkeyPatch, dag_id: str, read: set[str]
) -> None:
    monkeypatch.setenv(ONLY, dag_id)
    assert list(spec_dags(many)) == ([] if dag_id.startswith("no_such") else [dag_id])
    loaded = {each.removeprefix("load_yaml ") for each in asked if each.startswith("load_yaml")}
    assert loaded - {"sky.yaml"} == read  # a cube may make a catalog of any name


@pytest.mark.parametrize("name", pipeline_names())
def test_a_pipeline_is_named_as_its_module(name: str) -> None:
    from importlib import import_module

    assert import_module(f"hipslake_airflow.pipelines.{name}").PIPELINE.name == name


def test_forms_stand_on_dags_and_not_on_their_tasks(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    monkeypatch.setenv(ONLY, "catalog_ingest__survey_007")
    [dag] = spec_dags(many).values()
    assert set(dag.params) >= {"threshold", "force"}
    assert dag.params.get_param("force").schema["type"] == "boolean"
    told = DagSerialization.to_dict(dag)["dag"]
    assert {name for name, _ in told["params"]} == set(dag.params)
    assert not any(task["__var"].get("params") for task in told["tasks"])


@pytest.mark.parametrize(
    "dag_id",
    ["catalog_ingest__survey_007", "catalog_repair__match_7", "catalog_vacuum__joined", "cube_query"],
)
def test_a_task_of_any_dag_that_fails_is_told(
    many: Path, monkeypatch: pytest.MonkeyPatch, dag_id: str
) -> None:
    monkeypatch.setenv(ONLY, dag_id)
    monkeypatch.setenv("HIPSLAKE_ALERTS_CONN", "operators")
    [dag] = spec_dags(many).values()
    assert dag.tasks
    assert all(task.on_failure_callback for task in dag.tasks)


def test_the_names_that_are_shown_are_as_many_as_dags_and_those_of_a_catalog_stand_together(
    every_dag: dict[str, Any],
) -> None:
    shown = {dag.dag_display_name: dag_id for dag_id, dag in every_dag.items()}
    assert len(shown) == len(every_dag)
    assert shown["survey_007: ingest"] == "catalog_ingest__survey_007"
    of_one = [name for name in shown if "survey_007" in name]
    assert {name.partition(":")[0] for name in of_one} == {"survey_007"}
    names = sorted(shown)
    assert names[names.index(min(of_one)) :][: len(of_one)] == sorted(of_one)


def test_graphs_have_no_edge_beside_a_longer_way(every_dag: dict[str, Any]) -> None:
    """But one: whether other readers are shown a join depends on its first task, whatever lies between."""
    longer: dict[str, set[tuple[str, str]]] = {}
    for dag in every_dag.values():
        behind = {task.task_id: task.get_flat_relative_ids(upstream=False) for task in dag.tasks}
        longer.setdefault(dag.dag_id.partition("__")[0], set()).update(
            (task.task_id, last)
            for task in dag.tasks
            for last in task.downstream_task_ids
            if any(last in behind[between] for between in task.downstream_task_ids)
        )
        assert len(behind) == 1 or all(task.upstream_task_ids or behind[task.task_id] for task in dag.tasks)
    joins = ("catalog_crossmatch", "catalog_equijoin")
    assert longer == {pipeline: {("resolve", "view")} if pipeline in joins else set() for pipeline in longer}
    assert {"catalog_ingest", "catalog_crossmatch", "cube_align", "iceberg_sink"} <= longer.keys()


def test_the_dags_folder_holds_the_dags_and_what_is_wrong_with_specs() -> None:
    files = sorted(path.name for path in (airflow_home.PROJECT / "dags").glob("*.py"))
    assert files == ["spec_errors.py", "survey_pipelines.py"]


def test_all_that_is_wrong_with_specs_is_told_once(many: Path, asked: Counter[str]) -> None:
    with pytest.raises(SpecError) as raised:
        check_specs(many)
    assert str(raised.value).splitlines() == [
        "spec files cannot be read:",
        f"{many}/catalogs/broken.yaml:12: thresold: unknown key; did you mean 'threshold'?",
    ]
    assert set(asked.values()) == {1}
    (many / "catalogs" / "broken.yaml").rename(many / "broken.yaml")
    try:
        check_specs(many)
    finally:
        (many / "broken.yaml").rename(many / "catalogs" / "broken.yaml")


def test_without_the_spark_provider_it_is_said_what_to_install(many: Path) -> None:
    script = f"""
import sys
sys.modules["airflow.providers.apache.spark.operators.spark_submit"] = None
from hipslake_airflow import spec_dags
spec_dags({str(many)!r})
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    (last,) = done.stderr.strip().splitlines()[-1:]
    assert last.startswith("ImportError: hipslake's DAGs need airflow.providers.apache.spark")
    assert last.endswith("pip install 'hipslake[airflow]'")
