"""Environment variables that the pages set: each is read by somebody, and a connection can be used."""

from __future__ import annotations

import json
import re
import subprocess
from functools import cache

import pytest
from airflow.configuration import conf
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk import BaseHook
from hipslake_airflow.hooks.iceberg import properties_of
from hipslake_airflow.hooks.spark import check_master
from hipslake_airflow.hooks.storage import access_of

from tests.docs.blocks import ROOT

OTHERS = re.compile(
    r"(HADOOP|SPARK)_CONF_DIR|JAVA_HOME|TMPDIR|AIRFLOW_HOME|AWS_PROFILE|OTEL_EXPORTER_OTLP_\w+"
)
"""Variables that Spark, Java, the system or OpenTelemetry read."""

PROJECT = (
    *("include", "plugins", "spark_jobs", "dags", "benchmarks"),
    *("Makefile", "Dockerfile", "docker-compose.yml"),
)
"""What reads variables of ours; tests may read further ones."""

ASSIGNMENT = re.compile(r"^\s*(?:export )?([A-Z][A-Z0-9_]*)=('[^']*'|\"[^\"]*\"|\S*)", re.MULTILINE)


def assigned(script: str) -> list[tuple[str, str]]:
    """Return every variable that a script sets, with its value, also those that it sets again."""
    return [(name, value.strip("'\"")) for name, value in ASSIGNMENT.findall(script)]


def check_variable(name: str, value: str) -> None:
    """Fail for a variable that nothing reads, or a connection that its reader does not take."""
    if name.startswith("AIRFLOW_CONN_"):
        _check_connection(name, value)
    elif option := re.fullmatch(r"AIRFLOW__([A-Z_]+?)__([A-Z_0-9]+)", name):
        section, key = option[1].lower(), option[2].lower()
        assert key in conf.configuration_description[section]["options"], f"Airflow has no option {name}"
    else:
        known = OTHERS.fullmatch(name) or name in read_in(*PROJECT)
        assert known, f"nothing reads {name}"


def _check_connection(name: str, value: str) -> None:
    conn_id = name.removeprefix("AIRFLOW_CONN_").lower()
    kind = json.loads(value)["conn_type"]
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(name, value)
        if kind == "spark":
            check_master(conn_id, _master(conn_id))
        elif kind == "aws":
            access_of(BaseHook.get_connection(conn_id))
        elif kind == "postgres":
            properties_of(BaseHook.get_connection(conn_id), "sql")
        elif kind == "http":
            properties_of(BaseHook.get_connection(conn_id), "rest")
        else:
            raise AssertionError(f"{name}: nothing of ours takes a connection of type {kind}")


def _master(conn_id: str) -> str:
    """What the provider's hook makes of a connection; to say so of Kubernetes, it needs a further package."""
    connection = BaseHook.get_connection(conn_id)
    if (connection.host or "").startswith("k8s://"):
        return f"{connection.host}:{connection.port}"
    return str(SparkSubmitHook(conn_id=conn_id)._connection["master"])


@cache
def read_in(*places: str) -> frozenset[str]:
    """Every variable of ours that is named in files and folders of the checkout."""
    names = ["grep", "-rhoIE", "--exclude-dir=docs", r"\bHIPSLAKE_[A-Z0-9_]+", *places]
    found = subprocess.run(names, cwd=ROOT, capture_output=True, text=True, check=True)
    return frozenset(found.stdout.split())
