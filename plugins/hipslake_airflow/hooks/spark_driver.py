"""Jobs whose driver runs on a worker of a Spark standalone cluster, so that it outlives the task.

`spark-submit` refuses Python there. What it starts for a Python job, `PythonRunner`, is a program of Spark
like any other, though, and a driver can be one. It needs the library and the Python of this process on the
workers, at the same paths.
"""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk.exceptions import AirflowFailException

from hipslake_airflow.hooks.library import LIBRARY
from hipslake_airflow.hooks.spark import client_environment
from hipslake_airflow.links.spark import UI, checked_address

if TYPE_CHECKING:
    from airflow.sdk import Connection

RUNNER = "org.apache.spark.deploy.PythonRunner"
START = "HIPSLAKE_SPARK_START_SECONDS"
MASTER_PAGE = "master-ui-url"
_SECONDS = 1800.0
_ANSWERS_WITHIN = 10.0  # seconds
_AUTHENTICATED = {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}
_OF_AIRFLOW = (
    "AIRFLOW",
    "HIPSLAKE_ADMIN_PASSWORD",
    "HIPSLAKE_ALERTS_SECRET",
    "HIPSLAKE_FERNET_KEY",
    "HIPSLAKE_POSTGRES_PASSWORD",
)
_OF_THE_MACHINE = (
    "HIPSLAKE_SERVICE",
    "HOSTNAME",
    "PYTHONPATH",
    "SPARK_DAEMON_",
    "SPARK_LOCAL_",
    "SPARK_MASTER_",
    "SPARK_PUBLIC_DNS",
    "SPARK_WORKER_",
)


def is_driver_on_cluster(hook: SparkSubmitHook) -> bool:
    """Whether a hook submits to a standalone cluster that runs drivers itself."""
    return bool(hook._should_track_driver_status)


def prepare_driver(hook: SparkSubmitHook, job: str) -> None:
    """Have a hook submit a Python job whose driver runs on the cluster.

    Parameters
    ----------
    hook : SparkSubmitHook
        Its arguments are those of the job.
    job : str
        The path of the job's entry point.
    """
    from hipslake.spark.settings import SECRET, WORKERS, launch_settings

    secured = _AUTHENTICATED if os.environ.get(SECRET) else {}
    hook._conf = {**launch_settings(hook._connection["master"]), **WORKERS, **secured, **hook._conf}
    hook._java_class = RUNNER
    hook._application_args = [job, str(LIBRARY.parent), *(hook._application_args or [])]


def submit_driver(hook: SparkSubmitHook) -> str:
    """Submit what `prepare_driver` has prepared; return the driver's id once the cluster has taken it.

    Raises
    ------
    AirflowException
        The cluster refuses it, or the driver has ended at once.
    """
    return str(hook.submit(some_jar(), env=driver_environment(os.environ)))


def some_jar() -> str:
    """Return the path of a small jar of Spark's: a driver has to have one, and ours needs none."""
    installed = find_spec("pyspark")
    places = installed.submodule_search_locations if installed is not None else None
    home = Path(os.environ.get("SPARK_HOME") or next(iter(places or ()), "/nowhere"))
    found = sorted(home.glob("jars/slf4j-api-*.jar")) or sorted(home.glob("jars/*.jar"))
    if not found:
        raise AirflowFailException(
            f"{home}/jars holds no jar: SPARK_HOME has to be the folder of a Spark, or pyspark be installed"
        )
    return str(found[0])


def driver_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of `spark-submit`, which Spark gives to the driver as they are.

    Those of Airflow and its database are none of a driver's, nor are those that tell one machine from
    another, or the processes of one service from those of another. The secret of the cluster goes where
    Spark looks for it.
    """
    from hipslake.spark.settings import SECRET

    own = {
        name: value
        for name, value in environment.items()
        if not name.startswith((*_OF_AIRFLOW, *_OF_THE_MACHINE)) and not name.startswith("_")
    }
    secret = environment.get(SECRET, "")
    return {**own, **client_environment(), **({"_SPARK_AUTH_SECRET": secret} if secret else {})}


def master_page(connection: Connection) -> str:
    """Return where the master of a standalone cluster tells of its drivers; empty where nobody has said.

    That is `master-ui-url` in the connection's extra, as the triggerer reaches it, or the `ui-url` of links.

    Raises
    ------
    AirflowFailException
        It is no address of the web.
    """
    extra = connection.extra_dejson
    return checked_address(connection, MASTER_PAGE, extra.get(MASTER_PAGE) or extra.get(UI) or "")


def has_ended(page: str, driver: str) -> str:
    """Return the state in which a driver has ended; empty: it has not, or it is not known.

    Parameters
    ----------
    page : str
        The address of the master's page.
    driver : str
        The driver's id.
    """
    try:
        with urllib.request.urlopen(f"{page}/json/", timeout=_ANSWERS_WITHIN) as answer:
            ended = json.load(answer)["completeddrivers"]
            return str(next((one["state"] for one in ended if one["id"] == driver), ""))
    except (OSError, ValueError, KeyError, TypeError):  # the job says itself that it is at work
        return ""


def start_seconds() -> float:
    """Return how long a driver may take to begin, in seconds: as long as the cluster's cores may be busy.

    Raises
    ------
    SpecError
        `HIPSLAKE_SPARK_START_SECONDS` is no number, or out of bounds.
    """
    from hipslake.storage.timeouts import seconds_of

    return seconds_of(os.environ, START, _SECONDS)
