"""OpenLineage: what Airflow's provider gets of the steps that commit, held against what lies on disk."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np
import pytest
from airflow.providers.openlineage.extractors.manager import ExtractorManager
from airflow.utils.state import TaskInstanceState
from hipslake import Catalog, Cube
from hipslake.engine.this_process import ThisProcess
from hipslake.steps.append.request import AppendReport
from hipslake.steps.cube import build_cube as cube_work
from hipslake.steps.cube import resolve_cube
from hipslake.steps.cube.request import (
    BuildCubeReport,
    BuildCubeRequest,
    ResolveCubeReport,
    ResolveCubeRequest,
)
from hipslake.steps.ingest.request import PlanReport, PublishReport
from hipslake.steps.report import Report, perform
from hipslake.steps.run import RunFolder
from hipslake.steps.upkeep import rollback_catalog
from hipslake.steps.upkeep.request import RollbackReport, RollbackRequest
from hipslake_airflow.operators.catalog import (
    AppendIncrementOperator,
    PlanPixelsOperator,
    PublishCatalogOperator,
    RollbackCatalogOperator,
)
from hipslake_airflow.operators.cube import BuildCubeOperator
from hipslake_airflow.operators.table import IcebergSinkOperator
from openlineage.client.serde import Serde

from tests.catalog.little import sky
from tests.catalog.matching import published, rows_at
from tests.steps import in_process
from tests.steps.nights import Survey
from tests.steps.sinks import Lake

Of = TypeVar("Of", bound=Report)
MATCH = "name: a_x_b\ntype: crossmatch\nleft: {catalog: a}\nright: {catalog: b}\nradius_arcsec: 60\n"
CUBE = """\
name: sky
dimension_columns: [id]
partition_columns: [pixel]
pixel_orders: {pixel: 1}
seed: stars
suppress_index_on: [id]
datasets:
  stars: {catalog: stars, columns: [_healpix_29, id, mag]}
"""


def told(operator: Any, report: Report) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Inputs and outputs as the provider takes them from a task that went well, in OpenLineage's JSON."""
    operator.push_report(lambda: report)
    run = SimpleNamespace(run_id="by hand")
    found = ExtractorManager().extract_metadata(run, operator, TaskInstanceState.SUCCESS, None)
    inputs, outputs = (
        [json.loads(Serde.to_json(each)) for each in side] for side in (found.inputs, found.outputs)
    )
    return inputs, outputs


def numbers(dataset: dict[str, Any]) -> dict[str, Any]:
    """The statistics of a dataset, without what every facet says of itself."""
    (told,) = (dataset.get("inputFacets") or dataset.get("outputFacets") or {}).values()
    return {name: value for name, value in told.items() if not name.startswith("_")}


def report_of(folder: RunFolder, step: str, model: type[Of]) -> Of:
    return folder.read(RunFolder.report_path(step), model)


@pytest.fixture
def survey(tmp_path: Path) -> Survey:
    survey = Survey(tmp_path)
    survey.night(0)
    return survey


def test_a_night_is_made_of_its_files_and_becomes_a_version(survey: Survey) -> None:
    report = survey.night(1)
    run_uri = f"{survey.warehouse}/_runs/catalog_ingest__stars/run-2"
    (source,), (outcome,) = told(
        AppendIncrementOperator(task_id="append", run_uri=run_uri, catalog="stars"), report
    )
    night = Path(survey.landing, "night=2026-10-02")
    sizes = [file.stat().st_size for file in night.iterdir()]
    assert (source["namespace"], source["name"]) == ("file", str(night))
    assert numbers(source) == {"rowCount": 400, "size": sum(sizes), "fileCount": 2}
    assert (outcome["namespace"], outcome["name"]) == ("file", str(survey.root))
    assert numbers(outcome) == {"rowCount": 400, "size": report.bytes, "fileCount": report.files}
    assert outcome["facets"]["version"]["datasetVersion"] == "2"
    fields = outcome["facets"]["schema"]["fields"]
    schema = survey.catalog.schema
    assert [(each["name"], each["type"]) for each in fields] == [(f.name, str(f.type)) for f in schema]


def test_a_match_is_made_of_the_versions_of_all_catalogs(tmp_path: Path) -> None:
    ra, dec = sky(300)
    root = tmp_path / "warehouse" / "catalogs"
    published(root, "a", rows_at(ra, dec))
    published(root, "b", rows_at(ra, np.clip(dec + 0.001, -90, 90)), margin_arcsec=60.0)
    published(root, "c", rows_at(ra, np.clip(dec - 0.001, -90, 90)), margin_arcsec=60.0)
    further = "further: [{right: {catalog: c}, radius_arcsec: 60}]\n"
    (tmp_path / "a_x_b.yaml").write_text(MATCH + further)
    folder = in_process.start_match(tmp_path / "warehouse", tmp_path / "a_x_b.yaml")
    in_process.publish_match(folder)
    operator = PublishCatalogOperator(task_id="publish", run_uri=folder.uri, catalog="a_x_b")
    inputs, (outcome,) = told(operator, report_of(folder, "publish", PublishReport))
    assert [each["name"] for each in inputs] == [str(root / name) for name in "abc"]
    assert [each["facets"]["version"]["datasetVersion"] for each in inputs] == ["1", "1", "1"]
    assert [len(each["facets"]["schema"]["fields"]) for each in inputs] == [
        len(Catalog.open(root / name).schema) for name in "abc"
    ]
    assert numbers(outcome)["rowCount"] == Catalog.open(root / "a_x_b").metadata.total_rows


def test_a_table_is_told_by_where_it_lies_and_by_its_name(survey: Survey) -> None:
    lake = Lake(survey.place)
    lake.write_spec("source: {catalog: stars}\nmode: append\n")
    folder = lake.resolve()
    report = lake.sink(folder)
    operator = IcebergSinkOperator(task_id="sink", run_uri=folder.uri, table="stars")
    (source,), (outcome,) = told(operator, report)
    assert (source["name"], source["facets"]["version"]["datasetVersion"]) == (str(survey.root), "1")
    snapshot = lake.table.current_snapshot()
    assert snapshot is not None
    assert outcome["name"] == lake.table.location().removeprefix("file://")
    assert outcome["facets"]["symlinks"]["identifiers"][0]["name"] == "survey.stars"
    assert outcome["facets"]["version"]["datasetVersion"] == str(snapshot.snapshot_id)
    assert numbers(outcome) == {"rowCount": 400, "size": report.bytes, "fileCount": report.files}
    assert [
        each["name"] for each in outcome["facets"]["schema"]["fields"]
    ] == lake.table.schema().column_names


def test_a_cube_is_made_of_its_datasets(survey: Survey) -> None:
    spec = survey.place / "sky.yaml"
    spec.write_text(CUBE)
    request = ResolveCubeRequest(
        run_uri=f"{survey.warehouse}/_runs/cube_build__sky/first",
        dag_id="cube_build__sky",
        run_id="first",
        warehouse=survey.warehouse,
        spec_file=str(spec),
    )
    perform(resolve_cube.run, request, ResolveCubeReport)
    asked = BuildCubeRequest(run_uri=request.run_uri)
    report = perform(lambda each: cube_work.run(each, ThisProcess(2)), asked, BuildCubeReport)
    operator = BuildCubeOperator(task_id="build", run_uri=request.run_uri, cube="sky")
    (source,), (outcome,) = told(operator, report)
    assert source["name"] == str(survey.root)
    cube = Cube.open(survey.place / "warehouse" / "cubes" / "sky")
    assert outcome["name"] == str(survey.place / "warehouse" / "cubes" / "sky")
    assert numbers(outcome)["rowCount"] == cube.metadata.dataset("stars").rows == 400


def test_a_rollback_is_made_of_the_version_that_it_brings_back(survey: Survey) -> None:
    survey.night(1)
    folder = survey.begin()
    asked = RollbackRequest(run_uri=folder.uri, version=1)
    report = perform(rollback_catalog.run, asked, RollbackReport)
    operator = RollbackCatalogOperator(task_id="rollback", run_uri=folder.uri, catalog="stars")
    (source,), (outcome,) = told(operator, report)
    assert source["name"] == outcome["name"]
    versions = [each["facets"]["version"]["datasetVersion"] for each in (source, outcome)]
    assert versions == ["1", "3"]


def test_a_step_that_commits_nothing_has_no_lineage(tmp_path: Path) -> None:
    operator = PlanPixelsOperator(task_id="plan", run_uri=str(tmp_path))
    assert told(operator, PlanReport()) == ([], [])
    late = AppendIncrementOperator(task_id="append", run_uri=str(tmp_path), catalog="stars")
    assert told(late, AppendReport()) == ([], [])
