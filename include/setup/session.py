"""The Spark session that stands beside the Airflow of `make up`, so that steps need not start one.

`HIPSLAKE_SPARK_SESSION` names its socket, by default one in Airflow's home; set to nothing, no session
stands. Nor does one where the Spark connection names a cluster: it would hold the cluster's cores while
nobody needs them.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from hipslake_cluster.processes import Background

AIRFLOW_HOME = Path(os.environ["AIRFLOW_HOME"])
SESSION = Background(AIRFLOW_HOME, f"{AIRFLOW_HOME}#session", record="session.json", log="session.log")
PLACE = "HIPSLAKE_SPARK_SESSION"
_LONGEST = 100  # bytes of a socket's path


def up(environment: Mapping[str, str]) -> dict[str, str]:
    """Start the session, if there is to be one; return the environment of the processes that may use it."""
    place = environment.get(PLACE, str(AIRFLOW_HOME / "spark" / "session.sock"))
    master = local_master(environment.get("AIRFLOW_CONN_SPARK_DEFAULT", ""))
    left_out = {name: value for name, value in environment.items() if name != PLACE}
    if not place or not master or len(os.fsencode(place)) > _LONGEST:
        return left_out
    SESSION.log.unlink(missing_ok=True)
    SESSION.start(
        [sys.executable, "-m", "hipslake.spark.standing_session", place],
        {**left_out, "HIPSLAKE_SPARK_MASTER": master},
        Path.cwd(),
    )
    return {**left_out, PLACE: place}


def down() -> bool:
    """Stop the session; whether there was one."""
    if not SESSION.family():
        SESSION.record.unlink(missing_ok=True)
        return False
    SESSION.stop(seconds=15.0, sign=signal.SIGTERM, term_seconds=5.0)
    return True


def local_master(connection: str) -> str:
    """Return the master of a connection in JSON form, if it is this machine's cores; else nothing."""
    try:
        found = json.loads(connection)
    except ValueError:
        return ""
    host = found.get("host") if isinstance(found, dict) else None
    return host if isinstance(host, str) and host.startswith("local") else ""
