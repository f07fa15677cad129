"""The environment that everything sources."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "include" / "setup" / "environment.sh"


def sourced(script: Path = SCRIPT, cwd: Path | None = None, /, **variables: str) -> dict[str, str]:
    """Return the environment of a strict bash that has sourced the script."""
    command = ["bash", "-euc", 'source "$1"; env -0', "bash", str(script)]
    given = {"PATH": os.environ["PATH"], "HOME": "/nowhere"} | variables
    done = subprocess.run(command, env=given, cwd=cwd, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return dict(entry.split("=", 1) for entry in done.stdout.split("\0") if entry)


def copied(checkout: Path) -> Path:
    """Put the script into another checkout: it makes some of the folders that it names."""
    script = checkout / "include" / "setup" / "environment.sh"
    script.parent.mkdir(parents=True)
    script.write_text(SCRIPT.read_text())
    return script


def test_the_defaults_lie_in_the_checkout_wherever_it_is_sourced(tmp_path: Path) -> None:
    environment = sourced(SCRIPT, tmp_path)
    assert environment["HIPSLAKE_LANDING"] == str(ROOT / ".data" / "landing")
    assert environment["HIPSLAKE_WAREHOUSE"] == str(ROOT / ".data" / "warehouse")
    assert environment["HIPSLAKE_STATE"] == str(ROOT / ".data" / "state")
    assert environment["AIRFLOW_HOME"] == str(ROOT / ".airflow")
    assert environment["PATH"].startswith(f"{ROOT}/.venv/bin:")


def test_processes_keep_what_they_compiled() -> None:
    assert "PYTHONDONTWRITEBYTECODE" not in sourced(PYTHONDONTWRITEBYTECODE="1")


@pytest.mark.parametrize("name", ["HIPSLAKE_LANDING", "HIPSLAKE_WAREHOUSE", "HIPSLAKE_STATE", "AIRFLOW_HOME"])
@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("/some where/else", "/some where/else"),
        ("a b/c", "{checkout}/a b/c"),
        ("s3://bucket/x", "s3://bucket/x"),
    ],
)
def test_folders_move_absolute_relative_and_with_spaces(
    tmp_path: Path, name: str, given: str, meant: str
) -> None:
    script = copied(tmp_path)
    assert sourced(script, tmp_path, **{name: given})[name] == meant.format(checkout=tmp_path)


def test_airflow_warns_of_nothing_that_is_not_ours_to_mend() -> None:
    environment = sourced()
    assert environment["AIRFLOW__CORE__DAG_IGNORE_FILE_SYNTAX"] == "regexp"
    assert environment["PYTHONWARNINGS"] == "ignore:Could not import graphviz:UserWarning"
    assert sourced(**environment)["PYTHONWARNINGS"] == environment["PYTHONWARNINGS"]
    given = sourced(PYTHONWARNINGS="error")["PYTHONWARNINGS"]
    assert given == "error,ignore:Could not import graphviz:UserWarning"
    code = "import warnings\nfor text in ('Could not import graphviz.', 'another'): warnings.warn(text)"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert "UserWarning: another" in done.stderr
    assert "UserWarning: Could" not in done.stderr


def test_tasks_wait_for_an_api_server_that_is_slow() -> None:
    environment = sourced()
    assert float(environment["AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT"]) >= 60
    given = sourced(AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT="5")
    assert given["AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT"] == "5"


def test_the_addresses_follow_the_port() -> None:
    environment = sourced(HIPSLAKE_PORT="9090")
    assert environment["AIRFLOW__API__PORT"] == "9090"
    assert environment["AIRFLOW__API__BASE_URL"] == "http://127.0.0.1:9090"
    assert environment["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"] == "http://127.0.0.1:9090/execution/"
    ports = {environment[f"AIRFLOW__LOGGING__{kind}_LOG_SERVER_PORT"] for kind in ("WORKER", "TRIGGER")}
    assert ports == {"9803", "9804"}


def test_the_spark_connection_is_json_with_retries_and_can_be_replaced() -> None:
    connection = json.loads(sourced()["AIRFLOW_CONN_SPARK_DEFAULT"])
    assert (connection["conn_type"], connection["host"]) == ("spark", "local[*,4]")
    other = '{"conn_type": "spark", "host": "spark://master", "port": 7077}'
    assert sourced(AIRFLOW_CONN_SPARK_DEFAULT=other)["AIRFLOW_CONN_SPARK_DEFAULT"] == other


def test_another_spark_on_the_machine_is_left_out_and_java_home_left_alone() -> None:
    environment = sourced(SPARK_HOME="/opt/spark", JAVA_HOME="/opt/java")
    assert "/opt/spark" not in environment.get("SPARK_HOME", "")
    assert environment["JAVA_HOME"] == "/opt/java"


def test_sourcing_twice_is_sourcing_once() -> None:
    once = sourced(HIPSLAKE_WAREHOUSE="elsewhere")
    assert sourced(**once) == once


def test_it_works_in_a_checkout_with_spaces(tmp_path: Path) -> None:
    script = copied(tmp_path / "check out")
    spark = tmp_path / "check out" / ".venv" / "lib" / "python3.11" / "site-packages" / "pyspark"
    spark.mkdir(parents=True)
    environment = sourced(script)
    assert environment["AIRFLOW__CORE__DAGS_FOLDER"] == str(tmp_path / "check out" / "dags")
    assert environment["SPARK_HOME"] == str(spark)


@pytest.mark.parametrize("file", ["include/setup/environment.sh", "docker-compose.yml", "Dockerfile"])
def test_every_airflow_setting_is_one_that_airflow_knows(file: str) -> None:
    package = find_spec("airflow")
    assert package is not None
    places = package.submodule_search_locations or []
    options = next(Path(place) / "config_templates" / "config.yml" for place in places)
    known = yaml.safe_load(options.read_text())
    settings = re.findall(r"AIRFLOW__([A-Z_]+?)__([A-Z_]+)", (ROOT / file).read_text())
    assert settings
    unknown = {pair for pair in settings if pair[1].lower() not in known[pair[0].lower()]["options"]}
    assert unknown == set()
