"""Repair mends what other files say, changes nothing else, and a dry run changes nothing at all."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from typing import Any

import pytest
from hipslake import Catalog
from hipslake.catalog.view_tree import tree_marker, tree_markers
from hipslake.errors import CatalogNotFoundError
from hipslake.steps.upkeep import repair
from hipslake.steps.upkeep.repair import repair_catalog
from hipslake.storage.folder import Storage
from hipslake.versions.log_files import POINTER, TOMBSTONES, version_path

from tests.catalog.eventful import KEPT, VACUUMED, mostly
from tests.catalog.test_every_damage import DAMAGES, Damaged, files_below, kinds_of_files, rotated
from tests.catalog.vacuuming import assert_whole, show, vacuum
from tests.steps.nights import Survey
from tests.system.whole import contents

pytestmark = pytest.mark.sampled(2)

NEWEST = version_path(KEPT[-1])
TRANSIENT = "_versions/pins"


def state(survey: Survey) -> dict[str, object]:
    """Every file with its content; folders that are empty do not count."""
    return dict(contents(survey.root))


def derivable(survey: Survey) -> list[str]:
    """The files that others tell the content of, by their place alone."""
    stones = [version_path(number) for number in VACUUMED]
    first_names = _named(survey)
    root = [name for name in files_below(survey.root) if "/" not in name]
    views = [
        name
        for name in files_below(survey.root)
        if "/_" not in name
        and not name.startswith("_versions")
        and "/" in name
        and "/index/" not in name
        and ("Norder=" not in name or name not in first_names)
    ]
    coverage = [name for name in files_below(survey.root) if name.endswith("/_sidecars/coverage.parquet")]
    trees = [name for name in files_below(survey.root) if name.endswith("/_tree.json")]
    newest_tree = [name for name in trees if name.startswith(survey.catalog.metadata.write_id)]
    return [*root, *views, *coverage, *newest_tree, *stones, TOMBSTONES, NEWEST]


def _named(survey: Survey) -> set[str]:
    """The leaf files that versions name; the others in trees are second names of files of older writes."""
    return {
        path
        for number in KEPT
        for each in Catalog.open(survey.root, version=number).metadata.with_files
        for path in each.table(survey.catalog.storage)["path"].to_pylist()
    }


def check_repair(survey: Survey, damages: dict[str, str]) -> None:
    """Damage files; a dry run lists them and leaves all as it is, and a real one mends them."""
    whole = state(survey)
    rows = survey.catalog.read()
    with Damaged(survey.root, damages, restore=False):
        damaged = state(survey)
        outcome = survey.catalog.repair()
        assert outcome.dry_run
        assert set(damages) <= {problem.path for problem in outcome.mended}, damages
        assert state(survey) == damaged
        outcome = survey.catalog.repair(dry_run=False)
        assert set(damages) <= {problem.path for problem in outcome.mended}
        assert outcome.left == ()
        assert survey.catalog.verify(all=True).problems == ()
        assert survey.catalog.read().equals(rows)
        assert state(survey).keys() == whole.keys()
        assert survey.catalog.repair(dry_run=False).mended == ()


@mostly("sidecars")
@pytest.mark.parametrize("first", [0, pytest.param(3, marks=pytest.mark.slow)])
def test_what_can_be_derived_is_mended(history: Survey, first: int) -> None:
    can = set(derivable(history))
    for number, names in enumerate(kinds_of_files(history.root).values()):
        names = [name for name in names if name in can]
        if names and (len(names) > 1 or number % 12 == first):
            check_repair(history, rotated(names, first + number, list(DAMAGES)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", DAMAGES)
def test_what_can_be_derived_is_mended_alone(history: Survey, kind: str) -> None:
    for name in derivable(history):
        check_repair(history, {name: kind})


@pytest.mark.parametrize("history", ["hipscat"], indirect=True)  # whose trees have markers
def test_the_marker_of_a_tree_is_written_anew(history: Survey) -> None:
    check_repair(history, {tree_marker(history.catalog.metadata.write_id): "truncated"})


@mostly("hats")
def test_a_folder_in_the_place_of_a_file_is_no_loss_and_is_told(history: Survey) -> None:
    path = history.root / "metadata.json"
    path.unlink()
    path.mkdir()
    outcome = history.catalog.repair(dry_run=False)
    assert ([each.path for each in outcome.left], outcome.mended) == (["metadata.json"], ())
    path.rmdir()
    assert [each.path for each in history.catalog.repair(dry_run=False).mended] == ["metadata.json"]


def test_a_whole_catalog_is_left_alone(history: Survey) -> None:
    before = state(history)
    outcome = history.catalog.repair(dry_run=False)
    assert (outcome.mended, outcome.left) == ((), ())
    assert state(history) == before


def test_what_nobody_else_says_is_left_as_it_is_and_told(history: Survey) -> None:
    path = history.root / version_path(KEPT[1])
    path.write_bytes(path.read_bytes()[:-100])
    (history.root / version_path(KEPT[2])).unlink()
    (history.root / "SHA256SUMS").unlink()
    damaged = path.read_bytes()
    outcome = history.catalog.repair(dry_run=False)
    assert [problem.path for problem in outcome.mended] == ["SHA256SUMS"]
    assert {problem.path for problem in outcome.left} == {version_path(KEPT[1]), version_path(KEPT[2])}
    assert path.read_bytes() == damaged
    assert not (history.root / version_path(KEPT[2])).exists()


def test_a_gap_and_a_lost_pointer_do_not_take_the_catalog_back(history: Survey) -> None:
    """Who looks for the newest version from the first on would stop at the gap."""
    (history.root / version_path(KEPT[1])).unlink()
    (history.root / POINTER).unlink()
    assert history.catalog.version == KEPT[-1]
    history.catalog.repair(dry_run=False)
    assert json.loads((history.root / POINTER).read_text())["version"] == KEPT[-1]
    assert not (history.root / version_path(KEPT[1])).exists()


def test_damaged_leaves_are_not_spread(history: Survey) -> None:
    """A view that lost a file is not made of leaves that are not what they were."""
    catalog = history.catalog
    newest = catalog.metadata
    table = newest.with_files[0].table(catalog.storage)
    others, in_tree = newest.paths.of_other_writes(newest.write_id, table["path"])
    leaf, second = others[0].as_py(), in_tree[0].as_py()
    (history.root / second).unlink()
    (history.root / leaf).write_bytes(b"PAR1")
    outcome = history.catalog.repair(dry_run=False)
    assert not (history.root / second).exists()
    assert second in {problem.path for problem in outcome.left}


def test_an_older_pointer_of_an_older_library_is_mended(history: Survey) -> None:
    """Files without a checksum of their own: the log is believed."""
    for name in [*(version_path(number) for number in KEPT), POINTER]:
        document = json.loads((history.root / name).read_text())
        del document["sha256"]
        (history.root / name).write_text(json.dumps(document))
    changed = (history.root / POINTER).read_text().replace('"stars"', '"stork"')
    (history.root / POINTER).write_text(changed)
    assert POINTER in {problem.path for problem in history.catalog.verify().problems}
    history.catalog.repair(dry_run=False)
    assert (history.root / POINTER).read_bytes() == (history.root / NEWEST).read_bytes()
    assert history.catalog.verify(all=True).problems == ()


@pytest.mark.sampled(3)
def test_the_newest_version_comes_back_from_its_copy_and_can_be_built_on(history: Survey) -> None:
    (history.root / NEWEST).unlink()
    history.catalog.repair(dry_run=False)
    assert (history.root / NEWEST).read_bytes() == (history.root / POINTER).read_bytes()
    history.night(5, rows=50)
    history.assert_holds_what_landed()


def test_nothing_is_repaired_where_nothing_is_published(tmp_path: object) -> None:
    with pytest.raises(CatalogNotFoundError):
        repair_catalog(Storage.at(str(tmp_path)))


def test_a_pointer_beside_a_copy_of_the_catalog_is_made(history: Survey) -> None:
    """Copied as object stores and downloads do: without links, and without the files at the root."""
    there = history.place / "copied"
    shutil.copytree(history.root, there, ignore=shutil.ignore_patterns("current", POINTER, "SHA256SUMS"))
    catalog = Catalog.open(there)
    found = {problem.path for problem in catalog.verify().problems}
    assert {"current", POINTER, "SHA256SUMS"} <= found
    catalog.repair(dry_run=False)
    assert catalog.verify(all=True).problems == ()


@pytest.mark.slow
@mostly("hats")
def test_who_publishes_and_vacuums_beside_a_repair_is_not_disturbed(
    history: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a repair writes into the folders of versions, these are vacuumed and a newer one comes."""
    damages = {name: "deleted" for name in derivable(history) if "/" in name and "/_tree" not in name}
    needed = ("_versions/", "coverage.parquet", "point_map.fits")  # by who publishes
    damages = {name: kind for name, kind in damages.items() if not any(part in name for part in needed)}
    plain = repair._mend_coverages

    def overtaken(catalog: Storage, kept: Any, paths: Any) -> None:
        history.night(7, rows=60)
        show(history)
        outcome = vacuum(history, keep_versions=1)
        assert set(outcome.kept) >= set(KEPT)  # pinned
        plain(catalog, kept, paths)

    monkeypatch.setattr(repair, "_mend_coverages", overtaken)
    for name in damages:
        (history.root / name).unlink()
    history.catalog.repair(dry_run=False)
    monkeypatch.undo()
    assert history.catalog.version == KEPT[-1] + 1
    history.assert_holds_what_landed()
    history.catalog.repair(dry_run=False)
    assert history.catalog.verify(all=True).problems == ()
    assert_whole(history)


@pytest.mark.parametrize("shape", ["hats", "hipscat"])
def test_a_catalog_in_a_store_is_verified_and_repaired(
    eventful_templates: Callable[[str], Survey], shape: str
) -> None:
    survey = eventful_templates(shape)
    store = Storage.at(f"memory://test_repair/{shape}")
    for entry in survey.catalog.storage.list(recursive=True):
        store.write(entry.path, survey.catalog.storage.read(entry.path))
    catalog = Catalog.open(store.root)
    assert catalog.verify(all=True).problems == ()
    newest = catalog.metadata.write_id
    lost = [e.path for e in store.list(newest, recursive=True) if "Norder=" in e.path][:1]
    lost += ["SHA256SUMS", POINTER, TOMBSTONES]
    lost += [each.coverage.path for each in catalog.increments if each.coverage is not None][:1]
    second = [path for path in lost[:1] if path in _second_names(catalog)]
    for path in [*second, *lost[1:]]:
        store.delete(path)
    assert {problem.path for problem in catalog.verify(all=True).problems} == {*second, *lost[1:]}
    assert catalog.repair(dry_run=False).left == ()
    assert catalog.verify(all=True).problems == ()


def _second_names(catalog: Catalog) -> set[str]:
    metadata = catalog.metadata
    tables = [each.table(catalog.storage)["path"] for each in metadata.with_files]
    names = [metadata.paths.of_other_writes(metadata.write_id, paths)[1].to_pylist() for paths in tables]
    return {name for each in names for name in each}


@mostly("hats")
def test_the_tree_that_readers_are_led_to_is_looked_at_where_it_is_an_older_one(history: Survey) -> None:
    """A night came, and the step `view` did not."""
    shown = history.catalog.metadata
    history.night(8, rows=60)
    assert history.catalog.verify().problems == ()
    marker = tree_markers(shown)[0]
    (history.root / marker).unlink()
    found = {problem.path for problem in history.catalog.verify().problems}
    assert found & {marker, "current"}
    history.catalog.repair(dry_run=False)
    assert (history.root / marker).exists()
    assert history.catalog.verify(all=True).problems == ()
    assert (history.root / "current").readlink().as_posix() == shown.write_id
