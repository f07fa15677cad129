"""The view beside a vacuum: what it builds from stays until it is built, and no pin outlives it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hipslake.catalog.layouts import skymap_path
from hipslake.errors import VersionNotFoundError
from hipslake.specs.catalog_spec import Unchanged
from hipslake.steps.upkeep import hats_view
from hipslake.steps.upkeep.hats_view import show_newest
from hipslake.storage.folder import Storage
from hipslake.versions.log import VersionLog
from hipslake.versions.pins import Pin, pinned_versions, pinning_writes

from tests.catalog.leftovers import orphans
from tests.pictures import BLANK_PNG
from tests.steps.nights import Survey


@pytest.fixture
def survey(tmp_path: Path) -> Survey:
    """Three nights; HATS readers could be shown the first, but no pointer says so."""
    survey = Survey(tmp_path)
    survey.night(0)
    show_newest(Storage.at(survey.root), Unchanged.LINK)
    (survey.root / "collection.properties").unlink()
    survey.night(1)
    survey.night(2)
    return survey


def test_a_vacuum_in_midst_of_a_view_leaves_what_it_builds_from(
    survey: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog, kept = survey.catalog, []
    build = hats_view._build_tree

    def disturbed(*arguments: Any) -> tuple[int, int]:
        assert pinned_versions(catalog.storage) == {1, 3}
        kept.append(catalog.vacuum(keep_versions=1, keep_days=0, dry_run=False).kept)
        return build(*arguments)

    monkeypatch.setattr(hats_view, "_build_tree", disturbed)
    assert show_newest(catalog.storage, Unchanged.LINK).version == 3
    assert kept == [(1, 3)]
    assert pinning_writes(catalog.storage) == []
    survey.assert_holds_what_landed()
    assert catalog.vacuum(keep_versions=1, keep_days=0, dry_run=False).kept == (3,)
    assert orphans(survey.root) == set()
    survey.assert_holds_what_landed()


def test_a_version_that_is_vacuumed_before_it_is_pinned_is_not_built_from(
    survey: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, refused = Storage.at(survey.root), []
    hold = Pin.hold

    def late(pin: Pin, number: int) -> bytes:
        if number == 1:
            VersionLog(storage).entomb(1)
        try:
            return hold(pin, number)
        except VersionNotFoundError:
            refused.append(number)
            raise

    monkeypatch.setattr(Pin, "hold", late)
    report = show_newest(storage, Unchanged.LINK)
    assert (report.version, refused) == (3, [1])
    survey.assert_holds_what_landed()
    assert survey.catalog.metadata.write_id in (survey.root / "collection.properties").read_text()


def test_a_view_leaves_no_folder_of_its_own(survey: Survey) -> None:
    before = {path.name for path in survey.root.iterdir()}
    show_newest(Storage.at(survey.root), Unchanged.LINK)
    after = {path.name for path in survey.root.iterdir()}
    assert after - before == {"collection.properties"}


def test_a_version_without_rows_has_no_tree(tmp_path: Path) -> None:
    survey = Survey(tmp_path)
    survey.night(0)
    show_newest(survey.catalog.storage, Unchanged.LINK)
    survey.night(0, rows=0)
    assert survey.catalog.read().num_rows == 0
    assert show_newest(survey.catalog.storage, Unchanged.LINK).version is None
    assert not (survey.root / "collection.properties").exists()
    assert not (survey.root / "current").is_symlink()
    assert "has no row" in (survey.root / "current.txt").read_text()
    survey.night(1)
    assert show_newest(survey.catalog.storage, Unchanged.LINK).version == 3
    survey.assert_holds_what_landed()


def test_pictures_are_blank_in_tests_that_do_not_look(survey: Survey) -> None:
    """Drawing them makes all tests together take twice as long."""
    catalog = survey.catalog
    show_newest(catalog.storage, Unchanged.LINK)
    assert catalog.storage.read(skymap_path(catalog.metadata.write_id, "main")) == BLANK_PNG
