"""Airflow's own PostgreSQL, on loopback, with its data in Airflow's home: `database.py up | down`.

Runs in the environment of environment.sh, which takes the address that `up` leaves in
`$AIRFLOW_HOME/postgres/url`. Where it cannot be made, or Airflow has an SQLite database from before, `up`
says so, and Airflow runs on SQLite.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg2
from hipslake_cluster.postgres import find_postgres, libraries, make_database, server_command
from hipslake_cluster.processes import Background

AIRFLOW_HOME = Path(os.environ["AIRFLOW_HOME"])
FOLDER = AIRFLOW_HOME / "postgres"
DATA, URL = FOLDER / "data", FOLDER / "url"
SQLITE = AIRFLOW_HOME / "airflow.db"
SERVER = Background(FOLDER, f"{AIRFLOW_HOME}#postgres", record="server.json", log="server.log")
ANSWERS_WITHIN = 60.0  # seconds
_HOST = "127.0.0.1"
_LIMITS = "it takes one writer at a time, so a backfill beside other runs may end with 'database is locked'"


def say(message: str) -> None:
    """Print one line for the user, at once."""
    print(f"hipslake: {message}", flush=True)


def up() -> int:
    """Start the server, made before if there is none; where Airflow stays on SQLite, say why.

    Returns
    -------
    int
        0, also for SQLite; 1 if there is a database, but its server does not start.
    """
    if not DATA.exists():
        if SQLITE.exists():
            say(f"Airflow's database is SQLite: {_LIMITS}; without {SQLITE}, PostgreSQL is used")
            return 0
        if find_postgres() is None:
            say(f"there is no PostgreSQL, so Airflow's database is SQLite: {_LIMITS}")
            say("on Debian and Ubuntu, `sudo apt install postgresql` brings it")
            return 0
    os.umask(0o077)
    FOLDER.mkdir(parents=True, exist_ok=True)
    with _alone():
        if SERVER.pid is not None and _answers():
            return 0
        return _start()


def down() -> bool:
    """Stop the server; whether there was one."""
    if not SERVER.family():
        SERVER.record.unlink(missing_ok=True)
        return False
    SERVER.stop(
        seconds=20.0, sign=signal.SIGINT, term_seconds=5.0
    )  # SIGTERM alone waits for who is connected
    return True


def _start() -> int:
    programs, is_new = find_postgres(), not DATA.exists()
    if programs is None:
        say(f"Airflow's database is in {DATA}, and there is no PostgreSQL any more to serve it")
        return 1
    try:
        if is_new:
            _make(programs)
        port = _port()
        _forget_the_dead()
        SERVER.log.unlink(missing_ok=True)
        process = SERVER.start(
            server_command(programs, DATA, _HOST, port), {**os.environ, **libraries()}, FOLDER
        )
        _wait(process, port)
    except (OSError, RuntimeError) as error:
        SERVER.stop(seconds=5.0)
        if not is_new:
            say(f"PostgreSQL does not start: {error}")
            return 1
        shutil.rmtree(FOLDER, ignore_errors=True)
        why = str(error).splitlines()[-1]
        say(f"PostgreSQL cannot be used here ({why}), so Airflow's database is SQLite: {_LIMITS}")
        return 0
    say(f"PostgreSQL, Airflow's database, is up ({FOLDER}); `make down` stops it")
    return 0


def _make(programs: Path) -> None:
    """Make the database; one that is only half made is never taken for it."""
    fresh, password = DATA.with_name("data.new"), secrets.token_urlsafe(24)
    shutil.rmtree(fresh, ignore_errors=True)
    make_database(programs, fresh, user="airflow", password=password, database="postgres")
    _write_url(password, 0)
    fresh.rename(DATA)


def _wait(process: subprocess.Popen[bytes], port: int) -> None:
    """Write the address, and wait until the server takes connections."""
    _write_url(_password(), port)
    end = time.monotonic() + ANSWERS_WITHIN
    while not _answers():
        if process.poll() is not None or time.monotonic() > end:
            raise RuntimeError(SERVER.log.read_text(errors="replace").strip() or "it says nothing")
        time.sleep(0.1)


def _write_url(password: str, port: int) -> None:
    fresh = URL.with_name("url.new")
    fresh.write_text(f"postgresql+psycopg2://airflow:{password}@{_HOST}:{port}/postgres")
    fresh.replace(URL)


def _address() -> tuple[str, int]:
    """Password and port, as the file has them."""
    told = URL.read_text().removeprefix("postgresql+psycopg2://airflow:").removesuffix("/postgres")
    password, _, place = told.rpartition("@")
    return password, int(place.rpartition(":")[2])


def _password() -> str:
    return _address()[0]


def _port() -> int:
    """The port of before, if it is free: shells that are open find the server there. Else another."""
    for port in (_address()[1], 0):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((_HOST, port))
            return int(probe.getsockname()[1])
    raise RuntimeError(f"no port of {_HOST} is free")


def _forget_the_dead() -> None:
    """Remove the lock of a server that was killed and that nobody reaped: to the next it looks alive."""
    lock = DATA / "postmaster.pid"
    with contextlib.suppress(OSError, ValueError, psutil.NoSuchProcess):
        if psutil.Process(int(lock.read_text().split()[0])).status() == psutil.STATUS_ZOMBIE:
            lock.unlink()


def _answers() -> bool:
    try:
        password, port = _address()
        psycopg2.connect(
            host=_HOST, port=port, user="airflow", password=password, dbname="postgres", connect_timeout=5
        ).close()
    except (psycopg2.Error, OSError, ValueError):
        return False
    return True


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Two that start at once: the second finds the server of the first."""
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in ("up", "down"):
        sys.exit("usage: database.py up | down")
    if sys.argv[1] == "up":
        sys.exit(up())
    down()
