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

from tests.airflow_home import PROJECT

_LIBRARIES = PROJECT / ".postgres" / "usr" / "lib"  # where `make test` puts it
_UNPACKED = _LIBRARIES / "postgresql"
_ENVIRONMENT = os.environ | {"LD_LIBRARY_PATH": os.pathsep.join(map(str, _LIBRARIES.glob("*-linux-gnu*")))}
_NOBODY = 65534  # PostgreSQL refuses to run as root
_SECONDS = 60


def find_postgres() -> Path | None:
    """The folder of its programs: of the system's newest, or of the one of `make test`."""
    for place in (Path("/usr/lib/postgresql"), _UNPACKED):
        versions = sorted(place.glob("*/bin/initdb"), key=lambda program: int(program.parts[-3]))
        if versions:
            return versions[-1].parent
    program = shutil.which("initdb")
    return Path(program).resolve().parent if program else None


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
    way = _not_as_root()
    if way:
        os.chown(place, _NOBODY, _NOBODY)
    data = place / "data"
    subprocess.run(
        [*way, programs / "initdb", "--no-sync", "--auth=trust", "--username=airflow", "-D", data],
        check=True,
        capture_output=True,
        cwd=place,
        env=_ENVIRONMENT,
    )
    options = ["-p", str(port), "-h", "127.0.0.1", "-k", str(place), "-F"]
    with (place / "server.log").open("wb") as log:
        server = subprocess.Popen(
            [*way, programs / "postgres", "-D", data, *options],
            stdout=log,
            stderr=log,
            cwd=place,
            env=_ENVIRONMENT,
        )
    try:
        _wait_for(port, server)
        yield f"postgresql+psycopg2://airflow@127.0.0.1:{port}/postgres"
    finally:
        server.send_signal(signal.SIGINT)  # at once: with SIGTERM it waits for all who are connected
        server.wait()
        shutil.rmtree(place, ignore_errors=True)


def _not_as_root() -> list[str]:
    """What goes before a command so that it does not run as root."""
    if os.geteuid() != 0:
        return []
    return ["setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"]


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
