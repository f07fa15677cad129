"""A Spark standalone cluster on loopback for measures: a master and workers, each a process.

Its processes have the packages of this environment and nothing of the project, which travels with each job.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pyspark

LOOPBACK = "127.0.0.1"
START_SECONDS = 120.0
STOP_SECONDS = 30.0
_MASTER = re.compile(rf"Starting Spark master at (spark://{re.escape(LOOPBACK)}:\d+)")
_REGISTERED = re.compile("Successfully registered with master")


class Standalone:
    """A running cluster; `url` is that of its master."""

    def __init__(self, url: str, daemons: list[subprocess.Popen[bytes]]) -> None:
        self.url = url
        self._daemons = daemons

    def wait_until_idle(self) -> None:
        """Wait until no executor is left of an earlier job."""
        end = time.monotonic() + STOP_SECONDS
        while any(_executors(daemon.pid) for daemon in self._daemons):
            if time.monotonic() > end:
                raise TimeoutError("an executor of an earlier job does not end")
            time.sleep(0.05)


@contextmanager
def standalone(folder: Path, *, workers: int, memory: str, apart: bool = False) -> Iterator[Standalone]:
    """Start a cluster; it is gone at the end of the block.

    Parameters
    ----------
    folder : Path
        For logs and for what shuffles; made anew.
    workers : int
        Each has one core.
    memory : str
        Of each worker, for its executors, such as `3g`.
    apart : bool
        Give each worker a loopback address of its own (Linux only), so that the library takes them for
        machines of their own.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        master = _start(stack, folder, "master", ["master.Master", "--host", LOOPBACK, "--port", "0"])
        url = _said(master, folder / "master.log", _MASTER)
        daemons = [master]
        for number in range(workers):
            host = f"127.0.0.{1 + number}" if apart else LOOPBACK
            size = ["--cores", "1", "--memory", memory, "--host", host, "--work-dir", str(folder / "work")]
            service = ["worker.Worker", *size, url]
            daemons.append(_start(stack, folder, f"worker-{number}", service, host))
        for number, daemon in enumerate(daemons[1:]):
            _said(daemon, folder / f"worker-{number}.log", _REGISTERED)
        yield Standalone(url, daemons)


def _start(
    stack: ExitStack, folder: Path, name: str, service: list[str], host: str = LOOPBACK
) -> subprocess.Popen[bytes]:
    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    kept = ("PATH", "HOME", "JAVA_HOME", "LANG")
    variables = {
        **{variable: os.environ[variable] for variable in kept if variable in os.environ},
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": host,
        "SPARK_LOCAL_DIRS": str(folder / "scratch"),
        "SPARK_DAEMON_MEMORY": "256m",
    }
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{service[0]}"]
    command += ["--webui-port", "0", *service[1:]]
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, env=variables, cwd=folder, start_new_session=True
        )
    stack.callback(_stop, process)
    return process


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _said(process: subprocess.Popen[bytes], log: Path, what: re.Pattern[str]) -> str:
    """Wait until a process says something; return the whole, or the group of the pattern."""
    end = time.monotonic() + START_SECONDS
    while (found := what.search(log.read_text(errors="replace"))) is None:
        if process.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f"Spark's daemon does not start; {log} says:\n{log.read_text()[-3000:]}")
        time.sleep(0.05)
    return found[found.re.groups]


def _executors(daemon: int) -> list[psutil.Process]:
    children = psutil.Process(daemon).children()
    return [child for child in children if child.status() != psutil.STATUS_ZOMBIE]
