"""An Airflow of the tests' own: a home in a temporary folder, on SQLite.

Importing this module sets the environment, and has to come before the first import of airflow.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PROJECT = Path(__file__).parents[1]
HOME = Path(tempfile.mkdtemp(prefix="hipslake-airflow-"))

os.environ.update(
    {
        "AIRFLOW_HOME": str(HOME),
        "AIRFLOW__CORE__DAGS_FOLDER": str(PROJECT / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(PROJECT / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{HOME}/airflow.db",
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(HOME / "logs"),
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
    }
)
os.environ.pop("AIRFLOW_CONN_SPARK_DEFAULT", None)
atexit.register(shutil.rmtree, HOME, ignore_errors=True)


def make_database(folder: Path) -> None:
    """Make a database, `airflow.db`, in a folder."""
    airflow = [sys.executable, "-m", "airflow"]
    place = {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{folder}/airflow.db"}
    subprocess.run([*airflow, "db", "migrate"], check=True, capture_output=True, env={**os.environ, **place})
