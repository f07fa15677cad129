"""A Spark standalone cluster on loopback: a master and two workers, each a process with one core and 1 GB."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pyspark
from hipslake.spark.settings import java_options

from tests.system.trees import Tree, started

LOOPBACK = "127.0.0.1"
WORKERS = 2
SPARK_HOME = Path(pyspark.__file__).parent
_MASTER = re.compile(rf"Starting Spark master at spark://{re.escape(LOOPBACK)}:(\d+)")


class Cluster:
    """The processes of a cluster, and how to submit to it."""

    def __init__(self, place: Path, stack: ExitStack, *, apart: bool = False) -> None:
        self.place = place
        self.apart = apart
        self.python = third_party_python(place / "python")
        self.work = place / "work"
        self._stack = stack
        self._master = self._start("master", "master.Master", "--host", LOOPBACK, "--port", "0")
        self._master.wait_until(lambda: _MASTER.search(self._master.text()))
        self.workers: list[Tree] = []
        self.fill()

    @property
    def port(self) -> int:
        """The master's."""
        found = _MASTER.search(self._master.text())
        assert found
        return int(found[1])

    @property
    def connection(self) -> dict[str, object]:
        """The Airflow connection that names this cluster."""
        return {"conn_type": "spark", "host": f"spark://{LOOPBACK}", "port": self.port}

    @property
    def client(self) -> dict[str, str]:
        """What a driver on this machine must know, beside the connection."""
        return {"SPARK_LOCAL_IP": LOOPBACK, "PYSPARK_PYTHON": str(self.python)}

    @property
    def environment(self) -> dict[str, str]:
        """The environment of its processes: nothing of this project."""
        kept = ("PATH", "HOME", "JAVA_HOME", "LANG")
        return {
            **{name: os.environ[name] for name in kept if name in os.environ},
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_LOCAL_DIRS": str(self.place / "scratch"),
            "SPARK_DAEMON_MEMORY": "256m",
            "JDK_JAVA_OPTIONS": " ".join(java_options()),  # executors too: all of them live for a minute
        }

    def fill(self) -> None:
        """Have two workers, whatever became of earlier ones."""
        self.workers = [worker for worker in self.workers if worker.process.poll() is None]
        address = f"spark://{LOOPBACK}:{self.port}"
        size = ["--cores", "1", "--memory", "1g", "--work-dir", str(self.work)]
        fresh = []
        while len(self.workers) < WORKERS:
            number = len(list(self.place.glob("worker-*")))
            host = f"127.0.0.{1 + number}" if self.apart else LOOPBACK
            arguments = [*size, "--host", host, address]
            worker = self._start(f"worker-{number}", "worker.Worker", *arguments, host=host)
            self.workers.append(worker)
            fresh.append(worker)
        for worker in fresh:
            worker.wait_until(lambda: "Successfully registered with master" in worker.text())  # noqa: B023

    def has_run_python(self, worker: Tree) -> bool:
        """Whether an executor of the worker has Python processes, which hold tasks or have held them."""
        return bool(self.python_of(worker))

    def python_of(self, worker: Tree) -> list[psutil.Process]:
        """The Python processes of a worker's executor: the daemon, and what it has forked."""
        return [process for process in _family(worker) if "pyspark.worker" in _command_of(process)]

    def block_servers(self) -> list[psutil.Process]:
        """The processes that hand out blocks of an exchange; they are nobody's children."""

        def is_one(process: psutil.Process) -> bool:
            told = " ".join(_command_of(process))
            return "hipslake.spark.block_server" in told and str(self.work) in told

        return [*filter(is_one, psutil.process_iter())]

    def executor_of(self, worker: Tree) -> psutil.Process:
        """The JVM of a worker's executor."""
        name = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
        return next(process for process in _family(worker) if name in _command_of(process))

    def _start(self, name: str, service: str, *arguments: str, host: str = LOOPBACK) -> Tree:
        command = [
            str(SPARK_HOME / "bin" / "spark-class"),
            f"org.apache.spark.deploy.{service}",
            "--webui-port",
            "0",
            *arguments,
        ]
        elsewhere = self.place / "elsewhere"
        elsewhere.mkdir(exist_ok=True)
        variables = self.environment | {"SPARK_LOCAL_IP": host}
        tree = started(command, self.place / name, env=variables, cwd=elsewhere)
        return self._stack.enter_context(tree)


@contextmanager
def running_cluster(place: Path, *, apart: bool = False) -> Iterator[Cluster]:
    """Start a cluster; it is gone at the end of the block. `apart`: each worker at an address of its own."""
    with ExitStack() as stack:
        yield Cluster(place, stack, apart=apart)


def third_party_python(folder: Path) -> Path:
    """Make a Python that has the packages of this one, but not what is installed editable: the project."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    packages = next((folder / "lib").glob("python*/site-packages"))
    # A path in a .pth file is added to sys.path, but the .pth files that lie there are not read.
    (packages / "third-party.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin" / "python"


def _family(worker: Tree) -> list[psutil.Process]:
    return psutil.Process(worker.process.pid).children(recursive=True)


def _command_of(process: psutil.Process) -> list[str]:
    """The command line of a process; none if it has ended meanwhile."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:  # zombies too
        return []
