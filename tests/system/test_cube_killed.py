"""Cubes whose build is killed: readers see the version before, and the rerun completes it, once."""

from __future__ import annotations

import shutil
import signal
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from hipslake import Cube
from hipslake.steps.run import RunFolder

from tests.steps import in_process
from tests.steps.nights import Survey
from tests.system import cubes, forked
from tests.system.dying import changes, killed_before
from tests.system.environment import environment
from tests.system.runs import DEAD_AT_ONCE, write_spec
from tests.system.trees import started
from tests.system.whole import contents

SPARE = 10  # two threads may both make a folder, so the number of changes is not the same each time


class Stand:
    """A cube of one night, and a run that is to take up a second; it is put back in place."""

    def __init__(self, root: Path) -> None:
        self.survey = Survey(root / "lake", threshold="100 rows")
        self.survey.place.mkdir()
        self.survey.night(0, rows=120)
        self.spec = cubes.write_spec(self.survey.place, self.survey.landed[0])
        cubes.build(cubes.resolve(self.warehouse, self.spec, "first"))
        self.before = cubes.rows_of(self.cube)
        self.survey.night(1, rows=60)
        self.run = cubes.resolve(self.warehouse, self.spec, "second")
        self.saved = root / "saved"
        shutil.copytree(self.warehouse, self.saved, symlinks=True)

    @property
    def warehouse(self) -> Path:
        return self.survey.place / "warehouse"

    @property
    def cube(self) -> Path:
        return self.warehouse / "cubes" / "sky"

    def put_back(self) -> None:
        shutil.rmtree(self.warehouse)
        shutil.copytree(self.saved, self.warehouse, symlinks=True)

    def check_rerun(self, after: pa.Table) -> bool:
        """Whether the killed run had committed nothing; its rerun completes it either way."""
        seen = Cube.open(self.cube)
        assert seen.query().equals(self.before if seen.version == 1 else after)
        report = cubes.build(self.run)
        assert report.version == Cube.open(self.cube).version == 2
        assert report.changed
        assert cubes.rows_of(self.cube).equals(after)
        assert cubes.unnamed(self.cube) == []
        return seen.version == 1


@pytest.mark.parametrize("every", [60, pytest.param(1, marks=pytest.mark.slow)])
def test_a_build_killed_at_any_moment_is_completed_by_its_rerun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    for name, value in DEAD_AT_ONCE.items():
        monkeypatch.setenv(name, value)
    stand = Stand(tmp_path)
    watched = str(stand.cube)
    moments = changes(watched, str(tmp_path / "copies"), cubes.build, stand.run)
    after = cubes.rows_of(stand.cube)
    assert after.num_rows == 180
    shutil.rmtree(tmp_path / "copies")
    unchanged = []
    for moment in range(0, len(moments) - SPARE, every):
        stand.put_back()
        killed_before(moment, watched, cubes.build, stand.run)
        unchanged.append(stand.check_rerun(after))
    assert any(unchanged)
    stand.put_back()
    process = forked.start(cubes.die_after_the_commit, stand.run, watched)
    process.join(120)
    assert process.exitcode == -signal.SIGKILL
    assert not stand.check_rerun(after)  # it was committed, and is not made twice


@pytest.mark.slow
def test_a_spark_job_killed_in_mid_work_leaves_the_cube_as_it_was(
    tmp_path: Path, airflow: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stars = in_process.write_source(tmp_path / "landing", rows=20_000, files=4)
    warehouse, catalog_spec = tmp_path / "warehouse", write_spec(tmp_path / "stars.yaml", "5000 rows")
    in_process.ingest(in_process.start(warehouse, catalog_spec, "first"))
    spec = cubes.write_spec(tmp_path, stars)
    cubes.build(cubes.resolve(warehouse, spec, "first"))
    root = warehouse / "cubes" / "sky"
    before, rows = contents(root), cubes.rows_of(root)
    spec.write_text(spec.read_text().replace("pixel: 1", "pixel: 3"))
    uri = cubes.resolve(warehouse, spec, "second")
    command = [sys.executable, "-m", "tests.system.run_operator", "build", uri]

    def appears() -> bool:
        return any(
            path.relative_to(root).as_posix() not in before for path in root.glob("*/stars/*/*.parquet")
        )

    with started(command, tmp_path / "killed.log", env=environment()) as job:
        job.wait_until(appears)
        job.kill()
    assert not RunFolder(uri).storage.exists(RunFolder.report_path("build")), "it was over before"
    left = contents(root)
    assert {path: left[path] for path in before} == before
    assert (Cube.open(root).version, cubes.rows_of(root).equals(rows)) == (1, True)

    with started(command, tmp_path / "again.log", env=environment()) as job:
        job.wait()
    cube = Cube.open(root)
    assert cube.version == 2
    names = [name for name in rows.column_names if name != "pixel"]
    assert cube.query().select(names).equals(rows.select(names))
    for name, value in DEAD_AT_ONCE.items():
        monkeypatch.setenv(name, value)
    assert cubes.unnamed(root) == []
