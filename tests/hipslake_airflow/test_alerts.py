"""Alerts: what a real webhook gets of tasks that failed and of runs that are late."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.error import URLError

import pytest
from airflow.sdk import DAG, Connection
from airflow.sdk.exceptions import AirflowException
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.spec_folder import load_spec
from hipslake_airflow.alerts import CONNECTION, WebhookNotifier, address_of, alert
from hipslake_airflow.failing_dags import FailingOperator

from tests.receivers import Webhook, alerted, running_webhook
from tests.steps import in_process


@pytest.fixture
def webhook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Webhook]:
    with alerted(monkeypatch) as webhook:
        yield webhook


def failing(dag_id: str, deadline_minutes: float | None = None) -> DAG:
    with DAG(dag_id, schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        FailingOperator(task_id="read_spec", message="no such column: dec", retries=0)
    return alert(dag, deadline_minutes)


def test_a_run_that_is_late_is_told(airflow: Path, webhook: Webhook) -> None:
    """All the way: the deadline of a stored DAG, missed, and its callback as the triggerer runs it."""
    from airflow.models.dag import DagModel
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.deadline import Deadline
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.serialization.serialized_objects import LazyDeserializedDAG
    from airflow.triggers.callback import CallbackTrigger
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState
    from airflow.utils.types import DagRunTriggeredByType, DagRunType
    from sqlalchemy import select

    dag, queued = failing("alerts_of_deadlines", 90), datetime(2026, 11, 22, 3, tzinfo=UTC)
    with create_session() as session:
        session.merge(DagBundleModel(name="dags-folder"))
        session.flush()
        session.merge(DagModel(dag_id=dag.dag_id, bundle_name="dags-folder", fileloc="x", is_stale=False))
        session.flush()
        SerializedDagModel.write_dag(
            LazyDeserializedDAG.from_dag(dag), bundle_name="dags-folder", session=session
        )
        session.flush()
        stored = SerializedDagModel.get_dag(dag.dag_id, session=session)
        run = stored.create_dagrun(
            run_id="tonight",
            run_type=DagRunType.MANUAL,
            run_after=queued,
            logical_date=None,
            data_interval=None,
            triggered_by=DagRunTriggeredByType.TEST,
            state=DagRunState.QUEUED,
            session=session,
        )
        session.flush()
        deadline = session.scalars(select(Deadline).where(Deadline.dagrun_id == run.id)).one()
        assert deadline.deadline_time == run.queued_at + timedelta(minutes=90)
        deadline.handle_miss(session)
        due, data = deadline.deadline_time, dict(deadline.callback.data)

    async def called() -> list[object]:
        return [event.payload async for event in CallbackTrigger(data["path"], data["kwargs"]).run()]

    assert [payload["state"] for payload in asyncio.run(called())] == ["running", "success"]
    [(_, told)] = webhook.posted
    late = "alerts_of_deadlines: run tonight is late. It should have ended by"
    assert told["text"] == f"{late} {due}; its state is queued."


def test_nobody_is_told_where_no_connection_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CONNECTION, raising=False)
    dag = failing("alerts_of_nobody", 5)
    assert not dag.deadline
    assert not dag.get_task("read_spec").on_failure_callback


def test_a_webhook_that_does_not_answer_gives_no_secret_away(monkeypatch: pytest.MonkeyPatch) -> None:
    with running_webhook() as gone:
        address = gone.address
    told = {"conn_type": "http", "host": address, "password": "s3cret"}
    monkeypatch.setenv("AIRFLOW_CONN_OPERATORS", json.dumps(told))
    context = {
        "deadline": {"deadline_time": "03:00"},
        "dag_run": dict.fromkeys(("dag_id", "dag_run_id", "state")),
    }
    with pytest.raises(URLError) as caught:  # Airflow logs it: the task's own error stays what is seen
        WebhookNotifier("operators")(context)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "told",
    [
        {"host": "hooks.example.org"},
        {"host": "file:///etc/passwd"},
        {"host": "https://"},
        {"host": "https://hooks.example.org", "port": 8443},
        {},
    ],
)
def test_what_is_no_address_is_refused_without_repeating_it(told: dict[str, object]) -> None:
    with pytest.raises(AirflowException, match="AIRFLOW_CONN_OPERATORS") as caught:
        address_of(Connection(conn_id="operators", conn_type="http", password="s3cret", **told))
    assert "s3cret" not in str(caught.value)


def test_a_deadline_of_a_spec_changes_nothing_of_what_is_written(tmp_path: Path) -> None:
    without, late = (
        load_spec(in_process.write_spec(tmp_path / "stars.yaml", "x/*.parquet", more=more), CatalogSpec)
        for more in ("", "deadline_minutes: 90")
    )
    assert late.deadline_minutes == 90
    assert late.fingerprint_text() == without.fingerprint_text()
