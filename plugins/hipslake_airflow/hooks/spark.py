"""The Spark connection, checked before anything is submitted to it.

The provider's hook takes `yarn` when it cannot find or read a connection: `spark://local[2]` is no URL, so it
counts as missing. The job would then wait for a cluster that does not exist. Here that is an error.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowFailException, AirflowNotFoundException

EXAMPLE = '{"conn_type": "spark", "host": "local[*,4]"}'
LOGGING = Path(__file__).with_name("log4j2.properties")
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_NODE = r"[^/,\[\]]+:\d+"
_MASTER = re.compile(rf"local|local\[(\d+|\*)(, ?\d+)?\]|spark://{_NODE}(,{_NODE})*|k8s://.+|yarn")


def check_master(conn_id: str, master: str) -> str:
    """Return the master that the provider's hook made of a connection, if it is what the connection says.

    Parameters
    ----------
    conn_id : str
        The connection.
    master : str
        What would be passed to `spark-submit --master`.

    Raises
    ------
    AirflowFailException
        If the connection is missing, cannot be read, or names no master of Spark.
    """
    try:
        connection = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        raise AirflowFailException(_not_found(conn_id)) from None
    if not _MASTER.fullmatch(master) or (master == "yarn" and connection.host != "yarn"):
        raise AirflowFailException(
            f"Connection {conn_id!r} (type {connection.conn_type!r}, host {connection.host!r}) gives the "
            f"Spark master {master!r}, which is none; {_mend(conn_id)}"
        )
    return master


def client_environment() -> dict[str, str]:
    """Return the variables of a `spark-submit` that starts its driver on this machine.

    The `spark-submit` of the running Python comes first, and workers on this machine start the same Python.
    """
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    return {
        "PATH": path,
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONUNBUFFERED": "1",
    }


def launch_conf(master: str) -> dict[str, str]:
    """Return the configuration that has to stand on the command line of `spark-submit`.

    The driver runs on this machine, so it can be told to log no more than what is wrong.
    """
    from hipslake.spark.settings import launch_settings

    settings = launch_settings(master)
    options = [settings.get(_JAVA_OPTIONS, ""), f"-Dlog4j2.configurationFile={LOGGING.as_uri()}"]
    return {**settings, _JAVA_OPTIONS: " ".join(options).strip()}


def _not_found(conn_id: str) -> str:
    variable = f"AIRFLOW_CONN_{conn_id.upper()}"
    if os.environ.get(variable):
        return f"{variable} holds no connection that Airflow can read; {_mend(conn_id)}"
    return f"There is no Spark connection {conn_id!r}; {_mend(conn_id)}"


def _mend(conn_id: str) -> str:
    return (
        f"add it in the UI (Admin, Connections), or set AIRFLOW_CONN_{conn_id.upper()} in its JSON form, "
        f'such as {EXAMPLE} or {{"conn_type": "spark", "host": "spark://master", "port": 7077}}; '
        "the URI form cannot hold a master with brackets"
    )
