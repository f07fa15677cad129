"""Drivers on the cluster: whoever waits for a job may die, and the job is run once."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
from hipslake import Catalog

from tests.system.agreeing import difference, source
from tests.trust.deployment import Deployment
from tests.trust.records import DRIVERS, note
from tests.trust.waiting import until
from tests.trust.workload import GAIA, dag_of, landed_deployment

STEPS = ("histogram", "write")  # that are Spark jobs
_SECONDS = 900


@dataclass
class Cluster:
    """A deployment whose Spark runs the drivers, and what has run on it."""

    deployment: Deployment
    landing: Path
    runs: set[str] = field(default_factory=set)  # that have ended

    def drivers(self) -> list[str]:
        """The ids of all drivers that the cluster has had."""
        place = f"http://{self.deployment.cluster.addresses['spark-master']}:8081/json/"
        with urllib.request.urlopen(place, timeout=30) as answer:
            told = json.load(answer)
        return sorted(one["id"] for one in told["activedrivers"] + told["completeddrivers"])

    def processes(self, worker: str, *names: str) -> list[psutil.Process]:
        """The processes of a worker whose command line has a name."""
        found = []
        for process in self.deployment.cluster.background(worker).family():
            try:
                line = " ".join(process.cmdline())
            except psutil.NoSuchProcess:
                continue
            if any(name in line for name in names):
                found.append(process)
        return found

    def worker_of_tasks(self) -> str | None:
        """The worker that runs tasks, and no driver."""
        for name in ("spark-worker-1", "spark-worker-2"):
            if self.processes(name, "pyspark.worker", "hipslake.spark.daemon") and not self.processes(
                name, "DriverWrapper"
            ):
                return name
        return None

    def begin(self) -> set[str]:
        """Ingest Gaia anew; the drivers of before."""
        api, before = self.deployment.api, set(self.drivers())
        api.unpause(dag_of(GAIA))
        api.trigger(dag_of(GAIA), {"force": True})
        return before

    def wait_for(self, step: str) -> None:
        """Wait until the job of a step is at work on the cluster, and the triggerer waits for it."""
        api = self.deployment.api

        def is_there() -> bool:
            running = {run for run, state in api.runs(dag_of(GAIA)).items() if state == "running"}
            return any(
                (one["task_id"], one["state"]) == (step, "deferred") and one["dag_run_id"] in running
                for one in api.tasks(dag_of(GAIA))
            ) and any(self.processes(f"spark-worker-{number}", "DriverWrapper") for number in (1, 2))

        until(is_there, seconds=_SECONDS, what=f"the job of {step}", pause=0.5)

    def end(self, before: set[str]) -> tuple[int, int]:
        """Wait for the run, and check what came of it; its drivers, and how often tasks were tried."""
        api = self.deployment.api

        def is_over() -> bool:
            states = api.runs(dag_of(GAIA))
            return len(states) > len(self.runs) and set(states.values()) <= {"success", "failed"}

        until(is_over, seconds=_SECONDS, what="the end of the run", pause=3)
        states = api.runs(dag_of(GAIA))
        assert set(states.values()) == {"success"}
        (run,) = set(states) - self.runs
        self.runs.add(run)
        catalog = Catalog.open(self.deployment.catalog_uri(GAIA))
        catalog.verify().raise_if_failed()
        assert catalog.versions() == list(range(1, len(states) + 1))
        rows = source(self.landing, GAIA)
        assert catalog.read().num_rows == rows.num_rows
        assert difference(catalog.read(), rows, "source_id") == ""
        tries = sum(int(one["try_number"] or 0) for one in api.tasks(dag_of(GAIA), run))
        return len(set(self.drivers()) - before), tries


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with landed_deployment(tmp_path_factory, HIPSLAKE_DEPLOY_MODE="cluster") as (deployment, landing):
        yield Cluster(deployment, landing)


def test_whoever_waits_for_a_job_may_die(cluster: Cluster) -> None:
    """The triggerer and the scheduler, each under the job of either step: both jobs are run once."""
    for title, service in (("triggerer killed", "triggerer"), ("scheduler killed", "scheduler")):
        start, before = time.monotonic(), cluster.begin()
        for step in STEPS:
            cluster.wait_for(step)
            cluster.deployment.kill(service)
        drivers, tries = cluster.end(before)
        assert drivers == len(STEPS)
        note(DRIVERS, title, jobs=len(STEPS), drivers=drivers, tries=tries, seconds=_since(start))


def test_a_worker_that_runs_tasks_of_a_job_may_die(cluster: Cluster) -> None:
    start, before = time.monotonic(), cluster.begin()
    cluster.wait_for("write")
    until(cluster.worker_of_tasks, seconds=_SECONDS, what="a worker with tasks, and no driver", pause=0.2)
    worker = cluster.worker_of_tasks()
    assert worker is not None
    cluster.deployment.kill(worker)
    drivers, tries = cluster.end(before)
    assert drivers == len(STEPS)
    note(DRIVERS, "worker of tasks killed", jobs=2, drivers=drivers, tries=tries, seconds=_since(start))


def test_the_driver_itself_may_die(cluster: Cluster) -> None:
    """Its job is submitted again, and that one alone is."""
    start, before = time.monotonic(), cluster.begin()
    cluster.wait_for("histogram")
    for number in (1, 2):
        for process in cluster.processes(f"spark-worker-{number}", "DriverWrapper"):
            process.kill()
    drivers, tries = cluster.end(before)
    assert drivers == len(STEPS) + 1
    note(DRIVERS, "driver killed", jobs=2, drivers=drivers, tries=tries, seconds=_since(start))


def _since(start: float) -> int:
    return round(time.monotonic() - start)
