"""Trees and pointers where something comes in between: kills, vacuums, other specs, catalogs of before."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake import Catalog
from hipslake.catalog.layouts import tree_marker
from hipslake.errors import TreeNotFoundError
from hipslake.specs.catalog_spec import Unchanged
from hipslake.steps.upkeep import hats_view
from hipslake.steps.upkeep.hats_view import show_newest
from hipslake.steps.upkeep.pointers import point_at_newest, pointers_of
from hipslake.storage.folder import Storage

from tests.catalog.leftovers import missing, orphans
from tests.examples import ALL
from tests.readers.outside import (
    assert_current_is_newest,
    assert_current_is_whole,
    assert_no_current,
    rows_of,
    shown_version,
)
from tests.steps import in_process
from tests.steps.nights import Survey
from tests.system.runs import assert_verified

pytestmark = pytest.mark.sampled(2)

LAYOUTS = ("hats", "hipscat")
LINKS = 7  # of so many files that are linked one after the other, a kill is before one


class Killed(BaseException):
    """The process is gone."""


@pytest.fixture(params=LAYOUTS)
def layout(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def nights(tmp_path: Path, layout: str) -> Survey:
    """Two nights; the second is committed, and not shown yet."""
    survey = Survey(tmp_path / "survey", layout=layout, threshold="100 rows", more="margin: {arcsec: [3600]}")
    survey.night(0)
    view(survey)
    survey.night(1)
    return survey


def view(survey: Survey) -> None:
    in_process.show(survey.begin())


def link(survey: Survey) -> None:
    show_newest(survey.catalog.storage, Unchanged.LINK)


def test_between_a_commit_and_its_view_current_is_the_version_before(nights: Survey) -> None:
    shown = shown_version(nights.root)
    assert shown is not None
    assert (shown.version, nights.catalog.version) == (1, 2)
    assert_current_is_whole(nights.root)
    with pytest.raises(TreeNotFoundError, match="step `view`"):
        nights.catalog.path()
    with pytest.raises(TreeNotFoundError, match="with Catalog"):
        nights.catalog.path("main")
    with pytest.raises(KeyError, match="no column group 'none'"):
        nights.catalog.path("none")
    assert shown.path() == str(nights.root / shown.metadata.write_id)
    view(nights)
    assert_current_is_newest(nights.root)
    assert shown.path("main").startswith(str(nights.root / shown.metadata.write_id))


@pytest.mark.properties
def test_a_view_that_is_killed_anywhere_leaves_a_whole_version(
    nights: Survey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_id = nights.catalog.metadata.write_id
    with copied(nights, tmp_path / "undisturbed") as again, monkeypatch.context() as patch:
        changes = killed_after(patch, None, write_id)
        link(again)
    marker = "hats.properties" if nights.layout == "hats" else "_tree.json"
    assert {"link", marker, "current"} <= set(changes)
    for steps, change in enumerate(changes):
        if (change == "link" and steps % LINKS) or (not ALL and steps % 3):
            continue
        with copied(nights, tmp_path / f"killed-{steps}") as again:
            with monkeypatch.context() as patch:
                killed_after(patch, steps, write_id)
                with pytest.raises(Killed):
                    link(again)
            assert_current_is_whole(again.root)
            assert_verified(again.catalog, pointed_at=False)  # what is under way is no damage
            link(again)
            assert_current_is_newest(again.root)
            again.assert_holds_what_landed()


@contextmanager
def copied(survey: Survey, place: Path) -> Iterator[Survey]:
    """A survey of the same files, which may be changed; it is removed at the end."""
    again = Survey(place, layout=survey.layout)
    shutil.copytree(survey.place, again.place, symlinks=True)
    again.landed = survey.landed
    yield again
    shutil.rmtree(again.place)


def test_a_vacuum_leads_to_a_tree_that_was_whole_when_its_view_was_killed(
    nights: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(hats_view, "point_at_newest", dies)
        with pytest.raises(Killed):
            link(nights)
    shown = shown_version(nights.root)
    assert shown is not None
    assert shown.version == 1
    assert nights.catalog.vacuum(keep_versions=1, keep_days=0, dry_run=False).kept == (2,)
    assert_current_is_newest(nights.root)
    assert (missing(nights.root), orphans(nights.root)) == (set(), set())
    nights.assert_holds_what_landed()


def dies(*_: Any, **__: Any) -> None:
    raise Killed


def killed_after(patch: pytest.MonkeyPatch, steps: int | None, write_id: str) -> list[str]:
    """Let a process die after some changes of the tree or of a pointer; the list is what it comes to."""
    done: list[str] = []

    def dying(name: str) -> None:
        real = getattr(Storage, name)

        def instead(storage: Storage, path: str, *more: Any, **knobs: Any) -> Any:
            target = more[0] if name == "link" else path
            if target.startswith(write_id) or not target.startswith(("_versions", "2")):
                done.append("link" if name == "link" else target.rpartition("/")[2])
                if steps is not None and len(done) > steps:
                    raise Killed
            return real(storage, path, *more, **knobs)

        patch.setattr(Storage, name, instead)

    for name in ("link", "write", "symlink", "delete"):
        dying(name)
    return done


def test_a_catalog_of_before_whose_current_leads_to_a_part_is_mended(nights: Survey) -> None:
    part_of_it(nights)
    point_at_newest(nights.catalog.storage)  # as every run does after its commit
    assert_current_is_whole(nights.root)
    part_of_it(nights)
    view(nights)  # as every run does at its end, also one that has nothing to do
    assert_current_is_newest(nights.root)


def test_a_vacuum_mends_a_current_that_leads_to_a_part_and_keeps_what_it_leads_to(nights: Survey) -> None:
    part_of_it(nights)
    outcome = nights.catalog.vacuum(keep_versions=1, keep_days=0, dry_run=False)
    assert outcome.kept == (1, 2)
    assert_current_is_whole(nights.root)
    assert missing(nights.root) == set()
    view(nights)
    assert_current_is_newest(nights.root)
    assert nights.catalog.vacuum(keep_versions=1, keep_days=0, dry_run=False).kept == (2,)
    assert_current_is_newest(nights.root)
    assert (missing(nights.root), orphans(nights.root)) == (set(), set())
    nights.assert_holds_what_landed()


def part_of_it(survey: Survey) -> None:
    """Let `current` lead to the newest write, as it did whatever lay there."""
    (survey.root / "current").unlink()
    (survey.root / "current").symlink_to(survey.catalog.metadata.write_id)


def test_the_tree_of_a_version_that_goes_is_swept_with_it(nights: Survey) -> None:
    view(nights)
    old = nights.catalog.metadata.write_id
    survivors = set(nights.catalog.metadata.groups[0].table(nights.catalog.storage)["path"].to_pylist())
    nights.night(2)
    view(nights)
    assert nights.catalog.vacuum(keep_versions=1, keep_days=0, dry_run=False).kept == (3,)
    needed = set(nights.catalog.metadata.groups[0].table(nights.catalog.storage)["path"].to_pylist())
    left = {str(path.relative_to(nights.root)) for path in (nights.root / old).rglob("Npix=*.parquet")}
    left |= {str(path.relative_to(nights.root)) for path in (nights.root / old).rglob("main.parquet")}
    assert {path for path in left if "arcs" not in path} <= needed & survivors
    assert not (nights.root / tree_marker(old)).exists()
    assert_current_is_newest(nights.root)


def test_a_damaged_older_version_stops_no_commit(nights: Survey) -> None:
    (nights.root / "_versions/00000001.json").write_bytes(b"{ damaged")
    nights.night(2)
    assert not (nights.root / "current").is_symlink()
    assert "version 3" in (nights.root / "current.txt").read_text()
    view(nights)
    (nights.root / "_versions/00000001.json").unlink()  # for the test's own look at all versions
    assert (nights.root / "current").readlink() == Path(nights.catalog.metadata.write_id)
    assert not (nights.root / "current.txt").exists()


def test_a_spec_that_refers_takes_current_away_and_one_that_links_brings_it_back(nights: Survey) -> None:
    view(nights)
    nights.more += "\nunchanged: reference"
    nights.night(2)
    assert_no_current(nights.root)  # at once: no tree will come
    view(nights)
    nights.catalog.vacuum(keep_versions=2, keep_days=0, dry_run=False)
    assert_no_current(nights.root)
    nights.more = nights.more.replace("reference", "copy")
    view(nights)  # of a run with nothing to do
    assert_current_is_newest(nights.root)
    nights.assert_holds_what_landed()


def test_a_run_whose_spec_refers_says_so_of_a_version_that_was_made_by_another_spec(nights: Survey) -> None:
    nights.more += "\nunchanged: reference"
    view(nights)
    assert_no_current(nights.root)
    point_at_newest(nights.catalog.storage)
    nights.catalog.vacuum(keep_versions=2, keep_days=0, dry_run=False)
    assert_no_current(nights.root)
    text = (nights.root / "current.txt").read_text()
    assert text.startswith("There is no `current` here: no folder holds all files of version 2")
    assert str(nights.place) not in text
    link(nights)
    assert_current_is_newest(nights.root)


def test_pointers_that_stand_right_are_those_that_should_stand(nights: Survey) -> None:
    for show in (lambda: None, lambda: view(nights), lambda: nights.night(2)):
        show()
        storage, metadata = nights.catalog.storage, nights.catalog.metadata
        told = pointers_of(storage, metadata)
        assert {path: storage.read(path) for path in told.files} == told.files
        assert {path: storage.symlink_target(path) for path in told.links} == told.links
        assert not any(storage.exists(path) for path in told.absent)
        stand = {*told.files, *told.links, *told.absent}
        assert {"current", "current.txt", "SHA256SUMS", "collection.properties"} == stand


@pytest.mark.parametrize("unchanged", ["link", "copy", "reference"])
def test_on_stores_a_path_is_whole_or_none(nights: Survey, unchanged: str) -> None:
    objects = Storage.at(f"memory://{uuid.uuid4().hex}")
    for file in (path for path in nights.root.rglob("*") if path.is_file() and "current" not in path.parts):
        objects.write(str(file.relative_to(nights.root)), file.read_bytes())
    with pytest.raises(TreeNotFoundError):
        Catalog.open(objects.root).path()
    show_newest(objects, Unchanged(unchanged))
    assert not objects.exists("current")
    hats = nights.layout == "hats"
    assert objects.exists("current.txt") == (hats and unchanged == "reference")
    assert objects.exists("collection.properties") == (hats and unchanged != "reference")
    catalog = Catalog.open(objects.root)
    if unchanged == "reference" or (nights.layout == "hipscat" and unchanged == "link"):
        other = "link" if hats else "copy"
        with pytest.raises(TreeNotFoundError, match=f"`unchanged: {other}`"):
            catalog.path()
        return
    tree = Storage.at(catalog.path()).root.removeprefix(f"{objects.root}/")
    pattern = catalog.metadata.paths.leaf_glob(tree, "main")
    schema = catalog.schema_of("main")
    files = [pq.read_table(pa.BufferReader(objects.read(entry.path))) for entry in objects.glob(pattern)]
    assert rows_of(pa.concat_tables(files), schema.names) == rows_of(catalog.read(), schema.names)
