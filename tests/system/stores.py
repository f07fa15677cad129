"""Processes on S3 that know no keys but those of their Airflow connection; and what can be seen of them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from tests.stores.s3_server import S3Server
from tests.system.environment import LOCAL, environment

_LOOK_SECONDS = 0.05


def on_s3(
    server: S3Server, bucket: str, *, spark: dict[str, object] = LOCAL, **changed: str
) -> dict[str, str]:
    """The environment of Airflow where landing and warehouse lie in a bucket.

    Parameters
    ----------
    server : S3Server
    bucket : str
    spark : dict
        The Airflow connection of Spark.
    changed : str
        Further variables, or others.
    """
    told = {
        "HIPSLAKE_LANDING": f"s3://{bucket}/landing",
        "HIPSLAKE_WAREHOUSE": f"s3://{bucket}/warehouse",
        "HIPSLAKE_STORAGE_CONN": "survey_store",
        "AIRFLOW_CONN_SURVEY_STORE": json.dumps(server.connection),
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    variables = environment(spark=spark, **(told | changed))
    return {name: value for name, value in variables.items() if name not in server.environment}


@contextmanager
def watched_commands() -> Iterator[set[str]]:
    """Every command line that any process of this machine has, as long as the block runs."""
    seen: set[str] = set()
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_LOOK_SECONDS):
            for process in psutil.process_iter(["cmdline"]):
                seen.add("\0".join(process.info["cmdline"] or []))

    thread = threading.Thread(target=watch, name="command lines", daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()
