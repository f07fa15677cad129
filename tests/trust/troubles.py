"""What goes wrong in mid-work: each is called while the workload runs, and returns with the damage done."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable

from tests.trust.waiting import until
from tests.trust.workload import GAIA, STARS, Workload

_SECONDS = 3600  # until the moment is there


def kill_a_spark_worker(workload: Workload) -> None:
    """Kill a worker that has run tasks of the write, with its executor."""
    workload.wait_for_task(GAIA, "write", "running")
    deployment = workload.deployment
    until(
        lambda: deployment.drivers() and deployment.busy_workers(),
        seconds=_SECONDS,
        what="a worker with tasks",
    )
    deployment.kill(deployment.busy_workers()[0])


def kill_the_driver(workload: Workload) -> None:
    """Kill the JVM of the driver of a Spark job."""
    deployment = workload.deployment
    until(
        lambda: deployment.drivers() and deployment.busy_workers(),
        seconds=_SECONDS,
        what="a driver with tasks",
    )
    os.kill(deployment.drivers()[0].pid, signal.SIGKILL)


def kill_the_scheduler(workload: Workload) -> None:
    """Kill the scheduler with all tasks that it runs, as its container or machine would die."""
    workload.wait_for_task(STARS, "append", "running", "success")
    workload.deployment.kill("scheduler")


def kill_the_triggerer(workload: Workload) -> None:
    """Kill the triggerer while it waits for the files of a night."""
    workload.wait_for_task(STARS, "wait", "deferred")
    workload.deployment.kill("triggerer")


def kill_postgres(workload: Workload) -> None:
    """Kill Airflow's database."""
    workload.wait_for_task(STARS, "histogram", "running", "success")
    workload.deployment.kill("postgres")


def kill_the_api_server(workload: Workload) -> None:
    """Kill the server that all tasks report to."""
    workload.wait_for_task(STARS, "inputs", "running", "success")
    workload.deployment.kill("api-server")


def upset_the_store(workload: Workload) -> None:
    """Have the store refuse, lose answers and dawdle, until the end."""
    proxy = workload.deployment.proxy
    proxy.refuse("", "/survey/", status=503, code="SlowDown", every=19, times=math.inf)
    proxy.refuse("", "/survey/", status=500, every=53, times=math.inf)
    proxy.drop_answers("", "/survey/", every=61, times=math.inf)
    proxy.delay("", "/survey/", seconds=2, every=23, times=math.inf)


# The driver goes first: its job begins again, and so has a worker to lose.
TROUBLES: dict[str, Callable[[Workload], None]] = {
    "spark driver killed": kill_the_driver,
    "spark worker killed": kill_a_spark_worker,
    "scheduler killed": kill_the_scheduler,
    "triggerer killed": kill_the_triggerer,
    "postgres killed": kill_postgres,
    "api server killed": kill_the_api_server,
    "store refuses, drops and dawdles": upset_the_store,
}
