"""The same jobs on a real Spark cluster, submitted through the Airflow connection: the same catalog."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hipslake import Catalog
from hipslake.steps.frozen_run import FrozenRun

from tests.steps import in_process
from tests.stores.s3_server import running_s3
from tests.system.cluster import Cluster, running_cluster
from tests.system.dag_runs import Lake
from tests.system.environment import environment
from tests.system.runs import finish, write_spec
from tests.system.stores import on_s3, watched_commands
from tests.system.trees import started
from tests.system.whole import assert_readers_see_whole_version, assert_same_catalog

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def cluster(running: Cluster) -> Cluster:
    """The cluster, with all its workers."""
    running.fill()
    return running


def test_its_workers_have_third_party_packages_only(cluster: Cluster, tmp_path: Path) -> None:
    def can_import(module: str) -> subprocess.CompletedProcess[str]:
        command = [str(cluster.python), "-c", f"import {module}"]
        return subprocess.run(
            command, env=cluster.environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )

    assert can_import("pyspark, pyarrow, healpy, pydantic, fsspec").returncode == 0
    assert "No module named 'hipslake'" in can_import("hipslake").stderr


def test_a_catalog_made_by_the_cluster_is_the_one_made_by_one_process(
    cluster: Cluster, airflow: Path, landing: Path, plain_gaia: Path, tmp_path: Path
) -> None:
    (tmp_path / "logs").mkdir()
    remote = Lake(landing, tmp_path / "warehouse", tmp_path / "logs")
    remote.ingest("gaia_dr3", spark=cluster.connection, **cluster.client)
    assert_same_catalog(remote.catalog("gaia_dr3"), plain_gaia)
    shipped = sorted(cluster.work.glob("app-*/*/hipslake.zip"))
    assert len(shipped) == 4, "two jobs on two workers"
    assert "hipslake/steps/ingest/write_tasks.py" in zipfile.ZipFile(shipped[0]).namelist()


def test_workers_get_the_keys_of_a_store_from_their_driver(
    cluster: Cluster, airflow: Path, tmp_path: Path
) -> None:
    """They get those of the task's connection, and nobody else sees them."""
    rows = in_process.write_source(tmp_path / "landing", rows=6000)
    with running_s3(guarded=True) as server, server.reached():
        bucket = server.make_bucket()
        for path in (tmp_path / "landing").iterdir():
            server.client().upload_file(str(path), bucket, f"landing/{path.name}")
        spec = in_process.write_spec(
            tmp_path / "stars.yaml", f"s3://{bucket}/landing/*.parquet", threshold="1000 rows"
        )
        folder = in_process.start(f"s3://{bucket}/warehouse", spec)
        for step in (in_process.freeze, in_process.count, in_process.make_plan):
            step(folder)
        command = [sys.executable, "-m", "tests.system.run_operator", "write", folder.uri]
        variables = on_s3(server, bucket, spark=cluster.connection, **cluster.client)
        with watched_commands() as seen, started(command, tmp_path / "log", env=variables) as job:
            job.wait()
            told = job.text()
        in_process.check(folder)
        finish(folder)
        found = Catalog.open(FrozenRun.of(folder).catalog_uri).read(rows.schema.names)
        assert found.sort_by("id").combine_chunks().equals(rows.combine_chunks())
        assert any("CoarseGrainedExecutorBackend" in one for one in seen)
        assert not [one for one in seen if server.secret in one]
        assert server.secret not in told
        written = [path for path in cluster.place.rglob("*") if path.is_file() and not path.is_symlink()]
        logs = [path for path in written if cluster.work in path.parents or path.parent == cluster.place]
        assert any(path.name == "stderr" for path in logs)
        assert not [path for path in logs if server.secret.encode() in path.read_bytes()]


@pytest.mark.slow
def test_a_worker_killed_during_the_write_costs_no_row(cluster: Cluster, tmp_path: Path) -> None:
    source = in_process.write_source(tmp_path / "landing", rows=400_000, files=16)
    spec = write_spec(tmp_path / "stars.yaml", "400 rows")
    folder = in_process.start(tmp_path / "warehouse", spec)
    for step in (in_process.freeze, in_process.count, in_process.make_plan):
        step(folder)
    leaves = tmp_path / "warehouse" / "catalogs" / "stars" / FrozenRun.of(folder).write_id
    command = [sys.executable, "-m", "tests.system.run_operator", "write", folder.uri]
    with started(
        command, tmp_path / "log", env=environment(spark=cluster.connection, **cluster.client)
    ) as job:
        job.wait_until(lambda: any(leaves.glob("main/dataset/Norder=*/Dir=*/Npix=*.parquet")))
        victim = next(worker for worker in cluster.workers if cluster.has_run_python(worker))
        victim.kill()
        job.wait()
        assert "Lost executor" in job.text(), "it was over before a worker died"
    in_process.check(folder)
    finish(folder)
    catalog = tmp_path / "warehouse" / "catalogs" / "stars"
    assert_readers_see_whole_version(catalog, source)
    in_process.ingest(in_process.start(tmp_path / "undisturbed", spec))
    assert_same_catalog(catalog, tmp_path / "undisturbed" / "catalogs" / "stars")
