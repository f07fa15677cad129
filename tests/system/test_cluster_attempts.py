"""Tasks that run twice on a cluster: beside each other, and again after an executor was lost.

On a cluster whose workers have one address, blocks of the exchange wait in the folder of the write; where
they have two, in files of the executors, which serve them. Either way the catalog has to be that of a quiet
run, byte for byte, and nothing may lie beside it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.run import RunFolder

from tests.steps import in_process
from tests.system.cluster import Cluster, running_cluster
from tests.system.environment import environment
from tests.system.runs import finish, write_spec
from tests.system.trees import Tree, started
from tests.system.whole import assert_same_catalog

pytestmark = pytest.mark.slow

ROWS, FILES = 400_000, 16
SPECULATION = """\
spark.speculation true
spark.speculation.interval 50ms
spark.speculation.quantile 0.05
spark.speculation.multiplier 1.01
spark.speculation.minTaskRuntime 200ms
spark.eventLog.enabled true
spark.eventLog.rolling.enabled false
spark.eventLog.compress false
spark.eventLog.dir {events}
"""


@pytest.fixture(scope="module", params=[False, True], ids=["one address", "two addresses"])
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster"), apart=request.param) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A spec with its source, and the catalog of a quiet run."""
    place = tmp_path_factory.mktemp("lake")
    in_process.write_source(place / "landing", rows=ROWS, files=FILES)
    spec = write_spec(place / "stars.yaml", "400 rows")
    in_process.ingest(in_process.start(place / "quiet", spec))
    return spec, place / "quiet" / "catalogs" / "stars"


@contextmanager
def writing(cluster: Cluster, spec: Path, place: Path, **variables: str) -> Iterator[tuple[Tree, Path]]:
    """Write the leaves of a run on the cluster: the job while it runs, and the folder of its write.

    After the block, the job ends well, and the run is verified and published.
    """
    cluster.fill()
    folder: RunFolder = in_process.start(place / "warehouse", spec)
    for step in (in_process.freeze, in_process.count, in_process.make_plan):
        step(folder)
    write = place / "warehouse" / "catalogs" / "stars" / FrozenRun.of(folder).write_id
    command = [sys.executable, "-m", "tests.system.run_operator", "write", folder.uri]
    known = environment(spark=cluster.connection, **cluster.client, **variables)
    with started(command, place / "log", env=known) as job:
        yield job, write
        job.wait()
    assert not blocks_in(write)
    # What a server leaves that was killed goes with the application.
    cluster.workers[0].wait_until(lambda: not blocks_in(cluster.place / "scratch"))
    in_process.check(folder)
    finish(folder)


def blocks_in(folder: Path) -> list[Path]:
    """The files of blocks below a folder."""
    while True:
        with suppress(FileNotFoundError):  # a folder was removed while it was looked through
            return list(folder.rglob("*.blocks"))


def blocks_wait(cluster: Cluster, write: Path) -> bool:
    """Whether a map task has left blocks for reduce tasks."""
    return bool(blocks_in(write) or blocks_in(cluster.place / "scratch"))


def leaves_are_there(cluster: Cluster, write: Path) -> bool:
    """Whether a reduce task has left a leaf."""
    return any(write.glob("main/dataset/Norder=*/Dir=*/Npix=*.parquet"))


@pytest.mark.parametrize("moment", [blocks_wait, leaves_are_there])
def test_an_executor_that_is_lost_costs_no_row_and_leaves_nothing_behind(
    running: Cluster,
    lake: tuple[Path, Path],
    tmp_path: Path,
    moment: Callable[[Cluster, Path], bool],
) -> None:
    spec, quiet = lake
    with writing(running, spec, tmp_path) as (job, write):
        job.wait_until(lambda: moment(running, write))
        victim = next(worker for worker in running.workers if running.has_run_python(worker))
        running.executor_of(victim).kill()
        job.wait_until(lambda: "Lost executor" in job.text())
    assert_same_catalog(tmp_path / "warehouse" / "catalogs" / "stars", quiet)


def test_blocks_wait_in_files_of_the_driver_where_executors_share_its_machine_and_else_of_their_executors(
    running: Cluster, lake: tuple[Path, Path], tmp_path: Path
) -> None:
    seen = set()

    def looked(write: Path) -> bool:
        for folder in (write, running.place / "scratch"):
            seen.update(folder for _ in blocks_in(folder))
        return leaves_are_there(running, write)

    spec, quiet = lake
    with writing(running, spec, tmp_path) as (job, write):
        job.wait_until(lambda: looked(write))
    assert seen == {running.place / "scratch" if running.apart else write}
    assert "through the shuffle" not in job.text()
    assert_same_catalog(tmp_path / "warehouse" / "catalogs" / "stars", quiet)


def test_blocks_of_a_server_that_is_lost_are_made_again(
    running: Cluster, lake: tuple[Path, Path], tmp_path: Path
) -> None:
    if not running.apart:
        pytest.skip("blocks wait in the folder of the write")
    spec, quiet = lake
    with writing(running, spec, tmp_path) as (job, write):
        job.wait_until(lambda: blocks_wait(running, write))
        servers = running.block_servers()
        assert servers
        for server in servers:
            server.kill()
        job.wait_until(lambda: "they go through the shuffle, from here on" in job.text(), seconds=120)
    assert_same_catalog(tmp_path / "warehouse" / "catalogs" / "stars", quiet)


def test_attempts_beside_each_other_leave_what_one_leaves(
    running: Cluster, lake: tuple[Path, Path], tmp_path: Path
) -> None:
    """Python of an executor stands still for a while, so that Spark has its tasks done elsewhere too."""
    if not running.apart:
        pytest.skip("Spark starts no second attempt at the address of the first")
    spec, quiet = lake
    events, conf = tmp_path / "events", tmp_path / "conf"
    for folder in (events, conf):
        folder.mkdir()
    (conf / "spark-defaults.conf").write_text(SPECULATION.format(events=events.as_uri()))
    with writing(running, spec, tmp_path, SPARK_CONF_DIR=str(conf)) as (job, write):
        job.wait_until(lambda: leaves_are_there(running, write))
        victim = next(worker for worker in running.workers if running.has_run_python(worker))
        family = running.python_of(victim)
        for process in family:
            process.suspend()
        job.wait_until(lambda: speculative(events), seconds=60)
        for process in family:
            with suppress(psutil.NoSuchProcess):  # Spark has ended the slower one
                process.resume()
    assert_same_catalog(tmp_path / "warehouse" / "catalogs" / "stars", quiet)


def speculative(events: Path) -> int:
    """How many attempts Spark has started beside another."""
    lines = [line for log in events.iterdir() for line in log.read_text().splitlines()]
    started = [line for line in lines if '"SparkListenerTaskStart"' in line and line.endswith("}")]
    return sum(json.loads(line)["Task Info"]["Speculative"] for line in started)
