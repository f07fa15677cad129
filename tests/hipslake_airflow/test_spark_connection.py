"""The Spark connection: what the provider silently turns into yarn is an error here. On the real hook."""

from __future__ import annotations

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk.exceptions import AirflowFailException
from hipslake_airflow.hooks.spark import check_master
from hipslake_airflow.operators.catalog import HistogramCatalogOperator

VARIABLE = "AIRFLOW_CONN_SPARK_DEFAULT"


def master() -> str:
    """What the provider's hook makes of the connection."""
    return str(SparkSubmitHook(conn_id="spark_default")._connection["master"])


@pytest.mark.parametrize(
    ("connection", "expected"),
    [
        ('{"conn_type": "spark", "host": "local[*,4]"}', "local[*,4]"),
        ('{"conn_type": "spark", "host": "spark://127.0.0.1", "port": 7077}', "spark://127.0.0.1:7077"),
        ('{"conn_type": "spark", "host": "yarn"}', "yarn"),
        ("spark://127.0.0.1:7077", "spark://127.0.0.1:7077"),
    ],
)
def test_connections_that_name_a_master(
    monkeypatch: pytest.MonkeyPatch, connection: str, expected: str
) -> None:
    monkeypatch.setenv(VARIABLE, connection)
    assert check_master("spark_default", master()) == expected


@pytest.mark.parametrize(
    ("connection", "says"),
    [
        (None, "There is no Spark connection"),
        ("spark://local[2]", "no connection that Airflow can read"),
        ("{not json", "no connection that Airflow can read"),
        ("local://", "gives the Spark master"),
        ("spark://", "gives the Spark master"),
        ('{"conn_type": "spark", "host": "local[2", "port": 1}', "gives the Spark master"),
        ('{"conn_type": "spark", "host": "local[*]", "port": 3}', "gives the Spark master"),
    ],
)
def test_connections_that_name_none_fail_with_the_mend(
    monkeypatch: pytest.MonkeyPatch, connection: str | None, says: str
) -> None:
    if connection is None:
        monkeypatch.delenv(VARIABLE, raising=False)
    else:
        monkeypatch.setenv(VARIABLE, connection)
    with pytest.raises(AirflowFailException, match=says) as caught:
        check_master("spark_default", master())
    assert '"host": "local[*,4]"' in str(caught.value)


def test_what_the_provider_would_do_without_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "spark://local[2]")
    assert master() == "yarn"


def test_the_submitted_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, '{"conn_type": "spark", "host": "local[2,4]"}')
    operator = HistogramCatalogOperator(
        task_id="histogram", run_uri="/runs/1", conf={"spark.ui.enabled": "true"}
    )
    operator.application_args = ["--request=/runs/1/q.json", "--report=/runs/1/p.json"]
    hook = operator._get_hook()
    command = hook._build_spark_submit_command(operator.application)
    assert command[-3].endswith("spark_jobs/histogram_catalog.py")
    assert command[-2:] == ["--request=/runs/1/q.json", "--report=/runs/1/p.json"]
    assert command[command.index("--master") + 1] == "local[2,4]"
    assert "spark.ui.enabled=true" in command
    assert hook._env is not None
    assert hook._env["PYSPARK_PYTHON"]


def test_only_the_run_folder_is_templated() -> None:
    operator = HistogramCatalogOperator(task_id="histogram", run_uri="/runs/1")
    assert tuple(operator.template_fields) == ("run_uri",)
