"""A spec that cannot be read becomes a DAG that says so, and takes no other DAG down."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, BaseOperator, Context
from airflow.sdk.exceptions import AirflowFailException

TAG = "invalid-spec"


class InvalidSpecOperator(BaseOperator):
    """Fail with what is wrong with a spec file.

    Parameters
    ----------
    message : str
        File, line, key and mend. Not templated, since it quotes what the user wrote.
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


def invalid_spec_dag(pipeline: str, path: Path, error: Exception) -> DAG:
    """Return the DAG that stands in for the one of a broken spec; its only task fails with the message."""
    message = str(error)
    with DAG(
        dag_id=dag_id_of(pipeline, path),
        schedule=None,
        catchup=False,
        tags=["hipslake", TAG],
        description=message.splitlines()[0][:200] if message else None,
        doc_md=f"This spec cannot be read:\n\n```\n{message}\n```\n",
    ) as dag:
        InvalidSpecOperator(
            task_id="read_spec", message=message, retries=0, execution_timeout=timedelta(minutes=5)
        )
    return dag
