"""A join that goes on from its last version, killed at every moment: its retry ends it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from hipslake import Catalog
from hipslake.errors import ConflictError
from hipslake.steps.run import RunFolder
from hipslake.versions.write_id import is_write_id

from tests.catalog.leftovers import missing
from tests.steps import in_process
from tests.steps.join.living import LivingSide, beside, stars
from tests.system.dying import Change, changes, killed_before
from tests.system.runs import DEAD_AT_ONCE

pytestmark = pytest.mark.slow

SPEC = {
    "name": "living",
    "type": "crossmatch",
    "left": {"catalog": "a"},
    "right": {"catalog": "b"},
    "radius_arcsec": 40,
    "threshold": "60 rows",
}


def match_and_show(folder: RunFolder) -> None:
    """What is left of a resolved run."""
    in_process.match(folder, cores=1)  # in one thread, so that the moments are the same each time
    in_process.check(folder)
    in_process.commit(folder)
    in_process.show(folder)


@dataclass(frozen=True)
class Stage:
    """A match with one version, and a run that goes on from it."""

    place: Path
    folder: RunFolder
    spec: Path
    before: pa.Table
    after: pa.Table
    changes: list[Change]

    @property
    def root(self) -> Path:
        return self.place / "warehouse" / "catalogs" / "living"

    def set(self, moment: int) -> None:
        """Make the warehouse as it was right before a change."""
        shutil.rmtree(self.place / "warehouse")
        shutil.copytree(self.place / "moments" / str(moment), self.place / "warehouse", symlinks=True)

    def seen(self) -> int:
        """Which version readers see, checked whole."""
        catalog = Catalog.open(self.root)
        assert catalog.read().equals({1: self.before, 2: self.after}[catalog.version])
        assert missing(self.root) == set()
        return catalog.version

    @property
    def commit(self) -> int:
        """The number of the change that is the commit."""
        version = f"{self.root}/_versions/00000002.json"
        return next(n for n, change in enumerate(self.changes) if change.path == version)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    place = tmp_path_factory.mktemp("join")
    warehouse, spec = place / "warehouse", place / "living.yaml"
    spec.write_text(yaml.safe_dump(SPEC))
    a, b = LivingSide(warehouse, "a"), LivingSide(warehouse, "b")
    for number in range(3):
        seen = stars(number, 150)
        a.night(number, seen)
        b.night(number, beside(seen))
    in_process.publish_match(in_process.start_match(warehouse, spec))
    before = Catalog.open(warehouse / "catalogs" / "living").read()
    b.night(3, beside(stars(2, 150).slice(0, 40), seed=3, arcsec=1.0))
    folder = in_process.start_match(warehouse, spec, "second")
    made = changes(str(warehouse), str(place / "moments"), match_and_show, folder)
    after = Catalog.open(warehouse / "catalogs" / "living")
    assert after.metadata.base_version == 1
    assert not after.read().equals(before)
    return Stage(place, folder, spec, before, after.read(), made)


@pytest.mark.parametrize("every", [31, 3])
def test_whenever_it_is_killed_its_retry_ends_it_and_leaves_no_orphan(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    for name, value in DEAD_AT_ONCE.items():
        monkeypatch.setenv(name, value)
    about_commit = range(max(0, stage.commit - 2), stage.commit + 4)
    for moment in sorted({*range(0, len(stage.changes), every), *about_commit}):
        stage.set(moment)
        assert stage.seen() == (1 if moment <= stage.commit else 2), stage.changes[moment]
        match_and_show(stage.folder)
        assert stage.seen() == 2
        catalog = Catalog.open(stage.root)
        catalog.verify().raise_if_failed()
        in_process.start_match(stage.place / "warehouse", stage.spec, "third")  # sweeps; has nothing to do
        needed = {Catalog.open(stage.root, version=version).metadata.write_id for version in (1, 2)}
        found = {path.name for path in stage.root.iterdir() if is_write_id(path.name)}
        assert found - needed == set(), stage.changes[moment]


def test_a_process_that_is_killed_leaves_what_its_retry_can_end(stage: Stage) -> None:
    for moment in (stage.commit // 3, stage.commit - 1, stage.commit, stage.commit + 1):
        stage.set(0)
        killed_before(moment, str(stage.place / "warehouse"), match_and_show, stage.folder)
        stage.seen()
        match_and_show(stage.folder)
        assert stage.seen() == 2


def test_a_base_that_was_vacuumed_while_the_run_waited_fails_it(stage: Stage) -> None:
    """Its leaf files are gone or may go: nothing is published that names them."""
    stage.set(0)
    warehouse = stage.place / "warehouse"
    in_process.match(stage.folder, cores=1)
    in_process.check(stage.folder)
    other = in_process.start_match(warehouse, stage.spec, "other", force=True)
    in_process.publish_match(other)
    Catalog.open(stage.root).vacuum(keep_versions=1, keep_days=0, dry_run=False)
    with pytest.raises(ConflictError, match="vacuumed"):
        in_process.commit(stage.folder)
    assert Catalog.open(stage.root).metadata.base_version is None
    assert missing(stage.root) == set()
