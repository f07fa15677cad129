"""A PostgreSQL of a test's own on loopback: the database that Airflow is meant to run on."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hipslake_cluster.postgres import find_postgres, libraries, make_database, server_command

__all__ = ["find_postgres", "running_postgres"]
_SECONDS = 60


@contextmanager
def running_postgres(programs: Path) -> Iterator[str]:
    """Serve an empty database; yields its address, as SQLAlchemy writes it.

    Parameters
    ----------
    programs : Path
        The folder of `initdb` and `postgres`.
    """
    place = Path(tempfile.mkdtemp(prefix="hipslake-postgres-"))
    port = _free_port()
    data = place / "data"
    make_database(programs, data, user="airflow", password="", database="postgres")
    with (place / "server.log").open("wb") as log:
        server = subprocess.Popen(
            [*server_command(programs, data, "127.0.0.1", port), "-F"],
            stdout=log,
            stderr=log,
            cwd=place,
            env=os.environ | libraries(),
        )
    try:
        _wait_for(port, server)
        yield f"postgresql+psycopg2://airflow@127.0.0.1:{port}/postgres"
    finally:
        server.send_signal(signal.SIGINT)  # at once: with SIGTERM it waits for all who are connected
        server.wait()
        shutil.rmtree(place, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + _SECONDS
    while True:
        assert server.poll() is None, "PostgreSQL ended at once"
        assert time.monotonic() < end, "PostgreSQL does not answer"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
