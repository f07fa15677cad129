"""A spec of which no DAG can be made, by a bug of ours, gets one that says so, and takes no other down."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, BaseOperator, Context
from airflow.sdk.exceptions import AirflowFailException

from hipslake_airflow.dag_settings import with_settings
from hipslake_airflow.display_names import display_name

TAG = "failing"


class FailingOperator(BaseOperator):
    """Fail with what is wrong.

    Parameters
    ----------
    message : str
        Not templated, since it may quote what a user wrote.
    """

    ui_color = "#f3c4c0"

    def __init__(self, *, message: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.message = message

    def execute(self, context: Context) -> None:
        """Fail at once."""
        raise AirflowFailException(self.message)


def dag_id_of(pipeline: str, path: Path) -> str:
    """Return the id of a spec file's DAG.

    Examples
    --------
    >>> dag_id_of("catalog_ingest", Path("specs/gaia_dr3.yaml"))
    'catalog_ingest__gaia_dr3'
    """
    return f"{pipeline}__{re.sub(r'[^A-Za-z0-9_.-]+', '-', path.stem)}"


def failing_dag(pipeline: str, path: Path, error: Exception, name: str | None = None) -> DAG:
    """Return the DAG that stands in for one that could not be made; its only task fails with the reason.

    `name` is what its id says beside the pipeline, by default the name of the spec's file.
    """
    message = f"{path}: no DAG can be made of it, which is a bug of hipslake: {type(error).__name__}: {error}"
    dag_id = dag_id_of(pipeline, path) if name is None else f"{pipeline}__{name}"
    given = {
        "dag_id": dag_id,
        "dag_display_name": display_name(dag_id),
        "schedule": None,
        "catchup": False,
        "tags": ["hipslake", TAG],
        "description": message.splitlines()[0][:200],
        "doc_md": f"```\n{message}\n```\n",
    }
    with DAG(**with_settings(given)) as dag:
        FailingOperator(
            task_id="make_dag", message=message, retries=0, execution_timeout=timedelta(minutes=5)
        )
    return dag
