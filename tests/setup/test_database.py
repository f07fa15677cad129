"""Airflow's own PostgreSQL: made once, kept over stops, and SQLite where it cannot be."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from hipslake_cluster.postgres import find_postgres
from sqlalchemy import create_engine, text

from tests.setup.test_environment import SCRIPT as ENVIRONMENT
from tests.setup.test_environment import sourced

SETUP = Path(__file__).parents[2] / "include" / "setup"
WITHOUT = """
import sys
sys.path.insert(0, {setup!r})
import database
database.find_postgres = lambda: {programs}
sys.exit(database.up())
"""


def told(home: Path, *command: str) -> str:
    """Run a command for an Airflow home; return what it says."""
    environment = os.environ | {"AIRFLOW_HOME": str(home)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout


def database(home: Path, what: str) -> str:
    return told(home, sys.executable, str(SETUP / "database.py"), what)


def with_programs(home: Path, programs: str) -> str:
    """Run `up` where PostgreSQL is found elsewhere, or not."""
    return told(home, sys.executable, "-c", WITHOUT.format(setup=str(SETUP), programs=programs))


def address(home: Path) -> str:
    """The database as environment.sh has it."""
    return sourced(ENVIRONMENT, AIRFLOW_HOME=str(home))["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"]


def asked(url: str, *statements: str) -> object:
    """Run statements; the first value of the last one's outcome."""
    engine = create_engine(url)
    try:
        with engine.begin() as connection:
            for statement in statements[:-1]:
                connection.execute(text(statement))
            return connection.execute(text(statements[-1])).scalar()
    finally:
        engine.dispose()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a database that was made, started and stopped."""
    if find_postgres() is None:
        pytest.skip("there is no PostgreSQL; on Debian and Ubuntu, include/setup/setup.sh postgres gets it")
    home = tmp_path_factory.mktemp("made")
    half = home / "postgres" / "data.new"  # what an interrupted start left
    half.mkdir(parents=True)
    (half / "PG_VERSION").write_text("15\n")
    assert address(home) == f"sqlite:///{home}/airflow.db"
    assert "is up" in database(home, "up")
    database(home, "down")
    assert not half.exists()
    return home


@pytest.fixture
def home(made: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy of it."""
    subprocess.run(["cp", "-a", made / "postgres", tmp_path], check=True)
    yield tmp_path
    database(tmp_path, "down")


def test_the_database_keeps_what_it_holds_and_only_its_owner_gets_in(home: Path) -> None:
    assert "is up" in database(home, "up")
    url = address(home)
    assert asked(url, "create table kept (n int)", "insert into kept values (7)", "select n from kept") == 7
    assert database(home, "up") == ""  # it runs
    assert address(home) == url
    assert (home / "postgres" / "url").stat().st_mode & 0o077 == 0
    assert (home / "postgres" / "data").stat().st_mode & 0o077 == 0
    user, _, _ = url.rpartition(":")[0].partition("@")
    for wrong in (f"{user.rpartition(':')[0]}@", f"{user}x@"):
        with pytest.raises(Exception, match="password"):
            asked(url.replace(f"{user}@", wrong), "select 1")
    addresses = {each.laddr.ip for each in listening(home)}
    assert addresses == {"127.0.0.1"}
    database(home, "down")
    assert not listening(home)
    database(home, "up")
    assert asked(address(home), "select n from kept") == 7


def test_another_port_is_taken_where_that_of_before_is_taken(home: Path) -> None:
    database(home, "up")
    before = address(home)
    database(home, "down")
    port = int(before.rpartition(":")[2].partition("/")[0])
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        other.listen()
        database(home, "up")
    assert address(home) != before
    assert asked(address(home), "select 1") == 1


def test_a_server_that_was_killed_is_started_again(home: Path) -> None:
    database(home, "up")
    asked(address(home), "create table kept (n int)", "insert into kept values (7)", "select 1")
    killed = servers(home)
    for process in killed:
        with suppress(psutil.NoSuchProcess):  # those that end with the first
            process.kill()
    _, alive = psutil.wait_procs(killed, timeout=10)
    assert not alive
    database(home, "up")
    assert asked(address(home), "select n from kept") == 7


def test_a_database_of_before_is_kept_and_told_of(tmp_path: Path) -> None:
    (tmp_path / "airflow.db").write_bytes(b"")
    assert "is SQLite" in database(tmp_path, "up")
    assert not (tmp_path / "postgres").exists()
    assert address(tmp_path).startswith("sqlite:///")


@pytest.mark.parametrize(
    ("programs", "why"),
    [("None", "there is no PostgreSQL"), ("__import__('pathlib').Path('/nowhere')", "cannot be used")],
)
def test_without_postgresql_airflow_runs_on_sqlite_and_it_is_said(
    tmp_path: Path, programs: str, why: str
) -> None:
    out = with_programs(tmp_path, programs)
    assert why in out
    assert "database is locked" in out
    assert address(tmp_path).startswith("sqlite:///")


def test_a_database_that_is_there_is_never_left_for_another(home: Path) -> None:
    database(home, "up")
    database(home, "down")
    with pytest.raises(AssertionError, match="no PostgreSQL any more"):
        with_programs(home, "None")
    (home / "postgres" / "data" / "PG_VERSION").write_text("9.1\n")
    with pytest.raises(AssertionError, match="does not start"):
        database(home, "up")
    assert address(home).startswith("postgresql")


def test_a_database_that_is_given_goes_before(tmp_path: Path) -> None:
    (tmp_path / "postgres").mkdir()
    (tmp_path / "postgres" / "url").write_text("postgresql+psycopg2://airflow:x@127.0.0.1:1/postgres")
    given = {"AIRFLOW_HOME": str(tmp_path), "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "sqlite:////mine.db"}
    assert sourced(ENVIRONMENT, **given)["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] == "sqlite:////mine.db"
    outer = sourced(ENVIRONMENT, AIRFLOW_HOME=str(tmp_path))
    (tmp_path / "postgres" / "url").write_text("postgresql+psycopg2://airflow:x@127.0.0.1:2/postgres")
    inner = sourced(ENVIRONMENT, **outer)
    assert inner["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"].endswith(":2/postgres")


def servers(home: Path) -> list[psutil.Process]:
    """The processes of the server of a home."""
    found = []
    for process in psutil.process_iter():
        try:
            if str(home / "postgres" / "data") in process.cmdline():
                found += [process, *process.children(recursive=True)]
        except psutil.Error:
            continue
    return found


def listening(home: Path) -> list[object]:
    """Where the server of a home waits for others."""
    return [
        each
        for process in servers(home)
        if process.is_running()
        for each in process.net_connections("inet")
        if each.status == "LISTEN"
    ]
