"""Real Spark jobs, killed in mid-work with all around them: nothing is seen, and the rerun is right."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from hipslake import Catalog
from hipslake.errors import CatalogNotFoundError
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.run import RunFolder

from tests.steps import in_process
from tests.system.environment import environment
from tests.system.runs import DEAD_AT_ONCE, finish, write_spec
from tests.system.trees import started
from tests.system.whole import assert_readers_see_whole_version, assert_same_catalog, contents

pytestmark = pytest.mark.slow

ROWS, FILES = 200_000, 16  # some tasks, so that a job is still far from its end when its first file appears


@dataclass(frozen=True)
class Stage:
    """A warehouse, and a run in it whose Spark step is to be killed."""

    place: Path
    step: str
    folder: RunFolder
    source: pa.Table
    standing: dict[str, bytes]  # what readers could see before
    appears: Callable[[], bool]  # whether the step is in the middle of its work

    @property
    def warehouse(self) -> Path:
        return self.place / "warehouse"

    @property
    def catalog(self) -> Path:
        return self.warehouse / "catalogs" / "stars"

    def command(self) -> list[str]:
        return [sys.executable, "-m", "tests.system.run_operator", self.step, self.folder.uri]

    def visible(self) -> dict[str, bytes]:
        """The catalog, but for the folder of the run."""
        own = FrozenRun.of(self.folder).write_id
        return {name: data for name, data in contents(self.catalog).items() if not name.startswith(own)}

    def set(self) -> None:
        """Go back to the moment after the kill."""
        shutil.rmtree(self.warehouse)
        shutil.copytree(self.place / "killed", self.warehouse, symlinks=True)


def ingest_first_version(warehouse: Path, spec: Path) -> None:
    in_process.ingest(in_process.start(warehouse, write_spec(spec, "20000 rows"), "before"))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("killed")


@pytest.fixture(scope="module")
def source(place: Path) -> pa.Table:
    return in_process.write_source(place / "landing", rows=ROWS, files=FILES)


@pytest.fixture(scope="module", params=["histogram", "write"])
def stage(place: Path, source: pa.Table, airflow: Path, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """A step that was killed: histogram in the first run of a catalog, write in its second."""
    step, warehouse, spec = request.param, place / "warehouse", place / "stars.yaml"
    catalog = warehouse / "catalogs" / "stars"
    shutil.rmtree(warehouse, ignore_errors=True)
    shutil.rmtree(place / "killed", ignore_errors=True)
    if step == "write":
        ingest_first_version(warehouse, spec)
    standing = contents(catalog)
    folder = in_process.start(warehouse, write_spec(spec, "1500 rows"), "killed")
    in_process.freeze(folder)
    if step == "write":
        in_process.count(folder)
        in_process.make_plan(folder)
    pattern = {"histogram": "histogram/parts/*/0/*", "write": "main/dataset/Norder=*/Dir=*/Npix=*.parquet"}
    root = {"histogram": Path(folder.uri), "write": catalog / FrozenRun.of(folder).write_id}[step]
    stage = Stage(place, step, folder, source, standing, lambda: any(root.glob(pattern[step])))
    with started(stage.command(), place / f"{step}.log", env=environment()) as job:
        job.wait_until(stage.appears)
        job.kill()
        assert not folder.storage.exists(RunFolder.report_path(step)), "it was over before it could be killed"
    shutil.copytree(warehouse, place / "killed", symlinks=True)
    yield stage
    shutil.rmtree(place / "killed")


@pytest.fixture(scope="module")
def undisturbed(place: Path, source: pa.Table, stage: Stage) -> Path:
    """The catalog as runs leave it that nobody kills, all in one process, without Spark."""
    warehouse, spec = place / f"undisturbed-{stage.step}", place / "stars.yaml"
    if stage.standing:
        ingest_first_version(warehouse, spec)
    in_process.ingest(in_process.start(warehouse, write_spec(spec, "1500 rows"), "killed"))
    return warehouse / "catalogs" / "stars"


def test_readers_see_nothing_of_a_killed_job(stage: Stage) -> None:
    stage.set()
    assert stage.visible() == stage.standing
    if stage.standing:
        assert assert_readers_see_whole_version(stage.catalog, stage.source) == 1
    else:
        with pytest.raises(CatalogNotFoundError):
            Catalog.open(stage.catalog)


def test_the_task_tried_again_does_the_work_and_leaves_nothing_else(stage: Stage, undisturbed: Path) -> None:
    stage.set()
    with started(stage.command(), stage.place / f"{stage.step}-again.log", env=environment()) as job:
        job.wait()
    if stage.step == "histogram":
        in_process.make_plan(stage.folder)
        in_process.write_leaves(stage.folder)
        assert not list(Path(stage.folder.uri).glob("histogram/parts/*"))
    assert stage.visible() == stage.standing
    in_process.check(stage.folder)
    finish(stage.folder)
    assert_readers_see_whole_version(stage.catalog, stage.source)
    assert_same_catalog(stage.catalog, undisturbed)


def test_another_run_sweeps_what_is_left_and_publishes(
    stage: Stage, undisturbed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.set()
    for name, value in DEAD_AT_ONCE.items():
        monkeypatch.setenv(name, value)
    abandoned = stage.catalog / FrozenRun.of(stage.folder).write_id
    assert abandoned.exists() == (stage.step != "histogram")  # which writes nothing there
    following = in_process.start(stage.warehouse, stage.place / "stars.yaml", "another")
    assert not abandoned.exists()
    in_process.ingest(following)
    assert_readers_see_whole_version(stage.catalog, stage.source)
    assert_same_catalog(stage.catalog, undisturbed)
