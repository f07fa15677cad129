"""The DAGs of compactions: their forms, and whole runs of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.dags.dag_runs import Load, check_form
from tests.tables.compaction.compacting import files_in, rows_in, stars, write_folder
from tests.tables.sinking import Lake

SPEC = """\
name: stars
type: compaction
folder: {{uri: "{root}/stars", output: "{root}/compacted"}}
mode: hilbert
columns: [ra, dec]
target_file_size: 40 KiB
"""


@pytest.fixture
def tables(specs: Path) -> Path:
    """The folder of the specs of tables."""
    folder = specs.parent / "tables"
    folder.mkdir()
    return folder


@pytest.fixture
def folder(tables: Path, tmp_path: Path) -> Path:
    """Files of stars, and the spec that compacts them."""
    (tables / "stars.yaml").write_text(SPEC.format(root=tmp_path))
    return write_folder(tmp_path / "stars", stars(5000), 12)


def resolved(dag: Any, run_id: str = "by hand", **params: Any) -> Any:
    """The task that compacts, in a run whose first task is done."""
    pushed: dict[str, Any] = {}
    ti = SimpleNamespace(xcom_push=lambda key, value: pushed.__setitem__(key, value))
    run = SimpleNamespace(dag_id=dag.dag_id, run_id=run_id)
    dag.get_task("resolve").execute({"params": params, "dag_run": run, "ti": ti})
    task = dag.get_task("compact_table")
    task.run_uri = pushed["run_uri"]
    return task


def executed(dag: Any, run_id: str = "by hand", **params: Any) -> dict[str, Any]:
    found: dict[str, Any] = resolved(dag, run_id, **params).execute({})
    return found


def test_a_spec_gives_a_dag_with_a_form_that_explains_itself(load: Load, folder: Path) -> None:
    dags = load()
    assert "iceberg_sink__stars" not in dags
    dag = dags["table_compact__stars"]
    assert [task.task_id for task in dag.topological_sort()] == ["resolve", "compact_table"]
    assert "hilbert curve by ra, dec" in dag.doc_md
    assert list(dag.params) == ["partitions", "full", "dry_run"]
    check_form(dag.params)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("", "after each sink into the table"),
        ("schedule: manual", "by hand only"),
        ("schedule: 0 4 * * *", "by the schedule `0 4 * * *` (UTC)"),
    ],
)
def test_a_compaction_follows_the_sinks_into_its_table(
    load: Load, tables: Path, more: str, told: str
) -> None:
    sink = "name: {name}\nsource: {{catalog: stars}}\ntable: survey.{table}\n"
    (tables / "nights.yaml").write_text(sink.format(name="nights", table="stars"))
    (tables / "other.yaml").write_text(sink.format(name="other", table="other"))
    (tables / "stars.yaml").write_text(f"name: stars\ntype: compaction\ntable: survey.stars\n{more}\n")
    dag = load()["table_compact__stars"]
    assert told in dag.doc_md
    assert ("hipslake://tables/nights" in repr(dag.timetable.asset_condition)) is (not more)
    assert "hipslake://tables/other" not in repr(dag.timetable.asset_condition)


def test_a_spec_of_a_compaction_is_no_sink(load: Load, folder: Path) -> None:
    assert [name for name in load() if name.endswith("__stars")] == ["table_compact__stars"]


def test_the_catalog_of_a_table_is_reached_by_its_connection(load: Load, tables: Path) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    (tables / "stars.yaml").write_text(
        "name: stars\ntype: compaction\ntable: survey.stars\niceberg: {connection: lake}\n"
    )
    with pytest.raises(AirflowFailException, match="names the connection 'lake', and there is none"):
        executed(load()["table_compact__stars"])


def test_specs_of_sinks_and_a_missing_folder_give_none(load: Load, specs: Path) -> None:
    assert not [name for name in load() if name.startswith("table_compact")]
    (specs.parent / "tables").mkdir()
    (specs.parent / "tables" / "sink.yaml").write_text("name: sink\ntable: a.b\n")
    assert "table_compact__sink" not in load()


def test_a_broken_spec_is_told(load: Load, told: Callable[[], str], tables: Path) -> None:
    (tables / "bad.yaml").write_text("name: bad\ntype: compaction\ntable: a.b\nmode: zorder\n")
    assert "table_compact__bad" not in load()
    assert "mode zorder needs at least one column to cluster by" in told()


def test_the_task_compacts_what_its_spec_says(load: Load, folder: Path, tmp_path: Path) -> None:
    summary = executed(load()["table_compact__stars"])
    assert rows_in(tmp_path / "compacted").equals(rows_in(folder))
    assert summary["version"] == str(tmp_path / "compacted")
    assert summary["files"] == len(files_in(tmp_path / "compacted"))
    assert (summary["rows_in"], summary["rows_out"]) == (5000, 5000)
    assert executed(load()["table_compact__stars"])["reused"] is True


def test_an_edit_in_mid_run_changes_nothing_and_old_runs_go(
    load: Load, folder: Path, tables: Path, tmp_path: Path
) -> None:
    dag = load()["table_compact__stars"]
    old = Path(resolved(dag, "old").run_uri, "run.json")
    told = json.loads(old.read_text())
    old.write_text(json.dumps(told | {"created": "2026-01-01T00:00:00Z"}))
    task = resolved(dag)
    assert not old.parent.exists()
    (tables / "stars.yaml").write_text("name: stars\ntype: compaction\ntable: nobody.stars\n")
    assert task.execute({})["version"] == str(tmp_path / "compacted")


def test_a_dry_run_is_asked_for_in_the_form(load: Load, folder: Path, tmp_path: Path) -> None:
    summary = executed(load()["table_compact__stars"], dry_run=True)
    assert (summary["version"], summary["dry_run"]) == ("", True)
    assert not (tmp_path / "compacted").exists()


@pytest.mark.parametrize(
    ("line", "params", "message"),
    [
        ("columns: [flux]", {}, "SpecError: no column flux to cluster by"),
        ("columns: [tags]", {}, "InputError: column tags is list"),
        ("columns: [ra]", {"partitions": "night > 3"}, "SpecError: .* has no partitions to filter by"),
        ("columns: [ra, dec, ra]", {}, "named twice to cluster by"),
    ],
)
def test_what_makes_no_sense_fails_at_once(
    load: Load, folder: Path, tables: Path, line: str, params: dict[str, Any], message: str
) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    path = tables / "stars.yaml"
    path.write_text(path.read_text().replace("columns: [ra, dec]", line))
    with pytest.raises(AirflowFailException, match=message):
        executed(load()["table_compact__stars"], **params)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("partitions", 3),
        ("partitions", ["name = 'a'"]),
        ("partitions", "x" * 10_001),
        ("full", "yes"),
        ("full", None),
        ("dry_run", 1),
    ],
)
def test_params_out_of_bounds_are_refused(load: Load, folder: Path, name: str, value: object) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    with pytest.raises(ParamValidationError):
        load()["table_compact__stars"].params.get_param(name).resolve(value)


@pytest.mark.parametrize(
    ("partitions", "says"),
    [
        ("1=1", "expected a column on one side"),
        ("name = 'a'; drop table stars", "';' at 11 has no meaning here"),
        ("__import__('os').system('true')", "has no meaning here"),
        ("name = 'a", "has no meaning here"),
        ("(" * 4000 + "name = 'a'" + ")" * 4000, "nested more than 50 deep"),
        ("id = 3", "no column 'id'; the columns are name"),
        ("name = 3", "column 'name' is of type large_string"),
        ("name in ()", r"found '\)' at 10"),
        ("name = '\u202e'", ""),  # a value like any other
        ("name = '\x00'", "partitions: holds a zero character"),
        (" \n", ""),  # as empty
    ],
)
def test_what_a_form_may_hold_in_malice_is_a_filter_or_an_error(
    load: Load, tables: Path, tmp_path: Path, partitions: str, says: str
) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    lake = Lake(tmp_path)
    lake.sink(lake.spec(partition=["name"]), stars(8))
    (tables / "stars.yaml").write_text(
        f"name: stars\ntype: compaction\ntable: survey.sample\n"
        f"iceberg: {{uri: 'sqlite:///{tmp_path}/state/iceberg.db'}}\n"
    )
    dag = load()["table_compact__stars"]
    if not says:
        assert executed(dag, partitions=partitions)["version"] == ""
        return
    with pytest.raises(AirflowFailException, match=says):
        executed(dag, partitions=partitions)


@pytest.mark.system
def test_a_run_of_the_dag_compacts(airflow: Path, load: Load, folder: Path, tmp_path: Path) -> None:
    run = load()["table_compact__stars"].test()
    states = {task.task_id: str(task.state) for task in run.get_task_instances()}
    assert states == {"resolve": "success", "compact_table": "success"}
    assert rows_in(tmp_path / "compacted").equals(rows_in(folder))
