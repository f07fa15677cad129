"""The wheel in empty environments: with Airflow of the lock and foreign folders, and alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
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
from astropy.io import fits

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


@pytest.fixture(scope="module")
def alone(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that has the wheel without extras."""
    return environment_of(tmp_path_factory.mktemp("alone") / "venv", wheel)


def test_the_library_alone_ingests_matches_and_reads(alone: Path, tmp_path: Path) -> None:
    script = """
        import importlib.util, json
        import pyarrow.parquet as pq
        import hipslake
        assert not [name for name in ("airflow", "pyspark") if importlib.util.find_spec(name)]
        found = {}
        for name in ("stars", "galaxies"):
            spec = {"name": name, "position": {"ra": "ra", "dec": "dec"}, "threshold": "500 rows",
                    "margin": {"arcsec": [10]}}
            rows = pq.read_table(f"landing/{name}/part.parquet")
            catalog = hipslake.ingest(rows, spec=spec, warehouse="warehouse")
            assert catalog.verify().ok
            found[name] = catalog
        pairs = found["stars"].crossmatch(found["galaxies"], radius_arcsec=5)
        cone = found["stars"].read(region="cone 10 10 30deg")
        found["stars"].export("cone.fits", region="cone 10 10 30deg")
        print(json.dumps({"pairs": pairs.num_rows, "cone": cone.num_rows}))
    """
    land(tmp_path / "landing")
    told = json.loads(_said(alone / "python", "-c", textwrap.dedent(script), place=tmp_path))
    rows = pq.read_table(tmp_path / "landing" / "stars" / "part.parquet").to_pandas()
    assert told["pairs"] == ROWS["galaxies"]
    assert told["cone"] == int((separation(rows.ra, rows.dec, 10, 10) <= 30).sum()) > 0
    with fits.open(tmp_path / "cone.fits") as file:
        assert len(file[1].data) == told["cone"]


def test_the_command_line_alone_ingests_matches_and_reads(alone: Path, tmp_path: Path) -> None:
    land(tmp_path / "landing")

    def hipslake(*words: str) -> str:
        return _said(
            alone / "hipslake", *words, place=tmp_path, HIPSLAKE_WAREHOUSE=str(tmp_path / "warehouse")
        )

    for name in ROWS:
        hipslake("ingest", f"landing/{name}/*.parquet", "--name", name, "--margin", "10")
    hipslake("match", "stars", "galaxies", "--radius", "5", "--name", "match")
    listed = json.loads(hipslake("ls", "--json"))
    assert {each["name"] for each in listed["catalogs"]} == {*ROWS, "match"}
    assert int(hipslake("read", "match", "--count")) == ROWS["galaxies"]
    hipslake("verify", "match")
    hipslake("read", "stars", "--filter", "dec > 0", "--columns", "stars_id,dec", "--to", "north.parquet")
    north = pq.read_table(tmp_path / "north.parquet")
    rows = pq.read_table(tmp_path / "landing" / "stars" / "part.parquet").to_pandas()
    assert sorted(north["stars_id"].to_pylist()) == rows[rows.dec > 0].stars_id.tolist()
    failed = subprocess.run(
        [alone / "hipslake", "read", "no_such"], cwd=tmp_path, env=clean(), capture_output=True, text=True
    )
    assert failed.returncode == 1
    assert "no_such" in failed.stderr
    assert "Traceback" not in failed.stderr


def separation(ra: Any, dec: Any, ra0: float, dec0: float) -> Any:
    """Return angles to a position, in degrees, by the haversine formula."""
    ra, dec, ra0, dec0 = (np.radians(each) for each in (ra, dec, ra0, dec0))
    half = np.sin((dec - dec0) / 2) ** 2 + np.cos(dec) * np.cos(dec0) * np.sin((ra - ra0) / 2) ** 2
    return np.degrees(2 * np.arcsin(np.sqrt(half)))


def _said(program: Path, *words: str, place: Path, **variables: str) -> str:
    done = subprocess.run(
        [program, *words], cwd=place, env=clean(**variables), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
