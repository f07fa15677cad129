"""A whole Airflow with its scheduler, started and stopped as `make up` and `make down` do."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from tests.airflow_home import PROJECT

_OURS = ("AIRFLOW", "HIPSLAKE")


class Standalone:
    """Airflow with folders of its own.

    Parameters
    ----------
    place : Path
        Its home comes to lie here.
    variables : str
        Further environment variables.
    """

    def __init__(self, place: Path, **variables: str) -> None:
        self._variables = {
            **{name: value for name, value in os.environ.items() if not name.startswith(_OURS)},
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONPATH": os.pathsep.join([str(PROJECT / "include"), str(PROJECT / "plugins")]),
            "AIRFLOW_HOME": str(place / "airflow"),
            "HIPSLAKE_PORT": str(free_port()),
            **variables,
        }

    def listens_on(self) -> set[str]:
        """The addresses at which its processes wait for others."""
        pid = json.loads(Path(self._variables["AIRFLOW_HOME"], "standalone.json").read_text())["pid"]
        family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
        found = set()
        for process in family:
            with suppress(psutil.NoSuchProcess):
                found |= {
                    each.laddr.ip for each in process.net_connections("inet") if each.status == "LISTEN"
                }
        return found

    def run(self, command: str, *, seconds: float = 400) -> str:
        """Run a command line where `airflow` works on this project, as in `make shell`; what it printed."""
        line = f"source {PROJECT}/include/setup/environment.sh && {command}"
        done = subprocess.run(
            ["bash", "-c", line],
            env=self._variables,
            cwd=PROJECT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert done.returncode == 0, f"{command}: exit code {done.returncode}\n{done.stdout}"
        return done.stdout


@contextmanager
def standalone(place: Path, *, on_postgres: bool = False, **variables: str) -> Iterator[Standalone]:
    """Start Airflow; it is stopped at the end of the block.

    With a PostgreSQL of its own if `on_postgres`, as `make up` starts it; else on SQLite or what is given.
    """
    airflow = Standalone(place, **variables)
    script = f"python {PROJECT}/include/setup/standalone.py"
    try:
        if on_postgres:
            airflow.run(f"{PROJECT}/include/setup/setup.sh database")
        airflow.run(f"{script} up")
        yield airflow
    finally:
        airflow.run(f"{script} down")


def free_port() -> int:
    """A port that is free, as are the two of the log servers beside it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
