"""What stands in for the DAG of a spec that cannot be read."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowFailException


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
