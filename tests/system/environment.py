"""The environment of processes that the tests start: this project's, on folders of the test."""

from __future__ import annotations

import json
import os
import sys

from tests.airflow_home import PROJECT

LOCAL: dict[str, object] = {"conn_type": "spark", "host": "local[2,4]"}


def environment(*, spark: dict[str, object] = LOCAL, **more: str) -> dict[str, str]:
    """Return the environment of a process that runs operators or Airflow itself.

    Parameters
    ----------
    spark : dict
        The Airflow connection that Spark jobs are submitted to.
    more : str
        Further variables.
    """
    paths = [str(PROJECT / "include"), str(PROJECT / "plugins"), str(PROJECT)]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "PYSPARK_PYTHON": sys.executable,
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(spark),
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
        **more,
    }
