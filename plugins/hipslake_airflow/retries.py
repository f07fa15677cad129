"""What all DAGs and tasks have in common: retries for what can pass, and a limit to what hangs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, ExceptionRetryPolicy, Param, RetryAction, RetryRule
from airflow.sdk.definitions.param import ParamsDict

from hipslake_airflow.dag_settings import with_settings
from hipslake_airflow.display_names import display_name

# Wrong input and wrong specs end a task by AirflowFailException, so they never come here.
_BUGS: list[type[BaseException] | str] = [
    "builtins.TypeError",
    "builtins.AttributeError",
    "builtins.NameError",
    "builtins.ImportError",
]

TASK_HOURS = "HIPSLAKE_TASK_HOURS"
"""The variable that says how long a task may work; a slot is never held for ever."""


def task_limit() -> timedelta:
    """How long a task may work: 24 hours, or what the deployment says. Waiting in the triggerer is apart.

    Examples
    --------
    >>> task_limit()
    datetime.timedelta(days=1)
    """
    try:
        hours = float(os.environ.get(TASK_HOURS) or 24)
    except ValueError:
        hours = 24.0
    return timedelta(hours=hours if 0 < hours < 24 * 366 else 24)


def with_task_limit(dag: DAG, hours: float | None) -> DAG:
    """Return a DAG whose tasks may work no longer than its spec says, nor than the deployment does.

    Parameters
    ----------
    dag : DAG
    hours : float, optional
        What the spec says; by default nothing.
    """
    if hours is not None:
        for task in dag.tasks:
            task.execution_timeout = min(task_limit(), timedelta(hours=hours))
    return dag


RETRIES: dict[str, Any] = {
    "execution_timeout": task_limit(),
    "retries": 2,
    "retry_delay": timedelta(seconds=30),
    "retry_policy": ExceptionRetryPolicy(
        rules=[RetryRule(exception=_BUGS, action=RetryAction.FAIL, reason="a bug does not mend itself")]
    ),
}


@contextmanager
def pipeline_dag(*, params: Mapping[str, Param] | None = None, **given: Any) -> Iterator[DAG]:
    """Give a DAG with our retries, and without a schedule unless one is given, to put tasks into.

    The settings in effect are put in: see `hipslake_airflow.dag_settings`.

    Parameters
    ----------
    params : mapping of str to Param, optional
        The fields of its form. They are set when its tasks are there: Airflow would copy them into each task,
        where nobody looks at them, and each copy is held against its JSON Schema several times per parse.
    **given
        Other parameters of `airflow.sdk.DAG`.
    """
    common = {
        "dag_display_name": display_name(given["dag_id"]),
        "schedule": None,
        "start_date": datetime(2020, 1, 1, tzinfo=UTC),
        "catchup": False,
        "default_args": RETRIES,
    }
    with DAG(**with_settings(common | given)) as dag:
        yield dag
    dag.params = ParamsDict(params)
