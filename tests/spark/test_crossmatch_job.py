"""Matches made in Spark are, byte for byte, those made in one process, whatever groups the sides have."""

from __future__ import annotations

from pathlib import Path

import pytest
from hipslake import Catalog
from hipslake.spark.engine import SparkEngine
from hipslake.steps.index import run as index_run
from hipslake.steps.index.request import BuildIndexReport, BuildIndexRequest
from hipslake.steps.join import run as join_run
from hipslake.steps.join.request import CrossmatchReport, CrossmatchRequest
from hipslake.steps.margin import run as margin_run
from hipslake.steps.margin.request import MarginReport, MarginRequest
from hipslake.steps.report import perform
from pyspark.sql import SparkSession

from tests.steps import in_process
from tests.steps.join.test_crossmatch_sides import SPEC, lake  # noqa: F401  a fixture
from tests.steps.join.test_error_spec import SPEC as ERRORS_SPEC
from tests.steps.join.test_error_spec import lake as errors_lake  # noqa: F401  a fixture
from tests.steps.join.test_further_sides import SPEC as FURTHER_SPEC
from tests.steps.join.test_further_sides import catalogs  # noqa: F401  a fixture

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("large_sides")]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("how", ["inner", "outer"])
def test_spark_makes_the_matches_of_one_process(
    spark: SparkSession,
    lake: Path,  # noqa: F811
    how: str,
) -> None:
    file = lake.parent / "a_x_b.yaml"
    file.write_text(f"{SPEC}how: {how}\nmargin: {{arcsec: 60}}\nindex: [id_b]\n")
    in_process.publish_match(in_process.start_match(lake, file, f"process {how}"))
    folder = in_process.start_match(lake, file, f"spark {how}", force=True)
    engine, uri = SparkEngine(spark), folder.uri
    asked = CrossmatchRequest(run_uri=uri, task_rows=200)
    perform(lambda request: join_run.run(request, engine), asked, CrossmatchReport)
    perform(lambda request: margin_run.run(request, engine), MarginRequest(run_uri=uri), MarginReport)
    perform(lambda request: index_run.run(request, engine), BuildIndexRequest(run_uri=uri), BuildIndexReport)
    in_process.check(folder)
    in_process.commit(folder)
    found = Catalog.open(lake / "catalogs" / "a_x_b")
    before = Catalog.open(found.uri, found.version - 1)
    for one, other in zip(found.metadata.with_files, before.metadata.with_files, strict=True):
        assert digests(found, one) == digests(before, other) != []
    assert found.metadata.indices[0].rows == before.metadata.indices[0].rows > 0


SCORE = """\
score:
  function: hipslake.joins.likelihood_ratio:likelihood_ratio
  left: major
  right: [major, minor]
  parameters:
    {left_error: major, right_error: major, magnitude: minor, edges: [0, 4000, 20000], counterparts: [1, 1],
    background: [1, 2]}
"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("told", "missing_margin"), [("nearness: sigmas\n", "build"), (SCORE, "build"), (SCORE, "none")]
)
def test_spark_makes_the_matches_within_errors_of_one_process(
    spark: SparkSession,
    errors_lake: Path,  # noqa: F811
    told: str,
    missing_margin: str,
) -> None:
    file = errors_lake.parent / "a_x_b.yaml"
    file.write_text(ERRORS_SPEC.replace("nearness: sigmas\n", told))
    build = {"missing_margin": missing_margin, "force": True}
    in_process.publish_match(in_process.start_match(errors_lake, file, "process", **build))
    folder = in_process.start_match(errors_lake, file, "spark", **build)
    asked = CrossmatchRequest(run_uri=folder.uri, task_rows=60)
    perform(lambda request: join_run.run(request, SparkEngine(spark)), asked, CrossmatchReport)
    in_process.check(folder)
    in_process.commit(folder)
    found = Catalog.open(errors_lake / "catalogs" / "a_x_b")
    before = Catalog.open(found.uri, found.version - 1)
    for one, other in zip(found.metadata.with_files, before.metadata.with_files, strict=True):
        assert digests(found, one) == digests(before, other) != []
    assert found.metadata.rows_near_borders == before.metadata.rows_near_borders
    assert (found.metadata.rows_near_borders is None) == (missing_margin == "build")


def test_spark_makes_the_matches_of_several_catalogs_of_one_process(
    spark: SparkSession,
    catalogs: Path,  # noqa: F811
) -> None:
    """The margin that one of them lacks is built by either engine."""
    file = catalogs.parent / "a_x_all.yaml"
    file.write_text(FURTHER_SPEC)
    build = {"missing_margin": "build", "force": True}
    in_process.publish_match(in_process.start_match(catalogs, file, "process", **build))
    folder = in_process.start_match(catalogs, file, "spark", **build)
    asked = CrossmatchRequest(run_uri=folder.uri, task_rows=200)
    perform(lambda request: join_run.run(request, SparkEngine(spark)), asked, CrossmatchReport)
    in_process.check(folder)
    in_process.commit(folder)
    found = Catalog.open(catalogs / "catalogs" / "a_x_all")
    before = Catalog.open(found.uri, found.version - 1)
    for one, other in zip(found.metadata.with_files, before.metadata.with_files, strict=True):
        assert digests(found, one) == digests(before, other) != []


def digests(catalog: Catalog, files: object) -> list[tuple[int, int, str]]:
    table = files.table(catalog.storage)  # type: ignore[attr-defined]
    return list(zip(*(table[name].to_pylist() for name in ("order", "npix", "sha256")), strict=True))
