"""Alerts: a task that failed, and a run that has not ended by its deadline, are posted to a webhook.

`HIPSLAKE_ALERTS_CONN` names an Airflow connection; without it none is sent. What is posted is JSON with one
field, `text`: Slack, Mattermost, Rocket.Chat, Zulip and Google Chat take that.
"""

from __future__ import annotations

import asyncio
import json
import os
import urllib.request
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow.sdk import DAG, BaseHook, BaseNotifier, Context
from airflow.sdk.definitions.callback import AsyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference
from airflow.sdk.exceptions import AirflowException

if TYPE_CHECKING:
    from airflow.sdk import Connection

CONNECTION = "HIPSLAKE_ALERTS_CONN"
EXAMPLE = '{"conn_type": "http", "host": "https://hooks.example.org/services", "password": "THE/SECRET/PART"}'
_TIMEOUT_SECONDS = 30.0


class WebhookNotifier(BaseNotifier):
    """Post what happened to a webhook.

    For `on_failure_callback` and the like of tasks, and for deadlines of runs: the former is called where the
    task ran, or in the DAG processor if its process was killed; the latter in the triggerer.

    Parameters
    ----------
    conn_id : str
        A connection: `host` is the webhook's address; `password`, if it has one, the secret end of it.
    context : Context, optional
        Given by Airflow.
    """

    def __init__(self, conn_id: str, context: Context | None = None) -> None:
        super().__init__(context)
        self.conn_id = conn_id

    def notify(self, context: Context) -> None:
        """Post the alert and wait for the answer."""
        _post(address_of(BaseHook.get_connection(self.conn_id)), text_of(context))

    async def async_notify(self, context: Context) -> None:
        """Post the alert in a thread, so that the triggerer's event loop is not blocked."""
        address = address_of(await BaseHook.aget_connection(self.conn_id))
        await asyncio.to_thread(_post, address, text_of(context))


def alert(dag: DAG, deadline_minutes: float | None = None) -> DAG:
    """Post alerts about failed tasks of a DAG, and about runs that miss their deadline; return the DAG.

    Parameters
    ----------
    dag : DAG
    deadline_minutes : float, optional
        From when a run was queued until it should have ended.
    """
    conn_id = os.environ.get(CONNECTION)
    if not conn_id:
        return dag
    for task in dag.tasks:
        task.on_failure_callback = [*_several(task.on_failure_callback), WebhookNotifier(conn_id)]
    if deadline_minutes is not None:
        late = DeadlineAlert(
            reference=DeadlineReference.DAGRUN_QUEUED_AT,
            interval=timedelta(minutes=deadline_minutes),
            callback=AsyncCallback(WebhookNotifier, {"conn_id": conn_id}),
            name="the run's deadline",
        )
        dag.deadline = late
    return dag


def _several(callbacks: Any) -> Sequence[Any]:
    """What Airflow takes as callbacks of a task (none, one, or several) as a sequence."""
    if callbacks is None:
        return ()
    return callbacks if isinstance(callbacks, list | tuple) else (callbacks,)


def address_of(connection: Connection) -> str:
    """Return the URL of the webhook that a connection describes.

    Raises
    ------
    AirflowException
        The host is no HTTP address. The message does not repeat it, since it may be secret.
    """
    parts = urlsplit(connection.host or "")
    if parts.scheme not in ("http", "https") or not parts.netloc or connection.port or connection.schema:
        name = f"AIRFLOW_CONN_{connection.conn_id.upper()}"
        raise AirflowException(
            f"Connection {connection.conn_id!r} has no address of a webhook in host, with scheme and port; "
            f"write it in the UI (Admin, Connections) or as {name}, such as {EXAMPLE}"
        )
    address = connection.host or ""
    return f"{address.rstrip('/')}/{connection.password}" if connection.password else address


def text_of(context: Any) -> str:
    """Return the text of an alert about a failed task or a late run.

    Parameters
    ----------
    context : mapping
        Of a task; or what the scheduler gives for a deadline: `dag_run` and `deadline`, as plain values.
    """
    deadline = context.get("deadline")
    if deadline is not None:
        run = context["dag_run"]
        return (
            f"{run['dag_id']}: run {run['dag_run_id']} is late. It should have ended by "
            f"{deadline['deadline_time']}; its state is {run['state']}."
        )
    ti, error = context["ti"], context.get("exception")
    kind = "" if isinstance(error, str) else f"{type(error).__name__}: "
    why = "" if error is None else f": {kind}{error}"
    return f"{ti.dag_id}: task {ti.task_id} of run {ti.run_id} has failed{why}\n{ti.log_url}"


def _post(address: str, text: str) -> None:
    request = urllib.request.Request(
        address, json.dumps({"text": text}).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS):
        pass
