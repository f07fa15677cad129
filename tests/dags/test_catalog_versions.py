"""The DAGs of rollback and vacuum: their forms, and whole runs of them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import ParamValidationError
from hipslake import Catalog
from hipslake.steps.run import RunFolder, run_uri
from hipslake.steps.upkeep.request import RepairReport, VacuumReport
from hipslake.storage.folder import Storage
from hipslake.versions.log import VersionLog

from tests.dags.dag_runs import Load, check_form, states
from tests.steps import in_process

pytestmark = pytest.mark.sampled(2)


@pytest.fixture
def root(tmp_path: Path, stars: Path) -> Path:
    """The catalog `stars` with three versions."""
    for run_id, threshold in (("a", "400 rows"), ("b", "300 rows"), ("c", "200 rows")):
        in_process.write_spec(stars, f"{tmp_path}/landing/*.parquet", threshold=threshold)
        in_process.ingest(in_process.start(tmp_path / "warehouse", stars, run_id))
    return tmp_path / "warehouse" / "catalogs" / "stars"


def test_every_spec_has_one_of_each(load: Load, stars: Path) -> None:
    dags = load()
    tasks = {dag_id: [task.task_id for task in dag.topological_sort()] for dag_id, dag in dags.items()}
    assert tasks["catalog_rollback__stars"] == ["resolve", "rollback", "view"]
    assert tasks["catalog_vacuum__stars"] == ["vacuum"]
    assert tasks["catalog_verify__stars"] == ["resolve", "verify"]
    assert tasks["catalog_repair__stars"] == ["repair"]
    of_versions = ("rollback", "vacuum", "verify", "repair")
    for dag_id in (f"catalog_{what}__stars" for what in of_versions):
        assert dags[dag_id].doc_md
        assert dags[dag_id].max_active_runs == 1
        params = dags[dag_id].params
        check_form(params)


def test_a_broken_spec_has_no_dag_of_any_pipeline(load: Load, specs: Path) -> None:
    (specs / "broken.yaml").write_text("name: broken\nsorce:\n  uri: x\n")
    assert not [dag_id for dag_id in load() if "__" in dag_id]


def test_the_spec_gives_the_vacuum_its_schedule_and_defaults(load: Load, specs: Path, tmp_path: Path) -> None:
    in_process.write_spec(specs / "stars.yaml", "x/*.parquet")
    dag = load()["catalog_vacuum__stars"]
    assert type(dag.timetable).__name__ == "NullTimetable"
    assert {name: dag.params[name] for name in dag.params} == {
        "keep_versions": 10,
        "keep_days": 7.0,
        "dry_run": True,
    }
    more = 'vacuum: {keep_versions: 3, keep_days: 0.5, schedule: "0 5 * * SUN"}'
    in_process.write_spec(specs / "stars.yaml", "x/*.parquet", more=more)
    dag = load()["catalog_vacuum__stars"]
    assert type(dag.timetable).__name__ == "CronTriggerTimetable"
    assert (dag.params["keep_versions"], dag.params["keep_days"], dag.params["dry_run"]) == (3, 0.5, True)


@pytest.mark.parametrize(
    ("pipeline", "name", "value"),
    [
        ("rollback", "version", 0),
        ("rollback", "version", -1),
        ("rollback", "version", 1.5),
        ("rollback", "version", "1"),
        ("rollback", "version", None),
        ("rollback", "version", True),
        ("vacuum", "keep_versions", 0),
        ("vacuum", "keep_versions", "all"),
        ("vacuum", "keep_versions", 10**9),
        ("vacuum", "keep_days", -1),
        ("vacuum", "keep_days", "{{ ds }}"),
        ("vacuum", "keep_days", 1e9),
        ("vacuum", "dry_run", "no"),
        ("vacuum", "dry_run", None),
    ],
)
def test_params_out_of_bounds_are_refused(
    load: Load, stars: Path, pipeline: str, name: str, value: object
) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    params = load()[f"catalog_{pipeline}__stars"].params
    with pytest.raises(ParamValidationError):
        params.get_param(name).resolve(value)


@pytest.mark.system
def proposed(dag: Any) -> list[str] | None:
    """The versions that the form of a DAG proposes; None where a number is typed."""
    schema = dag.params.get_param("version").schema
    assert ("string" in schema["type"]) == ("examples" in schema)
    return schema.get("examples")


def test_forms_propose_the_versions_that_can_be_read_and_take_others(load: Load, root: Path) -> None:
    log = VersionLog(Storage.at(root))
    dags = load()
    assert proposed(dags["catalog_rollback__stars"]) == ["2", "1"]
    assert proposed(dags["catalog_export"]) == [str(number) for number in reversed(log.numbers())]
    assert proposed(dags["cube_query"]) is None
    log.entomb(1)
    (root / "_versions" / "00000009.json.tmp").write_text("{}")
    (root / "_versions" / "10.json").write_text("{}")
    dags = load()
    assert log.numbers() == [2, 3]
    assert proposed(dags["catalog_rollback__stars"]) == ["2"]
    assert proposed(dags["catalog_export"]) == ["3", "2"]
    param = dags["catalog_rollback__stars"].params.get_param("version")
    assert [param.resolve(value) for value in ("2", 2, 77, "77")] == ["2", 2, 77, "77"]
    for value in (0, "0", "-1", "2 ", "two", "", 1.5, None, "1234567890"):
        with pytest.raises(ParamValidationError):
            param.resolve(value)


def test_of_a_catalog_that_is_not_there_or_in_an_object_store_a_number_is_typed(
    load: Load, stars: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert proposed(load()["catalog_rollback__stars"]) is None
    monkeypatch.setenv("HIPSLAKE_WAREHOUSE", "s3://bucket/warehouse")
    dags = load()
    assert proposed(dags["catalog_rollback__stars"]) is None
    assert proposed(dags["catalog_export"]) is None
    assert dags["catalog_export"].params.get_param("version").resolve(None) is None


class TestRuns:
    """Whole DAG runs."""

    def test_a_rollback_publishes_the_old_content_with_its_asset_and_its_view(
        self, airflow: Path, load: Load, root: Path
    ) -> None:
        from airflow.models.asset import AssetEvent
        from airflow.utils.session import create_session
        from sqlalchemy import select

        run = load()["catalog_rollback__stars"].test(run_conf={"version": "1"})
        assert states(run) == dict.fromkeys(["resolve", "rollback", "view"], "success")
        catalog = Catalog.open(root)
        assert (catalog.version, catalog.metadata.restored) == (4, 1)
        catalog.verify().raise_if_failed()
        assert catalog.metadata.write_id in (root / "collection.properties").read_text()
        with create_session() as session:
            query = select(AssetEvent.extra).where(AssetEvent.source_run_id == run.run_id)
            extra = [event for (event,) in session.execute(query)]
        assert [(event["rows"], event["version"], event["uri"]) for event in extra] == [(3000, 4, str(root))]

    def test_a_rollback_to_no_version_fails_at_once_and_changes_nothing(
        self, airflow: Path, load: Load, root: Path, capsys: Any, caplog: Any
    ) -> None:
        VersionLog(Storage.at(root)).entomb(1)
        for version, why in ((9, "version 9 does not exist"), (1, "version 1 was vacuumed")):
            run = load()["catalog_rollback__stars"].test(run_conf={"version": version})
            assert states(run) == {"resolve": "success", "rollback": "failed", "view": "upstream_failed"}
            out = capsys.readouterr()
            assert f"{why}; there are: 2, 3" in out.out + out.err + caplog.text
        assert Catalog.open(root).version == 3

    def test_a_vacuum_deletes_only_where_it_is_told_to(self, airflow: Path, load: Load, root: Path) -> None:
        dag = load()["catalog_vacuum__stars"]
        before = sorted(root.rglob("*"))
        run = dag.test(run_conf={"keep_days": 0, "keep_versions": 2})
        assert states(run) == {"vacuum": "success"}
        assert sorted(root.rglob("*")) == before
        folder = RunFolder(run_uri(str(root.parents[1]), run.dag_id, run.run_id))
        report = folder.read(RunFolder.report_path("vacuum"), VacuumReport)
        assert (report.dry_run, report.vacuumed, report.kept) == (True, (1,), (2, 3))
        assert report.files > 0
        run = dag.test(run_conf={"keep_days": 0, "keep_versions": 2, "dry_run": False})
        assert states(run) == {"vacuum": "success"}
        assert Catalog.open(root).versions() == [2, 3]
        Catalog.open(root, version=2).verify().raise_if_failed()


@pytest.mark.parametrize(("run_type", "left"), [("scheduled", [2, 3]), ("manual", [1, 2, 3])])
def test_what_the_schedule_starts_does_what_the_spec_says(
    load: Load, root: Path, run_type: str, left: list[int]
) -> None:
    task = load()["catalog_vacuum__stars"].get_task("vacuum")
    params = {"keep_versions": 2, "keep_days": 0, "dry_run": True}
    run = SimpleNamespace(dag_id="catalog_vacuum__stars", run_id="clean", run_type=run_type)
    summary = task.execute({"params": params, "dag_run": run})
    assert summary["dry_run"] is (run_type == "manual")
    assert Catalog.open(root).versions() == left


@pytest.mark.system
def test_what_is_damaged_is_told_by_one_dag_and_mended_by_the_other(
    airflow: Path, load: Load, root: Path
) -> None:
    rows = Catalog.open(root).read()
    (root / "SHA256SUMS").unlink()
    (root / "metadata.json").write_bytes((root / "_versions" / "00000002.json").read_bytes())
    older = root / "_versions" / "00000001.json"
    note = older.read_bytes()
    older.write_bytes(note[:-9])

    def verified(**conf: bool) -> dict[str, str]:
        return states(load()["catalog_verify__stars"].test(run_conf=conf))

    def repaired(**conf: bool) -> RepairReport:
        run = load()["catalog_repair__stars"].test(run_conf=conf)
        folder = RunFolder(run_uri(str(root.parents[1]), "catalog_repair__stars", run.run_id))
        assert states(run) == {"repair": "success"}
        return folder.read(RunFolder.report_path("repair"), RepairReport)

    assert verified() == verified(all_versions=False) == {"resolve": "success", "verify": "failed"}
    told = repaired()
    assert told.dry_run
    assert {problem.path for problem in told.mended} == {"SHA256SUMS", "metadata.json"}
    assert not (root / "SHA256SUMS").exists()
    done = repaired(dry_run=False)
    assert (done.mended, done.problems_left) == (told.mended, 1)
    assert "Mended 2 files" in done.text
    assert verified(all_versions=False) == {"resolve": "success", "verify": "success"}
    assert verified() == {"resolve": "success", "verify": "failed"}
    older.write_bytes(note)
    assert verified() == {"resolve": "success", "verify": "success"}
    assert Catalog.open(root).read().equals(rows)
