"""Upkeep and nights go on with a version whose spec breaks a rule that came later."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.published_spec import published_spec
from hipslake.errors import CatalogFormatError
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.report import perform
from hipslake.steps.run import RunFolder
from hipslake.steps.upkeep import resolve_published
from hipslake.steps.upkeep.request import ResolvePublishedReport, ResolvePublishedRequest
from hipslake.versions.log_files import UNSIGNED, signed

from tests.steps.nights import Survey

NEVER = {"schedule": "0 3 31 2 *"}


@pytest.fixture
def survey(tmp_path: Path) -> Survey:
    """A night, of a spec that was allowed once."""
    survey = Survey(tmp_path)
    survey.night(0)
    rewritten(survey, **NEVER)
    with pytest.raises(ValueError, match="never comes"):
        CatalogSpec.model_validate(survey.catalog.metadata.spec)
    return survey


def rewritten(survey: Survey, **spec: Any) -> None:
    """Give the newest version another spec."""
    root = Path(survey.warehouse) / "catalogs" / "stars"
    for path in (root / "metadata.json", max((root / "_versions").glob("0*.json"))):
        document = json.loads(path.read_text())
        document["spec"] |= spec
        document["sha256"] = UNSIGNED
        path.unlink()
        path.write_bytes(signed((json.dumps(document) + "\n").encode()))


def resolve(survey: Survey, run: str) -> ResolvePublishedReport:
    request = ResolvePublishedRequest(
        run_uri=f"{survey.warehouse}/_runs/{run}",
        warehouse=str(survey.warehouse),
        catalog="stars",
        dag_id="upkeep",
        run_id=run,
    )
    return perform(resolve_published.run, request, ResolvePublishedReport)


def test_nights_margins_compactions_and_upkeep_go_on(survey: Survey) -> None:
    survey.night(1)
    survey.assert_holds_what_landed()
    rewritten(survey, **NEVER)
    survey.catalog.build_margin(10)
    rewritten(survey, **NEVER)
    assert resolve(survey, "back").version == survey.catalog.version
    spec = FrozenRun.of(RunFolder(f"{survey.warehouse}/_runs/back")).spec
    assert (spec.name, spec.schedule) == ("stars", None)


def test_a_spec_that_made_nothing_is_told_as_damage(survey: Survey) -> None:
    rewritten(survey, threshold="none")
    with pytest.raises(
        CatalogFormatError,
        match=r"catalog stars, version 1: .*threshold: 'none' is no threshold.*restore the file",
    ):
        resolve(survey, "back")


def test_a_spec_of_today_is_read_whole(tmp_path: Path) -> None:
    survey = Survey(tmp_path, more='schedule: "0 3 * * *"\nvacuum: {keep_versions: 3}')
    survey.night(0)
    metadata: CatalogMetadata = survey.catalog.metadata
    assert published_spec(metadata) == CatalogSpec.model_validate(metadata.spec)
    assert published_spec(metadata).schedule == "0 3 * * *"
