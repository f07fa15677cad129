"""Publish, killed at every moment: readers never see half a version, and whoever comes next mends it all."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.run import RunFolder

from tests.steps import in_process
from tests.system.dying import Change, changes, killed_before
from tests.system.runs import DEAD_AT_ONCE, finish, prepare
from tests.system.whole import assert_readers_see_whole_version, contents

COMMIT = "os.link _versions/00000002.json"


@dataclass(frozen=True)
class Stage:
    """A catalog with version 1, and a run that is verified and about to publish version 2."""

    place: Path
    folder: RunFolder
    write_id: str
    source: pa.Table
    changes: list[Change]  # that publish and view make
    undisturbed: dict[str, bytes]  # the catalog as it is when nothing is killed

    @property
    def warehouse(self) -> Path:
        return self.place / "warehouse"

    @property
    def catalog(self) -> Path:
        return self.warehouse / "catalogs" / "stars"

    def set(self, before: int = 0) -> None:
        """Make the warehouse as it was right before a change."""
        shutil.rmtree(self.warehouse)
        shutil.copytree(self.place / "moments" / str(before), self.warehouse, symlinks=True)

    def at(self, moment: str) -> int:
        """The number of a change, given as its event and a part of its path."""
        event, _, part = moment.partition(" ")
        found = [n for n, change in enumerate(self.changes) if change.event == event and part in change.path]
        assert found, f"nothing like {moment!r} in {self.changes}"
        return found[0]

    def files(self, *, without: str = "") -> dict[str, bytes]:
        """The catalog's files, but for the folder of a write."""
        found = contents(self.catalog)
        return {name: data for name, data in found.items() if not (without and name.startswith(without))}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    place = tmp_path_factory.mktemp("publish")
    warehouse = place / "warehouse"
    source = in_process.write_source(place / "landing")
    spec = in_process.write_spec(place / "stars.yaml", f"{place}/landing/*.parquet", threshold="400 rows")
    in_process.ingest(in_process.start(warehouse, spec, "first"))
    in_process.write_spec(spec, f"{place}/landing/*.parquet", threshold="200 rows")
    folder = in_process.start(warehouse, spec, "second")
    prepare(folder)
    made = changes(str(warehouse), str(place / "moments"), finish, folder)
    undisturbed = contents(warehouse / "catalogs" / "stars")
    return Stage(place, folder, FrozenRun.of(folder).write_id, source, made, undisturbed)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("moment", "version"),
    [
        pytest.param("os.rename hats.properties", 1, marks=pytest.mark.slow),
        (COMMIT, 1),
        ("os.remove _versions/.00000002.json", 2),
        pytest.param("os.rename collection.properties", 2, marks=pytest.mark.slow),
    ],
)
def test_killed_publish_leaves_a_whole_version_and_its_retry_what_an_undisturbed_run_leaves(
    stage: Stage, moment: str, version: int
) -> None:
    stage.set()
    killed_before(stage.at(moment), str(stage.warehouse), finish, stage.folder)
    assert assert_readers_see_whole_version(stage.catalog, stage.source) == version

    finish(stage.folder)
    assert assert_readers_see_whole_version(stage.catalog, stage.source) == 2
    left = {name: data for name, data in stage.files().items() if not is_of_one_who_may_live(name)}
    assert left == stage.undisturbed


def is_of_one_who_may_live(name: str) -> bool:
    """Whether a living process may be writing a file, for all that one can see; the sweep looks later."""
    sign_of_life = name.endswith("_heartbeat.json") or name.startswith(
        ("_versions/pins/", "_versions/intents/")
    )
    return sign_of_life or (name.endswith(".tmp") and name.rpartition("/")[0] in ("", "_versions"))


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_before_the_commit_nothing_that_readers_look_at_changes(stage: Stage, every: int) -> None:
    stage.set()
    standing = stage.files(without=stage.write_id)
    for number in range(stage.at(COMMIT), -1, -every):
        stage.set(number)
        found = stage.files(without=stage.write_id)
        assert {name: data for name, data in found.items() if not is_of_one_who_may_live(name)} == standing
        assert assert_readers_see_whole_version(stage.catalog, stage.source) == 1


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_at_every_moment_behind_the_commit_the_next_run_has_nothing_to_do_but_mend(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    for name, value in DEAD_AT_ONCE.items():
        monkeypatch.setenv(name, value)
    for number in range(stage.at(COMMIT) + 1, len(stage.changes), every):
        stage.set(number)
        assert assert_readers_see_whole_version(stage.catalog, stage.source) == 2
        following = in_process.start(stage.warehouse, stage.place / "stars.yaml", "third")
        assert in_process.freeze(following).unchanged_version == 2
        in_process.show(following)
        assert stage.files(without=FrozenRun.of(following).write_id) == stage.undisturbed, stage.changes[
            number
        ]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("moment", ["os.rename hats.properties", COMMIT])
def test_after_a_kill_before_the_commit_another_run_publishes_and_sweeps(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    stage.set(stage.at(moment))
    for name, value in DEAD_AT_ONCE.items():
        monkeypatch.setenv(name, value)
    following = in_process.start(stage.warehouse, stage.place / "stars.yaml", "third")
    # A commit that was asked for may come to stand until its number is taken.
    assert (stage.catalog / stage.write_id).exists() == (moment == COMMIT)
    prepare(following)
    finish(following)
    assert assert_readers_see_whole_version(stage.catalog, stage.source) == 2
    in_process.start(stage.warehouse, stage.place / "stars.yaml", "fourth")
    assert not (stage.catalog / stage.write_id).exists()
    own = FrozenRun.of(following).write_id
    assert set(stage.files()) == {name.replace(stage.write_id, own) for name in stage.undisturbed}
