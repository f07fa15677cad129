"""The Spark session beside the Airflow of `make up`: for whom one is started, and that it ends."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

SETUP = Path(__file__).parents[2] / "include" / "setup"
LOCAL = '{"conn_type": "spark", "host": "local[*,4]"}'
PLACE = "HIPSLAKE_SPARK_SESSION"


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a short path, as paths of sockets have to be."""
    return tmp_path_factory.mktemp("h")


@pytest.fixture
def session(home: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, of an Airflow with a home of its own."""
    monkeypatch.setenv("AIRFLOW_HOME", str(home))
    spec = importlib.util.spec_from_file_location("setup_session", SETUP / "session.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("connection", "master"),
    [
        (LOCAL, "local[*,4]"),
        ('{"conn_type": "spark", "host": "local[2]"}', "local[2]"),
        ('{"conn_type": "spark", "host": "spark://master", "port": 7077}', ""),
        ('{"conn_type": "spark", "host": "yarn"}', ""),
        ('{"conn_type": "spark"}', ""),
        ('{"host": 7}', ""),
        ("[]", ""),
        ("spark://local", ""),
        ("", ""),
    ],
)
def test_a_session_is_only_for_cores_of_this_machine(
    session: ModuleType, connection: str, master: str
) -> None:
    assert session.local_master(connection) == master


@pytest.mark.parametrize(
    "given",
    [
        {PLACE: ""},
        {PLACE: "/" + "x" * 101},
        {"AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "yarn"}'},
        {"AIRFLOW_CONN_SPARK_DEFAULT": ""},
    ],
    ids=["switched off", "too long", "a cluster", "no connection"],
)
def test_without_a_session_nobody_asks_for_one(session: ModuleType, given: dict[str, str]) -> None:
    environment = {"AIRFLOW_CONN_SPARK_DEFAULT": LOCAL, "OTHER": "1", **given}
    told = session.up(environment)
    assert PLACE not in told
    assert told["OTHER"] == "1"
    assert not session.SESSION.family()
    assert session.down() is False


def test_a_session_is_kept_from_up_to_down(
    session: ModuleType, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a program in the place of Python, which tells what it was given, and stays."""
    program, seen = tmp_path / "python", tmp_path / "seen.json"
    program.write_text(
        f"#!{sys.executable}\n"
        "import json, os, sys, time\n"
        f"told = sys.argv[1:], os.environ.get('HIPSLAKE_SPARK_MASTER'), '{PLACE}' in os.environ\n"
        "text = json.dumps(told)\n"
        f"open({str(seen)!r} + '.new', 'w').write(text)\n"
        f"os.rename({str(seen)!r} + '.new', {str(seen)!r})\n"
        "time.sleep(100)\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    environment = {"AIRFLOW_CONN_SPARK_DEFAULT": LOCAL, "PATH": os.environ["PATH"]}
    told = session.up(environment)
    place = str(home / "spark" / "session.sock")
    assert told == {**environment, PLACE: place}
    while not seen.exists():
        pass
    assert json.loads(seen.read_text()) == [
        ["-m", "hipslake.spark.standing_session", place],
        "local[*,4]",
        False,
    ]
    assert session.down() is True
    assert not session.SESSION.family()
    assert session.down() is False
