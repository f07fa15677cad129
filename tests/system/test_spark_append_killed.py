"""Append and compaction in Spark, killed in their tasks and about their commit: nothing half, and no orphan.

One job is stopped at one moment after the other, with the JVM and all workers, and the warehouse is copied:
that is what a kill would leave there. At the last moment it is killed.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from hipslake import Catalog
from hipslake.catalog.layouts import exchange_root
from hipslake.steps.append.request import AppendRequest
from hipslake.steps.compact.request import CompactRequest
from hipslake.steps.report import Request
from hipslake.steps.run import RunFolder

from tests.airflow_home import PROJECT
from tests.catalog.leftovers import missing, orphans
from tests.steps import in_process
from tests.steps.nights import Survey, night_rows
from tests.system.environment import environment
from tests.system.runs import DEAD_AT_ONCE, assert_verified
from tests.system.test_versions_killed import Vacuum
from tests.system.trees import Tree, started

pytestmark = pytest.mark.slow

COLUMNS = ["id", "ra", "dec", "mag", "night"]
ROWS, FILES = 16_000, 16  # enough for a second of work
JOBS = {"append": "append_increment.py", "compact": "compact_catalog.py"}
MASTER = {"HIPSLAKE_SPARK_MASTER": "local[2,4]"}
BEFORE, AFTER = 3, 4  # the newest version before the job, and the one that it commits


@dataclass(frozen=True)
class Stage:
    """A catalog of three nights, and a job that was killed in it."""

    step: str
    survey: Survey
    folder: RunFolder
    before: pa.Table  # rows
    after: pa.Table
    expected: list[str]  # checksums of the leaves that the job leaves if nobody disturbs it
    moments: dict[str, int]  # name to the version that readers should see

    @property
    def warehouse(self) -> Path:
        return Path(self.survey.warehouse)

    def copy_of(self, moment: str) -> Path:
        return self.survey.place / "moments" / moment

    def set(self, moment: str) -> None:
        """Make the warehouse as it was at a moment."""
        shutil.rmtree(self.warehouse)
        shutil.copytree(self.copy_of(moment), self.warehouse, symlinks=True)

    def retry(self) -> None:
        """Run the step again, without Spark."""
        {"append": in_process.append, "compact": in_process.compact}[self.step](self.folder)

    def seen(self, *, pointed_at: bool = True) -> int:
        """Which version readers see, checked whole."""
        catalog = Catalog.open(self.survey.root)
        assert_verified(catalog, pointed_at=pointed_at)
        rows = catalog.read().select(COLUMNS).sort_by("id").combine_chunks()
        assert rows.equals({BEFORE: self.before, AFTER: self.after}[catalog.version])
        return catalog.version

    def assert_vacuum_leaves_nothing_else(self, version: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """Vacuum, and look at every file of the warehouse."""
        with monkeypatch.context() as dead:
            for name, value in DEAD_AT_ONCE.items():
                dead.setenv(name, value)
            Vacuum(self.warehouse)()
            assert missing(self.survey.root) == set()
            assert self.survey.catalog.version == version
            files = {path.relative_to(self.warehouse).as_posix() for path in self.warehouse.rglob("*.*")}
            outside = {name for name in files if not name.startswith("catalogs/stars")}
            assert {
                name for name in outside if not name.startswith("_runs/catalog_vacuum__stars/clean/")
            } == set()
            intents = [path.name for path in self.survey.root.glob("_versions/intents/*.json")]
            if intents:  # killed at its commit: what it wrote stays
                [write_id] = {name.partition(".")[0] for name in intents}
                left = orphans(self.survey.root)
                assert left == {name for name in left if write_id in name}
                self.survey.night(BEFORE, rows=50)  # takes the number that it was after
                Vacuum(self.warehouse)()
                assert missing(self.survey.root) == set()
        assert orphans(self.survey.root) == set()


def checksums(survey: Survey) -> list[str]:
    """Of all leaf files, along the curve."""
    catalog = survey.catalog
    found: list[str] = catalog.metadata.partitions(None, catalog.storage)["sha256"].to_pylist()
    return found


def rows_of(survey: Survey) -> pa.Table:
    return pa.concat_tables(survey.landed.values()).sort_by("id").combine_chunks()


def leaves(survey: Survey) -> set[Path]:
    return set(survey.root.glob("*/main/dataset/Norder=*/Dir=*/Npix=*/*.parquet"))


def blocks(survey: Survey) -> list[Path]:
    return list(survey.root.glob(f"{exchange_root('*')}/**/*.blocks"))


@pytest.fixture(scope="module", params=["append", "compact"])
def stage(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Stage]:
    place = tmp_path_factory.mktemp(request.param)
    survey = Survey(place, threshold="400 rows", more="append: add_file")
    for number in range(BEFORE):
        survey.land(number, night_rows(number, ROWS // BEFORE), files=FILES)
        survey.append(number)
    before = rows_of(survey)
    if request.param == "append":
        survey.land(1, night_rows(1, ROWS, seed=6), files=FILES)
        folder = survey.start(1)
        asked: Request = AppendRequest(run_uri=folder.uri, target_bytes=100_000, block_bytes=10_000)
    else:
        folder = survey.begin()
        asked = CompactRequest(run_uri=folder.uri, task_bytes=20_000)  # many tasks, to stop between two
    folder.write(RunFolder.request_path(request.param), asked)
    stage = Stage(request.param, survey, folder, before, rows_of(survey), [], {})
    shutil.copytree(stage.warehouse, stage.copy_of("start"), symlinks=True)
    stage.retry()
    stage.expected.extend(checksums(survey))
    stage.set("start")
    job = [sys.executable, "-m", "tests.system.stopping_job", stage.step, folder.uri, str(AFTER)]
    with started(job, place / "log", env=environment(**MASTER)) as tree:
        _stop_at_every_moment(stage, tree)
    yield stage
    shutil.rmtree(place)


def _stop_at_every_moment(stage: Stage, job: Tree) -> None:
    survey = stage.survey
    standing = leaves(survey)

    def copy(moment: str, version: int) -> None:
        shutil.copytree(stage.warehouse, stage.copy_of(moment), symlinks=True)
        stage.moments[moment] = version

    if stage.step == "append":
        job.wait_until(lambda: blocks(survey))
        with job.stopped():
            assert leaves(survey) == standing, "rows were merged before it could be stopped gathering them"
            copy("gathering", BEFORE)
    job.wait_until(lambda: len(leaves(survey)) > len(standing))
    with job.stopped():
        begun = leaves(survey) - standing
        copy("merging", BEFORE)
    job.wait_until(lambda: job.has_stopped)
    assert begun < leaves(survey) - standing, "all was merged before it could be stopped"
    with job.stopped():
        copy("before the commit", BEFORE)
    job.wait_until(lambda: (survey.root / f"_versions/{AFTER:08}.json").exists() and job.has_stopped)
    job.kill()
    assert not stage.folder.storage.exists(RunFolder.report_path(stage.step))
    copy("after the commit", AFTER)


def test_readers_see_one_version_or_the_other_and_a_vacuum_leaves_no_orphan(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for moment, version in stage.moments.items():
        stage.set(moment)
        assert stage.seen(pointed_at=version == BEFORE) == version, moment
        stage.assert_vacuum_leaves_nothing_else(version, monkeypatch)


def test_its_retry_ends_it_and_then_a_vacuum_leaves_no_orphan(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for moment in stage.moments:
        stage.set(moment)
        stage.retry()
        assert stage.seen() == AFTER, moment
        assert checksums(stage.survey) == stage.expected
        stage.assert_vacuum_leaves_nothing_else(AFTER, monkeypatch)


def test_the_job_tried_again_ends_it(stage: Stage) -> None:
    stage.set("merging")
    request, report = RunFolder.request_path(stage.step), RunFolder.report_path(stage.step)
    job = [
        sys.executable,
        str(PROJECT / "spark_jobs" / JOBS[stage.step]),
        f"--request={stage.folder.uri_of(request)}",
        f"--report={stage.folder.uri_of(report)}",
    ]
    with started(job, stage.survey.place / "again", env=environment(**MASTER)) as tree:
        tree.wait()
    assert stage.seen() == AFTER
    assert checksums(stage.survey) == stage.expected
