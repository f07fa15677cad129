"""The wheel in empty environments: with Airflow of the lock and foreign folders, and alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from tests.airflow_home import PROJECT
from tests.system.standalone import free_port

pytestmark = pytest.mark.slow

DAG_FILE = """\
from hipslake_airflow import spec_dags
globals().update(spec_dags("{specs}"))
"""
CATALOG = """\
name: {name}
source:
  uri: {landing}/{name}/*.parquet
  format: parquet
position: {{ra: ra, dec: dec}}
threshold: 500 rows
margin: {{arcsec: [10]}}
"""
MATCH = """\
name: match
type: crossmatch
left: {catalog: stars}
right: {catalog: galaxies}
radius_arcsec: 5
"""
ROWS = {"stars": 3000, "galaxies": 2000}


def clean(**more: str) -> dict[str, str]:
    """Return the environment of a user who has never seen the checkout."""
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "JAVA_HOME", "TMPDIR") if name in os.environ}
    return kept | {"PATH": os.defpath} | more


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([PROJECT / "include" / "setup" / "wheel.sh", folder], check=True, capture_output=True)
    (found,) = folder.glob("*.whl")
    return found


def environment_of(folder: Path, wheel: Path, extras: str = "") -> Path:
    """Make an empty environment with the wheel and what it asks for, as the lock has it; its bin folder."""
    uv = Path(sys.executable).with_name("uv")
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, folder], check=True)
    requirement = f"hipslake{extras} @ {wheel.as_uri()}"
    subprocess.run(
        [uv, "pip", "install", "--quiet", "--python", folder / "bin" / "python",
         "--constraint", PROJECT / "requirements.txt", requirement],
        check=True,
    )  # fmt: skip
    return folder / "bin"


def land(landing: Path) -> None:
    """Write the source files of both catalogs: the galaxies are the first stars, an arcsecond off."""
    draws = np.random.default_rng(7)
    ra, dec = draws.uniform(0, 360, ROWS["stars"]), draws.uniform(-80, 80, ROWS["stars"])
    for name, rows in ROWS.items():
        (landing / name).mkdir(parents=True)
        shifted = dec[:rows] + (1 / 3600 if name == "galaxies" else 0)
        columns = {f"{name}_id": np.arange(rows), "ra": ra[:rows], "dec": shifted}
        pq.write_table(pa.table(columns), landing / name / "part.parquet")


class Airflow:
    """An Airflow of somebody's own, from an environment."""

    def __init__(self, programs: Path, place: Path) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        self.place = place
        self._programs = programs
        self._variables = clean(
            PATH=os.pathsep.join([str(programs), os.defpath]),
            AIRFLOW_HOME=str(place / "home"),
            AIRFLOW__API__HOST="127.0.0.1",
            AIRFLOW__API__PORT=self.url.rpartition(":")[2],
            AIRFLOW__API__BASE_URL=self.url,
            AIRFLOW__CORE__DAGS_FOLDER=str(place / "dags"),
            AIRFLOW__CORE__EXECUTION_API_SERVER_URL=f"{self.url}/execution/",
            AIRFLOW__CORE__LOAD_EXAMPLES="False",
            AIRFLOW__CORE__PARALLELISM="2",
            AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS="True",
            AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT=str(free_port()),
            AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT=str(free_port()),
            HIPSLAKE_WAREHOUSE=str(place / "warehouse"),
        )

    def run(self, *words: str) -> str:
        """Run a command of Airflow; what it printed."""
        done = subprocess.run(
            [self._programs / "airflow", *words], env=self._variables, cwd=self.place,
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self) -> subprocess.Popen[bytes]:
        """Start all of it."""
        self.run("db", "migrate")
        with (self.place / "airflow.log").open("wb") as log:
            return subprocess.Popen(
                [self._programs / "airflow", "standalone"], env=self._variables, cwd=self.place,
                stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    def ask(self, path: str, body: Any = None, method: str | None = None) -> Any:
        """What its API answers."""
        with urllib.request.urlopen(f"{self.url}/auth/token", timeout=60) as answer:
            token = json.load(answer)["access_token"]
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=120) as answer:
            text = answer.read()
            return json.loads(text) if "json" in answer.headers["Content-Type"] else text.decode()

    def until(self, what: str, holds: Any, seconds: float = 400) -> None:
        """Wait until something holds of its answers."""
        end = time.monotonic() + seconds
        while True:
            try:
                if holds():
                    return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                pass
            assert time.monotonic() < end, f"{what}\n{(self.place / 'airflow.log').read_text()[-6000:]}"
            time.sleep(2)

    def has_run(self, dag_id: str) -> None:
        """Start a DAG and wait until its run has gone well."""
        self.ask(f"/api/v2/dags/{dag_id}", {"is_paused": False}, "PATCH")
        run = self.ask(f"/api/v2/dags/{dag_id}/dagRuns", {"logical_date": None}, "POST")["dag_run_id"]

        def done() -> bool:
            state = self.ask(f"/api/v2/dags/{dag_id}/dagRuns/{run}")["state"]
            assert state != "failed", (
                f"{dag_id}: {self.ask(f'/api/v2/dags/{dag_id}/dagRuns/{run}/taskInstances')}"
            )
            return bool(state == "success")

        self.until(f"{dag_id} did not end", done)


@pytest.fixture(scope="module")
def airflow_of_ones_own(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    """A running Airflow with the wheel, one DAG file of three lines, and three specs in a foreign folder."""
    place = tmp_path_factory.mktemp("theirs")
    programs = environment_of(place / "venv", wheel, "[airflow]")
    land(place / "landing")
    for name in ROWS:
        path = place / "specs" / "catalogs" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(CATALOG.format(name=name, landing=place / "landing"))
    (place / "specs" / "joins").mkdir()
    (place / "specs" / "joins" / "match.yaml").write_text(MATCH)
    (place / "dags").mkdir()
    (place / "dags" / "survey.py").write_text(DAG_FILE.format(specs=place / "specs"))
    found = Airflow(programs, place)
    process = found.start()
    try:
        found.until("it does not answer", lambda: found.ask("/api/v2/version"))
        yield found
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)


def test_dags_of_foreign_specs_parse_run_and_are_shown(airflow_of_ones_own: Airflow) -> None:
    airflow = airflow_of_ones_own
    wanted = {
        "catalog_ingest__stars",
        "catalog_ingest__galaxies",
        "catalog_crossmatch__match",
        "catalog_export",
    }

    def dags() -> set[str]:
        return {dag["dag_id"] for dag in airflow.ask("/api/v2/dags?limit=200")["dags"]}

    airflow.until("DAGs are missing", lambda: wanted <= dags())
    assert airflow.ask("/api/v2/importErrors")["total_entries"] == 0
    for dag_id in ("catalog_ingest__stars", "catalog_ingest__galaxies", "catalog_crossmatch__match"):
        airflow.has_run(dag_id)

    listed = {each["name"]: each for each in airflow.ask("/hipslake/api/catalogs")}
    assert {name: each["rows"] for name, each in listed.items()} == ROWS | {"match": ROWS["galaxies"]}
    assert all(each["last_run"]["state"] == "success" for each in listed.values())
    assert "<script" in airflow.ask("/hipslake/catalogs")
    assert airflow.ask("/hipslake/api/catalogs/match")["lines"]

    view = airflow.place / "warehouse" / "catalogs" / "match" / "current" / "main" / "dataset"
    assert ds.dataset(view, partitioning="hive").count_rows() == ROWS["galaxies"]
    assert not (airflow.place / "home" / ".data").exists()


def test_airflow_knows_plugin_and_provider(airflow_of_ones_own: Airflow) -> None:
    plugins = json.loads(airflow_of_ones_own.run("plugins", "--output", "json"))
    assert "hipslake" in {plugin["name"] for plugin in plugins}
    providers = json.loads(airflow_of_ones_own.run("providers", "list", "--output", "json"))
    assert "hipslake" in {provider["package_name"] for provider in providers}
