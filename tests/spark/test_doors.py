"""A Spark cluster with a secret works for who knows it, and lets nobody else submit code."""

from __future__ import annotations

import os
import re
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
JOB = """\
from hipslake.spark.session import open_session
spark = open_session("doors")
print("COUNTED", spark.range(1000).repartition(4).count())
spark.stop()
"""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture(scope="module")
def secret() -> str:
    return secrets.token_hex(32)


@pytest.fixture(scope="module")
def master(secret: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A master and a worker, with the doors that the compose file gives them."""
    place = tmp_path_factory.mktemp("spark")
    doors = COMPOSE["services"]["spark-master"]["environment"]["SPARK_DAEMON_JAVA_OPTS"]
    port = free_port()
    environment = {
        **os.environ,
        "SPARK_DAEMON_JAVA_OPTS": doors,
        "_SPARK_AUTH_SECRET": secret,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_LOCAL_HOSTNAME": "127.0.0.1",
    }
    start = str(Path(os.environ["SPARK_HOME"], "bin", "spark-class"))
    url = f"spark://127.0.0.1:{port}"
    classes = (
        ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port)],
        [
            *("org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--cores", "1"),
            *("--memory", "2g", "--work-dir", str(place), url),
        ],
    )
    running = []
    with (place / "log").open("wb") as log:
        for at, told in enumerate(classes):
            command = [start, told[0], "--webui-port", str(free_port()), *told[1:]]
            running.append(subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT))
            if at == 0:
                until(port)
    try:
        yield url
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait(30)


def until(port: int) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise AssertionError("the master did not come up")


REFUSED = re.compile("Failed to connect to master|All masters are unresponsive")


def submitted(master: str, **variables: str) -> str:
    """What a job says until it ends, or is refused: then Spark would try for a minute, and is ended."""
    environment = {name: value for name, value in os.environ.items() if name != "HIPSLAKE_SPARK_SECRET"}
    environment |= {
        "HIPSLAKE_SPARK_MASTER": master,
        "SPARK_LOCAL_HOSTNAME": "127.0.0.1",
        "PYTHONPATH": str(ROOT / "include"),
        **variables,
    }
    command = [sys.executable, "-u", "-c", JOB]
    out = ""
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as job:
        assert job.stdout is not None
        for line in job.stdout:
            out += line
            if REFUSED.search(line):
                job.terminate()
                out += job.stdout.read()  # what it has counted nevertheless
                break
    return out


@pytest.mark.slow
def test_who_knows_the_secret_is_let_in(master: str, secret: str) -> None:
    assert "COUNTED 1000" in submitted(master, HIPSLAKE_SPARK_SECRET=secret)


@pytest.mark.slow
def test_who_does_not_is_not(master: str) -> None:
    with ThreadPoolExecutor(2) as pool:
        for out in pool.map(lambda guess: submitted(master, HIPSLAKE_SPARK_SECRET=guess), ("", "0" * 64)):
            assert "COUNTED" not in out
            assert REFUSED.search(out)


@pytest.mark.slow
def test_the_secret_stands_on_no_command_line(master: str, secret: str) -> None:
    import psutil

    lines = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
    assert any("spark.deploy.worker.Worker" in line for line in lines)
    assert not [line for line in lines if secret in line]


def test_every_service_of_spark_and_every_task_has_the_secret() -> None:
    for name, service in COMPOSE["services"].items():
        told = service.get("environment", {})
        if name.startswith("spark-"):
            assert "HIPSLAKE_SPARK_SECRET" in told["_SPARK_AUTH_SECRET"], name
            assert "spark.authenticate=true" in told["SPARK_DAEMON_JAVA_OPTS"], name
        if "AIRFLOW__CORE__EXECUTOR" in told:
            assert {
                "HIPSLAKE_SPARK_SECRET",
                "HIPSLAKE_RUN_KEY",
                "HIPSLAKE_OUTPUTS",
                "HIPSLAKE_INPUTS",
            } <= set(told), name
