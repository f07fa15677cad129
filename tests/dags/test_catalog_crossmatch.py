"""A DAG for every spec of a cross-match; its run publishes, or has nothing to do, or says what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from airflow.sdk import AssetAny
from airflow.sdk.definitions.timetables.assets import AssetTriggeredTimetable
from hipslake import Catalog

from tests.catalog.little import sky
from tests.catalog.matching import published, rows_at
from tests.dags.dag_runs import Load

DAG = "catalog_crossmatch__a_x_b"
SPEC = """\
name: a_x_b
type: crossmatch
left: {catalog: a, filters: "not id in (1, 2)"}
right: {catalog: b}
radius_arcsec: 60
"""


@pytest.fixture
def joins(specs: Path) -> Path:
    """The folder of join specs, with one in it."""
    folder = specs.parent / "joins"
    folder.mkdir()
    (folder / "a_x_b.yaml").write_text(SPEC)
    return folder


def test_every_crossmatch_has_its_steps_and_its_form(load: Load, joins: Path) -> None:
    (joins / "light_curves.yaml").write_text("name: light_curves\ntype: something_else\n")
    dags = load()
    assert [dag_id for dag_id in dags if dag_id.startswith("catalog_crossmatch")] == [DAG]
    dag = dags[DAG]
    assert [task.task_id for task in dag.topological_sort()] == [
        "resolve", "crossmatch", "verify", "publish", "view",
    ]  # fmt: skip
    assert "| left | `a`, rows with `not id in (1, 2)` |" in dag.doc_md
    assert "| right | `b` |" in dag.doc_md
    assert dag.params["radius_arcsec"] == 60
    assert set(dag.params) == {"radius_arcsec", "missing_margin", "threshold", "region", "full", "force"}
    assert dag.params["missing_margin"] == "refuse"
    assert dag.params.get_param("missing_margin").schema["enum"] == ["refuse", "build", "none"]


def test_a_radius_of_errors_has_its_own_field_in_the_form(load: Load, joins: Path) -> None:
    radius = "radius: {left: err, right: {error: e_pos, unit: mas}, sigmas: 3}\nneighbours: mutual\n"
    (joins / "a_x_b.yaml").write_text(SPEC.replace("radius_arcsec: 60\n", radius))
    dag = load()[DAG]
    assert dag.params["sigmas"] == 3
    assert set(dag.params) == {"sigmas", "missing_margin", "threshold", "region", "full", "force"}
    assert (
        "| separation | to 3 times the errors (quadrature: err of the left and e_pos of the right); "
        in dag.doc_md
    )
    assert "pairs of mutually nearest rows" in dag.doc_md


def test_margins_and_indices_of_an_outcome_are_tasks_before_it_is_verified(load: Load, joins: Path) -> None:
    (joins / "a_x_b.yaml").write_text(f"{SPEC}how: outer\nmargin: {{arcsec: [10, 60]}}\nindex: [id]\n")
    dag = load()[DAG]
    assert dag.task_dict["crossmatch"].downstream_task_ids == {"margin", "index"}
    assert dag.task_dict["verify"].upstream_task_ids == {"margin", "index"}
    assert "all rows of both catalogs, side by side where they match" in dag.doc_md
    assert 'a margin of 10" and 60"; an index of `id` |' in dag.doc_md


@pytest.mark.parametrize(
    ("more", "assets"),
    [
        ("", {"catalog/a", "catalog/b"}),
        ("right: {catalog: b, version: 3}\n", {"catalog/a"}),
        ("right: {catalog: /data/b}\n", {"catalog/a"}),
    ],
)
def test_a_match_follows_the_catalogs_whose_newest_versions_it_joins(
    load: Load, joins: Path, more: str, assets: set[str]
) -> None:
    text = "".join(
        line for line in SPEC.splitlines(keepends=True) if not (more and line.startswith("right:"))
    )
    (joins / "a_x_b.yaml").write_text(text + more)
    condition = load()[DAG].timetable.asset_condition
    assert isinstance(condition, AssetAny)  # either is enough
    assert {asset.name for asset in condition.objects} == assets


def test_a_match_follows_further_catalogs_and_tells_of_them(load: Load, joins: Path) -> None:
    further = (
        "further:\n- {right: {catalog: c, filters: mag < 3}, radius_arcsec: 2, how: left, neighbours: all}\n"
        "- {right: {catalog: d}, radius: {left: err, sigmas: 3}, min_radius_arcsec: 1, how: anti}\n"
    )
    (joins / "a_x_b.yaml").write_text(SPEC + further)
    dag = load()[DAG]
    assert {asset.name for asset in dag.timetable.asset_condition.objects} == {
        f"catalog/{name}" for name in "abcd"
    }
    assert (
        "| further | `c`, rows with `mag < 3`, to 2 arcsec; all; all rows stay |\n| further | `d`"
        in dag.doc_md
    )
    assert (
        "`d`, from 1 arcsec to 3 times the errors (quadrature: err of the left); the 1 nearest; rows"
        in dag.doc_md
    )
    assert "each new version of `a` or `b` or `c` or `d`" in dag.doc_md


@pytest.mark.parametrize(
    ("schedule", "told"), [("manual", "by hand only"), ("0 5 * * *", "`0 5 * * *` (UTC)")]
)
def test_a_match_may_have_a_schedule_of_its_own(load: Load, joins: Path, schedule: str, told: str) -> None:
    (joins / "a_x_b.yaml").write_text(f"{SPEC}schedule: {schedule}\n")
    dag = load()[DAG]
    assert told in dag.doc_md
    assert not isinstance(dag.timetable, AssetTriggeredTimetable)
    assert dag.timetable.can_be_scheduled is (schedule != "manual")


def test_a_broken_spec_is_told_and_has_no_dag(load: Load, told: Callable[[], str], joins: Path) -> None:
    (joins / "a_x_b.yaml").write_text(SPEC + "neighbors: 2\n")
    assert f"{joins}/a_x_b.yaml:" in told()
    assert "did you mean 'neighbours'?" in told()
    assert DAG not in load()


def test_a_join_of_no_known_type_is_told(told: Callable[[], str], joins: Path) -> None:
    (joins / "a_x_b.yaml").write_text(SPEC.replace("type: crossmatch", "type: match"))
    assert "a_x_b.yaml: type: is none of a join; write crossmatch or equijoin" in told()


def test_a_name_that_a_catalog_has_too_is_told_of_both(
    load: Load, told: Callable[[], str], joins: Path, stars: Path
) -> None:
    (joins / "stars.yaml").write_text(SPEC.replace("name: a_x_b", "name: stars"))
    dags = load()
    assert DAG in dags
    for pipeline, beside in (("catalog_crossmatch", "catalogs"), ("catalog_ingest", "joins")):
        assert f"{pipeline}__stars" not in dags
        assert f"{beside}/stars.yaml publishes a catalog of the same name" in told()


def test_a_run_publishes_the_match(airflow: Path, load: Load, joins: Path, tmp_path: Path) -> None:
    root = tmp_path / "warehouse" / "catalogs"
    ra, dec = sky(500)
    published(root, "a", rows_at(ra, dec), threshold="100 rows")
    published(root, "b", rows_at(ra, dec), threshold="100 rows", margin_arcsec=60.0)
    run = load()[DAG].test(run_conf={"region": "box ra 0..180 dec -90..90"})
    assert run.state == "success"
    found = Catalog.open(root / "a_x_b")
    assert 0 < found.metadata.total_rows < 500
    assert max(found.read(["ra"])["ra"].to_pylist()) <= 180
    again = load()[DAG].test(run_conf={"region": "box ra 0..180 dec -90..90"})
    assert again.state == "success"
    assert Catalog.open(root / "a_x_b").version == 1


def test_a_match_is_rolled_back_and_verified_as_any_catalog(
    airflow: Path, load: Load, joins: Path, tmp_path: Path
) -> None:
    root = tmp_path / "warehouse" / "catalogs"
    ra, dec = sky(500)
    published(root, "a", rows_at(ra, dec), threshold="100 rows")
    published(root, "b", rows_at(ra, dec), threshold="100 rows", margin_arcsec=60.0)
    dags = load()
    for region in ("box ra 0..90 dec -90..90", "box ra 0..180 dec -90..90"):
        assert dags[DAG].test(run_conf={"region": region}).state == "success"
    first, second = (Catalog.open(root / "a_x_b", version=version) for version in (1, 2))
    assert first.metadata.total_rows < second.metadata.total_rows

    dags = load()  # whose form proposes the versions that there are
    assert dags["catalog_rollback__a_x_b"].test(run_conf={"version": "1"}).state == "success"
    found = Catalog.open(root / "a_x_b")
    assert (found.version, found.metadata.restored) == (3, 1)
    assert found.read().equals(first.read())
    assert found.metadata.owners == second.metadata.owners
    shown = ds.dataset(root / "a_x_b" / "current" / "main" / "dataset", partitioning="hive")
    assert shown.count_rows() == first.metadata.total_rows
    assert dags["catalog_verify__a_x_b"].test().state == "success"

    # The join goes on from there, and a damaged leaf is found.
    assert dags[DAG].test(run_conf={"region": "box ra 0..180 dec -90..90"}).state == "success"
    newest = Catalog.open(root / "a_x_b")
    assert (newest.version, newest.metadata.total_rows) == (4, second.metadata.total_rows)
    leaf = next((root / "a_x_b" / newest.metadata.write_id).rglob("Npix=*.parquet"))
    leaf.write_bytes(leaf.read_bytes()[:-1] + b"x")
    assert dags["catalog_verify__a_x_b"].test().state == "failed"


def test_of_a_match_that_is_not_published_nothing_is_rolled_back(
    airflow: Path, load: Load, joins: Path, tmp_path: Path
) -> None:
    run = load()["catalog_rollback__a_x_b"].test(run_conf={"version": 1})
    states = {each.task_id: str(each.state) for each in run.get_task_instances()}
    assert states == {"resolve": "failed", "rollback": "upstream_failed", "view": "upstream_failed"}
    assert not (tmp_path / "warehouse" / "catalogs" / "a_x_b").exists()


def test_a_match_may_ask_for_a_hips_that_follows_it(load: Load, joins: Path) -> None:
    (joins / "a_x_b.yaml").write_text(f"{SPEC}hips: {{order_by: separation_arcsec, tile_rows: 77}}\n")
    dag = load()["catalog_hips__a_x_b"]
    assert [asset.name for asset in dag.timetable.asset_condition.objects] == ["catalog/a_x_b"]
    assert (dag.params["order_by"], dag.params["tile_rows"]) == ("separation_arcsec", 77)
