"""The wheel holds the library and the Airflow side with their files, and works from where it is unpacked."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = {"hipslake": ROOT / "include" / "hipslake", "hipslake_airflow": ROOT / "plugins" / "hipslake_airflow"}

LOOK = """
import json, os
from pathlib import Path
from hipslake.specs.environment import in_checkout, root_folder
from hipslake_airflow import check_specs, spec_dags
from hipslake_airflow.hooks.library import JOBS, LIBRARY, build_library_archive
from hipslake_airflow.operators.spark_step import SparkStepOperator
from hipslake_airflow.web.app import FILES, PAGE
check_specs("specs")
dags = spec_dags("specs")
tasks = [task for dag in dags.values() for task in dag.tasks]
print(json.dumps({
    "in_checkout": in_checkout(),
    "root": str(root_folder()),
    "dags": sorted(dags),
    "documented": all(dag.doc_md for dag in dags.values()),
    "jobs": sorted({task.application for task in tasks if isinstance(task, SparkStepOperator)}),
    "page": [str(PAGE / name) for name, _ in FILES.values()],
    "library": str(LIBRARY),
    "archive": str(build_library_archive(Path.cwd())),
}))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([ROOT / "include" / "setup" / "wheel.sh", folder], check=True, capture_output=True)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that its packages lie in."""
    folder = tmp_path_factory.mktemp("site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def sources() -> set[str]:
    """Return the files of the checkout that belong into the wheel, as it names them."""
    modules = {
        f"{name}/{path.relative_to(folder)}"
        for name, folder in PARTS.items()
        for path in folder.rglob("*.py")
        if "frontend" not in path.parts
    }
    jobs = {f"hipslake_airflow/spark_jobs/{path.name}" for path in (ROOT / "spark_jobs").glob("*.py")}
    airflow = PARTS["hipslake_airflow"]
    data = {
        path.relative_to(airflow.parent) for path in (*airflow.glob("doc_md/*"), *airflow.glob("web/page/*"))
    }
    return modules | jobs | {str(path) for path in data} | {"hipslake_airflow/hooks/log4j2.properties"}


def test_it_holds_the_packages_with_their_files_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        found = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert found == sources()


def test_it_names_the_plugin_the_provider_and_the_command(unpacked: Path) -> None:
    (folder,) = unpacked.glob("*.dist-info")
    lines = (folder / "entry_points.txt").read_text().split("\n")
    assert "hipslake = hipslake_airflow.plugin:HipslakePlugin" in lines
    assert "provider_info = hipslake_airflow.provider_info:provider_info" in lines
    assert "hipslake = hipslake.cli.main:run" in lines


def test_without_extras_it_asks_for_neither_airflow_nor_spark(unpacked: Path) -> None:
    (folder,) = unpacked.glob("*.dist-info")
    wanted = [
        line for line in (folder / "METADATA").read_text().split("\n") if line.startswith("Requires-Dist")
    ]
    plain = " ".join(line for line in wanted if "extra ==" not in line)
    assert "pyarrow" in plain
    assert "airflow" not in plain
    assert "spark" not in plain
    assert any("apache-airflow" in line and 'extra == "airflow"' in line for line in wanted)


def test_dags_jobs_and_page_come_from_where_it_is_installed(unpacked: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "include" / "specs", tmp_path / "specs")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HIPSLAKE_")}
    environment = kept | {"PYTHONPATH": str(unpacked), "AIRFLOW_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [sys.executable, "-c", LOOK],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["in_checkout"] is False
    assert told["root"] == str(tmp_path / "home")
    assert {"catalog_ingest__gaia_dr3", "catalog_export", "cube_build__sky"} <= set(told["dags"])
    assert told["documented"]
    assert told["library"] == str(unpacked / "hipslake")
    for path in (*told["jobs"], *told["page"]):
        assert Path(path).is_relative_to(unpacked)
        assert Path(path).is_file()
    assert len(told["jobs"]) > 3
    with zipfile.ZipFile(told["archive"]) as archive:
        assert "hipslake/__init__.py" in archive.namelist()
