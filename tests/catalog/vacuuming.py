"""Surveys that are vacuumed in tests."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from hipslake import Catalog
from hipslake.catalog.upkeep.catalog_vacuum import VacuumOutcome
from hipslake.specs.catalog_spec import Unchanged
from hipslake.steps.upkeep.hats_view import show_newest
from hipslake.storage.folder import Storage

from tests.catalog.leftovers import missing
from tests.steps.nights import Survey


def copied(survey: Survey, place: Path) -> Survey:
    """A copy of a survey that a test may change."""
    shutil.copytree(survey.place, place, symlinks=True, dirs_exist_ok=True)
    return replace(survey, place=place, landed=dict(survey.landed))


def show(survey: Survey) -> None:
    show_newest(Storage.at(survey.root), Unchanged.LINK)


def vacuum(survey: Survey, keep_versions: int = 1, *, dry_run: bool = False) -> VacuumOutcome:
    return survey.catalog.vacuum(keep_versions=keep_versions, keep_days=0, dry_run=dry_run)


def assert_whole(survey: Survey) -> None:
    """Check that every version that is listed opens and verifies, and that the newest holds what landed."""
    for number in survey.catalog.versions():
        Catalog.open(survey.root, version=number).verify().raise_if_failed()
    assert missing(survey.root) == set()
    survey.assert_holds_what_landed()
